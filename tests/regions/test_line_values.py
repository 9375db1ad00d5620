"""Values at points of a line: the kernels against rational arithmetic, bound by bound."""

from ctypes import byref, c_double
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models.argmax import AffineMap
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines.line_composition import LineForms
from hardmax.regions._lines.line_search import LineSearch
from hardmax.regions._lines.packed_layers import PackedMaps, packed_layers
from hardmax.regions._lines.rectified_lines import _PAUSED, RectifiedLine, _End, _end
from tests.sweeps import examples

FINITE = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
ZERO, ONE = Fraction(0), Fraction(1)


def exact(values):
    return [Fraction(float(x)) for x in np.ravel(values)]


def exact_row(inputs, weight, bias):
    """One affine map in rational arithmetic; the last entry is the weight of the point."""
    columns = [exact(column) for column in weight.T]
    return [
        sum((x * w for x, w in zip(inputs[:-1], column, strict=True)), inputs[-1] * Fraction(b))
        for column, b in zip(columns, exact(bias), strict=True)
    ]


def point(ends, t):
    """A point between two ends, homogeneous: `t` is a pair of weights of the ends."""
    return [t[0] * a + t[1] * b for a, b in zip(*ends, strict=True)]


def states_at(net, ends, t, n_layers):
    """Which units of the first layers are on at a point."""
    row, states = point(ends, t), []
    for weight, bias in list(zip(net.weights, net.biases, strict=True))[:n_layers]:
        values = exact_row(row, weight, bias)
        states.append([value > 0 for value in values])
        row = [*(max(value, ZERO) for value in values), row[-1]]
    return states


def continued(net, ends, t, states):
    """The next pre-activations at a point, with units on as they are elsewhere."""
    row = point(ends, t)
    for layer, on in enumerate(states):
        values = exact_row(row, net.weights[layer], net.biases[layer])
        row = [*(v if is_on else ZERO for v, is_on in zip(values, on, strict=True)), row[-1]]
    return exact_row(row, net.weights[len(states)], net.biases[len(states)])


def column_norms(record):
    """The norms of the columns of a map, where the core reads them."""
    return np.frombuffer((c_double * record.n_out).from_address(record.omega))


def search(net, start, end, places=FINITE):
    """Yield for each layer the points, as exact weights of both ends, with rows and scales."""
    line = RectifiedLine(LineSearch(net.network, None))
    line.most_rows = np.ones(line.n_layers, dtype=np.int64)  # It pauses before each layer.
    line.reach = 4.0
    none = np.empty(0, dtype=np.uint8)
    ends = [_End(*end) for end in zip((start, end), (0.0, 0.0), places, strict=True)]
    run = line._run_between(0, ends, none, (None, None))
    points = [(ONE, ZERO), (ZERO, ONE)]
    for index in range(line.n_layers):
        yield points, run.rows
        rows = run.rows[0]
        status, run, *_ = line._advance(run)
        if status != _PAUSED:
            return
        points = refined(points, rows, index, run.rows[4])


def refined(points, rows, index, names):
    """Put the new points between the old ones: exact means with rounded weights."""
    after, old = [points[0]], 0
    for name in names[1:]:
        if name[0] != index:
            old += 1
            after.append(points[old])
            continue
        a, b = np.abs(rows[old : old + 2, name[1] // 2])
        part = Fraction(float(a / (a + b)))
        both = zip(points[old], points[old + 1], strict=True)
        after.append(tuple((1 - part) * x + part * y for x, y in both))
    return after


def check_radii(net, start, end, places=FINITE):
    """Whether all values are within their radii of the true forms on both sides of each point."""
    layers = packed_layers(net.network)
    ends = [[*exact(start), Fraction(places[0, 1])], [*exact(end), Fraction(places[1, 1])]]
    n_layers, worst = 0, 0.0
    for index, (points, (rows, scales, *_)) in enumerate(search(net, start, end, places)):
        omega, biases = column_norms(layers.packed.records[index]), net.biases[index]
        radii = (scales[:, :1] + scales[:, 1:2]) * omega + scales[:, 2:] * np.abs(biases)
        for k, (left, right) in enumerate(pairwise(points)):
            middle = tuple((x + y) / 2 for x, y in zip(left, right, strict=True))
            states = states_at(net, ends, middle, index)
            for t, i in ((left, k), (right, k + 1)):
                true = continued(net, ends, t, states)
                gaps = [abs(Fraction(float(v)) - f) for v, f in zip(rows[i], true, strict=True)]
                allowed = [Fraction(float(r)) + Fraction(1, 2**900) for r in radii[i]]
                assert all(gap <= most for gap, most in zip(gaps, allowed, strict=True))
                worst = max(worst, *(float(g / r) for g, r in zip(gaps, allowed, strict=True)))
        n_layers += 1
    return n_layers, worst


def gaussian(rng, sizes):
    return ReluNetwork(
        [rng.normal(size=pair) for pair in pairwise(sizes)],
        [rng.normal(size=n) for n in sizes[1:]],
    )


@examples(25)
@given(st.integers(0, 10**6))
def test_values_are_within_their_radii(seed):
    rng = np.random.default_rng(seed)
    sizes = [2, *rng.integers(1, 7, rng.integers(1, 5)), 1]
    net = gaussian(rng, sizes)
    check_radii(net, *(3.0 * rng.normal(size=(2, 2))))


@pytest.mark.parametrize("seed", range(4))
def test_values_towards_infinity_are_within_their_radii(seed):
    rng = np.random.default_rng(seed)
    net = gaussian(rng, [2, 5, 5, 4, 1])
    places = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    n_layers, _ = check_radii(net, *rng.normal(size=(2, 2)), places)
    assert n_layers == 3


def cancelling(rng, along, width, size=1e7):
    """Weights of some size whose products with two rows are of size 1."""
    basis, _ = np.linalg.qr(along.T)
    wild = size * rng.normal(size=(along.shape[1], width))
    return wild - basis @ (basis.T @ wild) + basis @ rng.normal(size=(2, width))


@pytest.mark.parametrize("depth", [2, 3])
def test_what_one_layer_rounds_is_in_the_radii_of_all_later_ones(depth):
    """Large weights that cancel in the first layer: its rounding exceeds that of later layers."""
    rng = np.random.default_rng(depth)
    ends = rng.normal(size=(2, 30))
    weights = [cancelling(rng, ends, 4), *rng.normal(size=(depth - 1, 4, 4)), np.ones((4, 1))]
    net = ReluNetwork(weights, [5.0 * np.abs(rng.normal(size=4)) for _ in range(depth)] + [[0.0]])
    layers = packed_layers(net.network)
    (_, (_, scales, *_)), *_ = reversed(list(search(net, *ends)))
    n_layers, worst = check_radii(net, *ends)
    assert n_layers == depth
    # Without what comes from the first layer the radii would be too small.
    assert scales[:, 0].min() > 1e3 * scales[:, 1].max()
    assert worst > 1e-3
    assert layers.packed.records[0].kappa < 1e-13


def size_of(row, units=()):
    """The norm of the units that are on or among those given, rounded down."""
    kept = [x for j, x in enumerate(row.tolist()) if x > 0.0 or j in units]
    return np.linalg.norm(kept) * (1.0 - 1e-12) if kept else 0.0


@pytest.mark.parametrize("seed", range(6))
def test_radii_have_every_term_of_the_proof(seed):
    """Several terms are so small that no error of theirs could be seen in a value."""
    rng = np.random.default_rng(seed)
    net = gaussian(rng, [2, 12, 9, 7, 1])
    layers = packed_layers(net.network)
    unit, n_seen = 2.0**-53, 0
    steps = pairwise(search(net, *(9.0 * rng.normal(size=(2, 2)))))
    for index, ((_, before), (_, after)) in enumerate(steps):
        rows, scales, etas = before[:3]
        normed, kappa = (layers.packed.records[i] for i in (index, index + 1))
        kappa, omega, biases = kappa.kappa, column_norms(normed), net.biases[index]
        errors = normed.sigma * scales[:, 0] + normed.frobenius * scales[:, 1]
        errors += np.linalg.norm(biases) * scales[:, 2]
        names = after[4]
        old = np.flatnonzero(names[:, 0] != index)
        for i, k in enumerate(old.tolist()):
            wanted = errors[i] * bool(size_of(rows[i])), kappa * size_of(rows[i]), kappa
            assert (after[1][k] >= wanted).all()
        for i, (first, last) in enumerate(pairwise(old.tolist())):
            between = slice(first + 1, last)
            units = (names[between, 1] // 2).tolist()
            if not units:
                np.testing.assert_array_equal(after[2][first], etas[i])
                continue
            n_seen += 1
            size = max(size_of(rows[i], units), size_of(rows[i + 1], units))
            rounding = kappa + (len(units) + 8) * unit
            error = errors[i : i + 2].max() + 4.0 * unit * size
            assert (after[1][between] >= (error, rounding * size, rounding)).all()
            a, b = np.abs(rows[i, units]), np.abs(rows[i + 1, units])
            radii = (scales[i : i + 2, 0] + scales[i : i + 2, 1]).max() * omega[units]
            radii += scales[i : i + 2, 2].max() * np.abs(biases[units])
            blurs = [etas[i, 0], *((radii + 4.0 * unit * a) / (a + b - 2.0 * radii)), etas[i, 1]]
            parts = np.diff([0.0, *(a / (a + b)), 1.0])
            assert (after[2][first:last, 0] >= blurs[:-1] / parts).all()
            assert (after[2][first:last, 1] >= blurs[1:] / parts).all()
    assert n_seen > 1


@pytest.mark.parametrize("where", [Fraction(1, 3), Fraction(0.1), Fraction(-(10**30), 7)])
def test_the_forms_at_an_end_are_within_their_error(where):
    rng = np.random.default_rng(2)
    (slopes, offsets), radii = rng.normal(size=(2, 1, 9)), 1e-15 * rng.random((2, 1, 9))
    for r in (radii, 0.0 * radii):
        stream = LineForms(Enclosed(slopes, r[0]), Enclosed(offsets, r[1]))
        end = _end(stream, where, 1.0)
        sign = 1 if where > 0 else -1
        forms = (x.ravel().tolist() for x in (slopes, r[0], offsets, r[1]))
        true = [
            (Fraction(s) + sign * Fraction(r_s)) * where + Fraction(c) + Fraction(r_c)
            for s, r_s, c, r_c in zip(*forms, strict=True)
        ]
        gaps = [Fraction(v) - f for v, f in zip(end.values.tolist(), true, strict=True)]
        assert 0 < sum(gap**2 for gap in gaps) <= Fraction(end.error) ** 2
        assert end.place == (float(where), 1.0, 1.0)


def test_the_forms_towards_infinity_are_their_slopes():
    slopes, radii = np.array([[1.0, -2.0]]), np.array([[3e-9, 4e-9]])
    end = _end(LineForms(Enclosed(slopes, radii), Enclosed.exactly(slopes)), None, -1.0)
    assert end.values.tolist() == [-1.0, 2.0]
    assert 5e-9 <= end.error < 5.1e-9
    assert end.place == (-1.0, 0.0, 0.0)


ZERO_TYPE = np.dtype([("unit", np.int64), ("part", np.float64), ("blur", np.float64)])


def normed(omega, bias_size):
    """A map that is asked for nothing but the norms of its columns and the sizes of its biases."""
    omega = np.array(omega, dtype=float)
    packed = PackedMaps([AffineMap(np.zeros((1, len(omega))), np.array(bias_size, dtype=float))])
    column_norms(packed.records[0])[:] = omega
    return packed


def zeros_between(left, right, omega, bias_size, scale, beta):
    """The zeros of units that all change between two points; None if they are not sure."""
    packed, zeros = normed(omega, bias_size), np.empty(len(left), dtype=ZERO_TYPE)
    left, right, record = np.array(left, float), np.array(right, float), packed.records[0]
    at = address(left), address(right), scale, beta, len(left), address(zeros)
    return zeros if core().hm_test_line_zeros(byref(record), *at) else None


def changes_between(left, right, omega, bias_size, scale, beta, eta):
    packed, found = normed(omega, bias_size), np.empty(2, dtype=np.int64)
    left, right, record = np.array(left, float), np.array(right, float), packed.records[0]
    at = address(left), address(right), scale, beta, eta, address(found)
    core().hm_test_line_changes(byref(record), *at)
    return tuple(found.tolist())


def careful_changes(left, right, omega, bias_size, scales, blur):
    packed = normed(omega, bias_size)
    arrays = [np.array(x, dtype=float) for x in (left, right, scales, blur)]
    return core().hm_test_line_careful(byref(packed.records[0]), *map(address, arrays))


def blurs_between(parts, outer):
    """How far ends may be off in the parts of an interval; None if it is too far."""
    zeros = np.zeros(len(parts), dtype=ZERO_TYPE)
    zeros["part"], zeros["blur"] = np.transpose(parts)
    outer, blurs = np.array(outer, dtype=float), np.empty((len(parts) + 1, 2))
    at = address(zeros), len(parts), address(outer), address(blurs)
    return blurs if core().hm_test_line_blurs(*at) else None


def test_a_zero_is_where_the_line_between_two_values_vanishes():
    (zero,) = zeros_between([-1.0], [3.0], [1.0], [0.0], 0.0, 0.0)
    assert zero["part"] == 0.25
    assert 2.0**-53 < zero["blur"] < 2.0**-51
    (zero,) = zeros_between([-1.0], [3.0], [1.0], [0.0], 0.5, 0.0)
    assert 0.5 / 3.0 < zero["blur"] < 0.51 / 3.0
    # Known to 1.5 on both sides, it may be anywhere.
    assert zeros_between([-1.0], [3.0], [1.0], [0.0], 1.5, 0.0) is None
    assert zeros_between([-1.5e308], [1.5e308], [1.0], [0.0], 0.0, 0.0) is None


@pytest.mark.parametrize("place", [0, 1, 4, 6])
@pytest.mark.parametrize(
    ("left", "right", "scale", "beta", "eta", "found"),
    [
        (-1.0, 3.0, 0.0, 0.0, 0.0, 1),
        (1.0, 3.0, 0.0, 0.0, 0.0, 0),
        (-1.0, 3.0, 0.51, 0.0, 0.0, -1),
        (-1.0, 3.0, 0.0, 0.26, 0.0, -1),
        (-1.0, 3.0, 0.0, 0.24, 0.0, 1),
        (-1.0, 3.0, 0.0, 0.0, 0.26, -1),
        (-1.0, 3.0, 0.0, 0.0, 0.24, 1),
        (-3.0, 1.0, 0.1, 0.1, 0.2, -1),
        (np.nan, 1.0, 0.0, 0.0, 0.0, -1),
        (-1.0, 3.0, 0.0, np.nan, 0.0, -1),
    ],
)
def test_signs_are_known_beyond_all_three_terms_of_the_radius(
    left, right, scale, beta, eta, found, place
):
    """The weights have norm 2, the bias size 4; all other units are far from 0."""
    arrays = np.full((4, 7), 1e9)
    arrays[2:] = 0.0
    arrays[:, place] = left, right, 2.0, 4.0
    assert changes_between(*arrays, scale, beta, eta)[0] == found
    scales = [[0.0, scale, beta], [scale, 0.0, beta]]
    # The share of an end that is off is taken of what the form changes by.
    assert careful_changes(*arrays[:, place : place + 1], scales, [eta, eta]) == found


def test_changes_are_counted_and_their_numbers_added():
    left, right = np.array([1.0, -1.0, 2.0, -2.0, 3.0]), np.array([1.0, 1.0, -2.0, -2.0, -3.0])
    counted = changes_between(left, right, np.zeros(5), np.zeros(5), 0.0, 0.0, 0.0)
    assert counted == (3, 1 + 2 + 4)
    many = np.tile(left, 3), np.tile(right, 3)
    counted = changes_between(*many, np.zeros(15), np.zeros(15), 0.0, 0.0, 0.0)
    assert counted == (9, 3 * 7 + 3 * 5 + 3 * 10)


def test_a_zero_at_an_exact_end_is_known_and_at_another_not():
    left, right, ones, none = [0.0, 0.0], [1.0, 0.0], np.ones(2), np.zeros(2)
    known = np.zeros((2, 3))
    assert careful_changes(left, right, ones, none, known, [0.0, 0.0]) == 0
    assert careful_changes(left, right, ones, none, known, [1e-9, 0.0]) == -1
    assert careful_changes(right, left, ones, none, known, [1e-9, 0.0]) == 0
    assert careful_changes(right, left, ones, none, known, [0.0, 1e-9]) == -1


def test_points_that_may_have_changed_places_are_refused():
    blurs = blurs_between([[0.25, 0.001], [0.5, 0.002]], [0.003, 0.004])
    wanted = [[0.012, 0.004], [0.004, 0.008], [0.004, 0.008]]
    np.testing.assert_allclose(blurs, wanted, rtol=1e-5, atol=0.0)
    assert blurs_between([[0.25, 0.001], [0.25 + 0.01, 0.002]], [0.0, 0.0]) is None
    assert blurs_between([[0.25, 0.001], [1.0, 0.002]], [0.0, 0.0]) is None


def test_many_zeros_are_sorted_as_few_are():
    rng = np.random.default_rng(0)
    for n in (2, 24, 25, 300):
        left, right = rng.normal(size=n), rng.normal(size=n)
        right = -np.sign(left) * np.abs(right)
        zeros = zeros_between(left, right, np.ones(n), np.ones(n), 0.0, 0.0)
        where = left / (left - right)
        np.testing.assert_array_equal(zeros["unit"], np.argsort(where))
        np.testing.assert_array_equal(zeros["part"], np.sort(where))
