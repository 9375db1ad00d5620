"""The soft head at every temperature: against high precision, finite differences, theorems."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hardmax.errors import NonFiniteError
from hardmax.models.heads import AttentionHead
from hardmax.models.soft_attention import covariance_factor, log_sums, normalise_weights
from tests.models.test_heads import COINCIDE_ONLY_ROUNDED, MODERATE, heads_and_points, small_head
from tests.reference import attention
from tests.strategies import SMALL
from tests.sweeps import examples

TEMPERATURES = [5e-324, 1e-300, 1e-150, 1e-30, 1e-16, 1e-8, 1e-3, 0.3, 1.0, 8.0, 1e4, 1e16, 1e300]
temperatures = st.one_of(st.sampled_from(TEMPERATURES), st.floats(1e-20, 1e20))
WEIGHT_ERROR = 1e-10  # `ScoreMap.weight_error` in these dimensions, summed over the keys.


def as_float(values):
    return np.array([float(value) for value in values])


@examples(75)
@example(COINCIDE_ONLY_ROUNDED, 2.0**-110)
@example(COINCIDE_ONLY_ROUNDED, 1e-33)
@given(heads_and_points(), temperatures)
def test_weights_match_high_precision_at_every_temperature(case, tau):
    head, points = case
    got = head.attention_weights(points, tau)
    for x, row in zip(points, got, strict=True):
        with mpmath.workdps(attention.DIGITS):
            expected = as_float(attention.weights(head, x, tau))
        np.testing.assert_allclose(row, expected, rtol=WEIGHT_ERROR, atol=1e-320)


@given(heads_and_points())
def test_weights_at_temperature_zero_are_uniform_on_the_exact_winners(case):
    head, points = case
    tied = np.array([attention.tied(head, x) for x in points]).reshape(len(points), head.n_keys)
    expected = tied / tied.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(head.attention_weights(points, 0.0), expected)


@given(heads_and_points(elements=MODERATE), temperatures)
def test_the_soft_output_matches_high_precision(case, tau):
    head, points = case
    scale = 1 + np.abs(head.values).max() * np.abs(head.output_weight).sum()
    for x in points:
        expected = as_float(attention.soft_output(head, x, tau))
        np.testing.assert_allclose(head.soft(x, tau), expected, atol=1e-10 * scale)


@given(heads_and_points(elements=MODERATE), temperatures)
def test_the_potential_matches_high_precision(case, tau):
    head, points = case
    _, radii = head.score_map.enclose(points)
    for x, radius in zip(points, radii, strict=True):
        error = mpmath.mpf(float(head.potential(x, tau))) - attention.potential(head, x, tau)
        assert abs(error) <= radius.max() + 1e-10 * tau


@examples(40)
@given(heads_and_points(elements=st.one_of(SMALL, MODERATE)), temperatures)
def test_derivatives_match_high_precision(case, tau):
    """Errors are measured against the size of the terms, which may cancel in W_Q and W_O."""
    head, points = case
    for x in points[:1]:
        with mpmath.workdps(attention.DIGITS):
            p = attention.weights(head, x, tau)
            top = max(range(head.n_keys), key=lambda j: p[j])
            spread = mpmath.fsum(
                pj * float(np.linalg.norm(k - head.keys[top])) ** 2
                for pj, k in zip(p, head.keys, strict=True)
            )
            values = mpmath.fsum(
                pj * float(np.linalg.norm(v - head.values[top])) ** 2
                for pj, v in zip(p, head.values, strict=True)
            )
            weight = float(np.abs(head.query_weight).sum())
            curvature = float(weight**2 * spread / mpmath.mpf(tau))
            turn = float(
                weight
                * float(np.abs(head.output_weight).sum())
                * mpmath.sqrt(spread * values)
                / mpmath.mpf(tau)
            )
            hessian = np.array([as_float(row) for row in attention.hessian(head, x, tau)])
            jacobian = np.array([as_float(row) for row in attention.jacobian(head, x, tau)])
        assume(np.isfinite(curvature) and np.isfinite(turn))
        tiny = 1e-300  # Below this the square roots and products lose digits to underflow.
        error = np.abs(head.potential_hessian(x, tau) - hessian)
        assert (error <= 1e-10 * curvature + tiny).all()
        error = np.abs(head.jacobian(x, tau) - jacobian)
        assert (error <= 1e-10 * turn + tiny).all()
        gradient = as_float(attention.gradient(head, x, tau))
        np.testing.assert_allclose(
            head.potential_gradient(x, tau), gradient, atol=1e-10 * (1 + weight) * 25
        )


@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0, 8.0, 1e3])
def test_derivatives_match_finite_differences(tau):
    head, rng = small_head(n_keys=5, dim=3, query_bias=[0.2, -0.1, 0.4]), np.random.default_rng(7)
    x, step = tau * rng.normal(size=3), 1e-5 * tau

    def difference(function):
        rows = [
            (function(x + step * e, tau) - function(x - step * e, tau)) / (2 * step)
            for e in np.eye(3)
        ]
        return np.stack(rows, axis=-1)

    np.testing.assert_allclose(
        difference(head.potential), head.potential_gradient(x, tau), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        tau * difference(head.potential_gradient), tau * head.potential_hessian(x, tau), atol=1e-7
    )
    np.testing.assert_allclose(tau * difference(head.soft), tau * head.jacobian(x, tau), atol=1e-7)


def test_a_hessian_far_from_every_wall_keeps_its_digits():
    """Two keys +-1: the Hessian is (1/tau) sech^2(x/tau), here 4e-261 where 1 - p is 0."""
    head = AttentionHead(np.eye(1), [[1.0], [-1.0]], [[1.0], [-1.0]], np.eye(1))
    with mpmath.workdps(400):
        expected = float(mpmath.sech(300) ** 2)
    assert 0 < expected < 1e-250
    np.testing.assert_allclose(head.potential_hessian(np.array([300.0]), 1.0), [[expected]])
    np.testing.assert_allclose(head.jacobian(np.array([300.0]), 1.0), [[expected]])


def test_a_hessian_of_keys_far_from_zero_keeps_its_digits():
    """Two keys c +- 1 with a large c: rounding their mean to 2^-15 would drown the variance."""
    keys = 366_503_875_925.0 + np.array([[1.0], [-1.0]])
    head = AttentionHead(np.eye(1), keys, keys, np.eye(1))
    for x in np.arange(40, 140) / 8:
        with mpmath.workdps(60):
            expected = float(mpmath.sech(x) ** 2)
        np.testing.assert_allclose(head.potential_hessian(np.array([x]), 1.0), [[expected]])
        np.testing.assert_allclose(head.jacobian(np.array([x]), 1.0), [[expected]])


def test_derivatives_at_the_smallest_temperatures_are_zero_or_huge_or_refused():
    head = AttentionHead(np.eye(1), [[1.0], [-1.0]], [[1.0], [-1.0]], np.eye(1))
    for method in (head.potential_hessian, head.jacobian):
        assert method(np.array([1.0]), 5e-324).tolist() == [[0.0]]
        assert method(np.array([0.0]), 1e-300).tolist() == [[pytest.approx(1e300)]]
        with pytest.raises(NonFiniteError, match="`tau` is too small"):
            method(np.array([0.0]), 5e-324)


def test_derivatives_of_huge_keys_do_not_overflow_on_the_way():
    huge = 1.5e308
    head = AttentionHead([[1.0 / huge]], [[huge], [-huge]], [[huge], [-huge]], [[1.0 / huge]])
    expected = 1 / np.cosh(0.5) ** 2
    assert head.potential_hessian(np.array([0.5]), 1.0).item() == pytest.approx(expected)
    assert head.jacobian(np.array([0.5]), 1.0).item() == pytest.approx(expected)


@given(heads_and_points(elements=MODERATE), temperatures)
def test_the_hessian_is_symmetric_and_positive_semidefinite(case, tau):
    head, points = case
    assume(tau > 1e-12)
    for hessian in head.potential_hessian(points, tau):
        np.testing.assert_array_equal(hessian, hessian.T)
        assert np.linalg.eigvalsh(hessian).min() >= -1e-12 * (1 + np.abs(hessian).max())


@given(heads_and_points(elements=SMALL))
def test_the_soft_head_tends_to_the_hard_head_everywhere(case):
    """On walls too. Distinct integer scores differ by 1 at least, so tau = 1e-3 is the limit."""
    head, points = case
    np.testing.assert_allclose(head.soft(points, 1e-3), head(points), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(head.soft(points, 1e-300), head(points), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(head.soft(points, 0.0), head(points))


@given(heads_and_points(elements=SMALL))
def test_a_huge_temperature_averages_all_unmasked_values(case):
    head, points = case
    mean = head.values[head.unmasked].mean(axis=0) @ head.output_weight
    np.testing.assert_allclose(
        head.soft(points, 1e300), np.tile(mean, (len(points), 1)), rtol=1e-12, atol=1e-12
    )


@given(heads_and_points(elements=MODERATE), st.floats(1e-6, 1e6))
def test_the_potential_lies_above_the_maximum_by_at_most_tau_log_n(case, tau):
    head, points = case
    _, radii = head.score_map.enclose(points)
    gap = head.potential(points, tau) - head.potential(points, 0.0)
    slack = 2 * radii.max(axis=1) + 1e-12 * tau
    assert (gap >= -slack).all()
    assert (gap <= tau * np.log(len(head.unmasked)) + slack).all()


def separated(n_keys, margin):
    """A head whose scores at 0 are 0 for key 0 and -margin for its rivals, keys the basis."""
    keys, bias = np.eye(n_keys), np.full(n_keys, -margin)
    bias[0] = 0.0
    return AttentionHead(np.eye(n_keys), keys, keys, np.eye(n_keys), logit_bias=bias)


@pytest.mark.parametrize("n_keys", [2, 3, 10])
@pytest.mark.parametrize("ratio", [0.5, 4.0, 40.0])
def test_the_bounds_at_a_margin_are_attained_by_equally_strong_rivals(n_keys, ratio):
    """With r = exp(-margin/tau): value, gradient and output bounds with equality, and the
    Hessian norm N r / (1 + (N-1) r)^2 / tau, above the (N-1) r / tau of [SL26] for small r."""
    tau, r = 0.25, np.exp(-ratio)
    head, origin = separated(n_keys, 0.25 * ratio), np.zeros(n_keys)
    rivals = (n_keys - 1) * r
    np.testing.assert_allclose(head.potential(origin, tau), tau * np.log1p(rivals), rtol=1e-12)
    distance = np.abs(head.potential_gradient(origin, tau) - np.eye(n_keys)[0]).sum()
    np.testing.assert_allclose(distance, 2 * rivals / (1 + rivals), rtol=1e-9, atol=1e-15)
    norm = np.linalg.norm(head.potential_hessian(origin, tau), 2)
    np.testing.assert_allclose(norm, n_keys * r / (1 + rivals) ** 2 / tau, rtol=1e-9)
    assert norm <= n_keys * r / (1 + r) ** 2 / tau * (1 + 1e-12)
    if n_keys == 2:
        np.testing.assert_allclose(norm, n_keys * r / (1 + r) ** 2 / tau, rtol=1e-9)
    if ratio == 40.0:
        assert norm > rivals / tau


@given(heads_and_points(elements=MODERATE), st.floats(0.05, 50.0))
def test_the_output_is_within_its_bound_of_the_winning_value(case, tau):
    head, points = case
    values, n_rivals = head.values @ head.output_weight, len(head.unmasked) - 1
    for x in points:
        scores = np.sort(head.scores(x)[head.unmasked])
        margin = scores[-1] - scores[-2] if n_rivals else np.inf
        r = np.exp(-margin / tau)
        winner = values[head.winners(x)]
        spread = np.linalg.norm(values[head.unmasked] - winner, axis=1).max()
        bound = spread * n_rivals * r / (1 + n_rivals * r)
        assert np.linalg.norm(head.soft(x, tau) - winner) <= bound + 1e-9


def test_covariances_agree_with_numpy():
    rng = np.random.default_rng(8)
    weights, vectors = normalise_weights(-rng.exponential(size=(1, 6)))[0], rng.normal(size=(6, 3))
    factor = covariance_factor(weights, vectors, int(weights.argmax()), 2.0)
    expected = np.cov(vectors.T, aweights=weights, ddof=0) / 2.0
    np.testing.assert_allclose(factor.T @ factor, expected, rtol=1e-12)


def test_log_sums_agree_with_scipy():
    from scipy.special import logsumexp

    logs = -np.random.default_rng(9).exponential(size=(20, 5))
    logs[:, 2] = 0.0
    np.testing.assert_allclose(log_sums(logs), logsumexp(logs, axis=1), rtol=1e-14)
