"""Log-lifted attention: values, the limit as a theorem, and three counts that differ."""

from itertools import product
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from hardmax.errors import EmptyInputError, HardmaxError, NonFiniteError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.log_lifted import LogLiftedHead
from tests.reference import log_lifted as reference
from tests.strategies import SMALL, WILD
from tests.sweeps import examples

DYADIC = st.integers(-(2**18), 2**18).map(lambda n: n / 2**16)


@st.composite
def lifted_heads(draw, max_dim=2, max_channels=3, max_keys=5, elements=None):
    entries = draw(st.sampled_from([SMALL, DYADIC])) if elements is None else elements
    n_keys, dim = draw(st.integers(1, max_keys)), draw(st.integers(1, max_dim))
    channels = draw(st.integers(1, max_channels))
    bias = draw(st.one_of(st.none(), arrays(np.float64, n_keys, elements=entries)))
    if bias is not None:
        bias[1:][draw(arrays(bool, n_keys - 1))] = -np.inf
    keys = draw(arrays(np.float64, (n_keys, dim), elements=entries))
    return LogLiftedHead(keys, draw(arrays(np.float64, (n_keys, channels), elements=entries)), bias)


def queries(lifted, seed=0, n=6):
    return np.random.default_rng(seed).normal(scale=3.0, size=(n, lifted.dim))


@given(lifted_heads())
def test_the_limit_matches_the_definition(lifted):
    q = queries(lifted)
    expected = [reference.limit(lifted, point) for point in q]
    np.testing.assert_allclose(lifted(q), np.array(expected, dtype=float), atol=1e-9)
    assert lifted.rational_map.exact_values(q).tolist() == expected


@given(lifted_heads(elements=WILD), st.lists(WILD, min_size=2, max_size=2))
def test_wild_scales_lose_only_rounding(lifted, point):
    q = np.array(point[: lifted.dim])
    size = np.abs(lifted.lifted_values).max()
    assume(size < 1e299)
    for got, expected in zip(lifted(q), reference.limit(lifted, q), strict=True):
        assert abs(got - float(expected)) <= 1e-10 * size


@given(lifted_heads(), st.sampled_from([1e-300, 1e-9, 1e-3, 0.3, 1.0, 20.0, 1e6, 1e300]))
def test_finite_temperatures_match_high_precision_and_stay_within_tau_log_n(lifted, tau):
    q = queries(lifted, n=3)
    soft, limit = lifted.soft(q, tau), lifted(q)
    n_live = len(lifted.unmasked)
    for row, point in zip(soft, q, strict=True):
        for got, expected in zip(row, reference.at_temperature(lifted, point, tau), strict=True):
            assert abs(mpmath.mpf(float(got)) - expected) <= 1e-9 + 1e-10 * tau
    assert (np.abs(soft - limit) <= tau * np.log(n_live) * (1 + 1e-10) + 1e-9).all()


def test_the_bound_tau_log_n_is_attained():
    """All keys tie in the denominator and one value stands out: F_tau = F - tau log N."""
    lifted = LogLiftedHead(np.zeros((4, 1)), [[900.0], [0.0], [0.0], [0.0]])
    gap = lifted.soft(np.zeros(1), 1.0) - lifted(np.zeros(1))
    np.testing.assert_allclose(gap, -np.log(4.0), rtol=1e-12)


def test_it_is_the_logarithm_of_the_head_with_exponential_values():
    rng = np.random.default_rng(1)
    keys, values, tau = rng.normal(size=(5, 2)), rng.normal(size=(5, 3)), 0.4
    lifted = LogLiftedHead(keys, values)
    head = AttentionHead(np.eye(2), keys, np.exp(values / tau), np.eye(3))
    q = rng.normal(size=(20, 2))
    np.testing.assert_allclose(lifted.soft(q, tau), tau * np.log(head.soft(q, tau)), rtol=1e-11)


def test_temperature_independent_values_collapse_to_zero():
    """With v fixed, tau log v tends to 0 and so does F: the log-lift is a different limit."""
    values, q = np.array([[0.5], [3.0]]), np.array([[0.7]])
    for tau in (1e-1, 1e-3, 1e-6):
        lifted = LogLiftedHead([[-1.0], [1.0]], tau * np.log(values))
        np.testing.assert_allclose(lifted.soft(q, tau), 0.0, atol=2 * tau)


@examples(100)
@given(lifted_heads(max_dim=1, max_keys=5, max_channels=3))
def test_counts_on_the_line_match_the_definition(lifted):
    expected = reference.counts_on_the_line(lifted)
    got = lifted.routing_cells, lifted.lifted_cells, lifted.lifted_linear_regions
    assert got == expected


@examples(30)
@given(lifted_heads(max_dim=2, max_keys=3, max_channels=2, elements=SMALL))
def test_cells_in_the_plane_match_one_linear_program_per_tuple_of_winners(lifted):
    """A tuple owns a cell if all its inequalities hold with a common positive margin."""
    groups = [sorted(set((tuple(k), c) for k, c in group)) for group in reference.groups(lifted)]
    count = 0
    for winners in product(*groups):
        rows, rights = [], []
        for (slope, offset), group in zip(winners, groups, strict=True):
            for other, c in group:
                if (other, c) != (slope, offset):
                    rows.append([*(float(b - a) for a, b in zip(slope, other, strict=True)), 1.0])
                    rights.append(float(offset - c))
        bounds = [(None, None)] * lifted.dim + [(None, 1.0)]
        cost = [0.0] * lifted.dim + [-1.0]
        if not rows:
            count += 1
            continue
        solution = linprog(cost, A_ub=rows, b_ub=rights, bounds=bounds)
        count += solution.x[-1] > 1e-7
    assert lifted.lifted_cells == count


@given(lifted_heads())
def test_counts_are_ordered_and_below_the_sharp_maximum(lifted):
    """Cells are at most sum_(j <= d) C(H, j) (N - 1)^j with H = d_v + 1 groups of N forms."""
    n, groups = len(lifted.unmasked), lifted.n_channels + 1
    most = sum(comb(groups, j) * (n - 1) ** j for j in range(min(lifted.dim, groups) + 1))
    assert 1 <= lifted.routing_cells <= lifted.lifted_cells <= most
    assert 1 <= lifted.lifted_linear_regions <= lifted.lifted_cells
    assert lifted.pieces.n_affine_maps <= lifted.lifted_linear_regions


@pytest.mark.parametrize(("n_keys", "channels"), [(2, 1), (4, 3), (7, 2)])
def test_on_the_line_the_maximum_is_attained(n_keys, channels):
    """Keys j with bias -j^2 break at the odd numbers; channel c moves its breaks by c/8."""
    j = np.arange(float(n_keys))
    lifted = LogLiftedHead(j[:, None], np.outer(j, np.arange(1, channels + 1) / 8), -(j**2))
    most = 1 + (channels + 1) * (n_keys - 1)
    assert lifted.lifted_cells == lifted.lifted_linear_regions == most


def test_two_keys_and_three_channels_have_five_regions_but_two_routing_cells():
    lifted = LogLiftedHead([[-1.0], [1.0]], [[0.0, 0.0, 0.0], [2.0, 4.0, -2.0]])
    assert (lifted.routing_cells, lifted.lifted_cells, lifted.lifted_linear_regions) == (2, 5, 5)


def test_two_keys_have_one_cell_more_than_distinct_breakpoints():
    lifted = LogLiftedHead([[-1.0], [1.0]], [[0.0] * 4, [2.0, 2.0, -2.0, 0.0]])
    # Breakpoints at -1 (twice), 1, and 0 for the last channel and the denominator.
    assert lifted.lifted_cells == 4


@pytest.mark.parametrize("n_keys", [1, 2, 6])
def test_equal_values_give_one_region_and_every_routing_cell(n_keys):
    angles = 2 * np.pi * np.arange(n_keys) / n_keys
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lifted = LogLiftedHead(keys, np.full((n_keys, 2), 3.25))
    assert lifted.routing_cells == n_keys
    assert lifted.lifted_cells == n_keys
    assert lifted.lifted_linear_regions == 1
    np.testing.assert_array_equal(lifted(queries(lifted)), np.full((6, 2), 3.25))


def test_offsets_that_round_are_kept_exact():
    """1 + 2^-60 and 1 - 2^-60 both round to 1; the third key owns a cell of width 2^-60."""
    keys = [[-1.0], [1.0], [0.0]]
    for sign, cells in ((1.0, 3), (-1.0, 2)):
        lifted = LogLiftedHead(keys, [[0.0], [0.0], [sign * 2.0**-60]], [1.0, 1.0, 1.0])
        assert int(lifted.rational_map.numerators[0].active_terms().sum()) == cells


def test_channels_shift_with_their_values_and_ignore_a_common_key():
    lifted = LogLiftedHead([[-1.0, 2.0], [1.0, 0.0], [0.0, 1.0]], np.eye(3))
    q = queries(lifted)
    shifted = LogLiftedHead(lifted.keys, lifted.lifted_values + np.array([1.0, 0.0, -2.0]))
    np.testing.assert_allclose(shifted(q) - lifted(q), np.tile([1.0, 0.0, -2.0], (6, 1)))
    moved = LogLiftedHead(lifted.keys + np.array([5.0, -3.0]), lifted.lifted_values)
    np.testing.assert_allclose(moved(q), lifted(q), atol=1e-12)
    assert moved.lifted_cells == lifted.lifted_cells


def test_a_masked_key_takes_no_part():
    lifted = LogLiftedHead([[-1.0], [9.0], [1.0]], [[0.0], [7.0], [2.0]], [0.0, -np.inf, 0.0])
    short = LogLiftedHead([[-1.0], [1.0]], [[0.0], [2.0]])
    q = queries(short)
    np.testing.assert_array_equal(lifted(q), short(q))
    np.testing.assert_array_equal(lifted.soft(q, 0.3), short.soft(q, 0.3))
    assert lifted.lifted_cells == short.lifted_cells
    assert lifted.unmasked.tolist() == [0, 2]


def test_a_head_lends_its_keys_and_biases():
    head = AttentionHead(np.eye(1), [[-1.0], [1.0]], np.eye(2), np.eye(2), logit_bias=[0.5, 0.0])
    lifted = LogLiftedHead.from_head(head, [[1.0], [2.0]])
    assert lifted.logit_bias.tolist() == [0.5, 0.0]
    assert lifted(np.array([0.0])).tolist() == [1.5]


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(EmptyInputError, match="`keys`"):
        LogLiftedHead(np.empty((0, 1)), np.empty((0, 1)))
    with pytest.raises(ShapeMismatchError, match="`lifted_values`"):
        LogLiftedHead(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(NonFiniteError, match="`lifted_values`"):
        LogLiftedHead(np.ones((2, 1)), [[0.0], [-np.inf]])
    with pytest.raises(EmptyInputError, match="`logit_bias` must leave at least one key"):
        LogLiftedHead(np.ones((2, 1)), np.ones((2, 1)), [-np.inf, -np.inf])
    lifted = LogLiftedHead(np.ones((2, 1)), np.ones((2, 1)))
    with pytest.raises(ShapeMismatchError, match="`q`"):
        lifted(np.ones(2))
    for tau in (-1.0, np.nan):
        with pytest.raises(HardmaxError, match="`tau`"):
            lifted.soft(np.ones(1), tau)
