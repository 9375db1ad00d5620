"""The sharp bounds of one head: against high precision, at equality, against an adversary."""

import json

import mpmath as mp
import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from typer.testing import CliRunner

from hardmax import stability as sb
from hardmax.cli.stability import stability
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, NonFiniteError
from tests.reference import stability as reference
from tests.sweeps import examples

SIZES = st.integers(2, 40)
RATIOS = st.one_of(st.just(0.0), st.floats(1e-3, 60.0))
TAUS = st.floats(1e-3, 1e3)


def at_margin(n, delta):
    """Scores with every rival exactly at the margin."""
    return [mp.mpf(0)] + [-mp.mpf(float(delta))] * (n - 1)


def is_just_above(bound, exact):
    """A bound that is true and off by roundings only."""
    return exact <= mp.mpf(float(bound)) <= exact * (1 + mp.mpf(2) ** -51) + mp.mpf(2) ** -1073


@given(SIZES, RATIOS, TAUS)
def test_value_and_gradient_bounds_are_attained_when_all_rivals_sit_at_the_margin(n, ratio, tau):
    delta = ratio * tau
    scores, t = at_margin(n, delta), mp.mpf(tau)
    value = reference.log_sum_exp(scores, t)
    rivals = mp.fsum(reference.softmax(scores, t)[1:])
    assert is_just_above(sb.value_bound(n, delta, tau), value)
    assert is_just_above(sb.rival_mass_bound(n, delta, tau), rivals)
    assert is_just_above(sb.gradient_bound(n, delta, tau), 2 * rivals)


def best_hessian(n, ratio):
    r = mp.exp(-mp.mpf(float(ratio)))
    return max((m + 1) * r / (1 + m * r) ** 2 for m in range(1, n))


@given(SIZES, RATIOS)
def test_the_hessian_bound_is_the_best_of_all_numbers_of_rivals_on_the_margin(n, ratio):
    exact = best_hessian(n, ratio)
    assert is_just_above(sb.hessian_bound(n, ratio, 1.0), exact)
    assert is_just_above(sb.lipschitz_bound(n, ratio, 1.0), exact)
    assert is_just_above(sb.taylor_bound(n, ratio, 1.0), exact / 2)
    assert sb.hessian_closed_bound(n, ratio, 1.0) >= sb.hessian_bound(n, ratio, 1.0)


@given(st.floats(0.0, 30.0), TAUS)
def test_two_keys_attain_the_hessian_bound_and_its_closed_form(ratio, tau):
    delta = ratio * tau
    p = reference.softmax(at_margin(2, delta), mp.mpf(tau))
    assert is_just_above(sb.hessian_bound(2, delta, tau), reference.hessian_norm(p) / tau)
    assert is_just_above(sb.hessian_closed_bound(2, delta, tau), reference.hessian_norm(p) / tau)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("delta", [0.0, 0.3, 1.0, 2.5, 5.0])
def test_an_adversary_reaches_the_hessian_bound_and_never_exceeds_it(n, delta):
    rng = np.random.default_rng(n)

    def curvature(gaps):
        p = np.exp(-np.append(0.0, gaps))
        p /= p.sum()
        values, vectors = np.linalg.eigh(np.diag(p) - np.outer(p, p))
        v = vectors[:, -1] - p @ vectors[:, -1]
        # The derivative of the eigenvalue by the logarithm of a weight.
        slope = p * (v**2 - values[-1])
        return -values[-1], slope[1:]

    best = 0.0
    for _ in range(8):
        start = delta + rng.exponential(2.0, n - 1) * rng.integers(0, 2, n - 1)
        bounds = [(delta, delta + 50.0)] * (n - 1)
        best = max(best, -minimize(curvature, start, jac=True, bounds=bounds).fun)
    bound = float(sb.hessian_bound(n, delta, 1.0))
    assert best <= bound * (1 + 1e-12)
    assert best >= 0.999 * bound


@given(st.integers(1, 6), st.floats(1e-3, 0.999), st.floats(0.01, 0.99))
def test_a_rival_between_nothing_and_the_margin_is_never_best(m, r, share):
    def norm(y):
        weights = [mp.mpf(1)] + [mp.mpf(r)] * m + [mp.mpf(y)]
        total = mp.fsum(weights)
        return reference.hessian_norm([w / total for w in weights])

    with mp.workdps(30):
        assert norm(share * r) <= max(norm(0), norm(r)) * (1 + mp.mpf(10) ** -25)


@pytest.mark.parametrize("n", [2, 3, 8, 512])
def test_the_claimed_hessian_bound_fails_exactly_beyond_its_threshold(n):
    threshold = float(sb.claimed_hessian_fails_beyond(n))
    for ratio, fails in ((threshold * (1 + 1e-6), True), (threshold * (1 - 1e-6), False)):
        sharp, claim = sb.hessian_bound(n, ratio, 1.0), sb.claimed_hessian_bound(n, ratio, 1.0)
        assert (sharp > claim) == fails
        p = reference.softmax(at_margin(n, ratio), mp.mpf(1))
        # diag(p) - p p^T has the eigenvalue N p_1 p_2 when all rivals are equal.
        assert (n * p[0] * p[1] > mp.mpf(float(claim))) == fails


def test_the_claimed_gradient_bound_holds_and_is_loose_at_small_margins():
    assert sb.claimed_gradient_bound(512, 2.0, 1.0) > 60 * sb.gradient_bound(512, 2.0, 1.0)
    assert sb.claimed_value_bound(7, 1.0, 2.0) == sb.value_bound(7, 1.0, 2.0)
    assert sb.claimed_lipschitz_bound(7, 1.0, 2.0) == 2 * sb.claimed_taylor_bound(7, 1.0, 2.0)


@examples(40)
@given(st.integers(2, 6), st.floats(0.0, 6.0), st.integers(0, 10**6))
def test_gradients_and_taylor_remainders_obey_their_constants(n, delta, seed):
    rng = np.random.default_rng(seed)
    gaps = delta + rng.exponential(1.5, (2, n - 1))
    first, second = ([mp.mpf(0), *(-mp.mpf(float(g)) for g in row)] for row in gaps)
    with mp.workdps(40):
        p, q = (reference.softmax(s, mp.mpf(1)) for s in (first, second))
        step = [b - a for a, b in zip(first, second, strict=True)]
        length = mp.sqrt(mp.fsum(d * d for d in step))
        change = mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(p, q, strict=True)))
        low, high = (reference.log_sum_exp(s, mp.mpf(1)) for s in (first, second))
        remainder = abs(high - low - reference.dot(p, step))
        assert change <= mp.mpf(float(sb.lipschitz_bound(n, delta, 1.0))) * length
        assert remainder <= mp.mpf(float(sb.taylor_bound(n, delta, 1.0))) * length**2


@pytest.mark.parametrize(("n", "delta"), [(2, 1.0), (4, 3.0), (6, 0.2)])
def test_lipschitz_and_taylor_constants_are_sharp(n, delta):
    r = np.exp(-delta)
    m = max(range(1, n), key=lambda k: (k + 1) * r / (1 + k * r) ** 2)
    scores = np.array([0.0] + [-delta] * m + [-delta - 60.0] * (n - 1 - m))
    p = np.exp(scores) / np.exp(scores).sum()
    direction = np.linalg.eigh(np.diag(p) - np.outer(p, p))[1][:, -1]
    # Towards larger margins: the winner up, the others down.
    direction *= np.sign(direction[0]) * 1e-4
    first, second = ([mp.mpf(float(x)) for x in s] for s in (scores, scores + direction))
    one = mp.mpf(1)
    before, after = reference.softmax(first, one), reference.softmax(second, one)
    change = mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(before, after, strict=True)))
    growth = reference.log_sum_exp(second, one) - reference.log_sum_exp(first, one)
    step = [b - a for a, b in zip(first, second, strict=True)]
    remainder = growth - reference.dot(before, step)
    assert float(change / 1e-4) > 0.999 * sb.lipschitz_bound(n, delta, 1.0)
    assert float(remainder / mp.mpf("1e-8")) > 0.999 * sb.taylor_bound(n, delta, 1.0)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 300.0, 744.0, 1e3, 1e4])
@pytest.mark.parametrize("tau", [1e-200, 1.0, 1e200])
def test_logarithms_of_bounds_are_right_where_the_bounds_underflow(ratio, tau):
    n, delta = 512, ratio * tau
    r, t = mp.exp(-mp.mpf(delta) / mp.mpf(tau)), mp.mpf(tau)
    exact = {
        sb.value_bound: t * mp.log1p((n - 1) * r),
        sb.rival_mass_bound: (n - 1) * r / (1 + (n - 1) * r),
        sb.gradient_bound: 2 * (n - 1) * r / (1 + (n - 1) * r),
        sb.hessian_bound: max((m + 1) * r / (1 + m * r) ** 2 for m in range(1, n)) / t,
        sb.claimed_gradient_bound: 2 * (n - 1) * r,
        sb.claimed_hessian_bound: (n - 1) * r / t,
        sb.claimed_taylor_bound: (n - 1) * r / (2 * t),
    }
    for bound, number in exact.items():
        logarithm = mp.mpf(float(bound(n, delta, tau, log=True)))
        assert 0 <= logarithm - mp.log(number) <= mp.mpf(2) ** -50 * (1 + abs(mp.log(number)))
        assert mp.mpf(float(bound(n, delta, tau))) >= number


def test_one_key_has_no_rivals():
    for bound in (sb.value_bound, sb.rival_mass_bound, sb.hessian_bound, sb.taylor_bound):
        assert bound(1, 0.0, 1.0) == 0.0
        assert bound(1, 0.0, 1.0, log=True) == -np.inf


@given(SIZES, st.floats(0.01, 50.0), st.floats(1e-6, 0.9))
def test_temperature_and_margin_are_inverse_and_safe(n, delta, epsilon):
    tau = float(sb.temperature_for_accuracy(n, delta, epsilon))
    if np.isinf(tau):
        assert epsilon >= 1 - 1 / n - 1e-12
        assert sb.margin_for_accuracy(n, 1.0, epsilon) == 0.0
        return
    with mp.workdps(60):
        r = mp.exp(-mp.mpf(delta) / mp.mpf(tau))
        assert (n - 1) * r / (1 + (n - 1) * r) <= mp.mpf(epsilon)
    assert sb.margin_for_accuracy(n, tau, epsilon) == pytest.approx(delta, rel=1e-12)
    assert sb.accuracy(n, delta, tau) == pytest.approx(epsilon, rel=1e-9)
    assert sb.necessary_margin(tau, epsilon) <= sb.margin_for_accuracy(n, tau, epsilon)


def test_two_keys_need_exactly_the_necessary_margin():
    assert sb.necessary_margin(0.7, 0.03) == pytest.approx(
        sb.margin_for_accuracy(2, 0.7, 0.03), rel=1e-15
    )
    assert sb.standard_temperature(64) == 8.0
    assert sb.claimed_temperature(64) == 0.125


def covariance_norm(p, v, k):
    v, k = np.atleast_2d(v.T).T, np.atleast_2d(k.T).T
    centred = (p[:, None] * (v - p @ v)).T @ (k - p @ k)
    return np.linalg.norm(centred, 2)


@pytest.mark.parametrize("n", [3, 5, 9])
def test_values_and_keys_on_both_sides_attain_the_jacobian_bound(n):
    delta, tau = 0.8, 0.5
    p = np.array([1.0] + [np.exp(-delta / tau)] * (n - 1))
    p /= p.sum()
    sides = np.array([0.0] + [1.0] * ((n - 1) // 2) + [-1.0] * ((n - 1) // 2))
    exact = covariance_norm(p, 3 * sides, 2 * sides) / tau
    assert sb.jacobian_bound(n, delta, tau, 3.0, 2.0) == pytest.approx(exact, rel=1e-13)


def test_all_rivals_at_one_place_attain_the_other_jacobian_bound_and_the_output_bound():
    n, delta, tau = 6, 1.3, 0.4
    p = np.array([1.0] + [np.exp(-delta / tau)] * (n - 1))
    p /= p.sum()
    place = np.array([0.0] + [1.0] * (n - 1))
    exact = covariance_norm(p, 3 * place, 2 * place) / tau
    bound = sb.jacobian_bound(n, delta, tau, 3.0, 2.0, 3.0, 2.0)
    assert bound == pytest.approx(exact, rel=1e-13)
    assert sb.output_bound(n, delta, tau, 3.0) == pytest.approx(3 * (1 - p[0]), rel=1e-13)


@examples(100)
@given(st.integers(2, 7), st.floats(0.0, 4.0), st.integers(0, 10**6))
def test_no_values_and_keys_exceed_the_jacobian_bound(n, delta, seed):
    rng = np.random.default_rng(seed)
    gaps = delta + rng.exponential(0.5, n - 1) * rng.integers(0, 2, n - 1)
    p = np.exp(-np.append(0.0, gaps))
    p /= p.sum()
    v, k = rng.choice([-1.0, 0.0, 1.0], (2, n, 2)) * rng.uniform(0.5, 1.0, (2, n, 2))
    distances = [np.linalg.norm(a - a[0], axis=1).max() for a in (v, k)]
    wide = [np.linalg.norm(a[:, None] - a, axis=2).max() for a in (v, k)]
    bound = float(sb.jacobian_bound(n, delta, 1.0, *distances, *wide))
    assert covariance_norm(p, v, k) <= bound * (1 + 1e-12) + 1e-15
    output = np.linalg.norm(p @ (v - v[0]))
    assert output <= float(sb.output_bound(n, delta, 1.0, distances[0])) * (1 + 1e-12) + 1e-15


@given(st.integers(2, 12), TAUS)
def test_the_soft_mean_gap_is_attained(n, tau):
    omega = mp.lambertw((n - 1) / mp.e).real
    z = [mp.mpf(0)] + [-mp.mpf(tau) * (1 + omega)] * (n - 1)
    gap = -reference.dot(reference.softmax(z, mp.mpf(tau)), z)
    assert is_just_above(sb.soft_mean_gap(n, tau), gap * (1 - mp.mpf(10) ** -50))


@given(st.integers(2, 12), st.floats(1e-3, 40.0))
def test_the_soft_mean_gap_is_attained_at_every_large_margin(n, beyond):
    delta = float(1 + mp.lambertw((n - 1) / mp.e).real) + beyond
    z = at_margin(n, delta)
    gap = -reference.dot(reference.softmax(z, mp.mpf(1)), z)
    assert is_just_above(sb.soft_mean_gap(n, 1.0, delta), gap)


@given(st.integers(2, 8), st.floats(0.0, 10.0), st.integers(0, 10**6))
def test_no_numbers_exceed_the_soft_mean_gap(n, delta, seed):
    rng = np.random.default_rng(seed)
    z = np.append(0.0, -delta - rng.exponential(1.0, n - 1) * rng.integers(0, 2, n - 1))
    p = np.exp(z) / np.exp(z).sum()
    assert -(p @ z) <= float(sb.soft_mean_gap(n, 1.0, delta)) * (1 + 1e-12)


def test_bounds_broadcast():
    assert sb.value_bound([[2], [3]], [0.0, 1.0, 2.0], 1.0).shape == (2, 3)
    assert sb.jacobian_bound([2, 3], 1.0, 1.0, 1.0, 1.0).shape == (2,)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sb.value_bound(0, 1.0, 1.0), ArgumentError),
        (lambda: sb.value_bound(2.5, 1.0, 1.0), DtypeError),
        (lambda: sb.value_bound("two", 1.0, 1.0), DtypeError),
        (lambda: sb.hessian_bound(2, -1.0, 1.0), ArgumentError),
        (lambda: sb.hessian_bound(2, 1.0, 0.0), ArgumentError),
        (lambda: sb.gradient_bound(2, np.nan, 1.0), NonFiniteError),
        (lambda: sb.gradient_bound([2, 3], [1.0, 2.0, 3.0], 1.0), ArgumentError),
        (lambda: sb.claimed_hessian_fails_beyond(1), ArgumentError),
        (lambda: sb.margin_for_accuracy(3, 1.0, 0.0), ArgumentError),
        (lambda: sb.margin_for_accuracy(3, 1.0, 1.0), ArgumentError),
        (lambda: sb.temperature_for_accuracy(3, -1.0, 0.1), ArgumentError),
        (lambda: sb.output_bound(3, 1.0, 1.0, -1.0), ArgumentError),
        (lambda: sb.jacobian_bound(3, 1.0, 1.0, 1.0, np.inf), NonFiniteError),
        (lambda: sb.soft_mean_gap(3, -1.0), ArgumentError),
        (lambda: sb.stability_table(3, 1.0, 0), ArgumentError),
        (lambda: sb.stability_table(3, 1.0, 2, tau=0.0), ArgumentError),
    ],
)
def test_bad_arguments_are_named(call, error):
    with pytest.raises(error, match=r"`\w+` must"):
        call()


def test_example_vi_2_is_reproduced_and_corrected():
    table = sb.stability_table(512, 2.0, 64)
    claim, sharp, raw, scaled = table.columns
    assert (claim.tau, sharp.tau, raw.tau, scaled.tau) == (0.125, 0.125, 8.0, 1.0)
    assert claim.value == pytest.approx(7.18e-6, rel=2e-3)
    assert claim.gradient == pytest.approx(1.15e-4, rel=1e-3)
    assert claim.hessian == pytest.approx(4.6004e-4, rel=1e-4)
    assert sharp.hessian == pytest.approx(4.6089e-4, rel=1e-4)
    assert 1 - sharp.rival_mass > 0.99994
    assert 1 - raw.rival_mass == pytest.approx(0.0025, abs=1e-5)
    assert 1 - scaled.rival_mass == pytest.approx(0.0143, abs=1e-4)
    assert repr(table) == "StabilityTable(N=512, margin=2, d_k=64, temperatures 0.125, 0.125, 8, 1)"


@pytest.fixture
def app():
    app = typer.Typer()
    app.command()(stability)
    return app


def test_the_command_prints_both_temperatures(app):
    arguments = ["--keys", "512", "--margin", "2", "--d-k", "64", "--tau", "3"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for text in ("[SL26]", "tau = 0.125", "tau = 8", "tau = 1", "tau = 3", "0.00046089"):
        assert text in result.output


def test_the_command_prints_json(app):
    arguments = ["--keys", "4", "--margin", "1", "--d-k", "16", "--epsilon", "0.2", "--json"]
    fields = json.loads(CliRunner().invoke(app, arguments).output)
    assert fields["n_keys"] == 4
    assert [column["tau"] for column in fields["columns"]] == [0.25, 0.25, 4.0, 1.0]


def test_the_command_refuses_bad_input(app):
    result = CliRunner().invoke(app, ["--keys", "0", "--margin", "1", "--d-k", "16"])
    assert isinstance(result.exception, HardmaxError)
