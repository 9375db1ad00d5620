"""Level sets: exact zeros, nothing missed between points of opposite sign, jumps included."""

import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.level_sets import level_set
from tests.sweeps import seeds

SQUARE = Box([-2.0, -2.0], [2.0, 2.0])


def relu_network(seed, n_out=2):
    rng = np.random.default_rng(seed)
    sizes = (2, 6, 6, n_out)
    weights = [rng.normal(size=shape) for shape in pairwise(sizes)]
    return ReluNetwork(weights, [rng.normal(size=n) for n in sizes[1:]])


def transformer(seed):
    rng = np.random.default_rng(seed)
    heads = [
        AttentionHead(
            rng.normal(size=(2, 2)),
            rng.normal(size=(4, 2)),
            rng.normal(size=(4, 2)),
            rng.normal(size=(2, 2)),
            query_bias=rng.normal(size=2),
        )
        for _ in range(2)
    ]
    ffn = FeedForward(
        rng.normal(size=(2, 4)), rng.normal(size=4), rng.normal(size=(4, 2)), np.zeros(2)
    )
    return HardTransformer([Block(heads, ffn)])


@pytest.mark.parametrize("model", [relu_network(1), relu_network(2), transformer(3)], ids=str)
def test_the_output_is_exactly_the_value_on_every_piece(model):
    part = enumerate_regions(model, SQUARE)
    found = level_set(part, 0, minus=1, value=0.25)
    assert len(found)
    for piece, cell, across in zip(found.pieces, found.cells, found.across, strict=True):
        assert piece.affine_dim == 1
        point = [*piece.interior_point.tolist(), 1]
        rows = part.exact_map(cell)
        scale = Fraction(2) ** rows.exponent / rows.denominator
        first, second = (
            scale * sum(int(a) * x for a, x in zip(row, point, strict=True)) for row in rows.rows
        )
        if across < 0:
            assert first - second == Fraction(1, 4)
        else:
            assert first - second > Fraction(1, 4)


@pytest.mark.parametrize("model", [relu_network(4), transformer(5), transformer(6)], ids=str)
def test_points_of_opposite_sign_are_separated(model):
    rng = np.random.default_rng(7)
    start = rng.uniform(-2, 2, size=(400, 2))
    level = float(np.median(model(start)[:, 1]))
    segments = level_set(enumerate_regions(model, SQUARE), 1, value=level).segments
    end = start + rng.normal(scale=0.2, size=(400, 2))
    inside = (np.abs(end) < 2).all(axis=1)
    before, after = model(start)[:, 1], model(end)[:, 1]
    changes = inside & ((before > level) != (after > level))
    assert changes.sum() > 10
    for p, q in zip(start[changes], end[changes], strict=True):
        assert crossed(p, q, segments)


def crossed(p, q, segments):
    def side(a, b, c):
        return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
            c[..., 0] - a[..., 0]
        )

    a, b = segments[:, 0], segments[:, 1]
    apart = side(p, q, a) * side(p, q, b) <= 0
    return bool((apart & (side(a, b, p) * side(a, b, q) <= 0)).any())


def test_a_hard_sign_has_a_boundary_that_takes_no_value():
    sign = HardTransformer(
        [
            Block(
                [AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])],
                None,
                attention_residual=False,
            )
        ]
    )
    found = level_set(enumerate_regions(sign, Box([-1.0], [1.0])), 0)
    assert [piece.vertices.tolist() for piece in found.pieces] == [[[0.0]]]
    assert found.across.tolist() == [0]


def test_a_cell_on_which_the_output_has_the_value_is_a_piece():
    part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1.0], [1.0]))
    found = level_set(part)
    assert sorted(piece.affine_dim for piece in found.pieces) == [0, 1]


def model_of(kind, rng):
    """Networks and transformers in one to three dimensions, half of them of integers."""
    dim = int(rng.choice([1, 2, 2, 2, 3]))
    is_integer = bool(rng.integers(2))

    def numbers(*shape):
        small = rng.integers(-2, 3, size=shape).astype(float)
        return small if is_integer else rng.normal(size=shape)

    if kind % 2:
        sizes = (dim, *rng.integers(1, 6, size=2), 2)
        weights = [numbers(*shape) for shape in pairwise(sizes)]
        has_biases = rng.integers(3) > 0
        return dim, ReluNetwork(weights, [has_biases * numbers(n) for n in sizes[1:]])
    heads = [
        AttentionHead(numbers(dim, dim), numbers(4, dim), numbers(4, dim), numbers(dim, dim),
                      query_bias=numbers(dim))
        for _ in range(rng.integers(1, 3))
    ]  # fmt: skip
    units = FeedForward(numbers(dim, 2), numbers(2), numbers(2, dim), np.zeros(dim))
    return dim, HardTransformer([Block(heads, units, attention_residual=bool(rng.integers(2)))])


def by_definition(part, reading):
    """Yield every piece: the exact zeros of each closed cell, then jumps across each wall."""
    dim, forms = part.domain.dim, []
    for cell in range(part.n_cells):
        row = part.exact_map(cell).compose(reading).rows[0]
        forms.append([int(x) for x in row])
        piece = part.polytope(cell).intersection(zeros(forms[-1], forms[-1]))
        if piece.affine_dim >= dim - 1:
            yield cell, -1, piece
    for i, j in part.neighbours.pairs.tolist():
        for above, below in ((i, j), (j, i)):
            shared = part.polytope(i).intersection(part.polytope(j))
            piece = shared.intersection(zeros(forms[below], forms[above]))
            if piece.affine_dim != dim - 1:
                continue
            point = [*piece.interior_point.tolist(), 1]
            high, low = (np.dot(forms[cell], point) for cell in (above, below))
            if high > 0 > low:
                yield above, below, piece


def zeros(not_above, not_below):
    """Where one form is at most zero, and another one at least."""
    rows = [(*not_above[:-1], -not_above[-1]), (*(-x for x in not_below[:-1]), not_below[-1])]
    return Polytope.from_rows(rows, len(not_above) - 1)


def described(piece):
    """What a polytope is, however it is written; one without vertices by sizes only."""
    known = piece.generators
    if known.lineality:
        return piece.affine_dim, len(known.points), len(known.rays), len(known.lineality)
    points = {tuple(Fraction(x, p[-1]) for x in p[:-1]) for p in known.points}
    return piece.affine_dim, points, set(known.rays)


@pytest.mark.parametrize("seed", seeds(80))
def test_level_sets_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    part = None
    # The definition is slow where there are many cells.
    while part is None or not part.is_complete:
        dim, model = model_of(seed, rng)
        domain = (WholeSpace(dim), Box([-2.0] * dim, [2.0] * dim))[rng.integers(2)]
        part = enumerate_regions(model, domain, exact=seed % 10 == 0, max_cells=40)
    value = float(rng.choice([0.0, 0.0, 1.0, rng.normal()]))
    weight = np.zeros((model.network.dim_out, 1))
    weight[0] = 1.0
    if dim > 1 and seed % 3 == 0:
        weight[1] = -1.0
    found = level_set(part, 0, minus=1 if weight.sum() == 0.0 else None, value=value)
    wanted = list(by_definition(part, AffineMap(weight, np.array([-value]))))
    places = list(zip(found.cells.tolist(), found.across.tolist(), strict=True))
    assert places == [(cell, across) for cell, across, _ in wanted]
    for piece, (_, _, other) in zip(found.pieces, wanted, strict=True):
        assert described(piece) == described(other)
    copy = pickle.loads(pickle.dumps(found))
    assert [described(piece) for piece in copy.pieces] == [described(p) for p in found.pieces]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_only_cells_with_a_piece_are_looked_at_exactly(dim):
    rng = np.random.default_rng(11)
    sizes = (dim, 64, 64, 1) if dim == 1 else (dim, 24, 24, 1) if dim == 2 else (dim, 8, 8, 1)
    weights = [rng.normal(size=shape) for shape in pairwise(sizes)]
    model = ReluNetwork(weights, [rng.normal(size=n) for n in sizes[1:]])
    part = enumerate_regions(model, Box([-1.0] * dim, [1.0] * dim))
    found = level_set(part, value=float(np.median(model(part.witnesses)[:, 0])))
    assert 0 < len(found) < part.n_cells / 2
    assert not found._exact._known
    assert len(found.pieces) == len(found._exact._known) == len(found)


def test_unknown_outputs_are_refused():
    part = enumerate_regions(relu_network(1), SQUARE)
    with pytest.raises(ArgumentError, match="`output` must be at most 1; got 2"):
        level_set(part, 2)
    with pytest.raises(ArgumentError, match="`minus`"):
        level_set(part, 0, minus=-1)


def test_cells_that_were_only_counted_have_no_level_set():
    counted = enumerate_regions(relu_network(0), SQUARE, count_only=True)
    with pytest.raises(ArgumentError, match="counted but not stored"):
        level_set(counted)
