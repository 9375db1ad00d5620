"""Rotary positions: the head at a fixed query position is an ordinary head."""

import mpmath
import numpy as np
import pytest

from hardmax.errors import ArgumentError, DtypeError, HardmaxError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.rotary import rotary_head, rotate

PAIRINGS = ["interleaved", "halves"]


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("rotary_dim", [None, 4, 0])
def test_the_head_at_a_position_has_the_scores_of_rotated_queries_and_keys(pairing, rotary_dim):
    """<R_m q, R_n k> = <q, R_(n-m) k>."""
    rng = np.random.default_rng(0)
    head = AttentionHead(
        rng.normal(size=(3, 6)),
        rng.normal(size=(7, 6)),
        rng.normal(size=(7, 2)),
        rng.normal(size=(2, 3)),
        query_bias=rng.normal(size=6),
    )
    x, options = rng.normal(size=(11, 3)), {"pairing": pairing, "rotary_dim": rotary_dim}
    queries = x @ head.query_weight + head.query_bias
    for position in (0, 3, 100):
        turned = rotate(queries, np.full(11, position), **options)
        keys = rotate(head.keys, np.arange(7), **options)
        at_position = rotary_head(head, position, **options)
        np.testing.assert_allclose(at_position.scores(x), turned @ keys.T, rtol=1e-11, atol=1e-11)


def test_rotation_is_multiplication_by_a_complex_unit():
    rng = np.random.default_rng(1)
    vectors, positions = rng.normal(size=(5, 8)), np.array([-3, 0, 1, 17, 2048])
    frequencies = 10_000.0 ** (-np.arange(4) / 4)
    units = np.exp(1j * positions[:, None] * frequencies)
    pairs = (vectors[:, ::2] + 1j * vectors[:, 1::2]) * units
    got = rotate(vectors, positions, pairing="interleaved")
    np.testing.assert_allclose(got[:, ::2], pairs.real, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got[:, 1::2], pairs.imag, rtol=1e-12, atol=1e-12)
    halves = rotate(vectors[:, [0, 2, 4, 6, 1, 3, 5, 7]], positions, pairing="halves")
    np.testing.assert_array_equal(halves, got[:, [0, 2, 4, 6, 1, 3, 5, 7]])


def test_a_far_rotation_matches_high_precision():
    position = 123_456
    with mpmath.workdps(50):
        angle = position * mpmath.mpf(10_000) ** (mpmath.mpf(-2) / 4)
        expected = [float(mpmath.cos(angle)), float(mpmath.sin(angle))]
    turned = rotate([[0, 0, 1.0, 0]], [position], pairing="interleaved")
    np.testing.assert_allclose(turned[0, 2:], expected, atol=1e-12)


def test_at_its_own_position_a_key_is_unchanged_to_the_last_bit():
    keys = np.random.default_rng(2).normal(size=(4, 6))
    head = AttentionHead(np.eye(6), keys, np.eye(4), np.eye(4))
    for position in range(4):
        turned = rotary_head(head, position, pairing="halves")
        np.testing.assert_array_equal(turned.keys[position], keys[position])
        lengths = np.linalg.norm(turned.keys, axis=1)
        np.testing.assert_allclose(lengths, np.linalg.norm(keys, axis=1), rtol=1e-13)


def test_only_differences_of_positions_matter():
    keys = np.random.default_rng(3).normal(size=(4, 6))
    head = AttentionHead(np.eye(6), keys, np.eye(4), np.eye(4))
    near = rotary_head(head, 2, key_positions=[0, 1, 2, 5], pairing="halves")
    shifted = 10**6 + np.array([0, 1, 2, 5])
    far = rotary_head(head, 10**6 + 2, key_positions=shifted, pairing="halves")
    np.testing.assert_array_equal(near.keys, far.keys)


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: rotate(np.ones((1, 3)), [0]), ArgumentError, "rotary_dim"),
        (lambda: rotate(np.ones((1, 4)), [0], rotary_dim=6), ArgumentError, "rotary_dim"),
        (lambda: rotate(np.ones((1, 4)), [0], rotary_dim=-2), ArgumentError, "rotary_dim"),
        (lambda: rotate(np.ones((1, 4)), [0.5]), DtypeError, "positions"),
        (lambda: rotate(np.ones((1, 4)), [0, 1]), ShapeMismatchError, "positions"),
        (lambda: rotate(np.ones((1, 4)), [0], base=0.0), ArgumentError, "base"),
        (lambda: rotate(np.ones((1, 4)), [0], pairing="odd"), ArgumentError, "pairing"),
        (lambda: rotate(np.ones((1, 4)), [0]), ArgumentError, "pairing"),
        (lambda: rotate([[np.nan, 0]], [0]), HardmaxError, "vectors"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, error, name):
    with pytest.raises(error, match=f"`{name}`"):
        call()


def test_the_pairing_must_be_said_where_it_matters():
    head = AttentionHead(np.eye(4), np.eye(4), np.eye(4), np.eye(4))
    with pytest.raises(ArgumentError, match=r"`pairing`.*GPT-J.*Llama.*got None for 2 pairs"):
        rotary_head(head, 1)
    one = rotate([[1.0, 2.0, 3.0]], [5], rotary_dim=2)
    for pairing in PAIRINGS:
        np.testing.assert_array_equal(
            one, rotate([[1.0, 2, 3]], [5], rotary_dim=2, pairing=pairing)
        )


def test_bad_positions_are_refused_by_name():
    head = AttentionHead(np.eye(2), np.ones((3, 2)), np.eye(3), np.eye(3))
    with pytest.raises(ShapeMismatchError, match="`key_positions`"):
        rotary_head(head, 0, key_positions=[0, 1])
    with pytest.raises(DtypeError, match="`query_position`"):
        rotary_head(head, 0.5)
