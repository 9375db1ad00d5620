"""Causal and sliding-window masks and ALiBi: ordinary heads at each query position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, HardmaxError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.masks import (
    alibi_bias,
    alibi_slopes,
    biased_head,
    causal_bias,
    heads_by_position,
    sliding_window_bias,
)
from tests.models.test_heads import small_head
from tests.reference import attention


def causal_attention(queries, keys, values, tau, bias):
    """The matrix form: one row per position, masked above the diagonal."""
    logits = queries @ keys.T / tau + bias / tau
    logits[np.triu_indices(len(queries), 1, len(keys))] = -np.inf
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ values


@pytest.mark.parametrize("slope", [None, 0.25])
def test_heads_by_position_reproduce_the_masked_attention_matrix(slope):
    head, rng = small_head(n_keys=6), np.random.default_rng(0)
    x = rng.normal(size=(6, 2))
    bias = np.zeros((6, 6))
    if slope is not None:
        bias = slope * (np.arange(6)[None, :] - np.arange(6)[:, None])
    values = head.values @ head.output_weight
    expected = causal_attention(x @ head.query_weight, head.keys, values, 0.7, bias)
    heads = heads_by_position(head, slope=slope)
    got = np.array([at.soft(row, 0.7) for at, row in zip(heads, x, strict=True)])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


@given(st.integers(1, 8), st.data())
def test_a_window_is_the_last_keys_up_to_the_position(n_keys, data):
    position = data.draw(st.integers(0, n_keys - 1))
    window = data.draw(st.integers(1, n_keys + 2))
    visible = np.flatnonzero(sliding_window_bias(n_keys, position, window) == 0.0)
    assert visible.tolist() == [j for j in range(n_keys) if position - window < j <= position]
    if window > position:
        np.testing.assert_array_equal(
            sliding_window_bias(n_keys, position, window), causal_bias(n_keys, position)
        )


def test_a_new_causal_key_only_takes_from_the_cells_of_the_others():
    """The winner at position p + 1 is the winner at p, or the new key."""
    head = small_head(n_keys=8, seed=3)
    x = np.random.default_rng(1).normal(size=(200, 2))
    heads = heads_by_position(head)
    for position in range(1, 8):
        before, after = heads[position - 1].winners(x), heads[position].winners(x)
        assert ((after == before) | (after == position)).all()


@given(st.integers(0, 5), st.lists(st.integers(-4, 4), min_size=6, max_size=6))
def test_alibi_cells_do_not_depend_on_the_query_position(position, key_entries):
    """-m (i - j) and m j differ by a constant: only the mask depends on i."""
    keys = np.array(key_entries, dtype=float)[:, None]
    head = AttentionHead(np.eye(1), keys, np.eye(6), np.eye(6))
    x = np.arange(-6.0, 7.0)[:, None] / 8
    at_position = biased_head(head, alibi_bias(6, position, 0.5))
    position_free = biased_head(head, 0.5 * np.arange(6))
    np.testing.assert_array_equal(at_position.tied(x), position_free.tied(x))


def test_alibi_lifts_a_key_inside_the_hull_to_a_cell():
    """Without bias the middle key never wins alone; with ALiBi the diagram is no fan."""
    head = AttentionHead(np.eye(1), [[-1.0], [1.0], [0.0]], np.eye(3), np.eye(3))
    x = np.linspace(-2, 2, 81)[:, None]
    assert 2 not in head.winners(x)
    lifted = biased_head(head, alibi_bias(3, 2, 0.5))
    assert 2 in lifted.winners(x)
    assert not lifted.is_bias_free
    assert [attention.tied(lifted, p).index(True) for p in x] == lifted.winners(x).tolist()


def test_alibi_slopes_are_the_published_ones():
    np.testing.assert_array_equal(alibi_slopes(4), [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
    np.testing.assert_array_equal(alibi_slopes(1), [2.0**-8])
    np.testing.assert_allclose(
        alibi_slopes(6), [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    )
    np.testing.assert_allclose(alibi_slopes(16), 2.0 ** (-np.arange(1, 17) / 2))


def test_biases_add_up_and_masks_win():
    head = small_head(logit_bias=[1.0, 2.0, 3.0, -np.inf])
    total = biased_head(head, np.array([0.5, -np.inf, 0.0, 9.0]), np.full(4, 0.25))
    assert total.logit_bias.tolist() == [1.75, -np.inf, 3.25, -np.inf]


def test_masks_that_leave_no_key_are_refused():
    head = small_head(logit_bias=[-np.inf, 0.0, 0.0, 0.0])
    with pytest.raises(EmptyInputError, match="`logit_bias` must leave at least one key"):
        biased_head(head, causal_bias(4, 0))


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: causal_bias(0, 0), ArgumentError, "n_keys"),
        (lambda: causal_bias(3, 3), ArgumentError, "position"),
        (lambda: causal_bias(3, -1), ArgumentError, "position"),
        (lambda: causal_bias(3.0, 1), DtypeError, "n_keys"),
        (lambda: sliding_window_bias(3, 1, 0), ArgumentError, "window"),
        (lambda: alibi_bias(3, 1, np.nan), HardmaxError, "slope"),
        (lambda: alibi_slopes(0), ArgumentError, "n_heads"),
        (lambda: biased_head(small_head(), np.zeros(3)), ArgumentError, r"biases\[0\]"),
        (lambda: biased_head(small_head(), ["a"] * 4), HardmaxError, r"biases\[0\]"),
        (lambda: biased_head(small_head(), [0, 0, np.nan, 0]), HardmaxError, r"biases\[0\]"),
        (lambda: biased_head(small_head(), [0, 0, np.inf, 0]), HardmaxError, r"biases\[0\]"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, error, name):
    with pytest.raises(error, match=f"`{name}`"):
        call()
