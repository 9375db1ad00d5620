"""Degenerate models of every family against the all-integer search."""

import pytest

from tests.core.degenerate_models import FAMILIES, differences, model_and_domain

SEEDS = range(120)


@pytest.mark.parametrize("seed", SEEDS)
def test_same_as_integers(seed):
    assert not differences(seed, most_cells=60, max_seconds=2.0)


def test_every_family_occurs():
    assert {model_and_domain(seed)[0] for seed in SEEDS} == set(FAMILIES)
