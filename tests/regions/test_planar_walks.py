"""Large groups in the plane: every winner is met, and its part is right."""

import numpy as np
import pytest

from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search.exact_plane import WALK_FROM
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.verify.checking import verify_certificate

SQUARE = Box([-3.0, -3.0], [3.0, 3.0])
N_KEYS = 2 * WALK_FROM
TILTED = np.array([[0.3, -1.1], [0.7, 0.2]])


def gaussian(seed, n=N_KEYS):
    return np.random.default_rng(seed).normal(size=(n, 2))


def lattice(n):
    side = np.arange(n) - n // 2
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(float)


def voronoi(keys):
    return -0.5 * (keys**2).sum(axis=1)


def repeated(seed):
    keys = gaussian(seed, N_KEYS // 2)
    return np.concatenate([keys, keys[::-1], keys[:3]])


KEYS = {
    "random": (gaussian(0), voronoi(gaussian(0))),
    "random offsets": (gaussian(1), gaussian(2)[:, 0]),
    "no offsets": (gaussian(3), None),
    "repeated": (repeated(4), voronoi(repeated(4))),
    "equal keys, different offsets": (repeated(4), np.arange(len(repeated(4))) / 64.0),
    "collinear": (np.outer(np.arange(30.0) - 15, [2.0, 1.0]), -(np.arange(-15.0, 15.0) ** 2)),
    "collinear, no offsets": (np.outer(np.arange(30.0) - 15, [2.0, 1.0]), None),
    "lattice": (lattice(6), voronoi(lattice(6))),
    "lattice, no offsets": (lattice(6), None),
    "dominated": (gaussian(5), np.where(np.arange(N_KEYS) < 3, 0.0, -100.0)),
    "one winner": (gaussian(6) / 8, np.where(np.arange(N_KEYS) == 7, 9.0, 0.0)),
    "all equal": (np.ones((N_KEYS, 2)), None),
    "on a circle": (
        np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0, 6, N_KEYS)]).round(4),
        None,
    ),
    "scales": (gaussian(7) * 10.0 ** np.arange(-N_KEYS // 2, N_KEYS // 2)[:, None], None),
}


def head(keys, offsets, query=None):
    values = np.arange(2.0 * len(keys)).reshape(-1, 2)
    query = np.eye(2) if query is None else query
    return AttentionHead(query, keys, values, np.eye(2), logit_bias=offsets)


def model(keys, offsets, query=None):
    return HardTransformer([Block([head(keys, offsets, query)], None)])


def names(part):
    return sorted(map(tuple, part.signatures.tolist()))


@pytest.mark.parametrize("query", [None, TILTED], ids=["exact scores", "rounded scores"])
@pytest.mark.parametrize("case", KEYS)
def test_walking_finds_the_cells_of_the_split_tree(case, query):
    network = model(*KEYS[case], query)
    for domain in (SQUARE, WholeSpace(2)):
        part = enumerate_regions(network, domain)
        assert part.engine == "planar"
        assert names(part) == names(enumerate_regions(network, domain, exact=True))


@pytest.mark.parametrize("case", ["random", "repeated", "collinear", "lattice", "dominated"])
def test_walking_finds_the_cells_of_the_power_diagram(case):
    keys, offsets = KEYS[case]
    part = enumerate_regions(model(keys, offsets), WholeSpace(2))
    diagram = PowerDiagram.from_keys(keys, offsets)
    assert part.signatures.ravel().tolist() == sorted(
        np.flatnonzero(diagram.active).tolist(), key=part.signatures.ravel().tolist().index
    )
    refined = common_refinement([AffineForms(keys, offsets)])
    assert names(part) == sorted(map(tuple, refined.choices.tolist()))


@pytest.mark.parametrize(
    ("keys", "offsets"),
    [
        (gaussian(8, 300), voronoi(gaussian(8, 300))),
        (lattice(16), voronoi(lattice(16))),
        (gaussian(9, 200), None),
    ],
    ids=["random", "lattice", "no offsets"],
)
@pytest.mark.parametrize("query", [None, TILTED], ids=["exact scores", "rounded scores"])
def test_many_keys_are_certified(keys, offsets, query):
    network = model(keys, offsets, query)
    part = enumerate_regions(network, SQUARE)
    verdict = verify_certificate(network, part.certificate())
    assert verdict.ok, verdict.reason


def test_parts_are_wound_round_and_fill_the_domain():
    keys = gaussian(10, 400)
    part = enumerate_regions(model(keys, voronoi(keys)), SQUARE)
    total = 0.0
    for first, last in zip(part.cells.starts, part.cells.starts[1:], strict=False):
        x, y = part.cells.vertices[first:last].T
        area = float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
        assert area > 0
        total += area
    assert total == pytest.approx(36.0)
    # Both sides of a wall name each other.
    walls = part.cells.walls[part.cells.walls[:, 0] == 0]
    sides = {(int(w), int(r)) for w, r in walls[:, 2:]}
    assert sides == {(r, w) for w, r in sides}


@pytest.mark.parametrize(
    "domain",
    [
        Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [1.0, 1.0, 1.5]),
        Polytope([[-1.0, 0.0], [1.0, -1.0]], [1.0, 2.0]),
        Slice([0.25, -0.5], [[1.0, 2.0], [0.0, 1.0]], Box([-1, -1], [1, 1])),
    ],
    ids=["triangle", "wedge", "slice"],
)
def test_other_domains(domain):
    for keys, offsets in (KEYS["random"], KEYS["lattice, no offsets"]):
        network = model(keys, offsets)
        part = enumerate_regions(network, domain)
        assert names(part) == names(enumerate_regions(network, domain, exact=True))


def test_several_heads_and_layers_are_certified():
    rng = np.random.default_rng(11)
    draw = lambda *s: rng.integers(-4, 5, s) / 2.0  # noqa: E731
    keys = [rng.permutation(lattice(6)) / 2 for _ in range(3)]
    heads = [AttentionHead(np.eye(2), k, draw(36, 2), np.eye(2)) for k in keys]
    blocks = [
        Block(heads[:2], FeedForward(draw(2, 3), draw(3), draw(3, 2), None)),
        Block(heads[2:], None),
    ]
    network = HardTransformer(blocks)
    part = enumerate_regions(network, SQUARE)
    verdict = verify_certificate(network, part.certificate())
    assert verdict.ok, verdict.reason
    assert part.n_cells == enumerate_regions(network, SQUARE, count_only=True).n_cells


@pytest.mark.parametrize("seed", [0, 129, 132])
def test_rounded_ties_on_the_way_to_a_vertex_end_the_walk(seed):
    rng = np.random.default_rng(seed)
    n_keys = int(rng.integers(24, 50))
    head = AttentionHead(
        rng.integers(-2, 3, size=(2, 2)).astype(float),
        rng.integers(-2, 3, size=(n_keys, 2)).astype(float),
        np.zeros((n_keys, 1)),
        np.zeros((1, 2)),
        logit_bias=rng.integers(-2, 3, size=n_keys).astype(float),
    )
    model, box = HardTransformer([Block([head])]), Box(np.full(2, -1e3), np.full(2, 1e3))
    walked = enumerate_regions(model, box)
    exact = enumerate_regions(model, box, exact=True)
    assert sorted(walked.signatures.tolist()) == sorted(exact.signatures.tolist())


@pytest.mark.parametrize("wide", [1.0, 1e2, 1e6])
def test_boxes_much_wider_than_the_keys(wide):
    for keys in (gaussian(5), lattice(7), np.random.default_rng(6).random((60, 2)) + 3.0):
        offsets = voronoi(keys)
        box = Box([-2.0 * wide, -3.0 * wide], [5.0 * wide, 4.0 * wide])
        cells = PowerDiagram.from_keys(keys, offsets).cells(box)
        part = enumerate_regions(model(keys, offsets), box)
        assert part.signatures[:, 0].tolist() == [cell.site for cell in cells]
