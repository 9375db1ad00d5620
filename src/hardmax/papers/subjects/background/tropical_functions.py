"""Section III-B of [SL26]: the semiring, tropical polynomials and rational maps."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.models.variants.log_lifted import LogLiftedHead
from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.instances import integer_keys
from hardmax.tropical.matrices.semiring import maxplus
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap

_SAMPLE = (-np.inf, -3.5, -1.0, 0.0, 0.25, 7.0)


@dataclass(frozen=True)
class SemiringLaws:
    """Two operations on numbers and the two elements that are claimed to be neutral for them."""

    add: Callable[[float, float], float]
    mul: Callable[[float, float], float]
    zero: float
    one: float


def _check_semiring(claimed: SemiringLaws) -> Finding:
    add, mul, zero, one = claimed.add, claimed.mul, claimed.zero, claimed.one
    triples = [(a, b, c) for a in _SAMPLE for b in _SAMPLE for c in _SAMPLE]
    trials = [
        Trial("0 is neutral for addition", all(add(a, zero) == a for a in _SAMPLE)),
        Trial("1 is neutral for multiplication", all(mul(a, one) == a for a in _SAMPLE)),
        Trial("0 annihilates", all(mul(a, zero) == zero for a in _SAMPLE)),
        Trial("addition is idempotent", all(add(a, a) == a for a in _SAMPLE)),
        Trial(
            "multiplication distributes",
            all(mul(a, add(b, c)) == add(mul(a, b), mul(a, c)) for a, b, c in triples),
        ),
        Trial(
            "both are associative",
            all(op(a, op(b, c)) == op(op(a, b), c) for op in (add, mul) for a, b, c in triples),
        ),
    ]
    rng = np.random.default_rng(0)
    left, right = rng.integers(-9, 10, size=(2, 3, 3)).astype(np.float64)
    product = [
        [_reduce(add, [mul(left[i, k], right[k, j]) for k in range(3)]) for j in range(3)]
        for i in range(3)
    ]
    same = bool(np.array_equal(product, maxplus.matmul(left, right)))
    trials.append(Trial("the matrix product is the (max, +) product", same))
    return Finding(
        tuple(trials),
        f"{sum(bool(t.holds) for t in trials)} of {len(trials)} laws hold on {len(triples)} "
        "triples, which include -infinity.",
    )


def _reduce(op: Callable[[float, float], float], values: list[float]) -> float:
    total = values[0]
    for value in values[1:]:
        total = op(total, value)
    return total


def _is_integral(exponent: Fraction) -> bool:
    return exponent.denominator == 1


def _check_exponents(allowed: Callable[[Fraction], bool]) -> Finding:
    trials = []
    for name, keys in (
        ("integer keys", [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]),
        ("keys (0.5, 0), (0, 0.1), (-1, -1)", [[0.5, 0.0], [0.0, 0.1], [-1.0, -1.0]]),
    ):
        slopes = TropicalPolynomial(np.array(keys), np.zeros(3)).slopes
        exponents = [Fraction(float(s)) for s in slopes.flat]
        refused = [str(e) for e in map(float, exponents) if not allowed(Fraction(e))]
        integral = all(map(_is_integral, exponents))
        trials.append(
            Trial(
                f"the denominator of a head with {name}",
                not refused,
                integral,
                numbers={"exponents_not_allowed": refused},
            )
        )
    return Finding(
        tuple(trials),
        "Keys are real vectors, so the polynomials of Definition III.10 have real exponents. "
        "Definition III.5 excludes some exponents of the second head "
        f"({', '.join(trials[1].numbers['exponents_not_allowed']) or 'none'}), so its denominator "
        "is not a tropical polynomial.",
        "True for integer keys, or if real exponents are allowed (tropical signomials); Newton "
        "polytopes and counts do not change.",
    )


def _newton_polytope(polynomial: TropicalPolynomial) -> Any:
    return tuple(sorted(map(tuple, polynomial.newton_polytope().vertices.tolist())))


def _terms(polynomial: TropicalPolynomial) -> Any:
    """Data claimed to determine the function: the terms that are maximal on an open set."""
    pruned = polynomial.prune()
    return tuple(sorted(map(tuple, np.c_[pruned.slopes, pruned.offsets].tolist())))


def _check_newton_invariant(invariant: Callable[[TropicalPolynomial], Any]) -> Finding:
    slopes = np.array([[0.0], [1.0], [2.0]])
    polynomials = [
        TropicalPolynomial(slopes, np.array([0.0, c, 0.0])) for c in (1.0, -1.0, -5.0, 2.0)
    ]
    trials = []
    for i, j in ((0, 1), (0, 2), (1, 2), (0, 3)):
        first, second = polynomials[i], polynomials[j]
        same_function = first.equals(second)
        regions = [int(p.active_terms().sum()) for p in (first, second)]
        says_same = invariant(first) == invariant(second)
        numbers = {"regions": regions, "same_function": same_function}
        trials.append(Trial(f"{first} and {second}", says_same == same_function, numbers=numbers))
    return Finding(
        tuple(trials),
        "max(0, x + 1, 2x) and max(0, x - 1, 2x) have the same Newton polytope [0, 2], but "
        f"{trials[0].numbers['regions'][0]} and {trials[0].numbers['regions'][1]} regions.",
        "The function is determined by the terms that win on an open set, with their exponents "
        "and coefficients.",
    )


def _check_convex(combine: Callable[[Fraction, Fraction], Fraction]) -> Finding:
    """Test a combination of two random tropical polynomials for midpoint convexity, exactly."""
    rng = np.random.default_rng(3)
    p, q = (
        TropicalPolynomial(0.5 * integer_keys(seed, 6, 2, 5), integer_keys(seed, 6, 1, 5)[:, 0])
        for seed in (3, 4)
    )
    points = rng.integers(-8, 9, size=(80, 2, 2)).astype(np.float64)
    worst = Fraction(0)
    for a, b in points:
        values = [
            combine(*(Fraction(str(f.exact_values(x))) for f in (p, q)))
            for x in (a, b, (a + b) / 2)
        ]
        worst = max(worst, values[2] - (values[0] + values[1]) / 2)
    return Finding(
        (Trial("80 random segments, exact", worst <= 0, numbers={"worst_excess": worst}),),
        f"The largest excess of the midpoint over the chord on 80 segments is {worst}, computed "
        "exactly.",
    )


def _in_graph(height: Fraction, value: Fraction) -> bool:
    return height == value


def _in_epigraph(height: Fraction, value: Fraction) -> bool:
    return height >= value


def _check_polyhedron(contains: Callable[[Fraction, Fraction], bool]) -> Finding:
    """Take two points of the graph of max(0, x, 2x - 1): is their midpoint in the set?"""
    polynomial = TropicalPolynomial(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 0.0, -1.0]))
    ends = (Fraction(-2), Fraction(2))
    heights = [Fraction(str(polynomial.exact_values(np.array([float(x)])))) for x in ends]
    middle = (ends[0] + ends[1]) / 2
    value = Fraction(str(polynomial.exact_values(np.array([float(middle)]))))
    height = (heights[0] + heights[1]) / 2
    trials = (
        Trial("the two points", all(contains(h, h) for h in heights)),
        Trial(
            "their midpoint",
            contains(height, value),
            numbers={"height_of_midpoint": height, "value_there": value},
        ),
    )
    return Finding(
        trials,
        "The points of the graph of max(0, x, 2x - 1) over -2 and 2 have a midpoint of height "
        f"{height}, but the value of the function there is {value}.",
        "The epigraph is a convex polyhedron. The graph is its lower boundary, which is not "
        "convex unless the function is affine.",
    )


def _small_polynomial(seed: int) -> TropicalPolynomial:
    return TropicalPolynomial(integer_keys(seed, 3, 2, 4), integer_keys(seed, 3, 1, 4)[:, 0])


Channels = list[tuple[TropicalPolynomial, TropicalPolynomial]]
"""The numerator and denominator of each coordinate, as written."""


def _shares_denominator(channels: Channels) -> bool:
    return all(q.equals(channels[0][1]) for _, q in channels)


def _check_two_representations(belongs: Callable[[Channels], bool]) -> Finding:
    """Apply the definition to one map written in two ways: a property of maps has one answer."""
    head = LogLiftedHead(integer_keys(6, 4, 2, 5), integer_keys(7, 4, 3, 5)).rational_map
    attention = [(numerator, head.denominator) for numerator in head.numerators]
    trials = [Trial("the log-lifted head, 4 keys and 3 channels", belongs(attention))]
    for n_channels in (2, 3):
        parts = [
            TropicalRationalMap((_small_polynomial(c),), _small_polynomial(c + 10))
            for c in range(n_channels)
        ]
        product = parts[0].denominator
        for part in parts[1:]:
            product = product * part.denominator
        rewritten, same_map = [], True
        for c, part in enumerate(parts):
            numerator = part.numerators[0]
            for other in parts[:c] + parts[c + 1 :]:
                numerator = numerator * other.denominator
            rewritten.append((numerator, product))
            same_map &= TropicalRationalMap((numerator,), product).equals(part)
        written = [(part.numerators[0], part.denominator) for part in parts]
        answers = [belongs(written), belongs(rewritten)]
        trials.append(
            Trial(
                f"{n_channels} channels with unrelated denominators, and the same map rewritten",
                same_map and answers[1],
                tight=answers[0] == answers[1],
                numbers={"same_map": same_map, "belongs_before_and_after": answers},
            )
        )
    return Finding(
        tuple(trials),
        "Attention is structured, and so is every tropical rational map after numerator and "
        "denominator of each coordinate are multiplied by the other denominators (the map is the "
        f"same, verified as an identity of exact polynomials in {len(trials) - 1} cases). The "
        "claim is true but vacuous: the word excludes nothing.",
        "Every tropical rational map is structured: P_c - Q_c = (P_c + sum of the other Q) - (sum "
        "of all Q).",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.4",
        source="SL26",
        where="Definition III.4, section III-B",
        kind="definition",
        statement=(
            "With maximum and sum, the real numbers and -infinity form a semiring with neutral "
            "elements -infinity and 0; matrices multiply as usual."
        ),
        content=SemiringLaws(max, lambda a, b: a + b, -np.inf, 0.0),
        check=_check_semiring,
        corrupted=SemiringLaws(max, lambda a, b: a + b, 0.0, 0.0),
    ),
    Claim(
        id="III.5a",
        source="SL26",
        where="Definition III.5, section III-B",
        kind="definition",
        statement=(
            "Tropical polynomials have integer exponent vectors; the numerator and denominator of "
            "attention are tropical polynomials (Definition III.10)."
        ),
        content=_is_integral,
        check=_check_exponents,
        corrupted=lambda exponent: _is_integral(exponent) and exponent >= 0,
        repaired=lambda exponent: True,
    ),
    Claim(
        id="III.5b",
        source="SL26",
        where="Definition III.5, last sentence, section III-B",
        kind="definition",
        statement=(
            "The geometry of a tropical polynomial is completely characterised by its Newton "
            "polytope."
        ),
        content=_newton_polytope,
        check=_check_newton_invariant,
        repaired=_terms,
        neighbours={
            "repaired: exponents of the active terms alone": lambda p: tuple(
                sorted(map(tuple, p.prune().slopes.tolist()))
            ),
            "repaired: all terms, also those that never win": lambda p: tuple(
                sorted(map(tuple, np.c_[p.slopes, p.offsets].tolist()))
            ),
        },
        unmoved={
            "repaired[": "invariants are compared with each other; changing all alike has no effect"
        },
    ),
    Claim(
        id="III.5c",
        source="SL26",
        where="Text after Definition III.5, section III-B",
        kind="text",
        statement="A tropical polynomial is a convex CPWL function.",
        content=lambda p, q: p,
        check=_check_convex,
        corrupted=lambda p, q: p - q,
        neighbours={"content: less a thousandth of another": lambda p, q: p - q / 1000},
        unmoved={"content ": "a positive multiple of a convex function is convex"},
    ),
    Claim(
        id="III.5d",
        source="SL26",
        where="Text after Definition III.5, section III-B",
        kind="text",
        statement="The graph of a tropical polynomial is a convex polyhedron.",
        content=_in_graph,
        check=_check_polyhedron,
        repaired=_in_epigraph,
    ),
    Claim(
        id="III.6",
        source="SL26",
        where="Definition III.6, section III-B",
        kind="definition",
        statement=(
            "A tropical rational map is called structured if its coordinates share one "
            "denominator; attention is such a map (text after Remark III.12)."
        ),
        content=_shares_denominator,
        check=_check_two_representations,
        corrupted=lambda channels: all(p.equals(channels[0][0]) for p, _ in channels),
        repaired=lambda channels: True,
    ),
)
