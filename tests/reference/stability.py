"""Soft attention from its definition in high precision; nothing of the library is used."""

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def exact(array):
    """Nested lists of numbers without rounding."""
    array = np.asarray(array, dtype=float)
    if array.ndim == 0:
        return mp.mpf(float(array))
    return [exact(row) for row in array]


def dot(a, b):
    return mp.fsum(x * y for x, y in zip(a, b, strict=True))


def through(vector, weight, bias=None):
    """`vector @ weight + bias` for lists."""
    columns = zip(*weight, strict=True)
    result = [dot(vector, column) for column in columns]
    return result if bias is None else [r + b for r, b in zip(result, bias, strict=True)]


def softmax(scores, tau):
    top = max(scores)
    weights = [mp.exp((s - top) / tau) for s in scores]
    total = mp.fsum(weights)
    return [w / total for w in weights]


def log_sum_exp(scores, tau):
    top = max(scores)
    return top + tau * mp.log(mp.fsum(mp.exp((s - top) / tau) for s in scores))


def hessian_norm(p):
    """The largest eigenvalue of diag(p) - p p^T, in high precision."""
    n = len(p)
    matrix = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            matrix[i, j] = (p[i] if i == j else 0) - p[i] * p[j]
    return max(mp.eigsy(matrix, eigvals_only=True))


def head_scores(head, x):
    bias = None if head.query_bias is None else exact(head.query_bias)
    q = through(x, exact(head.query_weight), bias)
    scores = [dot(q, key) for key in exact(head.keys)]
    if head.logit_bias is not None:
        added = (-mp.inf if b == -np.inf else mp.mpf(float(b)) for b in head.logit_bias)
        scores = [s + b for s, b in zip(scores, added, strict=True)]
    return scores


def head_output(head, x, tau):
    """The weights and the output; `tau` None is the hard head, ties shared."""
    scores = head_scores(head, x)
    if tau is None:
        tied = [s == max(scores) for s in scores]
        p = [mp.mpf(t) / sum(tied) for t in tied]
    else:
        p = softmax(scores, tau)
    mixed = through(p, exact(head.values))
    return p, through(mixed, exact(head.output_weight))


def transformer(model, x, taus):
    """Output and the weights of all heads, in order; `taus` has one entry for each block."""
    z = [mp.mpf(float(v)) for v in x]
    z = through(z, exact(model.embedding.weight), exact(model.embedding.bias))
    weights = []
    for block, tau in zip(model.blocks, taus, strict=True):
        if block.heads:
            total = [mp.mpf(0)] * block.heads[0].out_dim
            for head in block.heads:
                p, out = head_output(head, z, tau)
                weights.append(p)
                total = [a + b for a, b in zip(total, out, strict=True)]
            if block.attention_residual:
                total = [a + b for a, b in zip(total, z, strict=True)]
            z = total
        if block.ffn is not None:
            ffn = block.ffn
            hidden = [max(u, 0) for u in through(z, exact(ffn.w_in), exact(ffn.b_in))]
            out = through(hidden, exact(ffn.w_out), exact(ffn.b_out))
            z = [a + b for a, b in zip(z, out, strict=True)] if block.ffn_residual else out
    return through(z, exact(model.readout.weight), exact(model.readout.bias)), weights
