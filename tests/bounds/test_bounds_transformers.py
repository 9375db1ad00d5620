"""Hard transformers: bounds against exact signatures of small models."""

import itertools
from fractions import Fraction
from math import log2, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.constructions import rotating_transformer
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.reference.bounds import folding_pieces, square, transformer_signatures
from tests.sweeps import examples

BIASES = ("none", "query", "logit")


def random_blocks(rng, n_keys, n_heads, d_ff, depth, bias, head_dim):
    """Blocks with integer weights on two coordinates, as the exact splitter wants them."""
    blocks = []
    for _ in range(depth):
        heads = []
        for _ in range(n_heads):
            keys = rng.integers(-9, 10, (n_keys, head_dim)).astype(object)
            offsets = np.zeros(n_keys, dtype=object)
            if bias != "none":
                offsets = keys @ rng.integers(-9, 10, head_dim).astype(object)
            if bias == "logit":
                offsets = offsets + rng.integers(-9, 10, n_keys).astype(object)
            slopes = keys @ rng.integers(-3, 4, (head_dim, 2)).astype(object)
            heads.append((slopes, offsets, rng.integers(-9, 10, (n_keys, 2)).astype(object)))
        ffn = None
        if d_ff:
            shapes = (2, d_ff), (d_ff,), (d_ff, 2), (2,)
            ffn = tuple(rng.integers(-5, 6, shape).astype(object) for shape in shapes)
        blocks.append((heads, ffn))
    return blocks


@examples(30)
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from(BIASES),
    st.integers(1, 2),
)
def test_no_random_transformer_has_more_cells(seed, n_keys, n_heads, d_ff, bias, head_dim):
    blocks = random_blocks(np.random.default_rng(seed), n_keys, n_heads, d_ff, 2, bias, head_dim)
    cells = transformer_signatures(blocks, half_width=1000)
    assert len({signature for signature, _ in cells}) == len(cells)
    most = bounds.transformer_upper(n_keys, n_heads, 2, d_ff, 2, bias=bias, head_dim=head_dim)
    assert len(cells) <= most


@examples(30)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.booleans())
def test_no_transformer_without_residuals_has_more_cells(seed, d_ff, attention, ffn):
    blocks = random_blocks(np.random.default_rng(seed), 3, 2, d_ff, 2, "logit", 2)
    residuals = {"attention_residual": attention, "ffn_residual": ffn}
    cells = transformer_signatures(blocks, half_width=1000, **residuals)
    most = bounds.transformer_upper(3, 2, 2, d_ff, 2, **residuals)
    assert len(cells) <= most <= bounds.transformer_upper(3, 2, 2, d_ff, 2)


def grid_block(n_keys, residual_first):
    """Two heads and four units: the construction of the lower bound, one head per coordinate."""
    n = Fraction(n_keys)
    heads = []
    for coordinate in (0, 1):
        slopes = np.zeros((n_keys, 2), dtype=object)
        slopes[:, coordinate] = range(n_keys)
        offsets = [-sum((i / n for i in range(1, j + 1)), Fraction(0)) for j in range(n_keys)]
        values = np.zeros((n_keys, 2), dtype=object)
        values[:, coordinate] = [-j / n for j in range(n_keys)]
        heads.append((slopes, offsets, values))
    w_in, w_out = np.zeros((2, 4), dtype=object), np.zeros((4, 2), dtype=object)
    b_in, b_out = [], []
    for coordinate in (0, 1):
        first = 2 - residual_first / n
        w_in[coordinate, 2 * coordinate : 2 * coordinate + 2] = n
        b_in += [Fraction(1), Fraction(-1, 2)]
        w_out[2 * coordinate : 2 * coordinate + 2, coordinate] = [first, Fraction(-4)]
        b_out.append(-first)
    return heads, (w_in, b_in, w_out, b_out)


@pytest.mark.parametrize(("n_keys", "depth"), [(2, 1), (3, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("residual", [True, False])
def test_the_lower_bound_is_counted_exactly_in_the_plane(n_keys, depth, residual):
    half = Fraction(1, 2)
    unit = [(x + half, y + half) for x, y in square(half)]
    block = grid_block(n_keys, Fraction(residual))
    cells = transformer_signatures([block] * depth, 1, start=unit, ffn_residual=residual)
    expected = bounds.transformer_lower(n_keys, 2, 2, 4, depth, bias="query", head_dim=2)
    assert len(cells) == len({maps for _, maps in cells}) == expected == (2 * n_keys) ** (2 * depth)


@pytest.mark.parametrize("n_keys", [2, 3, 5])
def test_without_bias_a_constant_coordinate_takes_its_place(n_keys):
    # The second coordinate stays at 1 on the slice; near it the same signatures occur.
    heads, (w_in, b_in, w_out, b_out) = grid_block(n_keys, Fraction(1))
    slopes, offsets, values = heads[0]
    slopes = slopes.copy()
    slopes[:, 1] = offsets
    head = (slopes, [0] * n_keys, values)
    ffn = (w_in[:, :2], b_in[:2], w_out[:2], [b_out[0], Fraction(0)])
    near = Fraction(1, 10**6)
    strip = [(0, 1 - near), (1, 1 - near), (1, 1 + near), (0, 1 + near)]
    strip = [(Fraction(x), y) for x, y in strip]
    cells = transformer_signatures([([head], ffn)] * 2, 1, start=strip)
    expected = bounds.transformer_lower(n_keys, 1, 2, 2, 2, bias="none", head_dim=2)
    assert expected == (2 * n_keys) ** 2
    assert len({maps for _, maps in cells}) >= expected


@pytest.mark.parametrize("n_keys", [1, 2, 4])
@pytest.mark.parametrize("n_heads", [1, 2, 3])
@pytest.mark.parametrize("n_units", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("residual", [True, False])
def test_the_lower_bound_is_counted_exactly_on_a_line(n_keys, n_heads, n_units, residual):
    pieces = folding_pieces(n_keys, n_heads, n_units, 2, residual)
    jumps = bounds.transformer_lower(n_keys, n_heads, 1, n_units, 2, continuous=False)
    assert len(pieces) == len({tuple(stream) for *_, stream in pieces}) == jumps
    if n_units and n_units % 2 == 0:
        assert jumps == bounds.transformer_lower(n_keys, n_heads, 1, n_units, 2)
        for (_, end, [(a, b)]), (start, _, [(c, e)]) in itertools.pairwise(sorted(pieces)):
            assert end == start
            assert a * end + b == c * end + e


@given(
    st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 12), st.integers(1, 3)
)
def test_the_lower_bound_stays_below_the_upper_bound(n_keys, n_heads, dim, d_ff, depth):
    for bias in BIASES:
        for head_dim in (1, 2, None):
            options = {"bias": bias, "head_dim": head_dim}
            above = bounds.transformer_upper(n_keys, n_heads, dim, d_ff, depth, **options)
            below = bounds.transformer_lower(n_keys, n_heads, dim, d_ff, depth, **options)
            jumps = bounds.transformer_lower(
                n_keys, n_heads, dim, d_ff, depth, continuous=False, **options
            )
            assert 1 <= below <= jumps <= above


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("head_dim", [1, None])
@pytest.mark.parametrize("continuous", [True, False])
def test_the_lower_bound_never_falls_when_a_size_grows(bias, head_dim, continuous):
    def lower(*shape):
        return bounds.block_lower(*shape, bias=bias, head_dim=head_dim, continuous=continuous)

    for shape in itertools.product((1, 2, 4), (1, 2, 3), (1, 2, 3, 4), range(10)):
        for i in range(4):
            larger = [size + (i == j) for j, size in enumerate(shape)]
            assert lower(*larger) >= lower(*shape), (shape, larger)


def test_six_units_fold_two_coordinates_better_than_three():
    assert bounds.transformer_lower(1, 1, 3, 6, 2) == 9**2


def test_units_that_add_zero_leave_the_heads_their_pieces():
    assert bounds.transformer_lower(4, 2, 2, 0, 3, continuous=False) == 4096
    assert bounds.transformer_lower(4, 2, 2, 1, 3, continuous=False) == 4096


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 40), st.integers(1, 60))
def test_the_best_number_of_coordinates_is_found_among_all(n_keys, n_heads, dim, d_ff):
    def spread(n):  # What n coordinates give, by the formula.
        heads = [len(range(i, n_heads, n)) for i in range(n)]
        pairs = [len(range(i, d_ff // 2, n)) for i in range(n)]
        return prod((1 + m * (n_keys - 1)) * 2 * p for m, p in zip(heads, pairs, strict=True))

    def fold(n):
        return prod(len(range(i, d_ff, n)) for i in range(n))

    best = max(
        1,
        *(spread(n) for n in range(1, min(dim, d_ff // 2) + 1)),
        *(fold(n) for n in range(1, min(dim, d_ff) + 1)),
    )
    assert bounds.block_lower(n_keys, n_heads, dim, d_ff) == best


@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6))
def test_equal_shares_give_the_closed_form(n_keys, m, w, dim):
    expected = ((1 + m * (n_keys - 1)) ** dim * (2 * w) ** dim) ** 2
    assert bounds.transformer_lower(n_keys, m * dim, dim, 2 * w * dim, 2, bias="query") == expected


def test_heads_and_units_that_do_not_divide_are_not_wasted():
    # Five heads and ten units on three coordinates: shares 2, 2, 1 and 4, 4, 2.
    assert bounds.block_lower(4, 5, 3, 10) == 7 * 7 * 4 * 4 * 4 * 2
    assert bounds.block_lower(4, 1, 3, 6) == 4 * 2**3
    assert bounds.block_lower(4, 3, 3, 4) == (1 + 2 * 3) * (1 + 3) * 4


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("head_dim", [1, 2])
@pytest.mark.parametrize(("n_heads", "dim"), [(1, 1), (2, 3), (3, 3), (4, 3), (7, 2)])
def test_upper_and_lower_bounds_have_the_same_degree_in_the_keys(n_heads, dim, bias, head_dim):
    def degree(function, d_ff=2 * dim, **options):
        few, many = (
            function(n, n_heads, dim, d_ff, 2, bias=bias, head_dim=head_dim, **options)
            for n in (10**12, 2 * 10**12)
        )
        return round(log2(many / few), 6)

    expected = bounds.exponent_of_keys(n_heads, dim, 2, bias=bias, head_dim=head_dim)
    assert degree(bounds.transformer_upper) == degree(bounds.transformer_lower) == expected
    for d_ff in range(2 * dim):
        assert degree(bounds.transformer_lower, d_ff, continuous=False) == expected


def test_slices_count_only_what_they_meet():
    upper = bounds.transformer_upper(6, 4, 64, 256, 3, input_dim=2)
    assert upper == (bounds.cells_with_bias(6, 4, 2) * bounds.zaslavsky(256, 2)) ** 3
    assert upper < bounds.transformer_upper(6, 4, 64, 256, 3)
    # A slice need not contain the origin, so bias-free heads have affine scores on it.
    assert upper == bounds.transformer_upper(6, 4, 64, 256, 3, bias="none", input_dim=2)


def test_a_narrow_layer_without_skip_loses_dimension():
    wide = bounds.transformer_upper(3, 2, 4, 4, 3)
    narrow = bounds.transformer_upper(3, 2, 4, 4, 3, ffn_residual=False)
    assert narrow < wide
    enough = {"ffn_residual": False}
    assert bounds.transformer_upper(3, 2, 4, 8, 3, **enough) == bounds.transformer_upper(
        3, 2, 4, 8, 3
    )


def test_attention_without_skip_leaves_a_constant_on_every_cell():
    one_layer = bounds.cells_with_bias(3, 2, 4)
    for ffn in (True, False):
        options = {"attention_residual": False, "ffn_residual": ffn}
        assert bounds.transformer_upper(3, 2, 4, 8, 5, **options) == one_layer


def test_keys_may_differ_between_heads():
    assert bounds.transformer_upper([3, 5], None, 2, 0, 2) == 15**2


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        ((0, 2, 2, 4, 1), {}, "`n_keys`"),
        ((3, 0, 2, 4, 1), {}, "`n_heads`"),
        ((3, 2, 0, 4, 1), {}, "`dim`"),
        ((3, 2, 2, -1, 1), {}, "`d_ff`"),
        ((3, 2, 2, 4, 0), {}, "`depth`"),
        ((3, 2, 2, 4.5, 1), {}, "`d_ff`"),
        ((3, 2, 2, 4, 1), {"bias": "value"}, "`bias`"),
        ((3, 2, 2, 4, 1), {"head_dim": -2}, "`head_dim`"),
    ],
)
def test_bad_sizes_are_refused_by_name(arguments, options, name):
    for function in (bounds.transformer_upper, bounds.transformer_lower):
        with pytest.raises(HardmaxError, match=name):
            function(*arguments, **options)


def test_a_slice_must_fit_the_space():
    with pytest.raises(HardmaxError, match="`input_dim`"):
        bounds.transformer_upper(3, 2, 2, 4, 1, input_dim=3)
    with pytest.raises(HardmaxError, match="`depth`"):
        bounds.exponent_of_keys(2, 2, 0)


# The largest number itself


@pytest.mark.parametrize(
    "shape", [(2, 1, 4), (2, 3, 2), (3, 1, 3), (3, 2, 2), (4, 3, 2), (5, 2, 2), (2, 2, 3)], ids=str
)
def test_rotating_heads_attain_the_upper_bound_on_the_plane(shape):
    n_keys, n_heads, depth = shape
    model = rotating_transformer(n_keys, n_heads, depth)
    part = enumerate_regions(model, WholeSpace(2))
    most = bounds.transformer_upper(n_keys, n_heads, 2, 0, depth, bias="none")
    assert (
        part.n_cells == part.n_regions == part.n_affine_maps == most == (n_keys * n_heads) ** depth
    )
    assert (
        bounds.transformer_lower(n_keys, n_heads, 2, 0, depth, bias="none", continuous=False)
        == most
    )


def test_two_certified_blocks_have_as_many_cells_as_two_blocks_can():
    model = rotating_transformer(4, 3, 2)
    certificate = enumerate_regions(model, WholeSpace(2)).certificate()
    assert verify_certificate(model, certificate).ok


@pytest.mark.parametrize(
    ("n_keys", "n_heads", "d_ff"), [(2, 1, 2), (3, 1, 3), (3, 2, 2), (4, 3, 4)]
)
def test_one_block_on_the_plane_attains_its_bound(n_keys, n_heads, d_ff):
    heads = rotating_transformer(n_keys, n_heads, 1).blocks[0].heads
    # Lines tangent to a small circle: in general position, all vertices near 0.
    turns = np.arange(d_ff) * 2.0
    w_in = np.stack([np.cos(turns), np.sin(turns)])
    ffn = FeedForward(w_in, np.full(d_ff, -1e-3), w_in.T, np.zeros(2))
    part = enumerate_regions(HardTransformer([Block(heads, ffn)]), WholeSpace(2))
    assert part.n_cells == bounds.block_upper(n_keys, n_heads, 2, d_ff, bias="none")


BIASED_BLOCKS = [
    ([[4, 0], [-2, 3], [-2, -3]], [-4, -4, -4], [[4, 0], [-2, 3], [-2, -3]]),
    (
        [[-4, 0], [1, 2], [5, 6], [0, 1]],
        [-120, -57, -74, -21],
        [[-33, 19], [-4, 20], [28, -1], [-28, 25]],
    ),
    (
        [[0, -1], [-5, 3], [1, 1], [3, 5], [-5, -3]],
        [10.125, -2.875, -7.625, -2.125, -7.125],
        [[9.875, -12.5], [-11, 12.25], [9.25, 1.25], [-3, 9], [-11.125, 1.25]],
    ),
]
"""Normals and offsets of lines, and the vector by which what lies beyond a line is moved back."""


@pytest.mark.parametrize(("normals", "offsets", "moves"), BIASED_BLOCKS)
def test_few_biased_heads_with_two_keys_attain_the_bound_in_two_blocks(normals, offsets, moves):
    n_heads = len(normals)

    def block(scale):
        return Block(
            [
                AttentionHead(
                    np.array(normal, float)[:, None],
                    [[0.0], [1.0]],
                    np.array([[0.0, 0.0], move]) * -scale,
                    np.eye(2),
                    logit_bias=[0.0, offset * scale],
                )
                for normal, offset, move in zip(normals, offsets, moves, strict=True)
            ]
        )

    part = enumerate_regions(HardTransformer([block(1.0), block(2.0**-9)]), WholeSpace(2))
    most = bounds.transformer_upper(2, n_heads, 2, 0, 2, bias="logit")
    assert part.n_cells == most == {3: 49, 4: 121, 5: 256}[n_heads]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rotating_transformer(1, 2, 1), "`n_keys`"),
        (lambda: rotating_transformer(3, 0, 1), "`n_heads`"),
        (lambda: rotating_transformer(3, 2, 10**4), "`depth`"),
    ],
)
def test_rotating_heads_refuse_bad_sizes_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
