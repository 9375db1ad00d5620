"""Section III-B of [SL26], text after Definitions III.5 and III.6: data that fix regions."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap

DATA: dict[str, Callable[[TropicalPolynomial], Hashable]] = {
    "Newton polytope": lambda p: tuple(sorted(map(tuple, p.newton_polytope().vertices.tolist()))),
    "exponents": lambda p: tuple(sorted(p.slopes.ravel().tolist())),
    "coefficients": lambda p: tuple(p.offsets[np.argsort(p.slopes[:, 0])].tolist()),
}
"""Data about a polynomial in one variable; coefficients are in the order of the exponents."""


def _walls(polynomial: TropicalPolynomial) -> list[Fraction]:
    """Return the points where a polynomial in one variable changes its term, exactly."""
    active = polynomial.active_terms()
    lines = sorted(
        (Fraction(float(slope)), Fraction(float(offset)))
        for slope, offset in zip(
            polynomial.slopes[active, 0], polynomial.offsets[active], strict=True
        )
    )
    return [(c - e) / (b - a) for (a, c), (b, e) in pairwise(lines)]


def _pairs() -> list[tuple[str, list[TropicalPolynomial]]]:
    """Return pairs of polynomials that agree in some of the data."""

    def polynomial(exponents: list[int], coefficients: list[int]) -> TropicalPolynomial:
        return TropicalPolynomial(
            np.array(exponents, np.float64)[:, None], np.array(coefficients, np.float64)
        )

    terms = [0, 1, 3], [0, 1, 0]
    return [
        (name, [polynomial(*terms), polynomial(*other)])
        for name, other in (
            ("exponents 0, 1, 3 and 0, 2, 3", ([0, 2, 3], [0, 1, 0])),
            ("coefficients 0, 1, 0 and 0, 2, 0", ([0, 1, 3], [0, 2, 0])),
            ("the same terms in another order", ([3, 0, 1], [0, 0, 1])),
        )
    ]


def _find_determined_pairs(known: frozenset[str]) -> dict[str, bool]:
    """Return for each pair whether polynomials that agree in the known data have the same walls."""
    return {
        name: any(DATA[word](p) != DATA[word](q) for word in known) or _walls(p) == _walls(q)
        for name, (p, q) in _pairs()
    }


def _check_determined_by(known: frozenset[str]) -> Finding:
    walls = {name: [list(map(str, _walls(p))) for p in pair] for name, pair in _pairs()}
    trials = [
        Trial(name, right, numbers={"walls": walls[name], "known": sorted(known)})
        for name, right in _find_determined_pairs(known).items()
    ]
    for word in sorted(known):
        # A list with a superfluous entry does not count as determining the regions.
        spared = all(_find_determined_pairs(known - {word}).values())
        trials.append(Trial(f"without the {word}", not spared))
    first_walls, second_walls = (", ".join(w) for w in trials[0].numbers["walls"])
    return Finding(
        tuple(trials),
        "max(0, 1 + x, 3x) and max(0, 1 + 2x, 3x) have the same Newton polytope [0, 3] and the "
        f"same coefficients 0, 1, 0, but their walls are at {first_walls} and at {second_walls}.",
        "The subdivision is determined by all exponent vectors together with their coefficients. "
        "Nothing less is enough: exponents in the interior of the Newton polytope matter as well.",
    )


@dataclass(frozen=True)
class Zigzag:
    """A continuous piecewise linear function on a line, 0 at 0: its kinks, and one more slope."""

    kinks: tuple[int, ...]
    slopes: tuple[int, ...]

    def value(self, x: Fraction) -> Fraction:
        """Return the integral of the slope from 0 to `x`."""
        low, high = sorted((Fraction(0), x))
        inside = [Fraction(kink) for kink in sorted(self.kinks) if low < kink < high]
        total = Fraction(0)
        for left, right in pairwise([low, *inside, high]):
            total += (right - left) * self.slope_at((left + right) / 2)
        return total if x >= 0 else -total

    def slope_at(self, x: Fraction) -> int:
        """Return the slope left of the first kink above `x`."""
        return self.slopes[sum(k < x for k in self.kinks)]


def _difference(function: Zigzag) -> TropicalRationalMap:
    """Collect upward kinks in the numerator and downward kinks in the denominator."""
    start = -float(sum(_hinge_at_zero(k, j) for k, j in _jumps(function)))
    above = TropicalPolynomial(np.array([[float(function.slopes[0])]]), np.array([start]))
    below = TropicalPolynomial.constant(0.0, 1)
    for kink, jump in _jumps(function):
        size = float(abs(jump))
        hinge = TropicalPolynomial(np.array([[0.0], [size]]), np.array([0.0, -size * kink]))
        above, below = (above * hinge, below) if jump > 0 else (above, below * hinge)
    return TropicalRationalMap((above,), below)


def _jumps(function: Zigzag) -> list[tuple[int, int]]:
    changes = [b - a for a, b in pairwise(function.slopes)]
    return list(zip(function.kinks, changes, strict=True))


def _hinge_at_zero(kink: int, jump: int) -> int:
    return jump * max(0, -kink)


def _numerator(function: Zigzag) -> TropicalRationalMap:
    return TropicalRationalMap(
        _difference(function).numerators, TropicalPolynomial.constant(0.0, 1)
    )


def _is_convex(values: list[Fraction]) -> bool:
    """Return whether values at equidistant points belong to a convex function."""
    steps = [after - before for before, after in pairwise(values)]
    return steps == sorted(steps)


def _check_differences(claimed: Callable[[Zigzag], TropicalRationalMap]) -> Finding:
    points = [Fraction(i, 4) for i in range(-24, 25)]
    array = np.array([[float(x)] for x in points])
    trials = []
    for function in (
        Zigzag((-2, 1), (-1, 0, 2)),
        Zigzag((0,), (1, -1)),
        Zigzag((-3, -1, 0, 2), (2, -1, 1, -3, 0)),
    ):
        convex = list(function.slopes) == sorted(function.slopes)
        quotient = claimed(function)
        both = (*quotient.numerators, quotient.denominator)
        parts = [list(map(Fraction, np.asarray(part.exact_values(array)))) for part in both]
        same = all(p - q == function.value(x) for p, q, x in zip(*parts, points, strict=True))
        bent = all(_is_convex(part) for part in parts)
        trials.append(
            Trial(
                f"kinks {list(function.kinks)}, slopes {list(function.slopes)}",
                same and bent,
                numbers={"convex": convex, "same_values": same, "convex_parts": bent},
            )
        )
    right = sum(bool(t.holds) for t in trials)
    return Finding(
        tuple(trials),
        f"{right} of {len(trials)} functions, {sum(not t.numbers['convex'] for t in trials)} of "
        "which are not convex, equal the difference of two maxima of affine functions exactly at "
        f"{len(points)} points, and both maxima are convex. On a line, the upward kinks form the "
        "numerator and the downward kinks the denominator; in every dimension, "
        "`hardmax.constructions.compilers.functions.convex_differences` constructs the difference.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.5e",
        source="SL26",
        where="Text after Definition III.5, section III-B",
        kind="text",
        statement="The subdivision into maximal linear regions is fully determined by the Newton "
        "polytope and the coefficients.",
        content=frozenset({"Newton polytope", "coefficients"}),
        check=_check_determined_by,
        repaired=frozenset({"exponents", "coefficients"}),
    ),
    Claim(
        id="III.6b",
        source="SL26",
        where="Text after Definition III.6, section III-B",
        kind="text",
        statement=(
            "Tropical polynomials are convex piecewise linear functions; tropical rational maps "
            "are the differences of such functions, convex or not."
        ),
        content=_difference,
        check=_check_differences,
        corrupted=_numerator,
    ),
)
