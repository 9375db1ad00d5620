"""How large cells are: exact volumes and points rounded with their errors, largest balls."""

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import nearest_floats
from hardmax.exact.integer_vectors import Vector, rounded_directions, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.linear_programs import maximise
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import FloatArray, IntArray

MEASURED = 2.0**-20
"""Volumes and radii of balls, found in floats, err by at most this part of themselves."""
VOLUME, WITNESS, BALL = 1, 2, 4
"""What the core can be asked about cells."""
_NORM_BITS = 80


class Answers(NamedTuple):
    """Measures of all cells in floats, and the cells that floats leave undecided.

    Attributes:
        numbers: Volumes with bounds on their errors, shape `(n_cells, 2)`; or interior points,
            `(n_cells, dim)`; or centres and radii of balls, `(n_cells, dim + 1)`.
        left_open: The undecided cells, in ascending order. The relative error of the volumes and
            radii of all other cells is at most `MEASURED`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [3]))
        >>> volumes = part.found.measure(VOLUME)
        >>> volumes.numbers.tolist(), volumes.left_open.tolist()
        ([[1.0, 0.0], [3.0, 0.0]], [])
    """

    numbers: FloatArray
    left_open: IntArray

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return html_card(self)


def rounded_number(exact: Fraction | float) -> tuple[float, float]:
    """Round a number that is not negative; return the float and a bound on its error.

    Returns:
        A float and a radius: `(inf, 0.0)` for infinity itself, `(inf, inf)` for a number beyond
        all floats.

    Examples:
        >>> rounded_number(Fraction(1, 4)), rounded_number(inf)
        ((0.25, 0.0), (inf, 0.0))
        >>> rounded_number(Fraction(1, 3))[1] < 2e-17, rounded_number(Fraction(10) ** 400)
        (True, (inf, inf))
    """
    if not isinstance(exact, Fraction):
        return exact, 0.0
    value = float(nearest_floats(np.array(exact, dtype=object)))
    if value == inf:
        return inf, inf
    error = abs(Fraction(value) - exact)
    radius = float(nearest_floats(np.array(error, dtype=object)))
    return value, radius if error <= Fraction(radius) else nextafter(radius, inf)


def is_wide(rows: Sequence[Vector], dim: int) -> bool:
    r"""Decide whether $\{t : \langle a, t\rangle + c > 0\}$ contains balls of every size.

    Examples:
        >>> is_wide([(1, 0, 0)], 2), is_wide([(0, 1, 0), (0, -1, 1)], 2)
        (True, False)
    """
    slopes_only = wide_rows([row[:-1] for row in rows if any(row[:-1])], dim)
    return bool(decide_open_cone(slopes_only).is_open)


def precise_ball(rows: Sequence[Vector], dim: int) -> tuple[FloatArray, float]:
    r"""Find a largest ball in $\{t : \langle a, t\rangle + c \ge 0\}$ up to `MEASURED`.

    With $s / 2^k \le 1 / |a|$, less by at most $2^{-78}$ of it, the balls of centre $z$ and radius
    $r$ with $s (\langle a, z\rangle + c) \ge 2^k r$ lie inside. These pairs form a polyhedron; the
    best one is a vertex.

    Args:
        rows: Integers $(a, c)$ of a set with an interior that is not `is_wide`.
        dim: The dimension; the cost is that of all vertices of the polyhedron.

    Returns:
        Centre and radius, the latter never too large. The centre is rounded; a ball around it has
        the radius too, unless floats near it are too sparse.

    Examples:
        >>> centre, radius = precise_ball([(1, 0, 0), (0, 1, 0), (-1, 0, 2), (0, -1, 4)], 2)
        >>> centre[0].item(), radius
        (1.0, 1.0)
    """
    scaled = _with_norms(rows)
    pairs = Polytope.from_rows(
        [(*(-s * x for x in row[:-1]), unit, s * row[-1]) for s, unit, row in scaled], dim + 1
    )
    *best, largest = max(pairs.exact_vertices.tolist(), key=lambda pair: pair[-1])
    centre = nearest_floats(np.array(best, dtype=object))
    if not np.isfinite(centre).all():
        return centre, _rounded_down(largest)
    around = [*map(Fraction, centre.tolist()), Fraction(1)]
    reached = _radius_at(scaled, around)
    is_near = reached >= largest * (1 - Fraction(MEASURED) / 2)
    return centre, _rounded_down(reached if is_near else largest)


def _with_norms(rows: Sequence[Vector]) -> list[tuple[int, int, Vector]]:
    r"""Return each row with a gradient, after $s$ and $2^k$ with $s / 2^k \le 1 / |a|$."""
    scaled = []
    for row in rows:
        norm_squared = sum(x * x for x in row[:-1])
        if norm_squared:
            k = norm_squared.bit_length() // 2 + _NORM_BITS
            scaled.append((isqrt((1 << 2 * k) // norm_squared), 1 << k, row))
    return scaled


def _radius_at(scaled: Sequence[tuple[int, int, Vector]], around: list[Fraction]) -> Fraction:
    """Bound the distance of a homogeneous point from all walls from below."""
    return min(
        Fraction(s, unit) * sum((a * x for a, x in zip(row, around, strict=True)), Fraction(0))
        for s, unit, row in scaled
    )


def _rounded_down(exact: Fraction) -> float:
    value = float(nearest_floats(np.array(exact, dtype=object)))
    return value if value < inf and Fraction(value) <= exact else nextafter(value, 0.0)


def inscribed_ball(rows: Sequence[Vector], dim: int) -> tuple[FloatArray, float]:
    r"""Find a largest ball in $\{t : \langle a, t\rangle + c \ge 0\}$ by a float linear program.

    Args:
        rows: Integers $(a, c)$ of a set with an interior that is not `is_wide`.
        dim: The dimension.

    Returns:
        Centre and radius: the radius is never too large for this centre, but may fall short of
        the largest by what the solver errs. NaN where a float solver cannot cope.

    Examples:
        >>> centre, radius = inscribed_ball([(1, 0, 0), (0, 1, 0), (-1, 0, 2), (0, -1, 4)], 2)
        >>> centre[0].item(), radius
        (1.0, 1.0)
    """
    scaled = _with_norms(rows)
    # Slopes and offsets are scaled apart: one may be smaller than the last bit of the other.
    slopes = rounded_directions([row[:-1] for _, _, row in scaled], dim)
    slopes /= np.sqrt((slopes**2).sum(axis=1, keepdims=True))
    offsets = [Fraction(s * row[-1], unit) for s, unit, row in scaled]
    # The solver takes numbers from 1e20 on for infinite: the set is scaled by a power of two.
    size = max(map(abs, offsets))
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    bounds = nearest_floats(np.array([x / Fraction(2) ** exponent for x in offsets]))
    matrix = np.column_stack([-slopes, np.ones(len(slopes))])
    radius_only = np.zeros(dim + 1)
    radius_only[-1] = 1.0
    best = maximise(radius_only, matrix, bounds)
    if best is None:
        # Coefficients too wild for a float solver: there is a ball, but it cannot be told.
        return np.full(dim, np.nan), float("nan")
    with np.errstate(over="ignore"):
        centre = np.ldexp(best[:-1], exponent)
    if np.isfinite(centre).all():
        radius = _radius_at(scaled, [*map(Fraction, centre.tolist()), Fraction(1)])
        if radius > 0:
            return centre, _rounded_down(radius)
    return np.full(dim, np.nan), float("nan")
