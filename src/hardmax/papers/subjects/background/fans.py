"""Definitions III.7 and III.8 of [SL26]: normal fans and their common refinement."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.refinement import common_refinement
from hardmax.papers.claims import Claim, Finding, equal_trial
from hardmax.papers.subjects.instances import forms_of_keys, integer_keys
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

Pairs = frozenset[tuple[int, int]]


Terms = tuple[FloatArray, list[float]]
"""Exponent vectors, shape `(n_terms, 2)`, and coefficients of a tropical polynomial."""

_CORNERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
_WITH_CENTRE = np.vstack([_CORNERS, [[0.0, 0.0]]])
_POLYNOMIALS: dict[str, Terms] = {
    "three terms with equal coefficients": (_CORNERS, [2.0, 2.0, 2.0]),
    "a fourth term in the interior, with coefficient 1; the other three have 0": (
        _WITH_CENTRE,
        [0, 0, 0, 1.0],
    ),
    "a fourth term in the interior, with coefficient -1; the other three have 0": (
        _WITH_CENTRE,
        [0, 0, 0, -1.0],
    ),
    "three terms with coefficients 0, 1, 2": (_CORNERS, [0.0, 1.0, 2.0]),
    "two equal exponents": (np.vstack([_CORNERS, _CORNERS[:1]]), [0.0] * 4),
}


def _are_cones(diagram: PowerDiagram) -> bool:
    """Whether every cell contains all positive multiples of its points."""
    return all(
        bool((diagram.locate(factor * points) == diagram.locate(points)).all())
        for points in [integer_keys(5, 60, 2, 12) + np.array([0.25, 0.125])]
        for factor in (0.125, 8.0)
    )


def _are_equal_where_active(exponents: FloatArray, coefficients: Sequence[float]) -> bool:
    active = PowerDiagram.from_keys(exponents, coefficients).active
    return len({c for c, wins in zip(coefficients, active, strict=True) if wins}) == 1


def _check_cones(cones: Callable[[FloatArray, Sequence[float]], bool]) -> Finding:
    trials = []
    for name, (exponents, coefficients) in _POLYNOMIALS.items():
        diagram = PowerDiagram.from_keys(exponents, coefficients)
        bounded = sum(cell.is_bounded for cell in diagram.cells())
        trials.append(
            equal_trial(
                name,
                _are_cones(diagram),
                cones(exponents, coefficients),
                condition=_are_equal_where_active(exponents, coefficients),
                bounded_cells=bounded,
                is_fan=diagram.is_fan,
            )
        )
    return Finding(
        tuple(trials),
        "With a larger coefficient, the cell of the fourth term is a bounded polygon "
        f"(number of bounded cells: {trials[1].numbers['bounded_cells']} of 4), not a cone.",
        "True if all coefficients of active terms are equal. Otherwise the cells form a "
        "polyhedral complex dual to a regular subdivision, not a fan.",
    )


def _are_extreme(exponents: FloatArray, coefficients: Sequence[float]) -> list[bool]:
    """Whether a term is a vertex of the upper hull of the lifted points, and has no duplicate."""
    lifted = np.column_stack([exponents, coefficients])
    deep = np.column_stack([exponents, np.full(len(exponents), min(coefficients) - 100.0)])
    points = np.vstack([lifted, deep])
    top = extreme_points(points)[: len(lifted)]
    alone = [exponents.tolist().count(row) == 1 for row in exponents.tolist()]
    return [bool(a and b) for a, b in zip(top, alone, strict=True)]


def _check_full_cells(full: Callable[[FloatArray, Sequence[float]], list[bool]]) -> Finding:
    trials = []
    for name, (exponents, coefficients) in _POLYNOMIALS.items():
        true = [_can_win_alone(exponents, coefficients, j) for j in range(len(exponents))]
        trials.append(equal_trial(name, true, full(exponents, coefficients), condition=all(true)))
    twice = trials[-1].numbers["true"]
    return Finding(
        tuple(trials),
        f"Of {len(twice)} terms, two of which have the same exponent, {sum(twice)} win alone "
        "somewhere: two terms tie on an open set, and the hypersurface contains that set. A term "
        "below the upper hull wins nowhere.",
        "True for terms that are vertices of the upper hull of the lifted exponents and whose "
        "exponent no other term has.",
    )


def _can_win_alone(exponents: FloatArray, coefficients: Sequence[float], j: int) -> bool:
    """Whether term j exceeds all others on an open set, decided by elimination in integers."""
    rows = np.column_stack([exponents, coefficients])
    exact = scaled_integers(np.delete(rows[j] - rows, j, axis=0)).integers
    height = np.array([[0, 0, 1]], dtype=object)  # directions (x, t) with t > 0
    return bool(decide_open_cone(np.vstack([exact, height])).is_open)


def _find_meeting_cones(first: FloatArray, second: FloatArray) -> Pairs:
    """Return the pairs of cones of two fans that meet in a set with nonempty interior."""

    def rows(keys: FloatArray, j: int) -> Any:
        exact = scaled_integers(keys).integers
        return np.delete(exact[j] - exact, j, axis=0)

    return frozenset(
        (i, j)
        for i, j in product(range(len(first)), range(len(second)))
        if decide_open_cone(np.vstack([rows(first, i), rows(second, j)])).is_open
    )


def _all_pairs(first: FloatArray, second: FloatArray) -> Pairs:
    return frozenset(product(range(len(first)), range(len(second))))


def _check_refinement(claimed: Callable[[FloatArray, FloatArray], Pairs]) -> Finding:
    trials, counts = [], []
    for seed, (n, dim) in enumerate(((4, 2), (5, 3), (6, 2))):
        first, second = integer_keys(seed, n, dim), integer_keys(seed + 50, n, dim)
        refined = common_refinement([forms_of_keys(first), forms_of_keys(second)])
        cells = frozenset((int(a), int(b)) for a, b in refined.choices)
        counts.append((n * n, len(cells)))
        trials.append(
            equal_trial(
                f"{n} + {n} keys in R^{dim}", _to_lists(cells), _to_lists(claimed(first, second))
            )
        )
    return Finding(
        tuple(trials),
        "A search of the superimposed partition finds cells in "
        f"{', '.join(f'{m} of {n}' for n, m in counts)} pairs of cones. In "
        f"{sum(bool(t.holds) for t in trials)} of {len(trials)} cases these are exactly the pairs "
        "that meet in an open set.",
    )


def _to_lists(pairs: Pairs) -> list[list[int]]:
    return [list(pair) for pair in sorted(pairs)]


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.7a",
        source="SL26",
        where="Definition III.7, section III-B",
        kind="definition",
        statement=(
            "The sets on which one term is maximal are cones, and these cones form the normal fan."
        ),
        content=lambda exponents, coefficients: True,
        check=_check_cones,
        corrupted=lambda exponents, coefficients: False,
        repaired=_are_equal_where_active,
    ),
    Claim(
        id="III.7b",
        source="SL26",
        where="Definition III.7, section III-B",
        kind="definition",
        statement=(
            "Each term is maximal on a full-dimensional set, and the lower-dimensional faces of "
            "these sets form the hypersurface."
        ),
        content=lambda exponents, coefficients: [True] * len(exponents),
        check=_check_full_cells,
        corrupted=lambda exponents, coefficients: [False] * len(exponents),
        repaired=_are_extreme,
    ),
    Claim(
        id="III.8",
        source="SL26",
        where="Definition III.8, section III-B",
        kind="definition",
        statement=(
            "The common refinement of two fans consists of the intersections of their cones, and "
            "equals the superimposition of the two partitions."
        ),
        content=_find_meeting_cones,
        check=_check_refinement,
        corrupted=_all_pairs,
    ),
)
