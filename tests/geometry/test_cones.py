"""Open cones: the exact decision, its two proofs, and the inputs that defeat floats."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hardmax.errors import DtypeError, ShapeMismatchError
from hardmax.geometry.cones import (
    ConeDecision,
    decide_open_cone,
    exact_nearest_point,
    positive_dependence,
    verify_cone_decision,
)
from tests.reference.convexity import open_cone_is_nonempty
from tests.sweeps import examples

TINY = st.integers(-2, 2)
HUGE = st.integers(-(2**1200), 2**1200)


def wide(rows, dim=None):
    rows = [list(row) for row in rows]
    array = np.empty((len(rows), len(rows[0]) if dim is None else dim), dtype=object)
    for i, row in enumerate(rows):
        array[i, :] = row
    return array


def integer_rows(elements, max_rows, max_dim):
    return st.tuples(st.integers(1, max_rows), st.integers(1, max_dim)).flatmap(
        lambda shape: st.lists(
            st.lists(elements, min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        )
    )


@given(integer_rows(TINY, 7, 3))
def test_the_decision_matches_elimination(rows):
    decision = decide_open_cone(wide(rows))
    assert decision.is_open == open_cone_is_nonempty(rows)
    assert verify_cone_decision(wide(rows), decision)


@given(integer_rows(TINY, 14, 6))
def test_float_and_exact_walks_agree_on_ties(rows):
    rows = wide(rows)
    decision = decide_open_cone(rows)
    exact = exact_nearest_point(rows, [])
    assert decision.is_open == (exact.direction is not None)
    assert verify_cone_decision(rows, decision)
    if exact.direction is None:
        assert not any(np.array(exact.multipliers, dtype=object) @ rows[exact.support])
    else:
        assert (rows @ np.array(exact.direction, dtype=object) > 0).all()


@given(integer_rows(TINY, 10, 4), st.lists(st.integers(0, 9), max_size=6))
def test_the_exact_walk_ends_alike_from_every_start(rows, start):
    rows = wide(rows)
    start = [i for i in start if i < len(rows)]
    from_start = exact_nearest_point(rows, start)
    assert (from_start.direction is None) == (exact_nearest_point(rows, []).direction is None)


@examples(30)
@given(integer_rows(HUGE, 6, 3))
def test_integers_past_the_float_range_are_decided(rows):
    decision = decide_open_cone(wide(rows))
    assert verify_cone_decision(wide(rows), decision)


@examples(30)
@given(integer_rows(TINY, 6, 3), st.data())
def test_positive_row_scales_and_column_scales_change_nothing(rows, data):
    rows = wide(rows)
    powers = st.integers(0, 1500)
    row_scales = [1 << data.draw(powers) for _ in range(rows.shape[0])]
    column_scales = [1 << data.draw(powers) for _ in range(rows.shape[1])]
    scaled = rows * wide([column_scales]) * wide([row_scales]).T
    decision = decide_open_cone(scaled)
    assert decision.is_open == decide_open_cone(rows).is_open
    assert verify_cone_decision(scaled, decision)


@pytest.mark.parametrize("seed", range(20))
def test_generic_rows_agree_with_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    n_rows, dim = int(rng.integers(3, 40)), int(rng.integers(2, 9))
    floats = rng.normal(size=(n_rows, dim))
    floats[:, 0] += rng.choice([0.0, 1.0, 3.0])
    rows = np.rint(floats * 2**40).astype(np.int64).astype(object)
    program = linprog(
        np.zeros(dim), A_ub=-floats, b_ub=-np.ones(n_rows), bounds=(None, None), method="highs"
    )
    decision = decide_open_cone(rows)
    assert decision.is_open == (program.status == 0)
    assert verify_cone_decision(rows, decision)


@pytest.mark.parametrize("bits", [20, 40, 52, 60, 120, 400])
@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_cone_thinner_than_any_float_is_still_right(bits, shift):
    """Three rows around a line, lifted by `shift` units in the last place."""
    scale = 1 << bits
    rows = wide([[scale, 0, shift], [-scale, scale, shift], [0, -scale, shift]])
    decision = decide_open_cone(rows)
    # shift = -1 flips the direction, so only a shift of exactly zero closes the cone.
    assert decision.is_open == (shift != 0)
    assert verify_cone_decision(rows, decision)


def test_a_direction_that_needs_more_than_53_bits_is_found():
    a, b = 2**80 + 1, 2**80
    rows = wide([[a, -b], [-a + 1, b - 1], [0, 1]])
    decision = decide_open_cone(rows)
    assert decision.is_open == open_cone_is_nonempty(rows.tolist())
    assert verify_cone_decision(rows, decision)


@pytest.mark.parametrize("digits", [6, 24, 52])
def test_a_direction_rounded_onto_a_wall_is_not_taken(digits):
    """Slopes between 1 / 2**digits and the next: rounding to that many digits hits the wall."""
    scale = 1 << digits
    rows = wide([[scale, -1], [1 - scale, 1]])
    decision = decide_open_cone(rows)
    assert decision.is_open
    assert verify_cone_decision(rows, decision)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_badly_scaled_rotated_axes_are_decided(dim):
    """Axes of scale 1 to 1e-12 behind a unimodular shear, cone open and closed."""
    rng = np.random.default_rng(dim)
    basis = rng.normal(size=(4 * dim, dim)) * np.logspace(0, -12, dim)
    shear = np.tril(rng.integers(-3, 4, size=(dim, dim)), -1) + np.eye(dim, dtype=np.int64)
    exact = np.rint(basis * 2**60).astype(object)
    exact = np.frompyfunc(int, 1, 1)(exact) @ shear.astype(object)
    closed = np.concatenate([exact, -exact.sum(axis=0, keepdims=True)])
    for rows in (exact, closed, np.abs(exact)):
        assert verify_cone_decision(rows, decide_open_cone(rows))
    assert not decide_open_cone(closed).is_open


def test_rows_a_hair_apart_are_decided():
    """A bundle of rows 1e-8 apart and one row against their mean."""
    rng = np.random.default_rng(3)
    bundle = np.rint((rng.normal(size=(1, 4)) + 1e-8 * rng.normal(size=(30, 4))) * 2**53)
    bundle = np.frompyfunc(int, 1, 1)(bundle)
    against = -bundle.sum(axis=0, keepdims=True)
    for rows, is_open in ((bundle, True), (np.concatenate([bundle, against]), False)):
        decision = decide_open_cone(rows)
        assert decision.is_open is is_open
        assert verify_cone_decision(rows, decision)


@pytest.mark.parametrize(
    ("rows", "dim", "is_open"),
    [
        ([], 3, True),
        ([], 0, True),
        ([[]], 0, False),
        ([[0]], 1, False),
        ([[5]], 1, True),
        ([[-5]], 1, True),
        ([[5], [-1]], 1, False),
        ([[1, 2], [1, 2], [1, 2]], 2, True),
        ([[1, 2], [-1, -2]], 2, False),
        ([[1, 2, 3], [0, 0, 0]], 3, False),
        ([[1, 0, 0], [0, 1, 0]], 3, True),
        ([[1, 0, 0], [0, 1, 0], [-1, -1, 0]], 3, False),
    ],
)
def test_degenerate_cones_have_the_defined_answer(rows, dim, is_open):
    rows = wide(rows, dim)
    decision = decide_open_cone(rows)
    assert decision.is_open is is_open
    assert verify_cone_decision(rows, decision)


@given(integer_rows(TINY, 8, 4))
@example([[1, 0], [-1, 0], [1, 0], [-1, 0]])
def test_a_combination_uses_at_most_dim_plus_one_rows(rows):
    """Caratheodory's theorem."""
    decision = decide_open_cone(wide(rows))
    assume(not decision.is_open)
    assert len(decision.support) <= len(rows[0]) + 1
    assert len(set(decision.support.tolist())) == len(decision.support)


@given(integer_rows(st.integers(-9, 9), 4, 4), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_positive_dependence_finds_the_one_that_was_planted(rows, planted):
    """Independent rows and minus a positive combination of them have one dependence."""
    rows = wide(rows)
    assume(np.linalg.matrix_rank(rows.astype(float)) == len(rows))
    combination = np.array(planted[: len(rows)], dtype=object) @ rows
    closed = np.concatenate([rows, -combination[None]])
    assert positive_dependence(closed) == [*planted[: len(rows)], 1]
    assert positive_dependence(rows) is None
    flipped = np.concatenate([rows, combination[None]])
    assert positive_dependence(flipped) is None


@pytest.mark.parametrize(
    "forged",
    [
        ConeDecision(True, np.array([1, -1], dtype=object), None, None),
        ConeDecision(True, np.array([0, 0], dtype=object), None, None),
        ConeDecision(True, np.array([1], dtype=object), None, None),
        ConeDecision(True, None, None, None),
        ConeDecision(False, None, np.array([0, 1]), (1, 1)),
        ConeDecision(False, None, np.array([0, 2]), (1, 0)),
        ConeDecision(False, None, np.array([], np.int64), ()),
        ConeDecision(False, None, np.array([0, -1]), (1, 1)),
        ConeDecision(False, None, np.array([0]), (1, 1)),
        ConeDecision(False, None, None, None),
    ],
)
def test_the_verifier_refuses_a_forged_proof(forged):
    rows = wide([[1, 1], [1, -1], [-1, 1]])
    assert not verify_cone_decision(rows, forged)


def test_rows_that_are_no_integer_matrix_are_refused():
    with pytest.raises(ShapeMismatchError, match="`rows` must have shape"):
        decide_open_cone(np.array([1, 2], dtype=object))
    with pytest.raises(DtypeError, match="`rows` must hold integers"):
        decide_open_cone(np.array([[0.5]]))
    with pytest.raises(DtypeError, match="`rows` must hold Python integers"):
        decide_open_cone(np.array([[0.5, 1]], dtype=object))
    with pytest.raises(DtypeError, match="`rows` must hold Python integers"):
        verify_cone_decision(np.array([["a"]], dtype=object), ConeDecision(False, None, None, None))
