"""The hard head: exact winners, ties, masks, degenerate memories."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, NonFiniteError
from hardmax.models.heads import AttentionHead
from tests.reference import attention
from tests.strategies import SMALL, WILD

MODERATE = st.floats(-8, 8, allow_subnormal=False)


@st.composite
def heads_and_points(draw, elements=None):
    """Draw a head, often with ties, masks and biases, and a few points."""
    entries = draw(st.sampled_from([SMALL, MODERATE, WILD])) if elements is None else elements
    n_keys, dim, d_k, d_v, out = (draw(st.integers(1, top)) for top in (5, 3, 3, 2, 2))
    n_points = draw(st.integers(0, 3))

    def array(*shape):
        return draw(arrays(np.float64, shape, elements=entries))

    bias = draw(st.one_of(st.none(), st.just("finite"), st.just("masked")))
    logit_bias = None if bias is None else array(n_keys)
    if bias == "masked":
        logit_bias[1:][draw(arrays(bool, n_keys - 1))] = -np.inf
    head = AttentionHead(
        array(dim, d_k),
        array(n_keys, d_k),
        draw(arrays(np.float64, (n_keys, d_v), elements=SMALL)),
        draw(arrays(np.float64, (d_v, out), elements=SMALL)),
        query_bias=draw(st.sampled_from([None, "bias"])) and array(d_k),
        logit_bias=logit_bias,
    )
    return head, array(n_points, dim)


def small_head(n_keys=4, dim=2, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    return AttentionHead(
        rng.normal(size=(dim, 3)),
        rng.normal(size=(n_keys, 3)),
        rng.normal(size=(n_keys, 2)),
        rng.normal(size=(2, dim)),
        **kwargs,
    )


# W_Q k rounds to the same float for both keys, yet the second wins by 2^-110.
COINCIDE_ONLY_ROUNDED = (
    AttentionHead(
        [[1.0], [2.0**-55]],
        [[1.0], [1.0 + 2.0**-52]],
        [[0.0], [1.0]],
        [[1.0]],
        logit_bias=[2.0**-52, 0.0],
    ),
    np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]]),
)


@example(COINCIDE_ONLY_ROUNDED)
@given(heads_and_points())
def test_winners_and_ties_match_the_definition(case):
    head, points = case
    expected = [attention.tied(head, x) for x in points]
    assert head.tied(points).tolist() == expected
    assert head.winners(points).tolist() == [row.index(True) for row in expected]


def test_a_margin_below_the_rounding_of_the_scores_decides():
    head, points = COINCIDE_ONLY_ROUNDED
    assert head.winners(points).tolist() == [1, 0, 0]
    assert head.tied(points[1]).tolist() == [True, True]


@given(heads_and_points(elements=SMALL))
def test_the_hard_output_is_the_mean_value_of_the_tied_winners(case):
    head, points = case
    expected = np.array([attention.hard_output(head, x) for x in points], dtype=float)
    np.testing.assert_allclose(
        head(points), expected.reshape(len(points), head.out_dim), rtol=1e-14, atol=1e-14
    )


def test_a_tie_between_equal_values_returns_that_value_unrounded():
    head = AttentionHead(np.eye(1), np.ones((3, 1)), np.full((3, 1), 0.1), np.eye(1))
    assert head(np.array([5.0])).tolist() == [0.1]


def test_huge_tied_values_do_not_overflow():
    head = AttentionHead(np.eye(1), np.ones((2, 1)), np.full((2, 1), 1.7e308), np.eye(1))
    assert head(np.array([5.0])).tolist() == [1.7e308]


def test_scores_beyond_the_range_of_floats_still_have_a_winner():
    head = AttentionHead([[1e300]], [[1e300], [2e300]], [[1.0], [2.0]], [[1.0]])
    assert head.winners(np.array([[1e300], [-1e300]])).tolist() == [1, 0]
    assert head.soft(np.array([1e300]), 1e308).tolist() == [2.0]
    assert head.potential(np.array([1e300]), 0.0) == np.inf
    with pytest.raises(NonFiniteError, match="`query_weight` times `keys`"):
        head.forms


@given(heads_and_points())
def test_forms_are_the_exact_scores_rounded_once(case):
    head, _ = case
    try:
        head.forms
    except NonFiniteError:
        return  # The range is the subject of another test.
    columns = [attention.exact(row) for row in head.query_weight]
    zero = attention.scores(head, np.zeros(head.dim))
    for i, j in enumerate(head.unmasked):
        row = [attention.dot(column, attention.exact(head.keys[j])) for column in columns]
        row.append(zero[j])
        assert head.forms.slopes[i].tolist() == [float(value) for value in row[:-1]]
        assert head.forms.offsets[i] == float(row[-1])


def test_masked_keys_have_no_form_and_no_weight():
    head = small_head(logit_bias=[0.0, -np.inf, 1.0, -np.inf])
    x = np.array([[5.0, -3.0]])
    assert head.unmasked.tolist() == [0, 2]
    assert head.forms.n_forms == 2
    assert head.scores(x)[0, [1, 3]].tolist() == [-np.inf, -np.inf]
    assert head.attention_weights(x, 1.0)[0, [1, 3]].tolist() == [0.0, 0.0]
    assert set(head.winners(np.random.default_rng(0).normal(size=(50, 2)))) <= {0, 2}


def test_masking_a_key_is_the_same_as_leaving_it_out():
    whole, rng = small_head(n_keys=5), np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    bias = np.array([0.0, -np.inf, 0.0, 0.0, -np.inf])
    masked = AttentionHead(
        whole.query_weight, whole.keys, whole.values, whole.output_weight, logit_bias=bias
    )
    kept = [0, 2, 3]
    short = AttentionHead(
        whole.query_weight, whole.keys[kept], whole.values[kept], whole.output_weight
    )
    np.testing.assert_array_equal(masked.winners(x), np.array(kept)[short.winners(x)])
    np.testing.assert_allclose(masked(x), short(x), rtol=1e-13)
    np.testing.assert_allclose(masked.soft(x, 0.7), short.soft(x, 0.7), rtol=1e-13)


@given(heads_and_points(elements=SMALL), st.lists(SMALL, min_size=3, max_size=3))
def test_a_key_bias_changes_no_attention_weight(case, shift):
    """A vector added to every key adds the same <q, b> to every score."""
    head, points = case
    moved = AttentionHead(
        head.query_weight,
        head.keys + shift[: head.head_dim],
        head.values,
        head.output_weight,
        head.query_bias,
        head.logit_bias,
    )
    np.testing.assert_array_equal(moved.tied(points), head.tied(points))
    np.testing.assert_allclose(
        moved.attention_weights(points, 0.5), head.attention_weights(points, 0.5), rtol=1e-11
    )


def test_keys_that_differ_only_in_the_null_space_of_the_query_weight_tie():
    head = AttentionHead(
        [[1.0, 0.0]], [[1.0, 7.0], [1.0, -2.0], [-1.0, 0.0]], [[3.0], [5.0], [0.0]], [[1.0]]
    )
    assert head.first_equal.tolist() == [0, 0, 2]
    assert head.winners(np.array([[2.0], [-2.0]])).tolist() == [0, 2]
    assert head(np.array([[2.0]])).tolist() == [[4.0]]
    assert [head.cell_output(key).tolist() for key in range(3)] == [[4.0], [4.0], [0.0]]


def test_inside_a_cell_the_output_is_that_of_the_cell():
    head = small_head(n_keys=6, logit_bias=[0.0, -np.inf, 0.1, 0.0, 0.2, 0.0])
    x = np.random.default_rng(7).normal(size=(50, 2))
    expected = np.array([head.cell_output(key) for key in head.winners(x)])
    np.testing.assert_allclose(head(x), expected, rtol=1e-13)
    for key, message in ((1, "an unmasked key"), (6, "at most 5"), (-1, "at least 0")):
        with pytest.raises(ArgumentError, match=f"`key` must be {message}"):
            head.cell_output(key)


def test_forms_that_coincide_only_after_rounding_are_not_equal():
    head, _ = COINCIDE_ONLY_ROUNDED
    assert head.first_equal.tolist() == [0, 1]


def test_bias_free_means_that_all_exact_offsets_agree():
    assert small_head().is_bias_free
    assert small_head(logit_bias=[2.0] * 4).is_bias_free
    assert not small_head(query_bias=[1.0, 0.0, 0.0]).is_bias_free
    # The query bias is orthogonal to both keys, so it changes nothing.
    keys = [[1.0, 0.0], [2.0, 0.0]]
    head = AttentionHead(np.eye(2), keys, np.eye(2), np.eye(2), query_bias=[0.0, 9.0])
    assert head.is_bias_free


def test_bias_free_winners_do_not_depend_on_the_length_of_the_input():
    head, rng = small_head(n_keys=6), np.random.default_rng(2)
    x = rng.normal(size=(100, 2))
    np.testing.assert_array_equal(head.winners(x), head.winners(2.0**-1000 * x))


def test_the_smallest_key_can_win():
    """Not the weight of a site decides whether it has a cell, but the hull of the keys."""
    keys = [[0.1, 0.0], [1.0, 1.0], [1.0, -1.0]]
    head = AttentionHead(np.eye(2), keys, np.eye(3), np.eye(3))
    assert head.winners(np.array([-1.0, 0.0])) == 0


@given(heads_and_points())
def test_the_diagrams_in_query_space_and_model_space_route_like_the_head(case):
    """Theorem IV.3 of [SL26] with biases: sites k_j, weights |k_j|^2 + 2 c_j, pulled back."""
    head, points = case
    diagram = head.pulled_back_diagram
    assert diagram.n_sites == head.diagram.n_sites == head.n_keys
    np.testing.assert_array_equal(diagram.locate(points), head.winners(points))
    np.testing.assert_array_equal(diagram.n_winners(points), head.tied(points).sum(axis=1))
    forms, exact = head.score_map.forms, diagram.coefficients
    scale = Fraction(2) ** (forms.exponent - exact.exponent)
    assert (forms.integers * scale == exact.integers[head.unmasked]).all()
    queries = np.rint(points @ np.ones((head.dim, head.head_dim)))
    plain = AttentionHead(
        np.eye(head.head_dim), head.keys, head.values, head.output_weight, None, head.logit_bias
    )
    np.testing.assert_array_equal(head.diagram.locate(queries), plain.winners(queries))


def test_every_winner_found_by_sampling_is_an_active_site():
    head = small_head(n_keys=12, query_bias=[0.3, -0.2, 0.1])
    found = set(head.winners(np.random.default_rng(8).normal(scale=4, size=(2000, 2))).tolist())
    assert found <= set(np.flatnonzero(head.pulled_back_diagram.active).tolist())
    assert len(found) >= 4


def test_keys_of_equal_length_route_to_the_nearest_key():
    """Remark IV.6 of [SL26]: equal norms turn the power diagram into the Voronoi diagram."""
    keys = np.array([[3.0, 4.0], [-5.0, 0.0], [0.0, -5.0], [4.0, -3.0], [-3.0, 4.0]])
    head = AttentionHead(np.eye(2), keys, np.eye(5), np.eye(5))
    q = np.random.default_rng(9).normal(size=(300, 2))
    nearest = np.linalg.norm(q[:, None, :] - keys, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(head.winners(q), nearest)
    assert head.diagram.is_voronoi
    assert head.diagram.active.all()


def test_duplicate_keys_share_the_weight():
    head = AttentionHead(np.eye(1), [[1.0], [1.0], [-1.0]], [[1.0], [2.0], [9.0]], [[1.0]])
    x = np.array([[3.0]])
    assert head.tied(x).tolist() == [[True, True, False]]
    assert head(x).tolist() == [[1.5]]
    assert head.soft(x, 1e-3).tolist() == [[1.5]]
    assert head.attention_weights(x, 0.0).tolist() == [[0.5, 0.5, 0.0]]


def test_equal_keys_average_every_value_everywhere():
    head = AttentionHead(np.eye(2), np.full((4, 2), 0.3), np.eye(4), np.eye(4))
    x = np.random.default_rng(3).normal(size=(20, 2))
    np.testing.assert_array_equal(head(x), np.full((20, 4), 0.25))
    assert head.first_equal.tolist() == [0, 0, 0, 0]


def test_one_key_answers_every_query():
    head = AttentionHead(np.eye(2), [[1.0, 2.0]], [[7.0]], [[1.0]])
    x = np.array([[0.0, 0.0], [1e300, -1e300]])
    for tau in (0.0, 1e-300, 1.0, 1e300):
        assert head.soft(x, tau).tolist() == [[7.0], [7.0]]


def test_a_head_of_dimension_one_without_bias_has_at_most_two_cells():
    rng = np.random.default_rng(4)
    head = AttentionHead([[1.0]], rng.normal(size=(9, 1)), rng.normal(size=(9, 1)), [[1.0]])
    winners = set(head.winners(rng.normal(size=(500, 1))).tolist())
    assert winners == {int(head.keys.argmax()), int(head.keys.argmin())}


def test_no_points_give_no_answers_of_the_right_shape():
    head, none = small_head(), np.empty((0, 2))
    assert head(none).shape == (0, 2)
    assert head.winners(none).shape == (0,)
    assert head.soft(none, 0.5).shape == (0, 2)
    assert head.attention_weights(none, 0.0).shape == (0, 4)
    assert head.potential(none, 0.0).shape == (0,)
    assert head.potential_hessian(none, 1.0).shape == (0, 2, 2)


def test_a_single_point_drops_the_leading_axis():
    head, x = small_head(), np.array([0.3, -0.4])
    for method, shape in [
        (head, (2,)),
        (head.scores, (4,)),
        (head.winners, ()),
        (lambda p: head.soft(p, 1.0), (2,)),
        (lambda p: head.potential(p, 1.0), ()),
        (lambda p: head.potential_gradient(p, 1.0), (2,)),
        (lambda p: head.potential_hessian(p, 1.0), (2, 2)),
        (lambda p: head.jacobian(p, 1.0), (2, 2)),
    ]:
        assert np.shape(method(x)) == shape
        np.testing.assert_array_equal(method(x), method(x[None, :])[0])


def test_the_standard_temperature_is_the_square_root_of_the_head_dimension():
    rng = np.random.default_rng(5)
    head = AttentionHead(np.eye(9), rng.normal(size=(5, 9)), np.eye(5), np.eye(5))
    x = rng.normal(size=9)
    logits = x @ head.keys.T / np.sqrt(9)
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(head.soft(x, head.standard_temperature), expected, rtol=1e-13)


def test_many_points_are_decided_in_pieces():
    """The batch is larger than one chunk of scores."""
    head, rng = small_head(n_keys=700), np.random.default_rng(6)
    x = rng.normal(size=(7000, 2))
    np.testing.assert_array_equal(head.winners(x), head.scores(x).argmax(axis=1))
    np.testing.assert_allclose(head.potential(x, 0.0), head.scores(x).max(axis=1))


def test_arrays_of_a_head_are_read_only_copies():
    keys = np.ones((2, 1))
    head = AttentionHead(np.eye(1), keys, keys, np.eye(1))
    keys[0] = 5.0
    assert head.keys[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        head.keys[0] = 2.0


def test_the_reference_itself_averages_a_tie():
    head = AttentionHead(np.eye(1), [[1.0], [-1.0]], [[1.0], [-1.0]], [[1.0]])
    assert attention.tied(head, np.array([0.0])) == [True, True]
    assert attention.hard_output(head, np.array([0.0])) == [Fraction(0)]
