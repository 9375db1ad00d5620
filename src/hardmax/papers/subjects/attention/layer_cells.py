r"""Appendix E of [SL26], first part: the cells of one attention layer, and Assumption E.1.

Cells of heads without bias are vertices of $P_1 + \dots + P_H$; both are counted exactly.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from hardmax.bounds import cells_bias_free, cells_with_bias
from hardmax.bounds.sizes import Bias
from hardmax.constructions.families.extremal_points import extremal_points
from hardmax.geometry.refinement import common_refinement
from hardmax.papers.claims import Claim, Finding, equal_trial, upper_trial
from hardmax.papers.subjects.counting.growth import polynomial_degree
from hardmax.papers.subjects.counting.polytope_sums import (
    extremal_cells,
    independent_heads,
    n_vertices,
)
from hardmax.papers.subjects.instances import forms_of_keys, integer_keys
from hardmax.typing import FloatArray


def _check_assumption(degree: Callable[[int | None, int], int]) -> Finding:
    """Compute the degree in N of the largest number of cells, for fixed H and for H = N (None)."""
    trials = []
    for n_heads, dim in ((1, 2), (3, 2), (2, 3), (None, 1), (None, 2)):
        keys = range(2, 2 * dim + 5)
        counts = [extremal_cells(n, n if n_heads is None else n_heads, dim, "query") for n in keys]
        name = f"H = {'N' if n_heads is None else n_heads}, d = {dim}"
        true = polynomial_degree(counts)
        where = f"{name}, query bias, N = {keys[0]} to {keys[-1]}: degree in N"
        trials.append(equal_trial(where, true, degree(n_heads, dim), counts=counts))
        formula = [cells_with_bias(n, n if n_heads is None else n_heads, dim) for n in keys]
        trials.append(equal_trial(f"{name}: the counts, and no layer has more", counts, formula))
    listed = ", ".join(
        f"{t.numbers['true']} ({t.instance.split(', query')[0]})" for t in trials[::2]
    )
    return Finding(
        tuple(trials),
        f"Degrees in N of the largest number of cells of a layer: {listed}. With H and d fixed, "
        "the order is N^min(H,d); with as many heads as keys it is N^(2d), so the assumption is "
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
        f"Full-dimensional cones of the refinement and vertices of the sum: {counts}.",
    )


def _check_constant(degrees: Callable[[int, int, Bias], tuple[int, int]]) -> Finding:
    trials = []
    biases: tuple[Bias, ...] = ("none", "query")
    for d, bias in product((2, 3), biases):
        counts = [extremal_cells(n, d, d, bias) for n in range(3, 9)]
        where = f"growth in N for H = d = {d}, bias: {bias}"
        in_keys, in_heads = degrees(d, d, bias)
        true = polynomial_degree(counts)
        trials.append(upper_trial(where, true, in_keys, extremal=True, counts=counts))
        counts = [extremal_cells(4, h, d, bias) for h in range(d, d + 6)]
        where = f"growth in H for N = 4, d = {d}, bias: {bias}"
        true = polynomial_degree(counts)
        trials.append(
            upper_trial(where, true, in_heads, condition=False, extremal=True, counts=counts)
        )
    heads = next(t.numbers for t in trials if t.instance.startswith("growth in H for N = 4, d = 3"))
    return Finding(
        tuple(trials),
        "For fixed H the bound holds. But with N = 4, d = 3 and H = 3 to 8 the count is "
        f"{', '.join(map(str, heads['counts']))}, a polynomial of degree {heads['true']} in H: no "
        "constant that depends on d alone is large enough.",
        "Without bias, for H >= d, the constant must grow with H like H^(d-1) and the power of N "
        "is d - 1. With a query bias these are H^d and d.",
    )


def _check_low_rank(bound: Callable[[int, int, int, int], int]) -> Finding:
    """Test a bound on N, H, the dimension of each head's keys, and the dimension of all keys."""
    trials, n = [], 5
    for n_heads in (2, 3, 4):
        embedded = [np.pad(head, ((0, 0), (0, 2))) for head in extremal_points(n, n_heads, 2)]
        where = f"keys of all {n_heads} heads in one plane of R^4, N = {n}"
        claimed = bound(n, n_heads, 2, 2)
        trials.append(upper_trial(where, n_vertices(embedded), claimed, extremal=True))
    for n_heads in (2, 3):
        apart = independent_heads(n, n_heads, 2)
        where = f"keys of each of {n_heads} heads in a plane of its own, N = {n}"
        claimed = bound(n, n_heads, 2, 2 * n_heads)
        most = n_vertices(apart)
        trials.append(upper_trial(where, most, claimed, condition=n_heads == 2, extremal=True))
    counts = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials[:-1])
    last = trials[-1].numbers
    return Finding(
        tuple(trials),
        f"With all heads in one plane, or two heads in a plane each, the bound holds: {counts}. "
        f"Three heads in a plane each have {last['true']} vertices; the claimed maximum is "
        f"{last['claimed']}.",
        "The relevant dimension is the dimension of the sum, that is, of the span of the keys of "
        "all heads together. With this dimension, the exact maximum is given by V.2a.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "E.1",
        "SL26",
        "Assumption E.1, Appendix E",
        "assumption",
        "The dimension and the number of heads are constants that do not grow with N, in the "
        "strict limit; the orders in N that follow are stated under this assumption.",
        content=lambda n_heads, dim: 2 * dim if n_heads is None else min(n_heads, dim),
        check=_check_assumption,
        corrupted=lambda n_heads, dim: dim if n_heads is None else min(n_heads, dim),
    ),
    Claim(
        "AppE.1",
        "SL26",
        "Appendix E, the MHSA partition",
        "proof step",
        "The routing partition of a layer is the common refinement of the heads' normal fans, and "
        "its full-dimensional cells are as many as the vertices of the Minkowski sum.",
        content=n_vertices,
        check=_check_fan_of_sum,
        corrupted=lambda heads: sum(n_vertices([head]) for head in heads),
    ),
    Claim(
        "AppE.2",
        "SL26",
        "Appendix E, the MHSA partition",
        "proof step",
        "A layer has at most C_d N^min(H,d) cells, where the constant C_d depends only on the "
        "dimension.",
        content=lambda n_heads, dim, bias: (min(n_heads, dim), 0),
        check=_check_constant,
        corrupted=lambda n_heads, dim, bias: (min(n_heads, dim) - 2, 0),
        repaired=lambda n_heads, dim, bias: (
            (min(n_heads, dim - 1), dim - 1) if bias == "none" else (min(n_heads, dim), dim)
        ),
        unmoved={
            "content[first] + 1": "an upper bound remains one when it is increased",
            "content[last]": "no constant power of H is enough, whichever is stated",
        },
    ),
    Claim(
        "AppE.3",
        "SL26",
        "Appendix E, remark on low-dimensional keys",
        "remark",
        "If the keys (of each head) span d' < d dimensions, d' replaces d: there are at most of "
        "the order of N^min(H,d') cells.",
        content=lambda n, h, each, together: n ** min(h, each),
        check=_check_low_rank,
        corrupted=lambda n, h, each, together: n ** (min(h, each) - 1),
        repaired=lambda n, h, each, together: cells_bias_free(n, h, together),
        unmoved={"content + 1": "an upper bound remains one when it is increased"},
    ),
)
