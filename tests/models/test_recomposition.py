"""Exact forms on a cell against fractions, and the layers they are recomposed from."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.models._arithmetic.recomposition import (
    cell_inequalities,
    chart_forms,
    exact_affine_map,
    forms_equal_to_winner,
    iter_exact_layers,
)
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import ReluNetwork
from tests.models.test_evaluation import networks
from tests.reference.networks import argmax_network


def exact_value(forms, j, t):
    """Evaluate form `j` of rational forms at a point in fractions."""
    total = sum((int(m) * x for m, x in zip(forms.rows[j], [*t, 1], strict=True)), Fraction(0))
    return total * Fraction(2) ** forms.exponent / forms.denominator


@given(networks())
def test_the_exact_map_is_the_network_at_a_point_inside_its_cell(case):
    """A point next to a lattice point lies on no wall; its signature is followed exactly."""
    network, points = case
    near = [Fraction(v) + Fraction(3 * k + 1, 10**30) for k, v in enumerate(points[0].tolist())]
    output, winners = argmax_network(near, network)
    chart = AffineMap.identity(network.dim_in)
    composed = exact_affine_map(network, chart, winners)
    inside = True
    for layer, scores, mine in iter_exact_layers(network, chart_forms(chart), winners):
        rows = cell_inequalities(layer, scores, mine)
        n_same = sum(len(forms_equal_to_winner(layer, scores, g, w)) for g, w in enumerate(mine))
        assert rows.nrows() == len(layer.offsets) - n_same
        inside &= all(
            sum((int(a) * x for a, x in zip(row, [*near, 1], strict=True)), Fraction(0)) > 0
            for row in rows.tolist()
        )
    if inside:
        got = [exact_value(composed, k, near) for k in range(network.dim_out)]
        assert got == output
        expected = np.array([float(value) for value in output])
        at_near = composed.rounded() @ np.array([*map(float, near), 1.0])
        np.testing.assert_allclose(at_near, expected, rtol=1e-12, atol=1e-9)


def test_a_prefix_of_a_signature_gives_the_scores_of_the_next_layer():
    net = ReluNetwork([[[1.0, -1.0]], [[2.0], [3.0]], [[1.0]]], [[0.5, 0.0], [-1.0], [0.0]])
    line = chart_forms(AffineMap.identity(1))
    assert len(list(iter_exact_layers(net.network, line, []))) == 1
    assert len(list(iter_exact_layers(net.network, line, [1]))) == 1
    _, scores, _ = list(iter_exact_layers(net.network, line, [1, 0]))[1]
    assert [exact_value(scores, 1, [Fraction(t)]) for t in (0, 1)] == [0, 2]


def test_forms_that_coincide_on_a_slice_only_make_no_row_there():
    """The keys differ in a direction the chart does not have."""
    identity = AffineMap.identity(2)
    layer = ArgmaxLayer(
        identity, np.eye(2), np.zeros(2), [0, 2], [0], [0.0, 0.0], [[1.0], [4.0]],
        AffineMap(np.ones((1, 1)), np.zeros(1)), False,
    )  # fmt: skip
    network = ArgmaxNetwork([layer], identity, AffineMap.identity(1))
    diagonal = AffineMap([[1.0, 1.0]], [0.0, 0.0])
    [(_, scores, _)] = iter_exact_layers(network, chart_forms(diagonal), [])
    assert cell_inequalities(layer, scores, [0]).nrows() == 0
    assert exact_affine_map(network, diagonal, [1]).rounded().tolist() == [[0.0, 2.5]]
    assert exact_affine_map(network, identity, [1]).rounded().tolist() == [[0.0, 0.0, 4.0]]


def relu_parts(**changes):
    identity = AffineMap.identity(1)
    parts = {
        "query": identity,
        "slopes": [[0.0], [1.0]],
        "offsets": [0.0, 0.0],
        "starts": [0, 2],
        "slots": [0],
        "gains": [0.0, 1.0],
        "values": [[0.0], [0.0]],
        "output": identity,
        "residual": False,
    }
    return parts | changes


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"slopes": [[0.0, 1.0]]}, ShapeMismatchError, "slopes"),
        ({"offsets": [0.0]}, ShapeMismatchError, "offsets"),
        ({"gains": [1.0]}, ShapeMismatchError, "gains"),
        ({"values": np.zeros((2, 0))}, EmptyInputError, "values"),
        ({"starts": [0.0, 2.0]}, DtypeError, "starts"),
        ({"starts": [0, 0, 2], "slots": [0, 0]}, ArgumentError, "starts"),
        ({"starts": [0, 1]}, ArgumentError, "starts"),
        ({"starts": [0, 1, 2]}, ArgumentError, "starts"),
        ({"slots": [-1]}, ArgumentError, "slots"),
        ({"slots": [1]}, ArgumentError, "slots"),
        (
            {"output": AffineMap(np.ones((1, 2)), np.zeros(2)), "residual": True},
            ArgumentError,
            "residual",
        ),
    ],
)
def test_an_inconsistent_layer_is_refused_by_name(changes, error, name):
    with pytest.raises(error, match=f"`{name}`"):
        ArgmaxLayer(**relu_parts(**changes))


def test_an_inconsistent_network_is_refused_by_name():
    layer = ArgmaxLayer(**relu_parts())
    one, two = AffineMap.identity(1), AffineMap.identity(2)
    with pytest.raises(ArgumentError, match=r"`layers\[0\]`"):
        ArgmaxNetwork((layer,), two, one)
    with pytest.raises(ArgumentError, match="`readout`"):
        ArgmaxNetwork((layer,), one, two)
    with pytest.raises(ShapeMismatchError, match="`bias`"):
        AffineMap(np.eye(2), np.zeros(3))


def test_identities_are_recognised_exactly():
    assert AffineMap.identity(3).is_identity
    assert not AffineMap(np.eye(2), [0.0, 5e-324]).is_identity
    assert not AffineMap(np.ones((1, 2)), np.zeros(2)).is_identity
