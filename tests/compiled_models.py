"""Networks to compile, and a search for the point where a compiled transformer errs most."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward


def random_maxout(seed, dim=None, widths=None, ranks=(1, 4), *, scale=1.0, integers=False):
    """A maxout network of any widths, and ranks between two, mixed in each layer."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 5)) if dim is None else dim
    widths = rng.integers(1, 6, rng.integers(0, 4)).tolist() if widths is None else widths

    def numbers(*shape):
        return rng.integers(-2, 3, shape) / 1.0 if integers else scale * rng.normal(size=shape)

    weights, biases, n_in = [], [], dim
    for width in widths:
        sizes = rng.integers(ranks[0], ranks[1] + 1, width)
        weights.append([numbers(rank, n_in) for rank in sizes])
        biases.append([numbers(rank) for rank in sizes])
        n_in = width
    n_out = int(rng.integers(1, 4))
    return MaxoutNetwork([*weights, numbers(n_in, n_out)], [*biases, numbers(n_out)])


def random_relu(seed, widths, *, scale=1.0):
    """A ReLU network with the given widths, input and output included."""
    rng = np.random.default_rng(seed)
    shapes = list(pairwise(widths))
    return ReluNetwork(
        [scale * rng.normal(size=shape) for shape in shapes],
        [scale * rng.normal(size=shape[1]) for shape in shapes],
    )


def state_dict(net, names):
    """The tensors torch would store for a ReLU network whose layers have these names."""
    tensors = {}
    for name, weight, bias in zip(names, net.weights, net.biases, strict=True):
        tensors[f"{name}.weight"] = np.ascontiguousarray(weight.T)
        tensors[f"{name}.bias"] = bias
    return tensors


def exact_value(net, x):
    """The network at a point, in rationals, from its definition."""
    h = [Fraction(float(c)) for c in x]
    for layer, biases in zip(net.weights[:-1], net.biases[:-1], strict=True):
        if isinstance(net, ReluNetwork):
            units = [(np.stack([w, 0 * w]), (b, 0.0)) for w, b in zip(layer.T, biases, strict=True)]
        else:
            units = zip(layer, biases, strict=True)
        h = [
            max(
                sum(
                    (Fraction(float(w)) * z for w, z in zip(row, h, strict=True)),
                    Fraction(float(b)),
                )
                for row, b in zip(unit, bias, strict=True)
            )
            for unit, bias in units
        ]
    return [
        sum((Fraction(float(w)) * z for w, z in zip(column, h, strict=True)), Fraction(float(b)))
        for column, b in zip(net.weights[-1].T, net.biases[-1], strict=True)
    ]


def worst_error(compiled, net, seed, *, n_points=400, n_steps=25, n_starts=12):
    """The largest error found: corners, random points, then a shrinking search from the worst."""
    rng = np.random.default_rng(seed)
    low, high = compiled.box.low, compiled.box.high
    points = rng.uniform(low, high, (n_points, len(low)))
    corners = np.where(rng.random((32, len(low))) < 0.5, low, high)
    points = np.clip(np.concatenate([points, corners]), low, high)

    def errors(x):
        return np.abs(compiled.transformer(x) - net(x)).max(axis=1)

    found = errors(points)
    best = np.argsort(-found)[:n_starts]
    centres, found = points[best], found[best]
    reach = 0.25 * (high - low)
    for _ in range(n_steps):
        steps = rng.normal(size=(len(centres), 10, len(low))) * reach
        tries = np.clip(centres[:, None] + steps, low, high)
        values = errors(tries.reshape(-1, len(low))).reshape(len(centres), 10)
        best = values.argmax(axis=1)
        better = values.max(axis=1) > found
        centres = np.where(better[:, None], tries[np.arange(len(centres)), best], centres)
        found = np.maximum(found, values.max(axis=1))
        reach = 0.75 * reach
    return float(found.max())


def masked_transformer():
    """Several heads of two sizes, a mask, biases and a block without residual connections."""
    rng = np.random.default_rng(0)
    heads = [
        TokenHead(rng.normal(size=(4, k)), rng.normal(size=(4, k)), rng.normal(size=(4, v)),
                  rng.normal(size=(v, 4)), rng.normal(size=k))
        for k, v in ((1, 2), (3, 1), (3, 1))
    ]  # fmt: skip
    ffn = FeedForward(*(rng.normal(size=s) for s in ((4, 6), (6,), (6, 4), (4,))))
    weight = np.repeat(rng.normal(size=(2, 1, 4)), 3, axis=1)
    return TokenTransformer(
        weight,
        rng.normal(size=(3, 4)),
        [TokenBlock(heads, ffn), TokenBlock(heads[:1], ffn, False, False)],
        (rng.normal(size=(4, 2)), rng.normal(size=2)),
        readout_token=2,
        mask=np.tril(np.ones((3, 3), dtype=bool)),
    )
