"""Level sets: exact zeros, nothing missed between points of opposite sign, jumps included."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.level_sets import level_set

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
        assert piece.dim == 1
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
    assert sorted(piece.dim for piece in found.pieces) == [0, 1]


def test_unknown_outputs_are_refused():
    part = enumerate_regions(relu_network(1), SQUARE)
    with pytest.raises(ArgumentError, match="`output` must be at most 1; got 2"):
        level_set(part, 2)
    with pytest.raises(ArgumentError, match="`minus`"):
        level_set(part, 0, minus=-1)
