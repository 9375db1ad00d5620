"""Appendix A of [SL26]: Tables I and II."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.polytopes import Polytope
from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.instances import integer_keys
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import FloatArray


def _check_composite_key(claimed: Callable[[FloatArray, FloatArray], FloatArray]) -> Finding:
    """With q = x W_Q the score is <x W_Q, k>; find the vector a for which it equals <x, a>."""
    trials = []
    for d, d_k in ((3, 3), (4, 2)):
        weight, key = integer_keys(d, d, d_k, 5), integer_keys(9, 1, d_k, 5)[0]
        points = integer_keys(8, 5, d, 5)
        try:
            vector = claimed(weight, key)
            right = vector.shape == (d,) and bool((points @ vector == points @ weight @ key).all())
            why = "a vector"
        except ValueError:
            right, why = False, "the shapes do not fit"
        trials.append(Trial(f"d = {d}, d_k = {d_k}", right, numbers={"result": why}))
    return Finding(
        tuple(trials),
        f"W_Q has d rows and d_k columns. For d = 4, d_k = 2: {trials[1].numbers['result']}. For "
        f"d = d_k = 3 they fit, and the scores {'agree' if trials[0].holds else 'differ'}.",
        "a_j = W_Q k_j, a vector with d entries.",
    )


@dataclass(frozen=True)
class Dictionary:
    """The polytope assigned to a tropical sum or product of two polynomials, given by points."""

    of_sum: Callable[[FloatArray, FloatArray], FloatArray]
    of_product: Callable[[FloatArray, FloatArray], FloatArray]


def _hull_of_union(first: FloatArray, second: FloatArray) -> FloatArray:
    return Polytope.from_points(np.vstack([first, second])).vertices


def _minkowski_sum(first: FloatArray, second: FloatArray) -> FloatArray:
    return minkowski_vertices([first, second]).points


def _check_dictionary(content: Dictionary) -> Finding:
    trials = []
    for seed in range(3):
        first, second = integer_keys(seed, 5, 2, 7), integer_keys(seed + 30, 6, 2, 7)
        p, q = (TropicalPolynomial(slopes, np.zeros(len(slopes))) for slopes in (first, second))
        for word, result, claimed in (
            ("sum", p + q, content.of_sum(first, second)),
            ("product", p * q, content.of_product(first, second)),
        ):
            true = sorted(result.newton_polytope().vertices.tolist())
            same = true == sorted(claimed.tolist())
            trials.append(Trial(f"{word}, pair {seed}", same, numbers={"vertices": len(true)}))
    return Finding(
        tuple(trials),
        f"The Newton polytopes of {len(trials)} tropical sums and products were compared vertex "
        f"by vertex: {sum(bool(t.holds) for t in trials)} are as in the table.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="Tab1",
        source="SL26",
        where="Table I, row of the composite key; Appendix A",
        kind="table",
        statement="The composite key of a head, a vector of model space, is W_Q^T k_j.",
        content=lambda weight, key: weight.T @ key,
        check=_check_composite_key,
        repaired=lambda weight, key: weight @ key,
    ),
    Claim(
        id="Tab2",
        source="SL26",
        where="Table II, Appendix A",
        kind="table",
        statement=(
            "Tropical addition is the convex hull and tropical multiplication the Minkowski sum "
            "of Newton polytopes (the rows on division, residual, denominator and heads are II.1, "
            "III-E.2, III.5c and III.13)."
        ),
        content=Dictionary(_hull_of_union, _minkowski_sum),
        check=_check_dictionary,
        corrupted=Dictionary(_minkowski_sum, _hull_of_union),
    ),
)
