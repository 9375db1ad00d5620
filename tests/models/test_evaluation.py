"""Evaluating argmax networks of any shape: float pass, exact pass, soft pass, affine maps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, NonFiniteError, ShapeMismatchError
from hardmax.models._arithmetic.enclosures import Enclosed, EnclosedMap, add_enclosures
from hardmax.models._arithmetic.exact_pass import run_exact_pass
from hardmax.models._arithmetic.float_pass import run_float_pass
from hardmax.models._arithmetic.recomposition import chart_forms, iter_exact_layers
from hardmax.models._arithmetic.soft_pass import run_soft_pass
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.evaluation import affine_map, cell_signature, forward, signature, soft
from hardmax.models.networks import ReluNetwork
from tests.reference.networks import affine, argmax_network, parts
from tests.strategies import SMALL, WILD

REAL = st.floats(-2.0, 2.0)
TINY = st.integers(-1, 1).map(float)
ELEMENTS = st.sampled_from([SMALL, TINY, REAL])


@st.composite
def affine_maps(draw, dim_in, dim_out, elements):
    return AffineMap(
        draw(arrays(np.float64, (dim_in, dim_out), elements=elements)),
        draw(arrays(np.float64, dim_out, elements=elements)),
    )


@st.composite
def argmax_layers(draw, dim, elements):
    """Draw a layer of any kind: blocks that overlap, gains of any size, repeated forms."""
    p, width, n_y = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(2, 4))
    ranks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    n_forms = sum(ranks)
    residual = draw(st.booleans())
    slopes = draw(arrays(np.float64, (n_forms, p), elements=elements))
    offsets = draw(arrays(np.float64, n_forms, elements=elements))
    copied = draw(st.integers(0, n_forms - 1))
    slopes[-1], offsets[-1] = slopes[copied], offsets[copied]
    kind = draw(st.sampled_from([elements, st.just(0.0), st.just(1.0)]))
    values = draw(st.sampled_from([elements, st.just(0.0)]))
    return ArgmaxLayer(
        draw(affine_maps(dim, p, elements)),
        slopes,
        offsets,
        np.cumsum([0, *ranks]),
        draw(arrays(np.int64, len(ranks), elements=st.integers(0, n_y - width))),
        draw(arrays(np.float64, n_forms, elements=kind)),
        draw(arrays(np.float64, (n_forms, width), elements=values)),
        draw(affine_maps(n_y, dim if residual else draw(st.integers(1, 3)), elements)),
        residual,
    )


@st.composite
def networks(draw, elements=None):
    """Draw (network, points)."""
    elements = elements if elements is not None else draw(ELEMENTS)
    dim, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    embedding = draw(affine_maps(dim, width, elements))
    if draw(st.booleans()):
        embedding = AffineMap.identity(dim)
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        before = layers[-1].dim_out if layers else embedding.dim_out
        layers.append(draw(argmax_layers(before, elements)))
    last = layers[-1].dim_out if layers else embedding.dim_out
    readout = draw(affine_maps(last, draw(st.integers(1, 2)), elements))
    points = draw(arrays(np.float64, (4, dim), elements=elements))
    return ArgmaxNetwork(tuple(layers), embedding, readout), points


@given(networks())
def test_the_exact_pass_is_the_definition(case):
    network, points = case
    result = run_exact_pass(network, points)
    for i, x in enumerate(points.tolist()):
        output, winners = argmax_network(x, network)
        assert result.winners[i].tolist() == winners
        *entries, scale = result.output[i]
        assert [Fraction(entry, scale) for entry in entries] == output
        assert result.rounded_output()[i].tolist() == [float(value) for value in output]


@given(networks())
def test_what_the_float_pass_decides_is_right_and_its_radii_hold(case):
    network, points = case
    values = run_float_pass(network, points, None, named=False)
    names = run_float_pass(network, points, None, named=True)
    for i, x in enumerate(points.tolist()):
        output, winners = argmax_network(x, network)
        if not names.is_open[i]:
            assert names.winners[i].tolist() == winners
        if not values.is_open[i]:
            assert _covers(Enclosed(*(part[i] for part in values.output)), output)


@given(networks(WILD))
def test_decisions_and_radii_hold_at_every_scale(case):
    network, points = case
    result = run_float_pass(network, points, None, named=True)
    for i in np.flatnonzero(~result.is_open):
        output, winners = argmax_network(points[i].tolist(), network)
        assert result.winners[i].tolist() == winners
        assert _covers(Enclosed(*(part[i] for part in result.output)), output)


@given(networks())
def test_forward_and_signature_are_the_definition(case):
    network, points = case
    outputs, signatures = forward(network, points), signature(network, points)
    for x, output, winners in zip(points, outputs, signatures, strict=True):
        exact, expected = argmax_network(x.tolist(), network)
        assert winners.tolist() == expected
        np.testing.assert_allclose(output, np.array(exact, float), rtol=1e-11, atol=1e-11)


@given(networks(SMALL), st.booleans())
def test_a_point_is_inside_its_cell_unless_it_is_on_a_wall(case, on_a_slice):
    """Inside: small steps in all directions of the domain change no winner."""
    network, points = case
    chart = AffineMap.identity(network.dim_in)
    if on_a_slice:
        chart = AffineMap(np.ones((1, network.dim_in)), points[0])
        points = points[:, :1]
    signatures, inside = cell_signature(network, points, chart)
    for t, name, is_inside in zip(points.tolist(), signatures.tolist(), inside, strict=True):
        steps = [[0] * len(t)] + [
            [sign * (j == k) for j in range(len(t))] for k in range(len(t)) for sign in (-1, 1)
        ]
        names = []
        for step in steps:
            moved = [Fraction(v) + Fraction(s, 10**40) for v, s in zip(t, step, strict=True)]
            x = affine(moved, *parts(chart))
            names.append(argmax_network(x, network)[1])
        assert name == names[0]
        if is_inside:
            assert names == [name] * len(names)
        elif len(t) == 1:
            # On a line a wall is a point, left in one of two directions, unless the forms that
            # tie there are ordered the same way on both sides, the winner lowest-indexed.
            slopes_tie = names[1] == names[2] == name
            assert not slopes_tie or _touches(network, chart, t, name)


def test_walls_are_told_from_coincidences():
    network = _two_heads()
    names, inside = cell_signature(network, [[0.0], [1e-300], [-1.0], [0.5]])
    assert names.tolist() == [[0, 1], [1, 1], [0, 0], [1, 1]]
    assert inside.tolist() == [False, True, True, True]
    dead = ReluNetwork([[[0.0, 1.0]], [[1.0], [1.0]]]).network
    names, inside = cell_signature(dead, [[1.0], [0.0], [-1.0]])
    assert names.tolist() == [[0, 1], [0, 0], [0, 0]]
    assert inside.tolist() == [True, False, True]
    name, is_inside = cell_signature(dead, [1.0])
    assert (name.tolist(), bool(is_inside)) == ([0, 1], True)


def test_a_chart_is_applied_exactly():
    """0.1 * 3 rounds to something above 0.3 = the wall; the exact product is above it as well,
    but 3 * 0.1 - 0.3 in floats is not the exact difference."""
    net = ReluNetwork([[[1.0]], [[1.0]]], [[-0.3], None]).network
    chart = AffineMap([[0.1]], [0.0])
    name, inside = cell_signature(net, [[3.0], [2.9999999999999996]], chart)
    exact = [Fraction(0.1) * Fraction(t) - Fraction(0.3) for t in (3.0, 2.9999999999999996)]
    assert name.tolist() == [[int(value > 0)] for value in exact]
    assert inside.tolist() == [value != 0 for value in exact]


def test_generic_points_do_not_need_integers():
    rng = np.random.default_rng(0)
    identity = AffineMap.identity(3)
    layer = ArgmaxLayer(
        identity,
        rng.normal(size=(6, 3)),
        rng.normal(size=6),
        [0, 3, 6],
        [0, 2],
        np.zeros(6),
        rng.normal(size=(6, 1)),
        identity,
        True,
    )
    network = ArgmaxNetwork((layer, layer), identity, identity)
    result = run_float_pass(network, rng.normal(size=(1000, 3)), None, named=True)
    assert not result.is_open.any()
    assert result.output.radii.max() < 1e-12


def test_ties_of_dead_units_are_settled_in_floats():
    """A unit fed by zeros alone is exactly zero, and the filter knows it."""
    identity = AffineMap.identity(1)
    off = AffineMap([[-1.0]], [-1.0])
    forms = [[0.0], [1.0]], [0.0, 0.0], [0, 2], [0], [0.0, 1.0], [[0.0], [0.0]]
    network = ArgmaxNetwork(
        (ArgmaxLayer(off, *forms, identity, False), ArgmaxLayer(identity, *forms, identity, False)),
        identity,
        identity,
    )
    result = run_float_pass(network, np.array([[0.3], [7.0]]), None, named=True)
    assert not result.is_open.any()
    assert result.winners.tolist() == [[0, 0], [0, 0]]


@given(networks(), st.sampled_from([0.25, 1.0, 30.0]))
def test_floats_and_intervals_agree_on_the_soft_network(case, tau):
    network, points = case
    got = soft(network, points, tau)
    for x, output in zip(points, got, strict=True):
        taus = [tau] * len(network.layers)
        np.testing.assert_allclose(output, run_soft_pass(network, x, taus), rtol=1e-9, atol=1e-9)


def test_the_soft_network_keeps_its_digits_where_scores_cancel():
    """The two scores differ by 2**-60 of their size: a logistic function of that over tau."""
    identity = AffineMap.identity(1)
    layer = ArgmaxLayer(
        AffineMap([[1.0, 0.0]], [0.0, 2.0**-60]),
        [[1.0, 1.0], [1.0, 0.0]],
        [0.0, 0.0],
        [0, 2],
        [0],
        [0.0, 0.0],
        [[1.0], [0.0]],
        identity,
        False,
    )
    network = ArgmaxNetwork((layer,), identity, identity)
    for tau in (2.0**-60, 2.0**-62):
        expected = 1.0 / (1.0 + np.exp(-(2.0**-60) / tau))
        np.testing.assert_allclose(soft(network, [[3.0]], tau), [[expected]], rtol=1e-13)
    assert soft(network, [3.0], 1e-300).tolist() == [1.0]
    assert forward(network, [3.0]).tolist() == [1.0]


def test_a_hard_layer_after_a_soft_one_is_decided_beyond_float64():
    """The second head compares two scores of size 1 that differ by 2**-300."""
    identity = AffineMap.identity(1)
    first = ArgmaxLayer(identity, [[1.0], [-1.0]], [0.0, 0.0], [0, 2], [0], [0.0, 0.0],
                        [[0.3], [0.7]], identity, False)  # fmt: skip
    second = ArgmaxLayer(identity, [[1.0], [1.0]], [0.0, 2.0**-300], [0, 2], [0], [0.0, 0.0],
                         [[-1.0], [5.0]], identity, False)  # fmt: skip
    network = ArgmaxNetwork((first, second), identity, identity)
    assert soft(network, [0.1], [1.0, 0.0]).tolist() == [5.0]


def test_zero_temperature_is_the_hard_network():
    network, points = _two_heads(), np.array([[0.0], [1.0], [-0.5]])
    np.testing.assert_array_equal(soft(network, points, 0.0), forward(network, points))
    np.testing.assert_array_equal(soft(network, points, [0, 0]), forward(network, points))
    assert soft(network, points[0], [0.0, 1.0]).shape == (1,)


@given(networks(SMALL))
def test_the_affine_map_agrees_inside_cells(case):
    """A perturbation of the point by a generic 1e-30 is inside a cell; follow it exactly."""
    network, points = case
    for x in points:
        near = [Fraction(v) + Fraction(k + 7, 10**30) for k, v in enumerate(x.tolist())]
        output, winners = argmax_network(near, network)
        slope, offset = affine_map(network, winners)
        at_near = affine(near, slope.tolist(), offset.tolist())
        difference = [abs(float(a - b)) for a, b in zip(at_near, output, strict=True)]
        assert max(difference) < 1e-9


@example(np.zeros((1, 3)), np.zeros((3, 2)), np.zeros(2))
@example(np.array([[1e-200, 0.0, 1.0]]), np.full((3, 2), 1e-200), np.zeros(2))
@example(np.full((1, 3), 5e-324), np.full((3, 2), 0.5), np.zeros(2))
@given(
    arrays(np.float64, (2, 3), elements=WILD),
    arrays(np.float64, (3, 2), elements=WILD),
    arrays(np.float64, 2, elements=WILD),
)
def test_enclosures_enclose(points, weight, bias):
    radii = np.abs(points) * 2.0**-40
    image = EnclosedMap(weight, bias)(Enclosed(points, radii))
    for sign in (-1, 1):
        for i, row in enumerate(points.tolist()):
            moved = [Fraction(v) + sign * Fraction(r) for v, r in zip(row, radii[i], strict=True)]
            exact = affine(moved, weight.tolist(), bias.tolist())
            assert _covers(Enclosed(*(part[i] for part in image)), exact)
    doubled = add_enclosures(image, image)
    lost = ~np.isfinite(image.radii)
    assert (doubled.radii >= 2 * image.radii)[~lost].all()
    assert np.isinf(doubled.radii[lost]).all()


def test_one_point_is_a_batch_of_one_and_an_empty_batch_is_fine():
    network = _two_heads()
    assert forward(network, [0.5]).tolist() == forward(network, [[0.5]])[0].tolist()
    assert signature(network, [0.5]).tolist() == signature(network, [[0.5]])[0].tolist()
    empty = np.empty((0, 1))
    assert forward(network, empty).shape == (0, 1)
    assert signature(network, empty).shape == (0, 2)
    assert soft(network, empty, 1.0).shape == (0, 1)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda net: forward(net, [1.0, 2.0]), ShapeMismatchError, "x"),
        (lambda net: forward(net, [[np.inf]]), NonFiniteError, "x"),
        (lambda net: signature(net, [[[1.0]]]), ShapeMismatchError, "x"),
        (lambda net: soft(net, [1.0], [1.0]), ShapeMismatchError, "tau"),
        (lambda net: soft(net, [1.0], [[1.0, 2.0]]), ShapeMismatchError, "tau"),
        (lambda net: soft(net, [1.0], [1.0, -1.0]), ArgumentError, "tau"),
        (lambda net: soft(net, [1.0], np.inf), NonFiniteError, "tau"),
        (lambda net: cell_signature(net, [1.0, 2.0]), ShapeMismatchError, "t"),
        (lambda net: cell_signature(net, [1.0], AffineMap.identity(2)), ArgumentError, "chart"),
        (lambda net: affine_map(net, [0]), ShapeMismatchError, "signature"),
        (lambda net: affine_map(net, [[0, 0]]), ShapeMismatchError, "signature"),
        (lambda net: affine_map(net, [0, 2]), ArgumentError, "signature"),
    ],
)
def test_bad_questions_are_refused_by_name(call, error, name):
    with pytest.raises(error, match=f"`{name}`"):
        call(_two_heads())


def _two_heads():
    identity = AffineMap.identity(1)
    head = ArgmaxLayer(
        identity,
        [[-1.0], [1.0]],
        [0.0, 0.0],
        [0, 2],
        [0],
        [0.0, 0.0],
        [[-1.0], [2.0]],
        identity,
        True,
    )
    return ArgmaxNetwork((head, head), identity, identity)


def _touches(network, chart, t, name):
    """Whether some rival ties with a winner at the point without coinciding with it."""
    for layer, scores, winners in iter_exact_layers(network, chart_forms(chart), name):
        values = [
            sum((int(m) * Fraction(v) for m, v in zip(row, [*t, 1], strict=True)), Fraction(0))
            for row in scores.rows
        ]
        for g, named in enumerate(winners):
            winner = layer.starts[g] + named
            rivals = range(layer.starts[g], layer.starts[g + 1])
            if any(
                values[j] == values[winner] and scores.rows[j] != scores.rows[winner]
                for j in rivals
            ):
                return True
    return False


def _covers(enclosed, exact):
    return all(
        np.isinf(r) or abs(Fraction(float(v)) - e) <= Fraction(float(r))
        for v, r, e in zip(enclosed.values, enclosed.radii, exact, strict=True)
    )
