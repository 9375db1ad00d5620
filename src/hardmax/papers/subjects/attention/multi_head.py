r"""Section V-A of [SL26]: the Newton polytopes of one head and of several.

The vertices of $P_1 + \dots + P_H \subset \mathbb R^d$ are counted exactly (`minkowski_vertices`),
where $P_h$ is the hull of the $N$ slopes of head $h$.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.bounds import cells_bias_free, paper
from hardmax.constructions.families.extremal_points import extremal_points
from hardmax.geometry.cayley import cayley_polytope
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial, upper_trial
from hardmax.papers.subjects.counting.growth import polynomial_degree
from hardmax.papers.subjects.counting.polytope_sums import (
    are_in_general_position,
    climb_to_vertices,
    independent_heads,
    max_vertices,
    maximum_of_sizes,
    n_vertices,
    overlay_identity,
    tilted_parabolas,
)
from hardmax.papers.subjects.instances import integer_keys
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bound = Callable[[int, int, int], int]


def _check_single_head(bound: Callable[[int], int]) -> Finding:
    polygon = extremal_points(9, 1, 2)[0]
    trials = [
        upper_trial("9 keys on a parabola, d = 2", n_vertices([polygon]), bound(9), extremal=True),
        upper_trial("the same 9 keys twice", n_vertices([np.tile(polygon, (2, 1))]), bound(18)),
        upper_trial("9 keys on a line (head size 1)", n_vertices([polygon[:, :1]]), bound(9)),
    ]
    trials += [
        upper_trial(
            f"30 random keys, d = {dim}", n_vertices([integer_keys(dim, 30, dim)]), bound(30)
        )
        for dim in (2, 4, 8)
    ]
    counts = ", ".join(f"{trial.numbers['true']} ({trial.instance})" for trial in trials)
    return Finding(
        tuple(trials),
        f"Vertices found: {counts}. The bound is attained by keys in convex position; in a head "
        "of size 1, only two keys are vertices.",
    )


_STANDARD = ((6, 2, 3), (5, 3, 4), (2, 3, 3), (6, 3, 3), (5, 4, 4), (9, 2, 2))


def _check_standard_regime(bound: Bound) -> Finding:
    trials = [
        upper_trial(
            f"N = {n}, H = {h}, d = {d}: extremal parabolas",
            max_vertices(n, h, d),
            bound(n, h, d),
            extremal=True,
        )
        for n, h, d in _STANDARD
    ]
    at_d = [t for t, (n, h, d) in zip(trials, _STANDARD, strict=True) if h == d and n > 2]
    trials += [
        upper_trial(
            f"N = {n}, H = {h}, d = {d}: random keys",
            n_vertices([integer_keys(10 * h + i, n, d) for i in range(h)]),
            bound(n, h, d),
        )
        for n, h, d in _STANDARD
    ]
    where = "N = 3, H = d = 3: the most found by moving keys one at a time, 200 steps"
    trials.append(upper_trial(where, climb_to_vertices(3, 3, 3, 200), bound(3, 3, 3)))
    pairs = ", ".join(f"{t.numbers['true']} instead of {t.numbers['claimed']}" for t in at_d)
    return Finding(
        tuple(trials),
        "The bound holds, and is attained for H < d and for N = 2. For H = d and N > 2 the exact "
        f"maximum is {pairs}: the order N^d is not reached.",
        "The maximum is N^H for H < d and N^d - (N-1)^d + 1, of order N^(d-1), for H = d.",
    )


def _check_saturated_regime(bound: Bound) -> Finding:
    trials, notes = [], []
    for n_heads, dim in ((3, 2), (4, 3), (5, 4)):
        keys = range(3, dim + 5)
        counts = [max_vertices(n, n_heads, dim) for n in keys]
        true = polynomial_degree(counts)
        claimed = polynomial_degree([bound(n, n_heads, dim) for n in keys])
        notes.append(f"degree {true} in N for d = {dim} (claimed {claimed})")
        where = f"growth in N for H = {n_heads}, d = {dim}, N = 3 to {dim + 4}"
        trials.append(upper_trial(where, true, claimed, extremal=True, counts=counts))
    sizes = (8, 16, 32)
    doubling = [max_vertices(n, 4, 3) for n in sizes]
    claims = [bound(n, 4, 3) for n in sizes]
    # An order does not fix the constant, so a bound that is too small shows only in the degrees.
    if all(trial.holds for trial in trials):
        for n, most, claimed in zip(sizes, doubling, claims, strict=True):
            where = f"N = {n}, H = 4, d = 3: extremal parabolas"
            trials.append(upper_trial(where, most, claimed, extremal=True))
    return Finding(
        tuple(trials),
        f"The exact maxima grow with {'; '.join(notes)}. For d = 3, H = 4 and N = 8, 16, 32 the "
        f"sum can have {', '.join(map(str, doubling))} vertices; the stated order gives "
        f"{', '.join(map(str, claims))}.",
        "For H >= d the maximum is sum_{j<d} binom(H,j) (N-1)^j + binom(H-1,d-1), of the order "
        "(NH)^(d-1).",
        lambda: _growth_figure(sizes, doubling, claims),
    )


def _growth_figure(sizes: Sequence[int], counts: Sequence[int], claims: Sequence[int]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.loglog(sizes, counts, "o-", label="largest number of vertices, counted")
    axes.loglog(sizes, claims, "s--", label="stated order")
    axes.set(xlabel="keys N", ylabel="vertices", title="4 heads in 3 dimensions")
    axes.legend()
    return figure


def _check_general_position(predicted: Callable[[Sequence[FloatArray]], int]) -> Finding:
    trials, counts = [], []
    for seed in range(4):
        heads = [integer_keys(100 * seed + i, 6, 3, 999) for i in range(3)]
        if are_in_general_position(heads):
            counts.append(n_vertices(heads))
            where = f"random keys {seed}, N = 6, H = d = 3, in general position"
            trials.append(equal_trial(where, counts[-1], predicted(heads)))
    return Finding(
        tuple(trials),
        "Sums of three polytopes with 6 points each, all in general position (decided exactly), "
        f"have {', '.join(map(str, counts))} vertices; the maximum is {cells_bias_free(6, 3, 3)}. "
        "General position does not make the number maximal, nor does it determine the number. If "
        "maximality is meant as a separate assumption, it cannot be tested.",
        "In space, the number follows from the sums of pairs (Euler's formula for an overlay).",
    )


@dataclass(frozen=True)
class SimplicialCayley:
    """The faces of the Cayley polytope that have to be simplices, and when this is possible.

    Attributes:
        mixed_only: Whether only facets with points of both heads count.
        satisfiable: Whether two heads with N vertices each can satisfy this, given N and d.
    """

    mixed_only: bool
    satisfiable: Callable[[int, int], bool]


def _check_simplicial_cayley(content: SimplicialCayley) -> Finding:
    trials = []
    for n_keys, dim in ((3, 3), (4, 3), (5, 4), (6, 3), (7, 4)):
        t = np.arange(n_keys, dtype=np.float64)[:, None]
        heads = [(t + shift) ** np.arange(1, dim + 1) for shift in (0, 9)]  # moment curves
        used = [n_vertices([head]) for head in heads]
        polytope = cayley_polytope(heads)
        # The first coordinate is 0 on one head and 1 on the other.
        sides = polytope.facets.vertices
        mixed = np.array([len(set(polytope.vertices[row, 0].tolist())) == 2 for row in sides])
        asked = mixed if content.mixed_only else np.ones(len(sides), dtype=bool)
        simplices = bool((sides[asked].sum(axis=1) == polytope.affine_dim).all())
        kinds = "every mixed facet" if content.mixed_only else "every facet"
        trials.append(
            equal_trial(
                f"N = {n_keys}, d = {dim}, hulls with {used} vertices: {kinds} is a simplex",
                simplices,
                content.satisfiable(n_keys, dim),
                condition=n_keys <= dim + 1,
                all_facets=polytope.is_simplicial,
            )
        )
    simplicial = "; ".join(
        t.instance.split(", hulls")[0] for t in trials if t.numbers["all_facets"]
    )
    return Finding(
        tuple(trials),
        f"For two heads on moment curves, the Cayley polytope is simplicial for {simplicial}, and "
        "not in the other cases tried. Every P_h is a face of the Cayley polytope, and a simplex "
        "in d dimensions has at most d + 1 vertices. As worded, the hypothesis therefore allows "
        "no head more than d + 1 vertices. If it concerns only the mixed faces, which the text "
        "mentions before it, it can be satisfied.",
        "The intended condition: every facet that contains points of at least two heads is a "
        "simplex.",
    )


def _check_figure_4(counts: tuple[int, int]) -> Finding:
    single, total = counts
    families = {
        "tilted parabolas": tilted_parabolas(6, 3, 3),
        "integer parabolas": extremal_points(6, 3, 3),
        "random keys": [integer_keys(i, 6, 3, 999) for i in range(3)],
    }
    found = {name: n_vertices(heads) for name, heads in families.items()}
    formula = [overlay_identity(heads) for heads in families.values()]
    # By Euler's formula, the number increases with the numbers of the pairs, and a pair has at most
    # 6 * 6.
    pair = 6 * 6
    largest = 2 + 3 * (pair - 2) - 3 * (6 - 2)
    trials = [
        equal_trial("the most vertices of one hull of 6 points", 6, single),
        Trial(
            "Euler's formula for the overlay of three normal fans",
            list(found.values()) == formula,
            numbers={"counted": list(found.values()), "from the pairs": formula},
        ),
        Trial(f"{largest} is attained", max(found.values()) == largest),
        equal_trial("the most vertices of a sum of three such hulls", largest, total),
    ]
    return Finding(
        tuple(trials),
        "Sums of three polytopes with 6 vertices each in space: "
        f"{', '.join(f'{count} vertices ({name})' for name, count in found.items())}. The sum of "
        f"a pair has at most {pair} vertices, so the total has at most 2 + 3 * {pair - 2} - 3 * "
        f"{6 - 2} = {largest}. The claimed number is {total}; there are {6**3} sums of vertices.",
        f"The number goes from 6 to at most {largest}.",
        lambda: _figure_4(families["integer parabolas"]),
    )


def _figure_4(heads: Sequence[FloatArray]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.0), layout="constrained")
    for i in range(3):
        part = minkowski_vertices(heads[: i + 1])
        axes = figure.add_subplot(1, 3, i + 1, projection="3d")
        for edge in part.edges:
            axes.plot(*part.points[edge].T, color="0.6", linewidth=0.6)
        axes.scatter(*part.points.T, s=5)
        axes.set_title(f"{i + 1} heads: {part.count}" if i else f"1 head: {part.count}")
        axes.set_axis_off()
    return figure


def _check_growth_with_heads(count: Bound) -> Finding:
    trials, notes = [], []
    for dim, heads in ((6, (1, 2, 3, 4)), (3, (2, 3, 4, 5, 6, 7))):
        counts = [max_vertices(4, h, dim) for h in heads]
        notes.append(f"{', '.join(map(str, counts))} for d = {dim}, H = {heads[0]} to {heads[-1]}")
        for h, most in zip(heads, counts, strict=True):
            where = f"N = 4, d = {dim}: the most vertices with {h} heads"
            trials.append(equal_trial(where, most, count(4, h, dim), condition=h < dim))
    degree = polynomial_degree([max_vertices(4, h, 3) for h in range(4, 10)])
    return Finding(
        tuple(trials),
        f"Largest number of vertices for N = 4: {'; '.join(notes)}. Another head multiplies the "
        "number by N as long as H < d; beyond that, the number is a polynomial of degree "
        f"{degree} = d - 1 in H.",
        "N^H, exponential in H, for H < d only; for H >= d, sum_{j<d} binom(H,j) (N-1)^j + "
        "binom(H-1,d-1).",
    )


def _check_budget(weights: Callable[[int, int], int]) -> Finding:
    trials = []
    for dim, n_heads in ((64, 1), (64, 4), (64, 8), (512, 1), (512, 8)):
        shapes = [(dim, dim // n_heads)] * (3 * n_heads) + [(dim, dim)]
        true = sum(np.empty(shape).size for shape in shapes)
        where = f"d = {dim}, H = {n_heads}, head size {dim // n_heads}"
        trials.append(equal_trial(where, true, weights(dim, n_heads)))
    return Finding(
        tuple(trials),
        f"Counted over the matrices of a layer, there are {trials[-1].numbers['true']:,} weights "
        "for d = 512, both with 1 head and with 8.",
    )


def _check_vertex_number(printed: str) -> Finding:
    true = f"{512**8:.1e}".replace("e+", "e")
    small = n_vertices(independent_heads(4, 3, 2))
    trials = [
        equal_trial("512^8 to the digits printed", true, printed, exact=512**8),
        equal_trial("N^H is attained: N = 4, H = 3, head size 2, d = 6", small, 4**3),
    ]
    return Finding(
        tuple(trials),
        f"512^8 = 2^72 = {512**8:,}, which is {true} when rounded; the example prints {printed}. "
        f"The value itself can be reached: heads in independent subspaces have {small} = 4^3.",
        f"512^8 is about {true}.",
    )


def _check_polytope_gain(count: Callable[[int, int, int], int]) -> Finding:
    trials = []
    for n_heads, head_dim in ((1, 8), (1, 2), (2, 2), (2, 4), (3, 2), (2, 1), (3, 1)):
        for n in (3, 4, 6):
            # Zero slopes in additional coordinates make d large compared with H.
            heads = [np.pad(p, ((0, 0), (0, 14))) for p in independent_heads(n, n_heads, head_dim)]
            where = f"N = {n}, H = {n_heads}, d = {n_heads * head_dim + 14}, head size {head_dim}"
            trials.append(
                equal_trial(
                    where,
                    n_vertices(heads),
                    count(n, n_heads, head_dim),
                    condition=head_dim >= 2,
                )
            )
    flat = [t.numbers["true"] for t in trials if "head size 1" in t.instance]
    return Finding(
        tuple(trials),
        "Heads in independent subspaces have exactly N^H vertices; one head has N in every "
        f"dimension. Heads of size 1 give {flat[0]} for H = 2 and {flat[-1]} for H = 3, whatever "
        "N, so the head size must be at least 2.",
        "N^H for H < d and head size at least 2; 2^H for heads of size 1.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "V-A",
        "SL26",
        "Section V-A, before Proposition V.1",
        "remark",
        "The number of extreme points of the layer's polytope grows exponentially with the number "
        "of heads.",
        content=lambda n_keys, n_heads, dim: n_keys**n_heads,
        check=_check_growth_with_heads,
        corrupted=lambda n_keys, n_heads, dim: n_keys ** (2 * n_heads),
        repaired=cells_bias_free,
    ),
    Claim(
        "Fig4",
        "SL26",
        "Figure 4, section V-A",
        "figure",
        "In three dimensions, with 6 keys, the number of vertices grows from 6 for one head to "
        "216 for the sum over the heads.",
        content=(6, 216),
        check=_check_figure_4,
        repaired=(6, 92),
    ),
    Claim(
        "V.1",
        "SL26",
        "Proposition V.1, section V-A",
        "proposition",
        "The Newton polytope of one head is the hull of its N projected keys; it has at most N "
        "vertices, in every dimension.",
        content=paper.proposition_v1,
        check=_check_single_head,
        corrupted=lambda n_keys: n_keys - 1,
    ),
    Claim(
        "V.2a",
        "SL26",
        "Theorem V.2 (standard regime), section V-A",
        "theorem",
        "For H <= d, the sum of the heads' polytopes has at most of the order of N^H vertices.",
        content=paper.theorem_v2,
        check=_check_standard_regime,
        corrupted=lambda n, h, d: n ** (h - 1),
        repaired=cells_bias_free,
    ),
    Claim(
        "V.2b",
        "SL26",
        "Theorem V.2 (saturated regime), section V-A",
        "theorem",
        "For H > d, the sum of the heads' polytopes has at most of the order of (NH)^floor(d/2) "
        "vertices.",
        content=paper.theorem_v2,
        check=_check_saturated_regime,
        repaired=cells_bias_free,
        neighbours={"repaired: the order without its constant": lambda n, h, d: (n * h) ** (d - 1)},
    ),
    Claim(
        "V.2c",
        "SL26",
        "Theorem V.2 (hypothesis), section V-A",
        "theorem",
        "Polytopes in general position have the maximally complex structure of mixed faces, that "
        "is, as many vertices as their numbers of points allow (reading `in general position such "
        "that` as a consequence).",
        content=maximum_of_sizes,
        check=_check_general_position,
        repaired=overlay_identity,
    ),
    Claim(
        "V.2d",
        "SL26",
        "Theorem V.2 (hypothesis), section V-A",
        "theorem",
        "Polytopes that have all N keys as vertices can have a simplicial Cayley embedding, for "
        "every N and d (the hypothesis as worded).",
        content=SimplicialCayley(False, lambda n_keys, dim: True),
        check=_check_simplicial_cayley,
        corrupted=SimplicialCayley(False, lambda n_keys, dim: False),
        repaired=SimplicialCayley(True, lambda n_keys, dim: True),
    ),
    Claim(
        "V.3a",
        "SL26",
        "Example V.3, section V-A",
        "example",
        "With head size d/H, a layer has 4 d^2 weights, whatever the number of heads.",
        content=lambda dim, n_heads: 4 * dim**2,
        check=_check_budget,
        corrupted=lambda dim, n_heads: 4 * dim**2 // n_heads,
    ),
    Claim(
        "V.3b",
        "SL26",
        "Example V.3, section V-A",
        "example",
        "For N = 512 and H = 8, the layer's polytope can have 512^8, about 1.1e21, vertices.",
        content="1.1e21",
        check=_check_vertex_number,
        repaired="4.7e21",
    ),
    Claim(
        "V.4",
        "SL26",
        "Corollary V.4, section V-A",
        "corollary",
        "If d is much larger than H, the complexity grows like N^H, with degree H in N, while a "
        "single head has at most N vertices in every dimension.",
        content=lambda n_keys, n_heads, head_dim: n_keys**n_heads,
        check=_check_polytope_gain,
        corrupted=lambda n_keys, n_heads, head_dim: n_keys ** (n_heads - 1),
        repaired=lambda n_keys, n_heads, head_dim: (n_keys if head_dim > 1 else 2) ** n_heads,
    ),
)
