"""Certificates of heads and networks: true in high precision, and close to the truth."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import stability as sb
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.evaluation import forward, soft
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from tests.reference import stability as reference
from tests.stability_models import SIGN, integer_transformer, random_head, random_transformer
from tests.sweeps import examples

TAUS = st.sampled_from([0.03, 0.1, 0.5, 2.0])
SEEDS = st.integers(0, 10**6)


@pytest.fixture(autouse=True, scope="module")
def many_digits():
    """Differences of soft and hard are as small as 1e-400 here, and are formed by subtraction."""
    with mp.workdps(600):
        yield


def lists(x):
    return [mp.mpf(float(v)) for v in x]


def true_difference(head, x, tau):
    """Soft minus hard of a head, in high precision."""
    soft = reference.head_output(head, lists(x), mp.mpf(tau))[1]
    hard = reference.head_output(head, lists(x), None)[1]
    return [a - b for a, b in zip(soft, hard, strict=True)]


@examples(40)
@given(SEEDS, TAUS, st.integers(1, 6))
def test_the_distance_of_a_head_is_certified_and_tight(seed, tau, n_keys):
    rng = np.random.default_rng(seed)
    head, x = random_head(rng, 2, n_keys), 2 * rng.normal(size=2)
    certificate = sb.certify_head(head, x, tau)
    true = mp.norm(mp.matrix(true_difference(head, x, tau)))
    bound = mp.mpf(float(certificate.distance[0]))
    assert true <= bound <= true * (1 + mp.mpf(2) ** -50) + mp.mpf(2) ** -1070
    assert certificate.distance_from_margin[0] >= certificate.distance[0] * (1 - 1e-15)
    rivals = sorted(reference.head_output(head, lists(x), mp.mpf(tau))[0])[:-1]
    assert mp.fsum(rivals) <= mp.mpf(float(certificate.rival_mass[0]))


def true_jacobian(head, x, tau):
    """The derivative of a soft head from its definition as a covariance, in high precision."""
    p, _ = reference.head_output(head, lists(x), mp.mpf(tau))
    arrays = (head.values, head.output_weight, head.keys, head.query_weight)
    v, w_o, k, w_q = (mp.matrix(reference.exact(array)) for array in arrays)
    values, slopes = v * w_o, k * w_q.T
    weights = mp.diag(p) - mp.matrix(p) * mp.matrix(p).T
    return values.T * weights * slopes / tau


@examples(30)
@given(SEEDS, TAUS, st.integers(2, 6))
def test_the_jacobian_of_a_head_is_certified_and_tight(seed, tau, n_keys):
    rng = np.random.default_rng(seed)
    head, x = random_head(rng, 3, n_keys, 3), 2 * rng.normal(size=3)
    certificate = sb.certify_head(head, x, tau)
    norm = mp.svd_r(true_jacobian(head, x, tau), compute_uv=False)[0]
    bound = mp.mpf(float(certificate.jacobian[0]))
    assert norm <= bound * (1 + mp.mpf(10) ** -40) <= norm * mp.mpf(3) ** (mp.mpf(1) / 32) * 1.0001
    assert certificate.jacobian_from_margin[0] >= certificate.jacobian[0] / 3 ** (1 / 32) * 0.9999


def test_two_keys_make_the_margin_bounds_exact():
    points = np.array([[0.0], [0.3], [5.0], [-40.0]])
    found = sb.certify_head(SIGN, points, 0.7)
    assert found.distance_from_margin == pytest.approx(found.distance, rel=1e-12)
    assert found.jacobian_from_margin == pytest.approx(found.jacobian, rel=1e-12)
    assert found.jacobian[1] == pytest.approx(1 / np.cosh(0.3 / 0.7) ** 2 / 0.7, rel=1e-12)
    assert found.winners.tolist() == [0, 1, 1, 0]


def test_copies_of_the_winner_are_no_rivals():
    keys, values = [[1.0], [1.0], [-1.0]], [[0.0], [2.0], [7.0]]
    head = AttentionHead(np.eye(1), keys, values, np.eye(1))
    found = sb.certify_head(head, [1.5], 1.0)
    rest = np.exp(-3.0) / (2 + np.exp(-3.0))
    assert found.margins[0] == 3.0
    assert found.rival_mass[0] == pytest.approx(rest, rel=1e-12)
    assert found.distance[0] == pytest.approx(6 * rest, rel=1e-12)
    everywhere = AttentionHead(np.eye(1), keys[:2], values[:2], np.eye(1))
    alone = sb.certify_head(everywhere, [1.5], 1.0)
    assert (alone.margins[0], alone.rival_mass[0], alone.distance[0]) == (np.inf, 0.0, 0.0)


def test_query_space_is_the_head_without_its_maps():
    rng = np.random.default_rng(3)
    keys, values, q = rng.normal(size=(5, 2)), rng.normal(size=(5, 3)), rng.normal(size=(4, 2))
    bias = np.array([0.0, -np.inf, 0.5, 0.0, 0.0])
    found = sb.certify_queries(keys, values, q, 0.5, logit_bias=bias)
    head = AttentionHead(np.eye(2), keys, values, np.eye(3), logit_bias=bias)
    assert np.array_equal(found.distance, sb.certify_head(head, q, 0.5).distance)
    assert np.array_equal(found.winners, head.winners(q))
    exact = np.linalg.norm(head.soft(q, 0.5) - head(q), axis=1)
    assert found.distance == pytest.approx(exact, rel=1e-9)


def test_tiny_temperatures_and_huge_scores_lose_nothing():
    found = sb.certify_head(SIGN, [[1e-290], [1e300]], 1e-300)
    assert found.distance.tolist() == [5e-324, 5e-324]
    assert found.margins.tolist() == [2e-290, 2e300]
    soft = sb.certify_soft(SIGN, [[1e-290]], 1e-300)
    assert soft.error[0] == 5e-324
    assert soft.log_error[0] == pytest.approx(-2e10, rel=1e-9)


def certificate_holds(model, certificate, x, tau, row=0):
    """Compare one row with the definition; returns the true norm of soft minus hard."""
    n = len(model.blocks)
    soft, weights = reference.transformer(model, x, [mp.mpf(tau)] * n)
    hard, winners = reference.transformer(model, x, [None] * n)
    difference = [a - b for a, b in zip(soft, hard, strict=True)]
    for value, low, high in zip(
        difference, certificate.lower[row], certificate.upper[row], strict=True
    ):
        assert mp.mpf(float(low)) <= value <= mp.mpf(float(high))
    for p, won, rival in zip(weights, winners, certificate.rival_masses[row], strict=True):
        lost = mp.fsum(q for q, w in zip(p, won, strict=True) if not w)
        assert lost <= mp.mpf(float(rival))
    norm = mp.norm(mp.matrix(difference))
    assert norm <= mp.mpf(float(certificate.error[row]))
    return norm


@examples(30)
@given(SEEDS, TAUS, st.integers(1, 3))
def test_soft_transformers_are_enclosed_and_the_bound_is_the_error(seed, tau, depth):
    model = random_transformer(seed, depth=depth)
    x = 2 * np.random.default_rng(seed).normal(size=2)
    certificate = sb.certify_soft(model, x, tau)
    norm = certificate_holds(model, certificate, x, tau)
    assert certificate.error[0] <= norm * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -300
    if norm > 0 and certificate.error[0] > 1e-300:
        assert certificate.log_error[0] == pytest.approx(float(mp.log(norm)), abs=1e-8)


@examples(30)
@given(SEEDS, TAUS, st.integers(-3, 3), st.integers(-3, 3))
def test_ties_and_copies_are_enclosed_too(seed, tau, a, b):
    model = integer_transformer(seed)
    x = np.array([a / 2, b / 2])
    certificate = sb.certify_soft(model, x, tau)
    norm = certificate_holds(model, certificate, x, tau)
    assert certificate.error[0] <= norm * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -40


@examples(25)
@given(SEEDS, TAUS, st.sampled_from([1e-3, 0.02, 0.2]))
def test_a_cube_covers_the_soft_network_at_all_its_points(seed, tau, radius):
    model = random_transformer(seed, n_keys=3)
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=2)
    certificate = sb.certify_soft(model, x, tau, radius)
    if not certificate.is_covered[0]:
        assert certificate.error[0] == np.inf
        return
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    moves = np.vstack([0.999999 * corners, rng.uniform(-1, 1, (3, 2))])
    for move in moves:
        certificate_holds(model, certificate, x + radius * move, tau)


def test_cubes_stay_close_to_the_truth_where_margins_are_moderate():
    model = random_transformer(11, depth=1)
    rng = np.random.default_rng(0)
    x = 2 * rng.normal(size=(40, 2))
    cubes = sb.certify_soft(model, x, 0.2, 0.01)
    near = x[:, None] + 0.01 * np.array([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)])
    flat = near.reshape(-1, 2)
    errors = np.linalg.norm(model.soft(flat, 0.2) - model(flat), axis=1).reshape(40, 9)
    chosen = cubes.is_covered & (sb.measure_margins(model, x).scores.min(axis=1) > 0.2)
    assert chosen.sum() > 10
    assert np.median(cubes.error[chosen] / errors.max(axis=1)[chosen]) < 2.0


def test_a_cube_that_meets_a_wall_is_not_covered():
    model = HardTransformer([Block([SIGN])])
    found = sb.certify_soft(model, [[0.5], [0.5], [0.0]], 1.0, radius=0.5)
    assert not found.is_covered.any()
    assert sb.certify_soft(model, [[0.5]], 1.0, radius=0.4999).is_covered.all()


def test_each_block_may_have_its_temperature():
    model = random_transformer(4)
    x = np.array([0.3, -0.7])
    found = sb.certify_soft(model, x, [0.2, 0.0])
    true = model.soft(x, [0.2, 0.0]) - model(x)
    assert (found.lower[0] - 1e-12 <= true).all()
    assert (true <= found.upper[0] + 1e-12).all()
    assert found.taus == (0.2, 0.2, 0.0, 0.0)
    cold = sb.certify_soft(model, x, 0.0)
    assert cold.error[0] == 0.0
    assert cold.rival_masses.max() == 0.0


def test_hard_heads_after_soft_ones_are_followed_to_every_key_that_may_win():
    # The first block moves the stream across the wall of the second.
    first = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-3.0], [0.0]], [[1.0]])
    model = HardTransformer([Block([first]), Block([SIGN])])
    found = sb.certify_soft(model, [0.1], [1.0, 0.0])
    true = model.soft([0.1], [1.0, 0.0]) - model([0.1])
    assert true[0] < -2.0
    assert found.lower[0, 0] <= true[0] <= found.upper[0, 0]
    assert found.upper[0, 0] - found.lower[0, 0] < 1e-12
    assert found.rival_masses[0].tolist()[1] == 1.0


def test_units_that_change_sides_are_noticed():
    relu = ReluNetwork([[[1.0]], [[1.0]]])
    assert sb.certify_soft(relu, [1.0], 1.0).units_agree.all()
    model = random_transformer(1, depth=1)
    x = 2 * np.random.default_rng(0).normal(size=(60, 2))
    for tau in (0.5, 0.05):
        found = sb.certify_soft(model, x, tau)
        u = x + sum(head.soft(x, tau) for head in model.blocks[0].heads)
        z = x + sum(head(x) for head in model.blocks[0].heads)
        ffn = model.blocks[0].ffn
        same = ((u @ ffn.w_in + ffn.b_in > 0) == (z @ ffn.w_in + ffn.b_in > 0)).all(axis=1)
        assert np.array_equal(found.units_agree, same)


def test_groups_with_gains_of_their_own_stay_hard_and_are_enclosed():
    identity = AffineMap.identity(1)
    head = ArgmaxLayer(
        identity, [[-1.0], [1.0]], [0.0, 0.0], [0, 2], [0], [0.0, 0.0], [[-1.0], [1.0]],
        identity, True,
    )  # fmt: skip
    odd = ArgmaxLayer(
        identity, [[1.0], [-1.0]], [0.0, 3.0], [0, 2], [0], [2.0, -1.0], [[0.5], [4.0]],
        identity, False,
    )  # fmt: skip
    network = ArgmaxNetwork((head, odd), identity, identity)
    x = np.linspace(-2, 2, 41)[:, None] + 0.013
    found = sb.certify_soft(network, x, 0.8)
    true = soft(network, x, 0.8) - forward(network, x)
    assert (found.lower - 1e-12 <= true).all()
    assert (true <= found.upper + 1e-12).all()
    assert np.median(found.upper - found.lower) < 1e-12


def test_models_without_heads_are_their_own_limit():
    net = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
    found = sb.certify_soft(net, [[1.0], [-2.0]], 5.0)
    assert found.error.tolist() == [0.0, 0.0]
    assert found.rival_masses.shape == (2, 0)


def test_curves_of_certified_errors_stay_above_the_measured_ones():
    rng = np.random.default_rng(2)
    head, x = random_head(rng, 2, 5), rng.normal(size=(5, 2))
    curves = sb.error_curves(head, x, [1.0, 0.03, 0.3], radius=0.001)
    assert curves.taus.tolist() == [0.03, 0.3, 1.0]
    assert (curves.certified >= curves.measured - 1e-14).all()
    assert (curves.from_margin >= curves.certified * (1 - 1e-12)).all()
    assert (curves.on_cubes[np.isfinite(curves.on_cubes)] > 0).all()
    block = sb.error_curves(Block([head], attention_residual=False), x, [0.3])
    assert block.certified[0] == pytest.approx(curves.certified[1], rel=1e-12)
    assert np.isnan(block.from_margin).all()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sb.certify_head("head", [0.0], 1.0), DtypeError),
        (lambda: sb.certify_head(SIGN, [0.0, 1.0], 1.0), ShapeMismatchError),
        (lambda: sb.certify_head(SIGN, [0.0], 0.0), ArgumentError),
        (lambda: sb.certify_head(SIGN, [np.nan], 1.0), NonFiniteError),
        (lambda: sb.certify_queries([1.0], [[1.0]], [0.0], 1.0), ShapeMismatchError),
        (lambda: sb.certify_queries([[1.0]], [[1.0], [2.0]], [0.0], 1.0), ShapeMismatchError),
        (lambda: sb.certify_soft(SIGN, [0.0], -1.0), ArgumentError),
        (lambda: sb.certify_soft(SIGN, [0.0], 1.0, radius=-1.0), ArgumentError),
        (lambda: sb.certify_soft(3, [0.0], 1.0), DtypeError),
        (lambda: sb.certify_soft(random_transformer(0), [0.0, 0.0], [1.0] * 5), ShapeMismatchError),
        (lambda: sb.error_curves(SIGN, [0.0], [0.0]), ArgumentError),
    ],
)
def test_bad_arguments_are_named(call, error):
    with pytest.raises(error, match=r"`\w+` must"):
        call()


def test_certificates_say_what_they_hold():
    assert repr(sb.certify_head(SIGN, [[1.0]], 1.0)).startswith("HeadCertificate(tau=1, 1 point,")
    assert "rival masses <=" in repr(sb.certify_soft(SIGN, [[1.0], [2.0]], 1.0))
