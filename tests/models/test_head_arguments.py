"""What a head refuses: bad memories, bad points, bad temperatures, each by name."""

import numpy as np
import pytest

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.models.heads import AttentionHead

GOOD = {
    "query_weight": np.eye(2),
    "keys": np.ones((3, 2)),
    "values": np.ones((3, 1)),
    "output_weight": np.ones((1, 2)),
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"keys": np.empty((0, 2)), "values": np.empty((0, 1))}, EmptyInputError, "`keys`.*n_keys"),
        ({"keys": np.ones((3, 3))}, ShapeMismatchError, "`keys`.*d_k = 2"),
        ({"keys": np.ones(3)}, ShapeMismatchError, "`keys`"),
        ({"keys": [[1.0, np.nan]] * 3}, NonFiniteError, "`keys`.*NaN"),
        ({"keys": [["a", "b"]] * 3}, DtypeError, "`keys`"),
        ({"keys": np.ones((3, 2), dtype=object)}, DtypeError, "`keys`"),
        ({"values": np.ones((2, 1))}, ShapeMismatchError, "`values`.*n_keys = 3"),
        ({"values": [[np.inf]] * 3}, NonFiniteError, "`values`"),
        ({"query_weight": np.empty((0, 2))}, EmptyInputError, "`query_weight`"),
        ({"output_weight": np.ones((2, 2))}, ShapeMismatchError, "`output_weight`"),
        ({"query_bias": [1.0]}, ShapeMismatchError, "`query_bias`"),
        ({"query_bias": [1.0, -np.inf]}, NonFiniteError, "`query_bias`"),
        ({"logit_bias": [0.0, np.inf, 0.0]}, NonFiniteError, "`logit_bias`"),
        ({"logit_bias": [0.0, np.nan, 0.0]}, NonFiniteError, "`logit_bias`"),
        ({"logit_bias": [-np.inf] * 3}, EmptyInputError, "`logit_bias` must leave at least one"),
    ],
)
def test_a_bad_memory_is_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        AttentionHead(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.ones(3), ShapeMismatchError),
        (np.ones((1, 1, 2)), ShapeMismatchError),
        (1.0, ShapeMismatchError),
        ([np.nan, 0.0], NonFiniteError),
        ([np.inf, 0.0], NonFiniteError),
        (["a", "b"], DtypeError),
        ([[1.0], [1.0, 2.0]], ShapeMismatchError),
    ],
)
def test_a_bad_point_is_refused_by_name(x, error):
    head = AttentionHead(**GOOD)
    for method in (head, head.winners, head.scores, lambda p: head.soft(p, 1.0)):
        with pytest.raises(error, match="`x`"):
            method(x)


@pytest.mark.parametrize("tau", [-1.0, np.nan, np.inf, "hot", [1.0, 2.0]])
def test_a_bad_temperature_is_refused_by_name(tau):
    head, x = AttentionHead(**GOOD), np.ones(2)
    for method in (head.soft, head.attention_weights, head.potential, head.potential_gradient):
        with pytest.raises(HardmaxError, match="`tau`"):
            method(x, tau)


def test_second_derivatives_need_a_positive_temperature():
    head, x = AttentionHead(**GOOD), np.ones(2)
    for method in (head.potential_hessian, head.jacobian):
        with pytest.raises(ArgumentError, match="`tau` must be above 0"):
            method(x, 0.0)
