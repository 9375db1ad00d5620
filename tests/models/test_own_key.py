"""The query token's own key: quadric walls, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, HardmaxError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.own_key import OwnKeyRouting
from tests.models.test_heads import heads_and_points, small_head
from tests.reference import attention


@st.composite
def routings(draw):
    head, points = draw(heads_and_points())
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weight = rng.integers(-2, 3, (head.dim, head.head_dim)).astype(float)
    bias = draw(st.sampled_from([None, rng.integers(-2, 3, head.head_dim).astype(float)]))
    return OwnKeyRouting(head, weight, bias, draw(st.sampled_from([0.0, -1.5]))), points


def scores_with_own(routing, x):
    head, point = routing.head, attention.exact(x)
    columns = [attention.exact(column) for column in routing.key_weight.T]
    bias = [Fraction(0)] * head.head_dim
    if routing.key_bias is not None:
        bias = attention.exact(routing.key_bias)
    own_key = [attention.dot(point, c) + b for c, b in zip(columns, bias, strict=True)]
    own = attention.dot(attention.query(head, x), own_key) + Fraction(routing.own_bias)
    return [*attention.scores(head, x), own]


@given(routings())
def test_winners_walls_and_ties_match_the_definition(case):
    routing, points = case
    for x in points:
        scores = scores_with_own(routing, x)
        best = max(score for score in scores if score is not None)
        assert routing.tied(x).tolist() == [score == best for score in scores]
        assert routing.winners(x) == scores.index(best)
        for j in routing.head.unmasked.tolist():
            gap = scores[-1] - scores[j]
            assert routing.wall(j).sign(x) == (gap > 0) - (gap < 0)


def test_the_wall_of_the_smallest_example_is_a_circle():
    """x . x = x . k with k = (1, 0): radius 1/2 about (1/2, 0)."""
    head = AttentionHead(np.eye(2), [[1.0, 0.0]], [[1.0]], [[1.0]])
    routing = OwnKeyRouting(head, np.eye(2))
    wall = routing.wall(0)
    assert wall.conic == "circle"
    assert wall.centre.tolist() == [Fraction(1, 2), 0]
    assert wall.level == Fraction(1, 4)
    on = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, -0.5], [0.0, 0.0]])
    assert wall.sign(on).tolist() == [0, 0, 0, 0]
    assert routing.tied(on).all()
    centre = np.array([0.5, 0.0])
    for stretch, side in ((1 - 2.0**-40, -1), (1 + 2.0**-40, 1)):
        beside = centre + stretch * (on - centre)
        assert wall.sign(beside).tolist() == [side] * 4
        assert routing.winners(beside).tolist() == [int(side > 0)] * 4


@pytest.mark.parametrize(
    ("form", "conic"),
    [
        ([[1.0, 0.0], [0.0, 2.0]], "ellipse"),
        ([[1.0, 0.0], [0.0, -2.0]], "hyperbola"),
        ([[1.0, 0.0], [0.0, 0.0]], "parabola"),
        ([[0.0, 1.0], [-1.0, 0.0]], "line"),
    ],
)
def test_the_query_and_key_weights_decide_the_type_of_the_wall(form, conic):
    """Only the symmetric part of W_Q W_K^T counts: a rotation by 90 degrees leaves a line."""
    head = AttentionHead(np.eye(2), [[1.0, 1.0]], [[1.0]], [[1.0]])
    assert OwnKeyRouting(head, np.array(form).T).wall(0).conic == conic


def test_a_positive_form_makes_fixed_cells_convex_and_a_negative_one_the_own_cell():
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, (300, 2))
    head = AttentionHead(np.eye(2), rng.normal(size=(4, 2)), np.eye(4), np.eye(4))
    for sign, convex in ((1.0, range(4)), (-1.0, [4])):
        routing = OwnKeyRouting(head, sign * np.eye(2), own_bias=sign * -0.5)
        names = routing.winners(points)
        for name in convex:
            members = points[names == name]
            if len(members) > 1:
                middles = (members[:-1] + members[1:]) / 2
                assert (routing.winners(middles) == name).all()
        assert len(set(names.tolist())) > 2


def test_far_out_the_own_key_wins_where_the_form_is_positive():
    routing = OwnKeyRouting(small_head(dim=2), small_head(dim=2).query_weight)
    directions = np.random.default_rng(1).normal(size=(50, 2))
    assert (routing.winners(1e6 * directions) == 4).all()


def test_bad_arguments_are_refused_by_name():
    head = small_head(logit_bias=[0.0, -np.inf, 0.0, 0.0])
    with pytest.raises(ShapeMismatchError, match="`key_weight`"):
        OwnKeyRouting(head, np.eye(2))
    with pytest.raises(HardmaxError, match="`key_weight`"):
        OwnKeyRouting(head, np.full((2, 3), np.nan))
    with pytest.raises(ShapeMismatchError, match="`key_bias`"):
        OwnKeyRouting(head, np.ones((2, 3)), np.zeros(2))
    with pytest.raises(HardmaxError, match="`own_bias`"):
        OwnKeyRouting(head, np.ones((2, 3)), own_bias=np.inf)
    routing = OwnKeyRouting(head, np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="`key` must be an unmasked key"):
        routing.wall(1)
    with pytest.raises(ArgumentError, match="`key`"):
        routing.wall(4)
    with pytest.raises(ShapeMismatchError, match="`x`"):
        routing.winners(np.zeros(3))
