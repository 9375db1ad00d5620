"""What [SL26] states, beside what holds: where the two agree, and where they part."""

from math import log10

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.bounds import paper
from hardmax.bounds.bound import scientific
from hardmax.errors import HardmaxError

SMALL = st.integers(1, 7)


def test_figure_4_claims_216_vertices_where_92_is_the_maximum():
    assert paper.theorem_v2(6, 3, 3) == 216
    assert bounds.cells_bias_free(6, 3, 3) == 92


def test_example_v3_has_the_wrong_power():
    assert paper.theorem_v2(512, 8, 512) == 2**72
    assert scientific(log10(paper.theorem_v2(512, 8, 512))) == "4.722e21"


def test_the_saturated_regime_of_theorem_v2_is_exceeded():
    assert [bounds.cells_bias_free(n, 4, 3) for n in (8, 16, 32, 64)] == [326, 1414, 5894, 24070]
    assert all(
        paper.theorem_v2(n, 4, 3) == 4 * n < bounds.cells_bias_free(n, 4, 3)
        for n in (8, 16, 32, 64)
    )


@given(SMALL, SMALL, SMALL)
def test_theorem_v2_holds_in_its_standard_regime(n, n_heads, dim):
    if n_heads <= dim:
        assert bounds.cells_bias_free(n, n_heads, dim) <= paper.theorem_v2(n, n_heads, dim)
    if n_heads < dim:
        assert bounds.cells_bias_free(n, n_heads, dim) == paper.theorem_v2(n, n_heads, dim)
    if n_heads == dim > 1 and n > 2:
        assert bounds.cells_bias_free(n, n_heads, dim) < paper.theorem_v2(n, n_heads, dim)


@given(st.lists(SMALL, min_size=1, max_size=6), SMALL)
def test_appendix_d_is_a_loose_upper_bound(sizes, dim):
    # With one dimension and one key the exact count of a segment is 2, the bound max n_h.
    assert bounds.cells_bias_free(sizes, None, dim) <= paper.appendix_d(sizes, None, dim)


def test_appendix_d_is_the_written_sum():
    # H = 4, d = 3: 1 * 7 + 3 * 7 * 5 + 3 * 7 * 5 * 5
    assert paper.appendix_d([5, 2, 7, 5], None, 3) == 7 + 3 * 35 + 3 * 175


@given(SMALL, SMALL, SMALL)
def test_naive_hyperplanes_bound_the_cells_from_far_above(n, n_heads, dim):
    sharp = bounds.cells_with_bias(n, n_heads, dim)
    assert sharp <= paper.naive_hyperplanes(n, n_heads, dim)
    free = paper.naive_hyperplanes(n, n_heads, dim, bias="none")
    assert (
        bounds.cells_bias_free(n, n_heads, dim) <= free <= paper.naive_hyperplanes(n, n_heads, dim)
    )
    if n_heads == 1:
        assert bounds.rankings_with_bias(n, dim) <= paper.naive_hyperplanes(n, 1, dim)


def test_the_naive_count_has_the_stated_order_with_bias_and_one_less_without():
    n = 10**6
    for bias, exponent in (("logit", 6), ("none", 4)):
        few, many = (paper.naive_hyperplanes(m, 2, 3, bias=bias) for m in (n, 10 * n))
        assert round(log10(many / few), 4) == exponent
    assert paper.remark_v6(10 * n, 2, 3) == 10**6 * paper.remark_v6(n, 2, 3)


@given(SMALL, SMALL, SMALL, st.integers(0, 9), st.integers(1, 3))
def test_theorem_v5_with_constant_one_holds_up_to_as_many_heads_as_dimensions(
    n, n_heads, dim, d_ff, depth
):
    claimed = paper.theorem_v5(n, n_heads, dim, d_ff, depth)
    if n_heads <= dim:
        for bias in ("none", "query", "logit"):
            assert bounds.transformer_upper(n, n_heads, dim, d_ff, depth, bias=bias) <= claimed


def test_theorem_v5_needs_a_constant_that_grows_with_the_heads():
    assert paper.theorem_v5(4, 9, 2, 0, 1) == 16 < bounds.cells_bias_free(4, 9, 2) == 36


@given(st.integers(1, 30), st.integers(1, 30))
def test_the_estimate_of_the_feed_forward_factor_needs_enough_units(d_ff, dim):
    exact = log10(bounds.zaslavsky(d_ff, dim))
    if d_ff >= dim:
        assert exact <= paper.appendix_e_ffn_log10(d_ff, dim) + 1e-12
    assert paper.appendix_e_ffn_log10(1, 4) < log10(bounds.zaslavsky(1, 4))


@given(SMALL, SMALL, st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))
def test_theorem_v7_is_too_small_by_a_power_of_two(n, dim, w, extra, depth):
    d_ff = 2 * dim * w + min(extra, 2 * dim - 1)
    stated, counted = paper.theorem_v7(n, dim, d_ff, depth), paper.appendix_f(n, dim, d_ff, depth)
    assert counted == 2 ** (dim * depth) * stated
    assert counted <= bounds.transformer_lower(n, dim, dim, d_ff, depth, bias="query", head_dim=2)


def test_corollary_v9_needs_a_bias_and_heads_of_size_two():
    claimed = paper.corollary_v9(8, 3)
    assert claimed == bounds.exponent_of_keys(8, 8, 3, bias="query", head_dim=2)
    assert claimed > bounds.exponent_of_keys(8, 8, 3, bias="none")
    assert claimed > bounds.exponent_of_keys(4, 8, 3, bias="query", head_dim=2)
    assert bounds.exponent_of_keys(8, 8, 3, bias="query", head_dim=1) == 0


def test_proposition_v1_holds_and_is_two_for_segments():
    assert paper.proposition_v1(7) == bounds.attention_cells(7, 1, 2, bias="none")
    assert bounds.attention_cells(7, 1, 2, bias="none", head_dim=1) == 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: paper.proposition_v1(0), "`n_keys`"),
        (lambda: paper.theorem_v2(6, 0, 3), "`n_heads`"),
        (lambda: paper.theorem_v2(6, 3, 0), "`dim`"),
        (lambda: paper.appendix_d(6, None, 3), "`n_heads`"),
        (lambda: paper.theorem_v5(6, 3, 3, -1, 1), "`d_ff`"),
        (lambda: paper.theorem_v5(6, 3, 3, 4, 0), "`depth`"),
        (lambda: paper.appendix_e_ffn_log10(0, 3), "`d_ff`"),
        (lambda: paper.remark_v6(1.5, 3, 3), "`n_keys`"),
        (lambda: paper.naive_hyperplanes(6, 3, 3, bias="x"), "`bias`"),
        (lambda: paper.theorem_v7(4, 2, 3, 1), "`d_ff`"),
        (lambda: paper.appendix_f(4, 2, 8, 0), "`depth`"),
        (lambda: paper.corollary_v9(0, 2), "`dim`"),
    ],
)
def test_bad_sizes_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
