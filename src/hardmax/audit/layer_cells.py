r"""Appendix E of [SL26], first part: the cells of one attention layer, and Assumption E.1.

Cells of heads without bias are vertices of $P_1 + \dots + P_H$; both are counted exactly.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, equal_trial, upper_trial
from hardmax.audit.growth import polynomial_degree
from hardmax.audit.instances import forms_of_keys, integer_keys
from hardmax.audit.polytope_sums import independent_heads, n_vertices
from hardmax.constructions.extremal_points import extremal_heads, extremal_points
from hardmax.geometry.refinement import common_refinement
from hardmax.typing import FloatArray


def _check_assumption(bounded: Callable[[bool], bool]) -> Finding:
    """Is the number of cells of the order N^min(H, d), if H is fixed and if it grows with N?"""
    trials = []
    for name, is_fixed, n_heads, dim, keys in (
        ("H = 3, d = 2", True, lambda n: 3, 2, range(2, 8)),
        ("H = 2, d = 3", True, lambda n: 2, 3, range(2, 8)),
        ("H = N, d = 1", False, lambda n: n, 1, range(2, 8)),
        ("H = N, d = 2", False, lambda n: n, 2, range(2, 9)),
    ):
        counts = [
            common_refinement(
                [head.forms for head in extremal_heads(n, n_heads(n), dim, bias="query")]
            ).count
            for n in keys
        ]
        degree = polynomial_degree(counts)
        order = min(n_heads(keys[-1]), dim)
        trials.append(
            equal_trial(
                f"{name}, query bias, N = {keys[0]} to {keys[-1]}: the degree in N is at most "
                f"{order}",
                degree <= order,
                bounded(is_fixed),
                counts=counts,
                degree=degree,
            )
        )
    listed = ", ".join(f"{t.numbers['degree']} ({t.instance.split(', query')[0]})" for t in trials)
    return Finding(
        tuple(trials),
        f"Degrees in N of the largest numbers of cells of a layer: {listed}. With H and d fixed "
        "the order N^min(H,d) holds; with heads as many as keys it does not, so the assumption is "
        "needed.",
    )


def _check_fan_of_sum(count: Callable[[Sequence[FloatArray]], int]) -> Finding:
    trials = []
    for n, h, d in ((5, 1, 2), (5, 2, 2), (4, 3, 3), (4, 2, 4)):
        heads = [integer_keys(50 + 10 * d + i, n, d, 60) for i in range(h)]
        true = common_refinement([forms_of_keys(head) for head in heads]).count
        where = f"N = {n}, H = {h}, d = {d}: cells of the refined normal fans"
        trials.append(equal_trial(where, true, count(heads)))
    counts = ", ".join(f"{t.numbers['true']} and {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Full cones of the refinement and vertices of the sum: {counts}.",
    )


def _check_constant(degrees: Callable[[int, int], tuple[int, int]]) -> Finding:
    trials = []
    for d in (2, 3):
        counts = [n_vertices(extremal_points(n, d, d)) for n in range(3, 9)]
        where = f"growth in N for H = d = {d}"
        in_keys, in_heads = degrees(d, d)
        trials.append(upper_trial(where, polynomial_degree(counts), in_keys, counts=counts))
        counts = [n_vertices(extremal_points(4, h, d)) for h in range(d, d + 6)]
        where = f"growth in H for N = 4, d = {d}"
        true = polynomial_degree(counts)
        trials.append(upper_trial(where, true, in_heads, condition=False, counts=counts))
    heads = trials[3].numbers
    return Finding(
        tuple(trials),
        "For fixed H the bound holds. But with N = 4, d = 3 and H = 3 to 8 the count is "
        f"{', '.join(map(str, heads['counts']))}, of degree {heads['true']} in H: no constant "
        "that depends on d alone will do.",
        "The constant must grow with H like H^(d-1) (H^d with bias).",
    )


def _check_low_rank(bound: Callable[[int, int, int], int]) -> Finding:
    trials, n = [], 5
    for n_heads in (2, 3, 4):
        embedded = [np.pad(head, ((0, 0), (0, 2))) for head in extremal_points(n, n_heads, 2)]
        where = f"keys of all {n_heads} heads in one plane of R^4, N = {n}"
        trials.append(upper_trial(where, n_vertices(embedded), bound(n, n_heads, 2)))
    apart = independent_heads(n, 3, 2)
    where = f"keys of each of 3 heads in a plane of its own in R^6, N = {n}"
    trials.append(upper_trial(where, n_vertices(apart), bound(n, 3, 2), condition=False))
    counts = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials[:-1])
    return Finding(
        tuple(trials),
        f"One plane for all heads: {counts}. A plane for each head: {trials[-1].numbers['true']} "
        f"vertices, more than {trials[-1].numbers['claimed']}.",
        "The dimension is that of the sum: of the span of the keys of all heads together.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "E.1",
        "SL26",
        "Assumption E.1, Appendix E",
        "assumption",
        "The dimension and the number of heads are constants that do not grow with N, in the "
        "strict limit; the orders in N that follow are stated under this assumption.",
        content=lambda heads_are_fixed: heads_are_fixed,
        check=_check_assumption,
        corrupted=lambda heads_are_fixed: True,
    ),
    Claim(
        "AppE.1",
        "SL26",
        "Appendix E, the MHSA partition",
        "proof step",
        "The routing partition of a layer is the common refinement of the heads' normal fans, and "
        "its full cells are as many as the vertices of the Minkowski sum.",
        content=n_vertices,
        check=_check_fan_of_sum,
        corrupted=lambda heads: sum(n_vertices([head]) for head in heads),
    ),
    Claim(
        "AppE.2",
        "SL26",
        "Appendix E, the MHSA partition",
        "proof step",
        "A layer has at most C_d N^min(H,d) cells, with a constant C_d of the dimension.",
        content=lambda n_heads, dim: (min(n_heads, dim), 0),
        check=_check_constant,
        corrupted=lambda n_heads, dim: (min(n_heads, dim) - 2, 0),
    ),
    Claim(
        "AppE.3",
        "SL26",
        "Appendix E, remark on low-dimensional keys",
        "remark",
        "If the keys span d' < d dimensions, d' takes the place of d: at most of the order of "
        "N^min(H,d') cells.",
        content=lambda n, h, d: n ** min(h, d),
        check=_check_low_rank,
        corrupted=lambda n, h, d: n ** (min(h, d) - 1),
    ),
)
