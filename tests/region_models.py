"""Small models for the tests of regions, most of them degenerate, and their reference cells."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.reference import regions as reference


def gaussian_relu(seed, dims):
    """W ~ N(0, 2 / fan), b ~ N(0, 1/4), both rounded to float32; one output."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], dims[0]
    for h in [*dims[1:], 1]:
        weights.append(rng.normal(0, np.sqrt(2 / fan), (h, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, 0.5, h).astype(np.float32))
        fan = h
    return ReluNetwork(weights, biases)


def integer_relu(seed, dims, *, zero_bias=False):
    """Weights and biases in -2..2."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], dims[0]
    for h in [*dims[1:], 1]:
        weights.append(rng.integers(-2, 3, (fan, h)).astype(float))
        biases.append(np.zeros(h) if zero_bias else rng.integers(-2, 3, h).astype(float))
        fan = h
    return ReluNetwork(weights, biases)


def repeated_units(dim):
    """Repeated, opposite and dead units."""
    rng = np.random.default_rng(dim)
    column = rng.integers(-2, 3, (dim, 1)).astype(float)
    other = rng.integers(-2, 3, (dim, 1)).astype(float)
    first = np.hstack([column, column, -column, other, 0 * column])
    second = rng.integers(-2, 3, (5, 2)).astype(float)
    second[:, 1] = second[:, 0]
    return ReluNetwork([first, second, [[1.0], [-1.0]]], [[1, 1, -1, 0, 0], [0, 0], [0]])


def integer_maxout(seed, dim, ranks):
    """Integer weights; one layer for each list of ranks."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], dim
    for layer in ranks:
        weights.append([rng.integers(-2, 3, (rank, fan)).astype(float) for rank in layer])
        biases.append([rng.integers(-1, 2, rank).astype(float) for rank in layer])
        fan = len(layer)
    return MaxoutNetwork([*weights, np.ones((fan, 1))], [*biases, [0.0]])


def integer_transformer(seed, dim, n_keys, n_heads, n_blocks=1, d_ff=2, *, repeat=False):
    """Integer keys, values and weights; with `repeat`, a repeated key and identical heads."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.integers(-2, 3, shape).astype(float)

    blocks = []
    for _ in range(n_blocks):
        heads = []
        for _ in range(n_heads):
            keys = draw(n_keys, dim)
            if repeat:
                keys[-1] = keys[0]
            arrays = np.eye(dim), keys, draw(n_keys, dim), np.eye(dim), draw(dim), draw(n_keys) * 0
            heads.append(AttentionHead(*arrays))
        if repeat:
            heads[-1] = heads[0]
        ffn = FeedForward(draw(dim, d_ff), draw(d_ff), draw(d_ff, dim), draw(dim)) if d_ff else None
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks)


def reference_cells(model, domain):
    """The cells of a model by the slow program."""
    if isinstance(domain, Segment):
        pairs = zip(domain.start.tolist(), domain.end.tolist(), strict=True)
        coordinates = [[Fraction(q) - Fraction(p), Fraction(p)] for p, q in pairs]
        return reference.cells(model.network, coordinates, domain.exact_rows.tolist())
    weight, bias = chart_of(domain)
    coordinates = reference.chart_coordinates(weight.tolist(), bias.tolist())
    return reference.cells(model.network, coordinates, domain.exact_rows.tolist())


def chart_of(domain):
    """The chart of a domain, also where its coordinates are those of the space."""
    return domain.chart or (np.eye(domain.dim), np.zeros(domain.dim))


def box_and_space(dim):
    """A box that is not symmetric, and all of space."""
    return Box([-2.0] * dim, [3.0] * dim), WholeSpace(dim)


def gaussian(rng, shape):
    """Weights N(0, 2 / fan)."""
    return rng.normal(0, np.sqrt(2 / shape[0]), shape)


def dense_integers(rng, shape):
    """Integers from 1 to 3, with random signs."""
    return rng.integers(1, 4, shape) * rng.choice([-1.0, 1.0], shape)


def relu(draw, widths, seed=0, dim=2):
    """A network with weights and biases as `draw` has them."""
    rng = np.random.default_rng(seed)
    sizes = [dim, *widths, 1]
    weights = [draw(rng, shape) for shape in pairwise(sizes)]
    return ReluNetwork(weights, [draw(rng, (1, n))[0] for n in sizes[1:]])


def maxout(draw, widths, rank=2, seed=0, dim=2):
    """A maxout network likewise."""
    rng = np.random.default_rng(seed)
    sizes = [dim, *widths]
    shapes = list(pairwise(sizes))
    weights = [[draw(rng, (fan, rank)).T for _ in range(n)] for fan, n in shapes]
    biases = [[draw(rng, (1, rank))[0] for _ in range(n)] for _, n in shapes]
    return MaxoutNetwork([*weights, np.ones((sizes[-1], 1))], [*biases, [0.0]])


def shrunk(exponents):
    """Draw weights that are tiny from some matrix on."""
    powers = iter(exponents)
    return lambda rng, shape: gaussian(rng, shape) * 2.0 ** next(powers)
