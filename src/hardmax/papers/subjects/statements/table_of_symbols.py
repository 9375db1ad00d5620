"""Table I of [SL26], Appendix A: the assertions of its rows, checked (see `symbol_rows`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.transformers import transformer_lower, transformer_upper
from hardmax.geometry.domains import WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.enclosures import ball, working_precision
from hardmax.papers.subjects.instances import integer_keys
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import FloatArray


def _check_sites(claimed: Callable[[FloatArray, FloatArray], int]) -> Finding:
    """Count the sites: distinct points k_j, as Definition IV.1 requires."""
    tokens = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    trials = []
    for name, sequence, weight in (
        ("three tokens, W_K = 1", tokens, np.eye(2)),
        ("two tokens, W_K = 1", tokens[:2], np.eye(2)),
        ("the second token twice", tokens[[0, 1, 1, 2]], np.eye(2)),
        ("W_K = (1, 1)^T", tokens, np.ones((2, 1))),
    ):
        sites = len(np.unique(sequence @ weight, axis=0))
        distinct = sites == len(sequence)
        trials.append(equal_trial(name, sites, claimed(sequence, weight), condition=distinct))
    return Finding(
        tuple(trials),
        "Distinct keys: "
        + "; ".join(f"{t.numbers['true']} for {t.instance}" for t in trials)
        + ". Voronoi sites are distinct by Definition IV.1.",
        "The number of tokens equals the number of sites if no two keys are equal.",
    )


Shape = Mapping[str, int]

_SHAPE: Shape = {"L": 1, "H": 2, "d": 2, "d_ff": 0, "N": 3, "d_k": 2}


def _largest(shape: Shape) -> int:
    """Return the largest number of cells without bias, where upper and lower bound agree."""
    if shape["N"] == shape["L"] == 1:
        return zaslavsky(shape["d_ff"], shape["d"])
    sizes = shape["N"], shape["H"], shape["d"], shape["d_ff"], shape["L"]
    most = transformer_upper(*sizes, bias="none", head_dim=shape["d_k"])
    some = transformer_lower(*sizes, bias="none", head_dim=shape["d_k"], continuous=False)
    assert most == some, shape
    return most


def _check_parameters(determining: frozenset[str]) -> Finding:
    trials = []
    for name, other in (("L", 2), ("H", 1), ("d", 3), ("N", 4), ("d_k", 1), ("d_ff", 3)):
        first = {**_SHAPE, "N": 1} if name == "d_ff" else _SHAPE
        counts = [_largest(first), _largest({**first, name: other})]
        trials.append(
            Trial(
                f"{name} = {first[name]} and {other}",
                name in determining or counts[0] == counts[1],
                numbers={"largest": counts},
            )
        )
    listed = "; ".join(f"{t.numbers['largest']} for {t.instance}" for t in trials)
    return Finding(
        tuple(trials),
        "Largest numbers of cells of two shapes without bias that differ in one size (otherwise L "
        f"= 1, H = 2, d = 2, d_ff = 0, N = 3, d_k = 2; N = 1 for d_ff): {listed}.",
        "N(T) also depends on N and d_k (and on whether the heads have a bias).",
    )


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of one layer of attention."""

    n: int
    d: int
    d_k: int
    d_v: int
    heads: int


Spaces = tuple[tuple[str, Callable[[LayerSizes], tuple[int, ...]]], ...]

_LAYERS = (
    LayerSizes(5, 4, 4, 4, 1),
    LayerSizes(6, 4, 2, 2, 2),
    LayerSizes(3, 4, 2, 3, 2),
    LayerSizes(4, 3, 5, 2, 2),
)
_STANDARD = _LAYERS[1]


def _component_shapes(sizes: LayerSizes) -> dict[str, tuple[int, ...]]:
    """Build a layer as section III-D defines it, and return the shapes of its components."""
    x = integer_keys(1, sizes.n, sizes.d, 5)
    query, key = (integer_keys(i, sizes.d, sizes.d_k, 5) for i in (2, 3))
    value = integer_keys(4, sizes.d, sizes.d_v, 5)
    out = integer_keys(5, sizes.heads * sizes.d_v, sizes.d, 5)
    keys, values = x @ key, x @ value
    heads = [
        AttentionHead(query, keys, values, out[h * sizes.d_v : (h + 1) * sizes.d_v])
        for h in range(sizes.heads)
    ]
    plain = AttentionHead(query, keys, values, np.eye(sizes.d_v))
    model = HardTransformer([Block(heads)])
    weight, bias = model.affine_map(model.signature(x[:1])[0])
    masses = plain.attention_weights(x[0], 1.0)
    return {
        "X": x.shape,
        "q": (x @ query)[0].shape,
        "x": x[0].shape,
        "W_Q": query.shape,
        "W_K": key.shape,
        "W_V": value.shape,
        "W_O": out.shape,
        "Q": (x @ query).shape,
        "K": keys.shape,
        "V": values.shape,
        "k_j": keys[0].shape,
        "v_j": values[0].shape,
        "projected key": (query @ keys[0]).shape,
        "Z": plain.soft(x[0], 1.0).shape,
        "s": plain.scores(x[0]).shape,
        "p": masses.shape,
        "Hessian": (np.diag(masses) - np.outer(masses, masses)).shape,
        "A_Omega": weight.shape,
        "b_Omega": bias.shape,
    }


SPACES: Spaces = (
    ("X", lambda s: (s.n, s.d)),
    ("W_Q", lambda s: (s.d, s.d_k)),
    ("W_K", lambda s: (s.d, s.d_k)),
    ("W_V", lambda s: (s.d, s.d_v)),
    ("Q", lambda s: (s.n, s.d_k)),
    ("K", lambda s: (s.n, s.d_k)),
    ("V", lambda s: (s.n, s.d_v)),
    ("k_j", lambda s: (s.d_k,)),
    ("v_j", lambda s: (s.d_v,)),
    ("projected key", lambda s: (s.d,)),
    ("Z", lambda s: (s.d_v,)),
    ("s", lambda s: (s.n,)),
    ("p", lambda s: (s.n,)),
    ("Hessian", lambda s: (s.n, s.n)),
    ("A_Omega", lambda s: (s.d, s.d)),
    ("b_Omega", lambda s: (s.d,)),
)


def _spaces_check(
    met: Callable[[LayerSizes], bool], corrected: str = ""
) -> Callable[[Spaces], Finding]:
    """Return a check of spaces against constructed layers; `met` is the condition for agreement."""

    def check(spaces: Spaces) -> Finding:
        trials = []
        for sizes in _LAYERS:
            built = _component_shapes(sizes)
            wrong = [name for name, space in spaces if built[name] != space(sizes)]
            trials.append(
                Trial(
                    f"N = {sizes.n}, d = {sizes.d}, d_k = {sizes.d_k}, d_v = {sizes.d_v}, H = "
                    f"{sizes.heads}",
                    not wrong,
                    condition=met(sizes),
                    numbers={"wrong": wrong, "shapes": {n: list(built[n]) for n, _ in spaces}},
                )
            )
        failing = [t for t in trials if not t.holds]
        words = "; ".join(
            f"{t.instance}: "
            + ", ".join(f"{n} is {t.numbers['shapes'][n]}" for n in t.numbers["wrong"])
            for t in failing
        )
        return Finding(
            tuple(trials),
            f"The shapes of {len(spaces)} symbols were compared with {len(trials)} layers "
            "constructed as in section III-D; "
            + (f"they disagree for {words}." if failing else "all shapes agree."),
            corrected,
        )

    return check


def _check_lifted_domain(can_be_lifted: Callable[[Fraction], bool]) -> Finding:
    trials = []
    with working_precision():
        for value in (Fraction(3), Fraction(1, 10**6), Fraction(0), Fraction(-1)):
            # e^y is positive for every real y; if value > 0, the logarithm is the solution.
            exists = value > 0 and bool(ball(value).log().exp().contains(ball(value)))
            trials.append(
                equal_trial(f"v = {value}", exists, can_be_lifted(value), condition=value > 0)
            )
    return Finding(
        tuple(trials),
        "A real lifted value with exp(lifted/tau) = v exists for "
        + ", ".join(str(t.instance) for t in trials if t.numbers["true"])
        + ", but not for "
        + ", ".join(str(t.instance) for t in trials if not t.numbers["true"])
        + ". The row of v_jc gives the real numbers as its space.",
        "v_jc > 0, as in Definition III.10; values of transformers can have either sign.",
    )


Member = Callable[[TropicalPolynomial, FloatArray], bool]


def _is_attained_twice(polynomial: TropicalPolynomial, point: FloatArray) -> bool:
    return bool(polynomial.winning_terms(point[None]).sum() >= 2)


def _two_slopes(polynomial: TropicalPolynomial, point: FloatArray) -> bool:
    winning = polynomial.winning_terms(point[None])[0]
    return len(np.unique(polynomial.slopes[winning], axis=0)) >= 2


def _check_smoothness(claimed: Member) -> Finding:
    """A maximum of affine functions has a kink where its directional derivatives do not add up."""
    trials = []
    for name, slopes, offsets, at in (
        ("max(0, x) at 0", [[0.0], [1.0]], [0.0, 0.0], [0.0]),
        ("max(0, x) at 1", [[0.0], [1.0]], [0.0, 0.0], [1.0]),
        ("max(x, y, 0) at (1, 1)", [[1, 0], [0, 1], [0, 0.0]], [0.0] * 3, [1.0, 1.0]),
        ("max(x, y, 0) at (2, 1)", [[1, 0], [0, 1], [0, 0.0]], [0.0] * 3, [2.0, 1.0]),
        ("max(0, x, x) at 1, one exponent twice", [[0.0], [1], [1]], [0.0] * 3, [1.0]),
    ):
        exponents = np.array(slopes, np.float64)
        polynomial = TropicalPolynomial(exponents, np.array(offsets))
        point = np.array(at)
        bent = any(sum(_one_sided_slopes(polynomial, point, step)) != 0 for step in np.eye(len(at)))
        condition = len(np.unique(exponents, axis=0)) == len(exponents)
        trials.append(equal_trial(name, bent, claimed(polynomial, point), condition=condition))
    return Finding(
        tuple(trials),
        "The maximum is attained by two terms but is smooth at: "
        + ", ".join(t.instance for t in trials if t.numbers["claimed"] and not t.numbers["true"])
        + ". Equal keys of one head are such terms.",
        "It is the locus of non-smoothness if the exponents are distinct; in general, the points "
        "where two different exponents attain the maximum.",
    )


def _one_sided_slopes(
    polynomial: TropicalPolynomial, point: FloatArray, step: FloatArray
) -> list[Fraction]:
    """Return the one-sided derivatives along and against `step`; the step is small enough."""
    small = 2.0**-20
    points = np.array([point, point + small * step, point - small * step])
    here, *there = np.asarray(polynomial.exact_values(points))
    return [Fraction(value) - Fraction(here) for value in there]


def _cells_of_lines(rows: list[list[int]]) -> int:
    """Count the cells of lines a x + b y + c = 0 by Euler's formula, in fractions.

    There are 1 + n cells, plus one for each further line through a point of intersection.
    """
    through: dict[tuple[Fraction, Fraction], set[int]] = {}
    for (i, (a, b, c)), (j, (d, e, f)) in combinations(enumerate(rows), 2):
        if det := a * e - b * d:
            at = Fraction(b * f - c * e, det), Fraction(c * d - a * f, det)
            through.setdefault(at, set()).update((i, j))
    return 1 + len(rows) + sum(len(lines) - 1 for lines in through.values())


def _check_any_hyperplanes(claimed: Callable[[list[list[int]]], int]) -> Finding:
    trials = []
    for name, rows, general in (
        ("three lines in general position", [[1, 0, 0], [0, 1, 0], [1, 1, -1]], True),
        ("four lines in general position", [[1, 0, 0], [0, 1, 0], [1, 1, -1], [1, -2, 3]], True),
        ("three parallel lines", [[1, 0, 0], [1, 0, 1], [1, 0, 2]], False),
        ("three lines through one point", [[1, 0, 0], [0, 1, 0], [1, 1, 0]], False),
    ):
        table = np.array(rows, np.float64)
        n = len(table)
        network = ReluNetwork([table[:, :2].T, np.eye(n)], [table[:, 2], np.zeros(n)])
        counted = enumerate_regions(network, WholeSpace(2)).n_cells
        trials.append(equal_trial(name, counted, claimed(rows), condition=general))
    return Finding(
        tuple(trials),
        "Counted: " + "; ".join(f"{t.numbers['true']} for {t.instance}" for t in trials) + ".",
        "R(n, d) for hyperplanes in general position. Lines in any position have 1 + n cells, "
        "plus one for each further line through a point of intersection.",
    )


def _check_points(claimed: Callable[[int, int], Fraction]) -> Finding:
    """The points lie in [0, 1], and the walls j/N are halfway between neighbouring points."""
    trials = []
    for n in (1, 2, 5, 8):
        points = [claimed(j, n) for j in range(1, n + 1)]
        walls = [(a + b) / 2 for a, b in pairwise(points)]
        inside = all(0 <= p <= 1 for p in points)
        equal = walls == [Fraction(j, n) for j in range(1, n)]
        numbers = {"points": list(map(str, points)), "walls": list(map(str, walls))}
        trials.append(Trial(f"N = {n}", inside and equal, numbers=numbers))
    return Finding(
        tuple(trials),
        f"For N = 5 the points are {', '.join(trials[2].numbers['points'])}. All of them lie in "
        f"[0, 1], and the walls between them are at {', '.join(trials[2].numbers['walls'])}.",
    )


def _table_claim(number: int, where: str, statement: str, **parts: Any) -> Claim[Any]:
    return Claim(
        id=f"Tab1.{number}",
        source="SL26",
        where=f"Table I, {where}; Appendix A",
        kind="table",
        statement=statement,
        **parts,
    )


CLAIMS: tuple[Claim[Any], ...] = (
    _table_claim(
        1,
        "row of N",
        "N is the number of tokens, of keys and of Voronoi sites alike.",
        content=lambda tokens, weight: len(tokens),
        check=_check_sites,
        corrupted=lambda tokens, weight: len(tokens) - 1,
        repaired=lambda tokens, weight: len({tuple(key) for key in (tokens @ weight).tolist()}),
    ),
    _table_claim(
        8,
        "rows of T and N(T)",
        "The maximum number of regions N(T) depends on T alone, that is, on (L, H, d_model, d_ff).",
        content=frozenset({"L", "H", "d", "d_ff"}),
        check=_check_parameters,
        repaired=frozenset({"L", "H", "d", "d_ff", "N", "d_k"}),
    ),
    _table_claim(
        12,
        "rows of X, W_Q, W_K, W_V, Q, K, V, k_j, v_j, projected key, Z, s, p, Hessian, A, b",
        "These are matrices and vectors with the shapes given in the table.",
        content=SPACES,
        check=_spaces_check(lambda sizes: True),
        corrupted=(*SPACES, ("V", lambda s: (s.n, s.d_k))),
    ),
    _table_claim(
        13,
        "row of x and q",
        "The query embedding x and the query point q are vectors of the model space R^d.",
        content=(("x", lambda s: (s.d,)), ("q", lambda s: (s.d,))),
        check=_spaces_check(
            lambda sizes: sizes.d_k == sizes.d,
            ("q = x W_Q has d_k entries, that is, d entries only if d_k = d."),
        ),
        corrupted=(("x", lambda s: (s.n,)), ("q", lambda s: (s.d,))),
        repaired=(("x", lambda s: (s.d,)), ("q", lambda s: (s.d_k,))),
    ),
    _table_claim(
        16,
        "row of W_O",
        "The output projection W_O is a square matrix of size d_model.",
        content=(("W_O", lambda s: (s.d, s.d)),),
        check=_spaces_check(
            lambda sizes: sizes.heads * sizes.d_v == sizes.d,
            "W_O has H d_v rows and d columns; it is square if H d_v = d, the usual choice.",
        ),
        corrupted=(("W_O", lambda s: (s.d_v, s.d)),),
        repaired=(("W_O", lambda s: (s.heads * s.d_v, s.d)),),
    ),
    _table_claim(
        29,
        "rows of v_jc and of its lifted value",
        "Every real value v_jc is exp of a real lifted value divided by tau.",
        content=lambda value: True,
        check=_check_lifted_domain,
        corrupted=lambda value: value >= 1,
        repaired=lambda value: value > 0,
    ),
    _table_claim(
        40,
        "row of H(P)",
        "The tropical hypersurface, where two terms attain the maximum, is the locus of "
        "non-smoothness.",
        content=_is_attained_twice,
        check=_check_smoothness,
        corrupted=lambda polynomial, point: True,
        repaired=_two_slopes,
    ),
    _table_claim(
        54,
        "row of R(n, d)",
        "n hyperplanes in d-dimensional space induce R(n, d) regions (general position is not "
        "required).",
        content=lambda rows: zaslavsky(len(rows), 2),
        check=_check_any_hyperplanes,
        corrupted=lambda rows: zaslavsky(len(rows), 2) + 1,
        repaired=_cells_of_lines,
    ),
    _table_claim(
        64,
        "row of the scalars p_j",
        "The points (j - 1/2)/N lie in [0, 1] and divide it into N equal Voronoi cells.",
        content=lambda j, n: Fraction(2 * j - 1, 2 * n),
        check=_check_points,
        corrupted=lambda j, n: Fraction(j, n),
    ),
)
