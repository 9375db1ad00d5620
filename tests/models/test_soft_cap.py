"""Soft-capped logits: the winners stay, the weights change."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, HardmaxError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.soft_cap import SoftCappedHead
from tests.models.test_heads import COINCIDE_ONLY_ROUNDED, MODERATE, heads_and_points, small_head
from tests.reference import attention
from tests.sweeps import examples


def capped_weights(head, x, cap, tau):
    with mpmath.workdps(400):
        c, t = (attention.real(Fraction(value)) for value in (cap, tau))
        logits = [
            None if s is None else c * mpmath.tanh(attention.real(s) / c)
            for s in attention.scores(head, x)
        ]
        top = max(s for s in logits if s is not None)
        terms = [mpmath.mpf(0) if s is None else mpmath.exp((s - top) / t) for s in logits]
        return [float(term / mpmath.fsum(terms)) for term in terms]


SATURATED = AttentionHead(np.eye(1), [[1.0], [1.5], [-2.0]], np.eye(3), np.eye(3))


@examples(75)
@example(COINCIDE_ONLY_ROUNDED, 1.0, 2.0**-108)
@example(COINCIDE_ONLY_ROUNDED, 2.0**-4, 2.0**-150)
@example((SATURATED, np.array([[60.0], [-60.0], [0.0]])), 1.0, 1e-52)
@example((SATURATED, np.array([[800.0], [1e6]])), 1.0, 1e-300)
@example((SATURATED, np.array([[1e300], [3.0]])), 2.0, 1e-16)
@given(
    heads_and_points(elements=MODERATE),
    st.sampled_from([1e-3, 0.5, 1.0, 30.0, 1e6]),
    st.sampled_from([1e-300, 1e-40, 1e-9, 0.01, 1.0, 50.0, 1e9]),
)
def test_weights_match_high_precision(case, cap, tau):
    head, points = case
    got = SoftCappedHead(head, cap).attention_weights(points, tau)
    for x, row in zip(points, got, strict=True):
        np.testing.assert_allclose(row, capped_weights(head, x, cap, tau), rtol=1e-9, atol=1e-300)


@given(heads_and_points(), st.sampled_from([1e-3, 1.0, 50.0]))
def test_winners_ties_and_hard_output_are_those_of_the_uncapped_head(case, cap):
    head, points = case
    capped = SoftCappedHead(head, cap)
    np.testing.assert_array_equal(capped.tied(points), head.tied(points))
    np.testing.assert_array_equal(capped.winners(points), head.winners(points))
    np.testing.assert_array_equal(capped.soft(points, 0.0), head(points))
    np.testing.assert_array_equal(capped(points), head(points))


def test_the_largest_weight_belongs_to_the_winner_where_tanh_saturates():
    """tanh rounds to 1 for every score, and still key 1 gets the weight."""
    x = np.array([50.0])
    assert np.tanh(50.0) == np.tanh(75.0)
    assert SoftCappedHead(SATURATED, 1.0).attention_weights(x, 1e-60).tolist() == [0.0, 1.0, 0.0]


def test_a_cap_keeps_weight_on_every_key():
    head, x = small_head(n_keys=5), np.array([40.0, -30.0])
    capped = SoftCappedHead(head, cap=2.0)
    assert head.attention_weights(x, 1.0).min() < 1e-12
    assert capped.attention_weights(x, 1.0).min() >= np.exp(-4.0) / 5
    assert np.abs(capped.soft(x, 1.0) - head.soft(x, 1.0)).max() > 0.01


def test_a_huge_cap_changes_nothing():
    head, x = small_head(n_keys=5), np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_allclose(
        SoftCappedHead(head, 1e9).soft(x, 0.5), head.soft(x, 0.5), rtol=1e-12
    )


@pytest.mark.parametrize("cap", [0.0, -1.0, np.nan, np.inf, "c"])
def test_a_bad_cap_is_refused_by_name(cap):
    with pytest.raises(HardmaxError, match="`cap`"):
        SoftCappedHead(small_head(), cap)


def test_a_bad_temperature_is_refused_by_name():
    with pytest.raises(ArgumentError, match="`tau`"):
        SoftCappedHead(small_head(), 1.0).soft(np.zeros(2), -1.0)
