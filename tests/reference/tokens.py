"""A transformer on tokens, written from its definition in rationals, one number at a time."""

import math
from fractions import Fraction


def hard_tokens(model, x):
    """The hard model at one point, exactly."""
    return _run(model, [Fraction(float(c)) for c in x], Fraction, _uniform_on_best)


def soft_tokens(model, x, tau):
    """The soft model at one point, in floats."""

    def weights(scores, d_k):
        logits = [score / (tau * math.sqrt(d_k)) for score in scores]
        exps = [math.exp(logit - max(logits)) for logit in logits]
        return [e / sum(exps) for e in exps]

    return _run(model, [float(c) for c in x], float, weights)


def _uniform_on_best(scores, _):
    best = [score == max(scores) for score in scores]
    return [Fraction(int(b), sum(best)) for b in best]


def _run(model, x, number, weights):
    tokens, width = range(model.n_tokens), range(model.width)
    state = [
        [
            sum(x[a] * number(float(model.embedding_weight[a, t, j])) for a in range(len(x)))
            + number(float(model.embedding_bias[t, j]))
            for j in width
        ]
        for t in tokens
    ]
    for block in model.blocks:
        if block.heads:
            added = [[number(0) for _ in width] for _ in tokens]
            for head in block.heads:
                q = _affine(state, head.query_weight, head.bias, number)
                k = _affine(state, head.key_weight, [0.0] * head.d_k, number)
                v = _affine(state, head.value_weight, [0.0] * head.d_v, number)
                for t in tokens:
                    keys = [s for s in tokens if model.mask is None or model.mask[t, s]]
                    scores = [sum(a * b for a, b in zip(q[t], k[s], strict=True)) for s in keys]
                    shares = weights(scores, head.d_k)
                    mixed = [
                        sum(p * v[s][e] for p, s in zip(shares, keys, strict=True))
                        for e in range(head.d_v)
                    ]
                    out = _affine([mixed], head.output_weight, [0.0] * head.width, number)[0]
                    added[t] = [a + o for a, o in zip(added[t], out, strict=True)]
            state = _sum(state, added) if block.attention_residual else added
        if block.ffn is not None:
            units = _affine(state, block.ffn.w_in, block.ffn.b_in, number)
            units = [[max(u, number(0)) for u in row] for row in units]
            result = _affine(units, block.ffn.w_out, block.ffn.b_out, number)
            state = _sum(state, result) if block.ffn_residual else result
    row = state[model.readout_token]
    return _affine([row], model.readout.weight, model.readout.bias, number)[0]


def _affine(rows, weight, bias, number):
    n_in, n_out = weight.shape
    return [
        [
            sum(row[j] * number(float(weight[j, k])) for j in range(n_in)) + number(float(bias[k]))
            for k in range(n_out)
        ]
        for row in rows
    ]


def _sum(left, right):
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]
