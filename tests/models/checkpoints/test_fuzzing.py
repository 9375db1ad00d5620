"""Damaged files of every kind are read, or refused with an error of ours, quickly."""

import pytest

from tests.models.checkpoints.fuzzing import KINDS, attempts


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_checkpoints_are_read_or_refused(kind):
    if kind == "onnx":
        pytest.importorskip("onnx")
    n_read, wrong = attempts(kind, 25, seed=1)
    assert wrong == []
    assert n_read < 25
