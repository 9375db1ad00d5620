"""Appendix D of [SL26]: the steps of the proof that bounds the vertices of a Minkowski sum."""

from collections.abc import Callable, Sequence
from itertools import product
from math import comb
from typing import Any

import numpy as np

from hardmax.bounds import cells_bias_free, paper
from hardmax.exact.forms import AffineForms
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial, upper_trial
from hardmax.papers.subjects.counting.growth import polynomial_degree
from hardmax.papers.subjects.counting.polytope_sums import max_vertices
from hardmax.papers.subjects.instances import integer_keys
from hardmax.typing import FloatArray


def all_sums(heads: Sequence[FloatArray]) -> FloatArray:
    """Return all sums of one point from each head: the points of the Minkowski sum."""
    return np.array([np.sum(choice, axis=0) for choice in product(*heads)])


def union_of_points(heads: Sequence[FloatArray]) -> FloatArray:
    """Return the points of all heads together: these span the hull of the union, not the sum."""
    return np.concatenate(heads)


def _hull_vertices(points: FloatArray) -> list[list[float]]:
    vertices = points[extreme_points(points)]
    return sorted(map(list, np.unique(vertices, axis=0).tolist()))


def _check_newton_polytope(generators: Callable[[Sequence[FloatArray]], FloatArray]) -> Finding:
    trials, notes = [], []
    for n_keys, n_heads, dim in ((4, 2, 2), (4, 3, 3), (5, 2, 4)):
        heads = [integer_keys(20 * dim + h, n_keys, dim, 50) for h in range(n_heads)]
        # The vertices of the Newton polytope of F = f_1 + ... + f_H are the gradients of F.
        parts = common_refinement([AffineForms(head, np.zeros(n_keys)) for head in heads])
        gradients = [
            np.sum([head[j] for head, j in zip(heads, choice, strict=True)], axis=0).tolist()
            for choice in parts.choices
        ]
        summed = np.unique(minkowski_vertices(heads).points, axis=0).tolist()
        claimed = _hull_vertices(generators(heads))
        where = f"N = {n_keys}, H = {n_heads}, d = {dim}: gradients of F, all of them"
        numbers = {"vertices": len(summed), "claimed": len(claimed)}
        trials.append(Trial(where, sorted(gradients) == summed == claimed, numbers=numbers))
        notes.append(str(len(summed)))
    return Finding(
        tuple(trials),
        f"The slopes of the summed potential ({', '.join(notes)} of them) are the vertices of the "
        "Minkowski sum. The refinement of fans and the hull of all sums give the same points.",
    )


_SETTINGS = ((6, 3, 3), (4, 2, 3), (3, 5, 3), (4, 4, 2), (3, 5, 4), (7, 1, 3), (5, 2, 1))


def _check_cited_bound(bound: Callable[[int, int, int], int]) -> Finding:
    trials = []
    for n_keys, n_heads, dim in _SETTINGS:
        where = f"N = {n_keys}, H = {n_heads}, d = {dim}"
        most = max_vertices(n_keys, n_heads, dim)
        trials.append(upper_trial(where, most, bound(n_keys, n_heads, dim), extremal=True))
    formula = [
        (cells_bias_free(n, h, d), bound(n, h, d))
        for n in range(2, 12)
        for h in range(1, 12)
        for d in range(1, 9)
    ]
    exceeded = [pair for pair in formula if pair[0] > pair[1]]
    grid = "the largest vertex number, N = 2 to 11, H = 1 to 11, d = 1 to 8"
    trials.append(Trial(grid, not exceeded, numbers={"exceeded": len(exceeded)}))
    pairs = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials[:3])
    return Finding(
        tuple(trials),
        f"Largest numbers of vertices and the bound: {pairs}. The bound is never exceeded in "
        f"{len(formula)} settings, and not attained for H > 1.",
        "A_0 = sum_{j<d} binom(H,j) (N-1)^j + binom(H-1,d-1).",
    )


def edge_bound(n_keys: int, n_heads: int, dim: int) -> int:
    """Bound the vertices by the vertices of a zonotope with one zone per pair of keys of a head."""
    zones = n_heads * comb(n_keys, 2)
    return 2 * sum(comb(zones - 1, j) for j in range(dim))


def _check_attribution(source: Callable[[int, int, int], int] | None) -> Finding:
    if source is None:
        trial = Trial("the text of the cited article", None)
        return Finding(
            (trial,),
            "No computation can tell whether the cited article of 1993 contains this inequality, "
            "and its text is not available here. The truth of the inequality is a separate claim.",
        )
    trials = [
        equal_trial(f"N = {n}, H = {h}, d = {d}", source(n, h, d), paper.appendix_d(n, h, d))
        for n, h, d in _SETTINGS
    ]
    return Finding(tuple(trials), "Compare the formula in the source with the quoted formula.")


def _check_few_heads(bound: Callable[[int, int], int]) -> Finding:
    trials = []
    for n_keys, n_heads, dim in ((6, 1, 2), (6, 2, 3), (4, 3, 4), (3, 4, 5), (6, 3, 3)):
        most = max_vertices(n_keys, n_heads, dim)
        where = f"N = {n_keys}, H = {n_heads}, d = {dim}"
        claimed, extremal = bound(n_keys, n_heads), n_heads < dim
        trials.append(upper_trial(where, most, claimed, extremal=extremal))
    pairs = ", ".join(f"{t.numbers['true']} (bound: {t.numbers['claimed']})" for t in trials)
    return Finding(
        tuple(trials),
        f"Largest numbers of vertices: {pairs}.",
        "N^H, attained for H < d; this is the number of all sums of vertices.",
    )


def _check_order_before_mcmullen(bound: Callable[[int, int, int], int]) -> Finding:
    trials = []
    for n_heads, dim in ((3, 2), (4, 3), (5, 4)):
        keys = range(3, dim + 5)
        counts = [max_vertices(n, n_heads, dim) for n in keys]
        true = polynomial_degree(counts)
        claimed = polynomial_degree([bound(n, n_heads, dim) for n in keys])
        where = f"growth in N for H = {n_heads}, d = {dim}"
        trials.append(upper_trial(where, true, claimed, extremal=True, counts=counts))
        values = [bound(n, n_heads, dim) for n in keys]
        where = f"the most vertices themselves, H = {n_heads}, d = {dim}, N = 3 to {dim + 4}"
        within = all(a <= b for a, b in zip(counts, values, strict=True))
        numbers = {"true": counts, "claimed": values}
        trials.append(Trial(where, within, tight=counts == values, numbers=numbers))
    degrees = ", ".join(
        f"{t.numbers['true']} (stated: {t.numbers['claimed']})" for t in trials[::2]
    )
    return Finding(
        tuple(trials),
        f"Degrees in N of the exact maxima: {degrees}.",
        "sum_{j<d} binom(H,j) (N-1)^j + binom(H-1,d-1), of the order (NH)^(d-1): the sum over k "
        "of binom(H-1,k) N^(k+1) is too large by one power of N.",
    )


def _check_generators(generators: Callable[[int, int], int]) -> Finding:
    trials = []
    for n_keys, n_heads, dim in ((6, 2, 3), (5, 3, 4), (6, 3, 3), (8, 4, 3)):
        most = max_vertices(n_keys, n_heads, dim)
        where = f"N = {n_keys}, H = {n_heads}, d = {dim}: vertices, each one of the generators"
        claimed = generators(n_keys, n_heads)
        trials.append(upper_trial(where, most, claimed, extremal=n_heads < dim))
    pairs = ", ".join(f"{t.numbers['true']} and {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"A hull has at most as many vertices as generating points, but here the numbers of "
        f"vertices and of these points are {pairs}. McMullen's theorem bounds the numbers of faces "
        "in terms of the number of vertices and makes no statement about that number.",
        "The sum is the hull of N^H points; if H < d, all of them are vertices for some heads.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "AppD.1",
        "SL26",
        "Appendix D, first part",
        "proof step",
        "The Newton polytope of the sum of the heads' potentials is the Minkowski sum of their "
        "Newton polytopes.",
        content=all_sums,
        check=_check_newton_polytope,
        corrupted=union_of_points,
    ),
    Claim(
        "AppD.2",
        "SL26",
        "Appendix D, cited inequality",
        "proof step",
        "A sum of H polytopes has at most sum_k binom(H-1,k) max_{|I|=k+1} prod_I f_0 vertices, k "
        "< d.",
        content=paper.appendix_d,
        check=_check_cited_bound,
        corrupted=lambda n, h, d: paper.appendix_d(n, h, d) // (2 * n),
        repaired=cells_bias_free,
    ),
    Claim(
        "AppD.3",
        "SL26",
        "Appendix D, cited inequality",
        "attribution",
        "The inequality of AppD.2 is a classical result of Gritzmann and Sturmfels (1993).",
        content=None,
        check=_check_attribution,
        corrupted=edge_bound,
    ),
    Claim(
        "AppD.4",
        "SL26",
        "Appendix D, case H <= d",
        "proof step",
        "For H <= d, the number of vertices is at most N (1 + N)^(H-1).",
        content=lambda n_keys, n_heads: n_keys * (1 + n_keys) ** (n_heads - 1),
        check=_check_few_heads,
        corrupted=lambda n_keys, n_heads: n_keys ** (n_heads - 1),
        repaired=lambda n_keys, n_heads: n_keys**n_heads,
    ),
    Claim(
        "AppD.5",
        "SL26",
        "Appendix D, case H > d",
        "proof step",
        "For H > d, the number of vertices is at most of the order (NH)^d.",
        content=lambda n, h, d: (n * h) ** d,
        check=_check_order_before_mcmullen,
        corrupted=lambda n, h, d: (n * h) ** (d - 2),
        repaired=cells_bias_free,
    ),
    Claim(
        "AppD.6",
        "SL26",
        "Appendix D, last step",
        "proof step",
        "The Minkowski sum is generated by at most N H points, so McMullen's upper bound theorem "
        "for N H points bounds its number of vertices.",
        content=lambda n_keys, n_heads: n_keys * n_heads,
        check=_check_generators,
        repaired=lambda n_keys, n_heads: n_keys**n_heads,
    ),
)
