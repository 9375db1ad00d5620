"""Shattering transformers: the formula, counted; the map, against its definition in fractions."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from hardmax import bounds
from hardmax.constructions import (
    attention_grid_transformer,
    bias_free_shattering_transformer,
    folding_layer,
    literal_shattering_transformer,
    sawtooth,
    shattering_count,
    shattering_transformer,
)
from hardmax.errors import ArgumentError, DtypeError
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.verify.checking import verify_certificate
from tests.reference.shattering import shattered, signature, zigzag


def cube(dim):
    return Box(np.zeros(dim), np.ones(dim))


def counts(model, domain):
    part = enumerate_regions(model, domain)
    assert part.is_complete
    return part.n_cells, part.n_regions, part.n_affine_maps


def formula(n_keys, dim, depth, d_ff, n_heads):
    """Write the count out once more, from the statement."""
    cells, pieces = 1 + n_heads // dim * (n_keys - 1), 2 * (d_ff // (2 * dim))
    return (cells**dim * pieces**dim) ** depth


SMALL = [
    (n_keys, dim, depth, teeth * 2 * dim, heads * dim)
    for n_keys, dim, depth, teeth, heads in product(
        (1, 2, 3, 4, 5), (1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3)
    )
    if formula(n_keys, dim, depth, teeth * 2 * dim, heads * dim) <= 1300
]


def test_the_grid_of_sizes_has_every_kind():
    columns = list(zip(*SMALL, strict=True))
    assert len(SMALL) > 100
    assert [set(column) for column in columns[:3]] == [{1, 2, 3, 4, 5}, {1, 2, 3}, {1, 2, 3}]


@pytest.mark.parametrize("ffn_residual", [False, True])
@pytest.mark.parametrize("integer_weights", [False, True])
def test_cells_regions_and_maps_are_the_formula(ffn_residual, integer_weights):
    for sizes in SMALL:
        model = shattering_transformer(
            *sizes, ffn_residual=ffn_residual, integer_weights=integer_weights
        )
        expected = formula(*sizes)
        assert counts(model, cube(sizes[1])) == (expected,) * 3, sizes
        assert shattering_count(*sizes) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4, 2, 3, 4, 2), 262_144),
        ((3, 2, 2, 12, 4), 810_000),
        ((3, 1, 4, 6, 1), 104_976),
        ((5, 1, 3, 6, 2), 157_464),
        ((3, 3, 2, 6, 3), 46_656),
    ],
)
def test_hundreds_of_thousands_of_regions_are_the_formula(sizes, expected):
    part = enumerate_regions(shattering_transformer(*sizes), cube(sizes[1]))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (expected,) * 3
    assert formula(*sizes) == expected
    # No wall meets a kink: floats decide everything, with their proven bound.
    assert part.decisions.rational == part.decisions.expanded == 0


@pytest.mark.parametrize("ffn_residual", [False, True])
def test_heads_and_units_left_over_do_nothing(ffn_residual):
    model = shattering_transformer(3, 2, 1, 11, 5, ffn_residual=ffn_residual)
    assert [len(block.heads) for block in model.blocks] == [5]
    assert model.blocks[0].ffn.d_ff == 11
    expected = formula(3, 2, 1, 8, 4)
    assert counts(model, cube(2)) == (expected,) * 3
    assert shattering_count(3, 2, 1, 11, 5) == expected


def test_the_count_is_the_lower_bound_where_nothing_is_left_over():
    for n_keys, dim, depth, d_ff, n_heads in SMALL:
        lower = bounds.transformer_lower(
            n_keys, n_heads, dim, d_ff, depth, bias="query", head_dim=2
        )
        upper = bounds.transformer_upper(n_keys, n_heads, dim, d_ff, depth, bias="query")
        count = shattering_count(n_keys, dim, depth, d_ff, n_heads)
        assert count <= lower <= upper
        assert count == lower or n_keys == 1  # Without heads, three units fold best.


@pytest.mark.parametrize(("n_keys", "n_heads", "d_ff"), [(2, 1, 2), (3, 1, 4), (3, 2, 6)])
@pytest.mark.parametrize("ffn_residual", [False, True])
def test_breakpoints_are_equally_spaced(n_keys, n_heads, d_ff, ffn_residual):
    model = shattering_transformer(
        n_keys, 1, 2, d_ff, n_heads, ffn_residual=ffn_residual, integer_weights=True
    )
    pieces = shattering_count(n_keys, 1, 2, d_ff, n_heads)
    breakpoints = enumerate_regions(model, cube(1)).breakpoints.tolist()
    assert breakpoints == [Fraction(k, pieces) for k in range(1, pieces)]


@pytest.mark.parametrize("ffn_residual", [False, True])
@pytest.mark.parametrize("integer_weights", [False, True])
@pytest.mark.parametrize(("n_keys", "n_heads", "d_ff", "depth"), [(3, 4, 8, 3), (4, 2, 4, 4)])
def test_the_map_is_its_definition(n_keys, n_heads, d_ff, depth, ffn_residual, integer_weights):
    model = shattering_transformer(
        n_keys,
        2,
        depth,
        d_ff,
        n_heads,
        ffn_residual=ffn_residual,
        integer_weights=integer_weights,
    )
    heads_each, n_pieces = n_heads // 2, 2 * (d_ff // 4)
    n_cells = 1 + heads_each * (n_keys - 1)
    points = np.random.default_rng(5).integers(1, 2**30, size=(40, 2)) / 2**30
    outputs, codes = model(points), model.signature(points)
    for x, y, code in zip(points, outputs, codes, strict=True):
        exact = [shattered(Fraction(t), n_cells, n_pieces, depth) for t in x]
        assert exact == [zigzag((n_pieces * n_cells) ** depth * Fraction(t)) for t in x]
        assert np.allclose(y, [float(t) for t in exact], rtol=0, atol=1e-9)
        # Heads take turns between the coordinates, units come in one run for each.
        by_coordinate = [signature(t, n_keys, heads_each, n_pieces, depth) for t in x]
        expected = []
        for layer in range(depth):
            step = heads_each + n_pieces
            parts = [one[layer * step : (layer + 1) * step] for one in by_coordinate]
            expected += [part[g] for g in range(heads_each) for part in parts]
            expected += [bit for part in parts for bit in part[heads_each:]]
        assert code.tolist() == expected


def test_both_residual_forms_are_one_map():
    points = np.random.default_rng(0).random((200, 3))
    plain, residual = (
        shattering_transformer(3, 3, 3, 12, 6, ffn_residual=flag)(points) for flag in (False, True)
    )
    assert np.allclose(plain, residual, rtol=0, atol=1e-8)
    assert plain.min() > -1e-8
    assert plain.max() < 1 + 1e-8


def test_weights_are_integers_on_request_and_dyadic_where_possible():
    def weights(model):
        arrays = [model.network.embedding.weight]
        for block in model.blocks:
            arrays += [block.ffn.w_in, block.ffn.b_in, block.ffn.w_out, block.ffn.b_out]
            for head in block.heads:
                arrays += [head.query_weight, head.keys, head.values, head.query_bias]
        return np.concatenate([array.ravel() for array in arrays])

    whole = weights(shattering_transformer(6, 2, 3, 12, 4, integer_weights=True))
    assert (whole == np.round(whole)).all()
    n = 1 + 3 * 5  # three heads with six keys make sixteen cells
    dyadic = n * weights(shattering_transformer(6, 2, 3, 12, 6))
    assert (dyadic == np.round(dyadic)).all()


@pytest.mark.parametrize("depth", [8, 14, 20])
@pytest.mark.parametrize("wall", [1, 2, 3, 4])
def test_rounded_weights_lose_no_cell_next_to_a_wall_up_to_the_largest_depth(depth, wall):
    """Around a wall of the first block, where rounding acts: 3^20 2^20 cells in all."""
    centre, cell = wall / 6, 6.0**-depth
    window = Box([centre - 10.5 * cell], [centre + 10.5 * cell])
    rounded, whole = (
        enumerate_regions(shattering_transformer(3, 1, depth, 2, integer_weights=flag), window)
        for flag in (False, True)
    )
    assert rounded.n_cells == rounded.n_regions == rounded.n_affine_maps == 22
    assert rounded.signatures.tolist() == whole.signatures.tolist()


def test_a_sampler_finds_every_region_and_never_more():
    model = shattering_transformer(3, 2, 1, 4)
    assert sample_regions(model, cube(2), 4000, seed=3).distinct == 36
    deep = shattering_transformer(3, 2, 2, 4)
    found = sample_regions(deep, cube(2), 20_000, seed=3)
    assert 1200 < found.distinct <= 1296


def test_a_certificate_confirms_the_count():
    model = shattering_transformer(3, 2, 2, 4)
    verdict = verify_certificate(model, enumerate_regions(model, cube(2)).certificate())
    assert verdict.ok
    assert verdict.n_cells == 1296


def test_the_literal_construction_counts_slivers():
    line, square = cube(1), cube(2)

    def literal(*sizes, centred):
        return literal_shattering_transformer(*sizes, centred=centred)

    assert enumerate_regions(literal(3, 1, 3, 4, centred=False), line).n_cells == 1754
    assert enumerate_regions(literal(3, 1, 3, 4, centred=True), line).n_cells == 1911
    assert enumerate_regions(literal(3, 2, 2, 4, centred=False), square).n_cells == 1444
    assert enumerate_regions(literal(3, 2, 2, 4, centred=True), square).n_cells == 2025
    assert (shattering_count(3, 1, 3, 4), shattering_count(3, 2, 2, 4)) == (1728, 1296)
    for centred in (False, True):  # nothing is rounded
        assert counts(literal(4, 2, 2, 4, centred=centred), square) == (4096,) * 3


def test_the_slivers_of_the_literal_construction_are_thin():
    part = enumerate_regions(literal_shattering_transformer(3, 1, 2, 4), cube(1))
    ends = [Fraction(0), *part.breakpoints.tolist(), Fraction(1)]
    widths = sorted(b - a for a, b in pairwise(ends))
    n_slivers = part.n_cells - 144
    assert n_slivers > 0
    assert max(widths[:n_slivers]) < 1e-15
    assert min(widths[n_slivers:]) > 1e-3


def test_attention_alone_makes_a_grid():
    for n_keys, dim, depth, heads in [
        (4, 2, 3, 1),
        (3, 2, 3, 1),
        (2, 3, 3, 1),
        (3, 1, 6, 2),
        (1, 2, 2, 1),
        (7, 1, 4, 1),
    ]:
        n = 1 + heads * (n_keys - 1)
        for integer_weights in (False, True):
            model = attention_grid_transformer(
                n_keys, dim, depth, heads * dim, integer_weights=integer_weights
            )
            assert counts(model, cube(dim)) == (n ** (dim * depth),) * 3
            assert all(block.ffn is None for block in model.blocks)


def test_attention_alone_writes_the_digits_of_the_input():
    model = attention_grid_transformer(3, 1, 5, integer_weights=True)
    points = np.random.default_rng(1).integers(1, 2**20, size=(50, 1)) / 2**20
    for point, digits in zip(points, model.signature(points), strict=True):
        value = int(Fraction(float(point[0])) * 3**5)
        assert sum(int(d) * 3 ** (4 - k) for k, d in enumerate(digits)) == value


BIAS_FREE = [(3, 2, 2, 2, 1), (2, 2, 3, 5, 2), (4, 2, 2, 4, 1), (3, 3, 1, 4, 2), (2, 3, 2, 4, 5)]


@pytest.mark.parametrize("ffn_residual", [False, True])
@pytest.mark.parametrize("integer_weights", [False, True])
@pytest.mark.parametrize("sizes", BIAS_FREE)
def test_without_bias_a_slice_is_shattered(sizes, ffn_residual, integer_weights):
    n_keys, dim, depth, d_ff, n_heads = sizes
    model = bias_free_shattering_transformer(
        *sizes, ffn_residual=ffn_residual, integer_weights=integer_weights
    )
    for block in model.blocks:
        assert len(block.heads) == n_heads
        assert all(head.query_bias is None and head.logit_bias is None for head in block.heads)
    if dim == 2:
        domain = Segment([0, 1], [1, 1])
    else:
        domain = Slice(np.eye(dim)[-1], np.eye(dim)[:-1], cube(dim - 1))
    expected = formula(n_keys, dim - 1, depth, d_ff, n_heads)
    assert counts(model, domain) == (expected,) * 3
    if depth <= 2:
        assert expected <= bounds.transformer_upper(n_keys, n_heads, dim, d_ff, depth, bias="none")


@pytest.mark.parametrize("sizes", [(3, 2, 2, 2, 1), (3, 3, 1, 4, 2)])
def test_cells_of_the_slice_are_open_in_space(sizes):
    model = bias_free_shattering_transformer(*sizes)
    dim = sizes[1]
    axes = np.eye(dim)
    flat = enumerate_regions(model, Slice(axes[-1], axes[:-1], cube(dim - 1))).signatures
    low, high = np.zeros(dim), np.ones(dim)
    low[-1], high[-1] = 1 - 2.0**-20, 1 + 2.0**-20
    thick = enumerate_regions(model, Box(low, high)).signatures
    assert {tuple(s) for s in flat.tolist()} <= {tuple(s) for s in thick.tolist()}
    assert enumerate_regions(model, WholeSpace(dim)).n_cells >= len(flat)


def test_the_sawtooth_of_the_lemma_has_its_teeth():
    for teeth in (1, 2, 3, 5):
        model = HardTransformer([Block([], sawtooth(teeth), ffn_residual=False)])
        nodes = np.arange(2 * teeth + 1)[:, None] / (2 * teeth)
        assert np.allclose(model(nodes).ravel(), np.arange(2 * teeth + 1) % 2, atol=1e-12)
        assert enumerate_regions(model, cube(1)).n_regions == 2 * teeth


def test_a_folding_layer_folds_odd_numbers_of_pieces_too():
    for pieces, cells, height, residual in product((1, 2, 5), (1, 3), (1, 4), (False, True)):
        layer = folding_layer(1, pieces, cells, height, dim=2, d_ff=pieces + 1, residual=residual)
        model = HardTransformer([Block([], layer, ffn_residual=residual)])
        nodes = np.array([[k / pieces / cells, 1.0] for k in range(pieces + 1)])
        out = model(nodes)
        assert np.allclose(out[:, 0], height * (np.arange(pieces + 1) % 2), atol=1e-12)
        assert (out[:, 1] == 1.0).all()


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((0, 1, 1, 2), "n_keys"),
        ((2, 0, 1, 2), "dim"),
        ((2, 1, 0, 2), "depth"),
        ((2, 1, -1, 2), "depth"),
        ((2, 2, 1, 3), "d_ff"),
        ((2, 2, 1, 4, 1), "n_heads"),
        ((2.0, 1, 1, 2), "n_keys"),
        ((2, "1", 1, 2), "dim"),
        ((2, 1, True, 2), "depth"),
        ((3, 1, 22, 2), "depth"),
        ((3, 1, 10**5, 2), "depth"),
    ],
)
def test_bad_sizes_are_refused_by_name(sizes, name):
    with pytest.raises((ArgumentError, DtypeError), match=f"`{name}`"):
        shattering_transformer(*sizes)


def test_bad_sizes_of_the_relatives_are_refused_by_name():
    for name, build in {
        "n_keys": lambda: shattering_count(0, 1, 1, 2),
        "d_ff": lambda: literal_shattering_transformer(3, 2, 1, 3),
        "dim": lambda: bias_free_shattering_transformer(3, 1, 1, 2),
        "n_heads": lambda: attention_grid_transformer(3, 2, 1, 1),
        "depth": lambda: attention_grid_transformer(3, 1, 40),
        "ffn_residual": lambda: shattering_transformer(2, 1, 1, 2, ffn_residual=1),
        "integer_weights": lambda: attention_grid_transformer(2, 1, 1, integer_weights="no"),
        "centred": lambda: literal_shattering_transformer(2, 1, 1, 2, centred=None),
        "n_teeth": lambda: sawtooth(0),
        "height": lambda: folding_layer(1, 2, 2**30, 2**30, dim=1, d_ff=2, residual=False),
    }.items():
        with pytest.raises((ArgumentError, DtypeError), match=f"`{name}`"):
            build()


def test_depth_is_limited_only_where_weights_are_rounded():
    assert len(shattering_transformer(3, 1, 20, 2).blocks) == 20
    with pytest.raises(ArgumentError, match="integer_weights=True"):
        shattering_transformer(3, 1, 21, 2)
    for model in (
        shattering_transformer(3, 1, 100, 2, integer_weights=True),
        shattering_transformer(4, 1, 100, 2),
    ):
        assert model([[0.0]]).tolist() == [[0.0]]
    with pytest.raises(ArgumentError, match="2\\^53"):
        attention_grid_transformer(4, 1, 27)
