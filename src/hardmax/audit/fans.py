"""Definitions III.7 and III.8 of [SL26]: normal fans and their common refinement."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hardmax.algebra.exact.dyadic import scaled_integers
from hardmax.audit.claims import Claim, Finding, Trial, equal_trial
from hardmax.audit.instances import forms_of_keys, integer_keys
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.refinement import common_refinement
from hardmax.tropical.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

Pairs = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class FanClaim:
    """Whether the cells of a polynomial are said to be cones, and to be full-dimensional."""

    cells_are_cones: bool = True
    one_cell_per_term: bool = True
    apex: tuple[float, float] = (0.0, 0.0)


def _check_fan(content: FanClaim) -> Finding:
    keys = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    flat = PowerDiagram.from_keys(keys)
    biased = PowerDiagram.from_keys(np.vstack([keys, [[0.0, 0.0]]]), [0.0, 0.0, 0.0, 1.0])
    twice = PowerDiagram.from_keys(np.vstack([keys, keys[:1]]))
    bounded = [cell.is_bounded for cell in biased.cells()]
    trials = [
        Trial("equal coefficients", flat.is_fan or not content.cells_are_cones),
        Trial(
            "a term with coefficient 1 above three with coefficient 0",
            biased.is_fan or not content.cells_are_cones,
            condition=False,
            numbers={"bounded_cells": bounded},
        ),
        Trial(
            "two equal exponents",
            twice.n_cells == twice.n_sites or not content.one_cell_per_term,
            condition=False,
            numbers={"n_cells": twice.n_cells, "n_terms": twice.n_sites},
        ),
    ]
    apex = [list(content.apex)]
    trials.append(equal_trial("the apex with equal coefficients", flat.vertices.tolist(), apex))
    return Finding(
        tuple(trials),
        f"With a coefficient the cell of the fourth term is a bounded polygon ({sum(bounded)} of "
        f"{len(bounded)} cells bounded), not a cone; with an exponent twice, {twice.n_sites} terms "
        f"have {twice.n_cells} full-dimensional cells and the hypersurface contains an open set.",
        "A fan if all coefficients of active terms are equal and exponents are distinct; otherwise "
        "a polyhedral complex dual to a regular subdivision.",
    )


def _meeting_cones(first: FloatArray, second: FloatArray) -> Pairs:
    """Return the pairs of cones of two fans whose intersection has an interior, by definition."""

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
                f"{n} + {n} keys in R^{dim}", _listed(cells), _listed(claimed(first, second))
            )
        )
    return Finding(
        tuple(trials),
        "A search of the superimposed partition finds cells in "
        f"{', '.join(f'{m} of {n}' for n, m in counts)} pairs of cones; they are those that meet "
        f"in an open set in {sum(bool(t.holds) for t in trials)} of {len(trials)} cases.",
    )


def _listed(pairs: Pairs) -> list[list[int]]:
    return [list(pair) for pair in sorted(pairs)]


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.7",
        source="SL26",
        where="Definition III.7, section III-B",
        kind="definition",
        statement="The sets where one term is maximal are full-dimensional cones and form the "
        "normal fan; their lower-dimensional faces form the hypersurface.",
        content=FanClaim(),
        check=_check_fan,
        corrupted=FanClaim(apex=(1.0, 0.0)),
        repaired=FanClaim(cells_are_cones=False, one_cell_per_term=False),
    ),
    Claim(
        id="III.8",
        source="SL26",
        where="Definition III.8, section III-B",
        kind="definition",
        statement="The common refinement of two fans consists of the intersections of their "
        "cones, and is the superimposition of the two partitions.",
        content=_meeting_cones,
        check=_check_refinement,
        corrupted=_all_pairs,
    ),
)
