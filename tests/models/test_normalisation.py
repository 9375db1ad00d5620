"""RMSNorm and LayerNorm before the queries: linear where nothing is added, quadric otherwise."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, HardmaxError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.normalisation import (
    Normalisation,
    NormalisedRouting,
    NormalisedWall,
    sign_with_root,
)
from tests.models.test_heads import heads_and_points, small_head
from tests.reference import attention
from tests.strategies import SMALL
from tests.sweeps import examples

DYADIC = st.integers(-(2**18), 2**18).map(lambda n: n / 2**16)


@st.composite
def routings(draw, biased=True):
    elements = draw(st.sampled_from([SMALL, DYADIC]))
    head, points = draw(heads_and_points(elements=elements))
    if not biased:
        mask = (
            None if head.logit_bias is None else np.minimum(0.0 * np.isfinite(head.logit_bias), 0)
        )
        if head.logit_bias is not None:
            mask = np.where(np.isfinite(head.logit_bias), 0.0, -np.inf)
        head = AttentionHead(
            head.query_weight, head.keys, head.values, head.output_weight, None, mask
        )
    vectors = arrays(np.float64, head.dim, elements=elements)
    shift = draw(st.one_of(st.none(), vectors)) if biased else None
    epsilon = draw(st.sampled_from([0.0, 1e-5, 1.0]))
    kind = draw(st.sampled_from(["rms", "layer"]))
    routing = NormalisedRouting(head, Normalisation(kind, draw(vectors), shift, epsilon))
    centred = points - points.mean(axis=1, keepdims=True) if kind == "layer" else points
    defined = (np.abs(centred) > 1e-9).any(axis=1) | (epsilon > 0)
    return routing, points[defined]


def true_scores(routing, x):
    """The scores of the normalised point in high precision, None where masked."""
    norm, head, d = routing.normalisation, routing.head, routing.head.dim
    point = [attention.real(value) for value in attention.exact(x)]
    if norm.kind == "layer":
        mean = mpmath.fsum(point) / d
        point = [value - mean for value in point]
    size = mpmath.sqrt(mpmath.fsum(value**2 for value in point) / d + mpmath.mpf(norm.epsilon))
    shift = [0.0] * d if norm.shift is None else norm.shift
    y = [
        mpmath.mpf(float(g)) * value / size + mpmath.mpf(float(h))
        for g, value, h in zip(norm.gain, point, shift, strict=True)
    ]
    offsets = attention.scores(head, np.zeros(d))
    slopes = attention.slopes(head)
    return [
        None if offset is None else mpmath.fdot(slope, y) + attention.real(offset)
        for slope, offset in zip(slopes, offsets, strict=True)
    ]


@examples(100)
@given(routings())
def test_winners_match_high_precision(case):
    routing, points = case
    for x in points:
        with mpmath.workdps(160):
            scores = true_scores(routing, x)
            best = max(score for score in scores if score is not None)
            close = [
                score is not None and score > best - mpmath.mpf(10) ** -120 for score in scores
            ]
        assert routing.tied(x).tolist() == close
        assert routing.winners(x) == close.index(True)


@given(routings(biased=False))
def test_without_biases_the_routing_is_that_of_an_ordinary_head(case):
    routing, points = case
    expected = "unchanged" if routing.normalisation.kind == "rms" else "pulled back"
    assert routing.kind == expected
    np.testing.assert_array_equal(routing.linear_head.tied(points), routing.tied(points))


def test_rms_norm_with_unit_gain_leaves_every_winner_alone():
    head = small_head(n_keys=7, dim=3)
    x = np.random.default_rng(0).normal(size=(200, 3))
    routing = NormalisedRouting(head, Normalisation("rms", np.ones(3), epsilon=1e-6))
    np.testing.assert_array_equal(routing.winners(x), head.winners(x))
    np.testing.assert_array_equal(routing.linear_head.query_weight, head.query_weight)
    assert "has the same winners" in routing.explanation


def test_layer_norm_forgets_the_mean_and_the_scale():
    head, rng = small_head(n_keys=7, dim=4), np.random.default_rng(1)
    routing = NormalisedRouting(head, Normalisation("layer", rng.normal(size=4)))
    x = rng.integers(-20, 21, (100, 4)).astype(float)
    x = x[(x != x[:, :1]).any(axis=1)]
    np.testing.assert_array_equal(routing.winners(x), routing.winners(8 * x + 3.0))
    assert routing.kind == "pulled back"


def test_the_exact_weight_is_a_sum_of_matrices_where_the_product_does_not_fit():
    rng = np.random.default_rng(2)
    head, gain = small_head(n_keys=5, dim=3), rng.normal(size=3)
    linear = NormalisedRouting(head, Normalisation("layer", gain)).linear_head
    n_parts = linear.head_dim // head.head_dim
    assert n_parts >= 2
    total = sum(
        np.vectorize(Fraction)(part) for part in np.split(linear.query_weight, n_parts, axis=1)
    )
    product = np.vectorize(Fraction)(head.query_weight) * np.vectorize(Fraction)(gain)[:, None]
    assert (total == 3 * product - product.sum(axis=0)).all()


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_the_soft_head_is_the_linear_head_at_a_temperature_of_its_own(kind):
    head, rng = small_head(n_keys=5, dim=4), np.random.default_rng(3)
    norm = Normalisation(kind, rng.normal(size=4), epsilon=1e-5)
    routing = NormalisedRouting(head, norm)
    for x in rng.normal(size=(10, 4)):
        tau = routing.temperature(x, 0.3)
        np.testing.assert_allclose(
            routing.linear_head.soft(x, tau), head.soft(norm(x), 0.3), rtol=1e-10
        )


def test_the_floats_of_a_normalisation_are_those_of_its_formula():
    x, gain, shift = np.array([[1.0, 2.0, 6.0]]), np.array([1.0, 2.0, -1.0]), np.full(3, 0.5)
    rms = Normalisation("rms", gain, shift, 0.25)
    np.testing.assert_allclose(rms(x), gain * x / np.sqrt((x**2).mean() + 0.25) + shift)
    layer = Normalisation("layer", gain, shift, 0.25)
    np.testing.assert_allclose(layer(x), gain * (x - 3) / np.sqrt(x.var() + 0.25) + shift)
    np.testing.assert_allclose(Normalisation("rms", np.ones(3))(1e300 * x), rms_of(x))
    np.testing.assert_allclose(Normalisation("rms", np.ones(3))(1e-300 * x), rms_of(x))


def rms_of(x):
    return x / np.sqrt((x**2).mean())


def test_biases_that_agree_on_all_keys_change_nothing():
    keys = np.array([[1.0, 0.0], [3.0, 0.0], [-1.0, 0.0]])
    rms = Normalisation("rms", np.ones(2))

    def kind(norm=rms, **kwargs):
        head = AttentionHead(np.eye(2), keys, np.eye(3), np.eye(3), **kwargs)
        return NormalisedRouting(head, norm).kind

    assert kind(query_bias=[0.0, 5.0]) == "unchanged"
    assert kind(logit_bias=[2.0, 2.0, 2.0]) == "unchanged"
    assert kind(logit_bias=[2.0, 2.0, -np.inf]) == "unchanged"
    assert kind(query_bias=[1.0, 0.0]) == "quadric"
    assert kind(logit_bias=[2.0, 2.0, 1.0]) == "quadric"
    assert kind(norm=Normalisation("rms", np.ones(2), shift=[0.0, 1.0])) == "unchanged"
    assert kind(norm=Normalisation("layer", np.ones(2), shift=[1.0, 0.0])) == "quadric"


def test_a_copy_of_a_key_with_a_smaller_bias_makes_no_wall():
    keys = [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    head = AttentionHead(np.eye(2), keys, np.eye(3), np.eye(3), logit_bias=[0.0, -2.0, 0.0])
    routing = NormalisedRouting(head, Normalisation("rms", np.ones(2)))
    assert routing.kind == "unchanged"
    assert routing.eligible.tolist() == [True, False, True]
    x = np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(routing.linear_head.tied(x), routing.tied(x))
    assert routing.wall(0, 1).kind == "none"
    assert routing.wall(0, 1).sign(x).tolist() == [1, 1, 1]


def cone_example(epsilon=0.0):
    """c = (3, -1), b = -2: the cone (7u + v)(u - v) = 0, its half where 3u - v > 0."""
    keys = np.array([[3.0, -1.0], [0.0, 0.0]])
    head = AttentionHead(np.eye(2), keys, np.eye(2), np.eye(2), logit_bias=[-2.0, 0.0])
    return NormalisedRouting(head, Normalisation("rms", np.ones(2), epsilon=epsilon))


def test_signs_along_a_cone_are_exact():
    routing = cone_example()
    wall = routing.wall(0, 1)
    assert (routing.kind, wall.kind) == ("quadric", "cone")
    assert "quadrics" in routing.explanation
    assert routing.linear_head is None
    scales = np.array([2.0**-300, 1.0, 3.0, 2.0**300])
    for direction, inwards in (([1.0, 1.0], [0.0, -1.0]), ([1.0, -7.0], [0.0, 1.0])):
        points = scales[:, None] * np.array(direction)
        assert wall.sign(points).tolist() == [0, 0, 0, 0]
        assert routing.tied(points).all()
        assert wall.quadric.sign(points).tolist() == [0, 0, 0, 0]
        step = 2.0**-45 * scales[:, None] * np.array(inwards)
        assert wall.sign(points + step).tolist() == [1, 1, 1, 1]
        assert wall.sign(points - step).tolist() == [-1, -1, -1, -1]
        # The mirror image solves the squared equation, and is no wall.
        assert wall.sign(-points).tolist() == [-1, -1, -1, -1]
        assert wall.quadric.sign(-points).tolist() == [0, 0, 0, 0]
    assert wall.quadric.conic == "crossing lines"
    np.testing.assert_array_equal(wall.sign(-scales[:, None] * [3.0, -1.0]), -np.ones(4))
    reverse = routing.wall(1, 0)
    x = np.random.default_rng(4).normal(size=(50, 2))
    np.testing.assert_array_equal(reverse.sign(x), -wall.sign(x))


def test_a_positive_epsilon_rounds_the_cone_to_a_hyperboloid():
    """3u - v = 2 rho: at (2, 2) it is 4 against 2 sqrt(4 + eps); at (3, 1) 8 against sqrt(36)."""
    wall = cone_example(epsilon=4.0).wall(0, 1)
    assert wall.kind == "hyperboloid"
    assert wall.quadric.conic == "hyperbola"
    assert wall.sign(np.array([[2.0, 2.0], [3.0, 1.0], [0.0, 0.0]])).tolist() == [-1, 1, -1]
    # 5u = 2 rho with v = -2u: 25 u^2 = 4 (5 u^2 / 2 + eps), so u = 1 and eps = 15/4.
    on = cone_example(epsilon=3.75).wall(0, 1)
    assert on.sign(np.array([[1.0, -2.0], [-1.0, 2.0]])).tolist() == [0, -1]
    assert on.sign(np.array([1.0 + 2.0**-50, -2.0])) == 1


@pytest.mark.parametrize(
    ("height", "epsilon", "kind"),
    [
        (0, 0.0, "hyperplane"),
        (1, 0.0, "cone"),
        (2, 0.0, "ray"),
        (3, 0.0, "none"),
        (1, 1.0, "hyperboloid"),
        (2, 1.0, "none"),
    ],
)
def test_the_height_decides_the_kind_of_wall(height, epsilon, kind):
    """c = (1, 1) in the plane: d |c|^2 = 4."""
    norm = Normalisation("rms", np.ones(2), epsilon=epsilon)
    wall = NormalisedWall(np.array([Fraction(1), Fraction(1)]), Fraction(height), norm)
    assert wall.kind == kind
    ring = np.linspace(0, 2 * np.pi, 101)
    points = np.stack([np.cos(ring), np.sin(ring)], axis=1)
    signs = set(np.concatenate([wall.sign(points), wall.sign(1e6 * points)]).tolist())
    assert ({-1, 1} <= signs) == (kind in ("hyperplane", "cone", "hyperboloid"))
    if kind == "ray":
        assert wall.sign(np.array([[-1.0, -1.0], [-2.0, -2.0], [1.0, 1.0]])).tolist() == [0, 0, 1]
    nothing = NormalisedWall(np.array([Fraction(0), Fraction(0)]), Fraction(0), norm)
    assert nothing.kind == "everywhere"


def test_layer_norm_walls_contain_the_constant_vectors():
    head = small_head(dim=3, query_bias=[0.05, -0.1, 0.025])
    routing = NormalisedRouting(head, Normalisation("layer", np.ones(3), epsilon=0.5))
    wall = routing.wall(0, 1)
    x = np.random.default_rng(5).integers(-9, 10, (50, 3)).astype(float)
    np.testing.assert_array_equal(wall.sign(x), wall.sign(x + 7.0))
    assert {-1, 1} <= set(wall.sign(100 * x).tolist())


@given(st.fractions(-9, 9), st.fractions(-9, 9), st.fractions(0, 9))
def test_the_sign_of_a_sum_with_a_square_root_matches_high_precision(u, v, w):
    with mpmath.workdps(80):
        value = attention.real(u) + attention.real(v) * mpmath.sqrt(attention.real(w))
        assume(abs(value) > mpmath.mpf(10) ** -60 or value == 0)
        expected = 0 if abs(value) < mpmath.mpf(10) ** -60 else int(mpmath.sign(value))
    assert sign_with_root(u, v, w) == expected


def test_the_sign_of_a_perfect_cancellation_is_zero():
    assert sign_with_root(Fraction(-3, 2), Fraction(1), Fraction(9, 4)) == 0
    assert sign_with_root(Fraction(0), Fraction(5), Fraction(0)) == 0


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_a_point_of_size_zero_has_no_answer_without_epsilon(kind):
    head, x = small_head(dim=2), np.array([[1.0, 2.0], [0.0, 0.0]])
    norm = Normalisation(kind, np.ones(2))
    for call in (norm, NormalisedRouting(head, norm).winners):
        with pytest.raises(ArgumentError, match=r"`x` must not have size 0.* point 1"):
            call(x)
    with_epsilon = Normalisation(kind, np.ones(2), epsilon=1.0)
    assert NormalisedRouting(head, with_epsilon).tied(x)[1].all()


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ArgumentError, match="`kind`"):
        Normalisation("batch", np.ones(2))
    with pytest.raises(HardmaxError, match="`gain`"):
        Normalisation("rms", [np.nan])
    with pytest.raises(ShapeMismatchError, match="`shift`"):
        Normalisation("rms", np.ones(2), np.ones(3))
    with pytest.raises(ArgumentError, match="`epsilon`"):
        Normalisation("rms", np.ones(2), epsilon=-1.0)
    with pytest.raises(ArgumentError, match="`normalisation`"):
        NormalisedRouting(small_head(dim=2), Normalisation("rms", np.ones(3)))
    masked = small_head(dim=2, logit_bias=[0.0, -np.inf, 0.0, 0.0])
    routing = NormalisedRouting(masked, Normalisation("rms", np.ones(2)))
    with pytest.raises(ArgumentError, match="`second` must be an unmasked key"):
        routing.wall(0, 1)
    with pytest.raises(ShapeMismatchError, match="`x`"):
        routing.winners(np.ones(3))
    huge = NormalisedRouting(
        AttentionHead([[1e300]], [[1.0], [2.0]], np.eye(2), np.eye(2)),
        Normalisation("rms", [1e300]),
    )
    assert huge.winners(np.array([[1.0], [-1.0]])).tolist() == [1, 0]
    with pytest.raises(ArgumentError, match="`gain` times `query_weight`"):
        huge.linear_head
