"""Small models and domains that certificates are tried on, many of them degenerate."""

import itertools
from functools import cache

import numpy as np

from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.reference import regions
from tests.region_models import chart_of


def random_relu(seed, *sizes, integers=False, bias=True):
    rng = np.random.default_rng(seed)
    draw = (
        (lambda *s: rng.integers(-2, 3, s).astype(float))
        if integers
        else (lambda *s: rng.standard_normal(s))
    )
    weights = [draw(*pair) for pair in itertools.pairwise(sizes)]
    return ReluNetwork(weights, [draw(n) for n in sizes[1:]] if bias else None)


def random_maxout(seed, dim):
    rng = np.random.default_rng(seed)
    first = [rng.integers(-3, 4, (rank, dim)).astype(float) for rank in (3, 2, 4)]
    second = [rng.integers(-3, 4, (rank, 3)).astype(float) for rank in (2, 3)]
    return MaxoutNetwork([first, second, np.ones((2, 1))])


def random_head(rng, dim, n_keys):
    draw = lambda *s: rng.integers(-2, 3, s).astype(float)  # noqa: E731
    return AttentionHead(draw(dim, dim), draw(n_keys, dim), draw(n_keys, dim), draw(dim, dim))


def random_transformer(seed, dim, n_blocks=1):
    """Integer keys repeat, so some never name a cell; later walls end on earlier ones."""
    rng = np.random.default_rng(seed)
    ffn = FeedForward(
        rng.integers(-2, 3, (dim, 2)).astype(float),
        rng.integers(-2, 3, 2).astype(float),
        rng.integers(-2, 3, (2, dim)).astype(float),
        None,
    )
    head = random_head(rng, dim, 4)
    blocks = [Block([head, random_head(rng, dim, 3)], ffn) for _ in range(n_blocks)]
    return HardTransformer(blocks)


def doubled_units():
    """Every unit twice, one of them scaled, one turned round, and one that is always zero."""
    w = np.array([[1.0, 2.0, -1.0, 0.0, 1.0], [1.0, 2.0, -1.0, 0.0, -1.0]])
    b = np.array([1.0, 2.0, -1.0, 0.0, 0.5])
    return ReluNetwork([w, np.ones((5, 3)) * [1.0, -1.0, 0.0], np.ones((3, 1))], [b, None, None])


def tied_values():
    """Two equal keys with different values: a mean with denominator 3 feeds the next layer."""
    keys = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 1.0]]
    values = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [2.0, 2.0]]
    head = AttentionHead(np.eye(2), keys, values, np.eye(2))
    return HardTransformer(
        [Block([head]), Block([head], FeedForward(np.eye(2), None, np.eye(2), None))]
    )


def jumping_head():
    """A head that moves the two half-planes apart, so that walls of the next layer jump."""
    head = AttentionHead(np.eye(2), [[1.0, 0.0], [-1.0, 0.0]], [[0.0, 3.0], [0.0, 0.0]], np.eye(2))
    return HardTransformer([Block([head], FeedForward([[0.0], [1.0]], [-1.0], [[1.0, 0.0]], None))])


def on_the_cross():
    """Walls on the lines x = 1/1009 and y = 3/1009."""
    return ReluNetwork(
        [[[1009.0, 0.0, 1.0], [0.0, 1009.0, 1.0]], np.ones((3, 1))], [[-1, -3, 0], [0]]
    )


def wild_scales():
    weights = [[[1e300, 1e-300, 1.0], [1e-300, 1e300, -1.0]], np.ones((3, 2)), np.ones((2, 1))]
    return ReluNetwork(weights, [[1e-300, 1.0, 1e-12], [-1.0, -1e300], None])


SQUARE, CUBE = Box([-2, -2], [2, 2]), Box([-2] * 3, [2] * 3)
WEDGE = Polytope([[-1.0, 0.0], [1.0, -1.0]], [1.0, 2.0])
TRIANGLE = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [1.0, 1.0, 1.5])
PLANE_OF_SPACE = Slice([0.5, 0.0, 1.0], [[1.0, 0.0, 1.0], [0.0, 2.0, -1.0]], Box([-2, -2], [1, 1]))
NO_LAYERS = ArgmaxNetwork((), AffineMap.identity(2), AffineMap.identity(2))

CASES = {
    "relu": (random_relu(0, 2, 5, 4, 1), SQUARE),
    "relu everywhere": (random_relu(1, 2, 4, 3, 1), WholeSpace(2)),
    "integer relu": (random_relu(2, 2, 5, 3, 1, integers=True), SQUARE),
    "no bias": (random_relu(3, 2, 5, 3, 1, integers=True, bias=False), WholeSpace(2)),
    "doubled units": (doubled_units(), SQUARE),
    "doubled units everywhere": (doubled_units(), WholeSpace(2)),
    "maxout": (random_maxout(4, 2), SQUARE),
    "maxout everywhere": (random_maxout(5, 2), WholeSpace(2)),
    "transformer": (random_transformer(6, 2, 2), SQUARE),
    "transformer everywhere": (random_transformer(7, 2), WholeSpace(2)),
    "tied values": (tied_values(), SQUARE),
    "jump": (jumping_head(), SQUARE),
    "jump everywhere": (jumping_head(), WholeSpace(2)),
    "wedge": (random_relu(8, 2, 4, 2, 1), WEDGE),
    "triangle": (random_transformer(9, 2), TRIANGLE),
    "half-plane": (random_relu(10, 2, 3, 1), Polytope([[1.0, 1.0]], [0.5])),
    "on the cross": (on_the_cross(), WholeSpace(2)),
    "side on the cross": (on_the_cross(), Polytope([[1009.0, 0.0]], [1.0])),
    "wild scales": (wild_scales(), WholeSpace(2)),
    "slice": (random_relu(11, 3, 4, 3, 1), PLANE_OF_SPACE),
    "no layers": (NO_LAYERS, WholeSpace(2)),
    "no wall": (ReluNetwork([np.zeros((2, 3)), np.ones((3, 1))]), WholeSpace(2)),
    "interval": (random_relu(12, 1, 5, 4, 1), Box([-3], [3])),
    "real line": (random_relu(13, 1, 5, 4, 1), WholeSpace(1)),
    "segment": (random_relu(14, 3, 5, 4, 1), Segment([0.0, 1.0, 2.0], [4.0, -3.0, 0.5])),
    "ray": (random_transformer(15, 2), Ray([1.0, 0.0], [-1.0, 0.5])),
    "line": (random_maxout(16, 2), Line([0.0, 0.5], [1.0, 1.0])),
    "cube": (random_relu(17, 3, 4, 2, 1), CUBE),
    "space": (random_relu(18, 3, 4, 2, 1, integers=True), WholeSpace(3)),
    "transformer in space": (random_transformer(19, 3), CUBE),
    "maxout in space": (random_maxout(20, 3), CUBE),
}
"""Name: model and domain."""


@cache
def true_signatures(model, domain):
    """All cells, by the slow rational program."""
    network = getattr(model, "network", model)
    coordinates = regions.chart_coordinates(*(part.tolist() for part in chart_of(domain)))
    rows = domain.exact_rows.tolist()
    return sorted(cell[0] for cell in regions.cells(network, coordinates, rows))
