"""Models by their definitions in fractions: slow, obvious, independent of the library.

Models are given as plain nested lists. Points where several forms tie take the mean.
"""

from fractions import Fraction
from math import exp


def affine(z, weight, bias):
    """Row vector times matrix plus bias."""
    n_out = len(bias)
    return [
        sum((a * Fraction(w[k]) for a, w in zip(z, weight, strict=True)), Fraction(bias[k]))
        for k in range(n_out)
    ]


def relu_network(x, weights, biases):
    """Return (output, signature, whether some unit is exactly at 0)."""
    z = [Fraction(v) for v in x]
    signature, on_wall = [], False
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        q = affine(z, weight, bias)
        signature += [int(v > 0) for v in q]
        on_wall |= 0 in q
        z = [max(v, Fraction(0)) for v in q]
    return affine(z, weights[-1], biases[-1]), signature, on_wall


def maxout_network(x, weights, biases):
    """Return (output, signature)."""
    z = [Fraction(v) for v in x]
    signature = []
    for units, offsets in zip(weights[:-1], biases[:-1], strict=True):
        new = []
        for unit, offset in zip(units, offsets, strict=True):
            scores = [dot(row, z) + Fraction(c) for row, c in zip(unit, offset, strict=True)]
            signature.append(scores.index(max(scores)))
            new.append(max(scores))
        z = new
    return affine(z, weights[-1], biases[-1]), signature


def dot(a, b):
    return sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))


def head_scores(z, head):
    """The scores of the unmasked keys."""
    query_bias = head.query_bias if head.query_bias is not None else [0.0] * head.head_dim
    logits = head.logit_bias if head.logit_bias is not None else [0.0] * head.n_keys
    q = affine(z, head.query_weight.tolist(), list(query_bias))
    unmasked = [j for j in range(head.n_keys) if logits[j] != float("-inf")]
    return [dot(q, head.keys[j].tolist()) + Fraction(float(logits[j])) for j in unmasked], unmasked


def hard_head(z, head):
    """Return (output, index of the first winner among the unmasked keys)."""
    scores, unmasked = head_scores(z, head)
    tied = [j for s, j in zip(scores, unmasked, strict=True) if s == max(scores)]
    mean = [
        sum((Fraction(v[k]) for v in head.values[tied].tolist()), Fraction(0)) / len(tied)
        for k in range(head.values.shape[1])
    ]
    zero = [0.0] * head.out_dim
    return affine(mean, head.output_weight.tolist(), zero), scores.index(max(scores))


def soft_head(z, head, tau):
    """The usual formula, in floats, with the largest score subtracted exactly."""
    scores, unmasked = head_scores(z, head)
    weights = [exp(max(float((s - max(scores)) / Fraction(tau)), -800.0)) for s in scores]
    mixed = [
        Fraction(
            sum(w * float(head.values[j][k]) for w, j in zip(weights, unmasked, strict=True))
            / sum(weights)
        )
        for k in range(head.values.shape[1])
    ]
    return affine(mixed, head.output_weight.tolist(), [0.0] * head.out_dim)


def transformer(x, model, tau=None):
    """Return (output, signature) of the hard model, or (soft output, None) with a `tau`."""
    z = affine(
        [Fraction(v) for v in x], model.embedding.weight.tolist(), model.embedding.bias.tolist()
    )
    signature = []
    for block in model.blocks:
        if block.heads:
            total = list(z) if block.attention_residual else [Fraction(0)] * block.heads[0].out_dim
            for head in block.heads:
                if tau is None:
                    out, winner = hard_head(z, head)
                    signature.append(winner)
                else:
                    out = soft_head(z, head, tau)
                total = [a + b for a, b in zip(total, out, strict=True)]
            z = total
        if block.ffn is not None:
            ffn = block.ffn
            q = affine(z, ffn.w_in.tolist(), ffn.b_in.tolist())
            signature += [int(v > 0) for v in q]
            out = affine([max(v, Fraction(0)) for v in q], ffn.w_out.tolist(), ffn.b_out.tolist())
            z = [a + b for a, b in zip(z, out, strict=True)] if block.ffn_residual else out
    out = affine(z, model.readout.weight.tolist(), model.readout.bias.tolist())
    return out, (signature if tau is None else None)


def argmax_network(x, network):
    """Any argmax network, layer by layer as it is defined: (output, signature)."""
    z = affine([Fraction(v) for v in x], *parts(network.embedding))
    signature = []
    for layer in network.layers:
        q = affine(z, *parts(layer.query))
        y = [Fraction(0)] * layer.output.dim_in
        scores = [
            dot(a, q) + Fraction(c)
            for a, c in zip(form_rows(layer), layer.offsets.tolist(), strict=True)
        ]
        for g, slot in enumerate(layer.slots.tolist()):
            group = range(layer.starts[g], layer.starts[g + 1])
            best = max(scores[j] for j in group)
            tied = [j for j in group if scores[j] == best]
            signature.append(tied[0] - layer.starts[g])
            for j in tied:
                y[slot] += Fraction(layer.gains[j]) * scores[j] / len(tied)
                for k, value in enumerate(layer.values[j].tolist()):
                    y[slot + k] += Fraction(value) / len(tied)
        out = affine(y, *parts(layer.output))
        z = [a + b for a, b in zip(z, out, strict=True)] if layer.residual else out
    return affine(z, *parts(network.readout)), signature


def form_rows(layer):
    """The slopes of every form on the whole query, entry by entry, as lists."""
    if layer.reads is None:
        return layer.slopes.tolist()
    rows = []
    for g, entries in enumerate(layer.reads.tolist()):
        for slopes in layer.slopes[layer.starts[g] : layer.starts[g + 1]].tolist():
            row = [0.0] * layer.query.dim_out
            for entry, slope in zip(entries, slopes, strict=True):
                if entry >= 0:
                    row[entry] = slope
            rows.append(row)
    return rows


def parts(affine_map):
    return affine_map.weight.tolist(), affine_map.bias.tolist()
