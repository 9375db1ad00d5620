r"""Continuous piecewise linear functions as differences of two maxima, [KS87], [GWMCB13].

Let $f$ be given on the cells of a convex set. If a convex function $\psi$ is affine on each cell
and strictly convex wherever $f$ is concave, then with

$$\lambda = \max_{F} \frac{-\kappa_F(f)}{\kappa_F(\psi)}, \qquad
f = (f + \lambda\psi) - \lambda\psi$$

the first term is convex too. Both terms are maxima with one form per cell, and there are *no new
pieces*. Such a function $\psi$ is called a lifting here; [BGH25] describes all differences on given
cells. If no lifting is found, concave kinks are filled along their hyperplanes, which divides
cells.

**For any cells: fill every concave kink along its hyperplane.**

Let $\alpha_H \ge 0$ be the largest $|\kappa|$ of the concave kinks of $f$ on the hyperplane
$H = \{\ell_H = 0\}$. Then $Q = \sum_H \alpha_H \max(0, \ell_H)$ is convex, and $P = f + Q$ has no
negative kink, so it is convex too. $Q$ has one unit of rank 2 for each used hyperplane. $P$ is one
unit, with a form for each piece into which the used hyperplanes divide the cells of $f$. Because
there may be many such pieces, this method is tried last, and their number is bounded before the
work starts. A cell crossed by $m$ of the hyperplanes is divided into at most
$\sum_{j \le d} \binom{m}{j}$ pieces.
"""

from collections.abc import Callable, Iterable
from math import ceil, comb

import numpy as np
from flint import fmpq

from hardmax.constructions.compilers.functions.common_forms import common_form
from hardmax.constructions.compilers.functions.exact_pieces import ExactPieces
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    assemble,
    distinct,
    exact_numbers,
    round_up,
)
from hardmax.errors import SizeLimitError
from hardmax.exact.dyadic import nearest_float, nearest_floats
from hardmax.exact.integer_vectors import Vector, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, WideArray

Fills = dict[Vector, fmpq]
"""The used hyperplanes of one output, each with its $\\alpha_H$."""


def collect_fills(pieces: ExactPieces, kinks: WideArray) -> Fills:
    r"""Collect the hyperplanes with a concave kink.

    Args:
        pieces: The function.
        kinks: The kinks of one output, shape `(n_facets,)`.
    """
    found: Fills = {}
    for kink, (_, _, row) in zip(kinks.tolist(), pieces.facets, strict=True):
        if kink < 0:
            # From the other side, the hyperplane has the negated row and the same kink.
            name = max(row, tuple(-x for x in row))
            found[name] = max(found.get(name, fmpq(0)), -kink)
    return found


def bound_pieces(pieces: ExactPieces, used: Fills) -> int:
    """Bound the number of pieces of $P$ without forming them."""
    return sum(
        sum(comb(len(crossing), j) for j in range(pieces.dim + 1))
        for crossing in _list_crossings(pieces, used)
    )


def require_few_pieces(pieces: ExactPieces, used: list[Fills], max_pieces: int) -> None:
    """Raise an error, before any work, if the number of pieces could become too large.

    Raises:
        SizeLimitError: If all outputs together could have more than `max_pieces` pieces.
    """
    count = sum(bound_pieces(pieces, one) for one in used)
    if count > max_pieces:
        planes = sum(map(len, used))
        raise SizeLimitError(
            f"Filling the concave kinks along {planes} hyperplanes would divide the "
            f"{pieces.n_cells} cells into up to {count} pieces, more than `max_pieces` = "
            f"{max_pieces}. Use a Delaunay or regular mesh, which needs no new pieces; raise "
            '`max_pieces`; or compile a mesh with `method="hats"`.'
        )


def filled_units(pieces: ExactPieces, output: int, used: Fills) -> list[WideArray]:
    """Return the unit $P$ of one output and then the units of its $Q$, as exact forms.

    The output is the first unit minus all others.
    """
    dim = pieces.dim
    planes = {row: np.array([alpha * x for x in row], dtype=object) for row, alpha in used.items()}
    height: Vector = (*(0,) * dim, 1)
    forms: list[WideArray] = []
    for cell, crossing in enumerate(_list_crossings(pieces, used)):
        form = pieces.forms[cell, output]
        corners = pieces.corners[cell]
        inside = set(crossing)
        for row in used:
            # A hyperplane that does not cross the cell has the same sign on the whole cell.
            if row not in inside and any(x > 0 for x in corners @ np.array(row, dtype=object)):
                form = form + planes[row]
        parts = [(form, [*pieces.rows[cell], height])]
        for row in crossing:
            opposite = tuple(-x for x in row)
            parts = [
                (part if side is opposite else part + planes[row], [*rows, side])
                for part, rows in parts
                for side in (row, opposite)
                if _is_open([*rows, side], dim)
            ]
        forms += [part for part, _ in parts]
    convex = distinct(np.stack(forms))
    zero = np.array([fmpq(0)] * (dim + 1), dtype=object)
    return [convex, *(np.stack([zero, plane]) for plane in planes.values())]


def _list_crossings(pieces: ExactPieces, used: Fills) -> list[list[Vector]]:
    """List for each cell the used hyperplanes that cross its interior."""
    rows = list(used)
    planes = wide_rows(rows, pieces.dim + 1)
    result = []
    for corners in pieces.corners:
        values = corners @ planes.T
        crosses = np.asarray((values > 0).any(axis=0) & (values < 0).any(axis=0), dtype=np.bool_)
        result.append([rows[k] for k in np.flatnonzero(crosses).tolist()])
    return result


def _is_open(rows: list[Vector], dim: int) -> bool:
    return decide_open_cone(wide_rows(rows, dim + 1)).is_open


MAX_PIECES = 5_000
"""Default for the maximum number of pieces created by filling concave kinks."""

Lifting = Callable[[WideArray], WideArray | None]
"""Returns a proposed convex function `(n_cells, 1 or dim_out, dim + 1)` for given kinks."""

_LAMBDA_BITS = 10
_STEEP = 16.0


def maxout_from_pieces(
    pieces: ExactPieces,
    box: Box,
    liftings: Iterable[tuple[str, Lifting]] = (),
    *,
    max_pieces: int = MAX_PIECES,
) -> MaxoutForm:
    """Write a continuous function on a convex set as a difference of maxima.

    Args:
        pieces: The continuous function.
        box: The box on which rounding is bounded.
        liftings: Names and proposals, tried in order. Each proposal is checked exactly.
        max_pieces: The maximum number of pieces created by filling concave kinks.

    Raises:
        SizeLimitError: If no proposal works and filling kinks could exceed `max_pieces`.
    """
    kinks = pieces.kinks()
    n = pieces.dim_out
    units: list[WideArray] = []
    columns: list[FloatArray] = []

    def add(forms: WideArray, weights: dict[int, float]) -> None:
        units.append(forms)
        columns.append(np.array([weights.get(c, 0.0) for c in range(n)]))

    words: list[str] = []
    mixed: list[int] = []
    places: FloatArray | None = pieces.places
    for c in range(n):
        if all(kink >= 0 for kink in kinks[:, c]):
            add(pieces.forms[:, c], {c: 1.0})
            words.append("convex")
        elif all(kink <= 0 for kink in kinks[:, c]):
            add(-pieces.forms[:, c], {c: -1.0})
            words.append("concave")
        else:
            mixed.append(c)
    found = _choose_flattest(pieces, kinks, mixed, liftings) if mixed else None
    if found is not None:
        name, lifting, steps = found
        shared = lifting.shape[1] == 1
        for c, step in zip(mixed, steps, strict=True):
            own = lifting[:, 0 if shared else c]
            add(pieces.forms[:, c] + exact_numbers(np.array([step]))[0] * own, {c: 1.0})
            if not shared:
                add(own, {c: -step})
        if shared:
            add(lifting[:, 0], {c: -step for c, step in zip(mixed, steps, strict=True)})
        words.append(name)
        mixed = []
    if mixed:
        used: list[Fills] = [collect_fills(pieces, kinks[:, c]) for c in mixed]
        require_few_pieces(pieces, used, max_pieces)
        for c, one in zip(mixed, used, strict=True):
            first, *others = filled_units(pieces, c, one)
            add(first, {c: 1.0})
            for other in others:
                add(other, {c: -1.0})
        words.append("facet kinks")
        places = None
    last = words[-1]
    method = "difference" if last in ("convex", "concave") and len(set(words)) > 1 else last
    return assemble(
        units, np.stack(columns), box, method, None if places is None else [places] * len(units)
    )


def _choose_flattest(
    pieces: ExactPieces,
    kinks: WideArray,
    outputs: list[int],
    liftings: Iterable[tuple[str, Lifting]],
) -> tuple[str, WideArray, list[float]] | None:
    """Return the first lifting that is not much steeper than the function, or the flattest.

    A steep lifting is as correct as a flat one, but it adds large terms that must cancel, and their
    rounding errors do not cancel.
    """
    best: tuple[str, WideArray, list[float]] | None = None
    least = np.inf
    own = np.array([_measure_spread(pieces, pieces.forms[:, c]) for c in outputs])
    for name, propose in liftings:
        lifting = propose(kinks[:, outputs])
        steps = (
            None
            if lifting is None
            else _find_multiples(pieces, kinks[:, outputs], lifting, outputs)
        )
        if lifting is None or steps is None:
            continue
        lifting = _subtract_affine(pieces, lifting)
        chosen = [0] * len(outputs) if lifting.shape[1] == 1 else outputs
        heights = np.array([_measure_spread(pieces, lifting[:, c]) for c in chosen])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steepness = float(np.max(np.array(steps) * heights / own))
        if best is None or steepness < least:
            best, least = (name, lifting, steps), steepness
        if least <= _STEEP:
            break
    return best


def _measure_spread(pieces: ExactPieces, forms: WideArray) -> float:
    """Return the largest minus the smallest value at the corners, rounded."""
    values = _corner_values(pieces, forms)
    return nearest_float(max(values) - min(values))


def _corner_values(pieces: ExactPieces, forms: WideArray) -> list[fmpq]:
    return [
        value / weight
        for corners, form in zip(pieces.corners, forms, strict=True)
        for value, weight in zip(corners @ form, corners[:, -1], strict=True)
    ]


def _subtract_affine(pieces: ExactPieces, lifting: WideArray) -> WideArray:
    """Subtract an affine function from each output of a lifting; this does not change kinks."""
    points = np.concatenate([pieces.corner_points(i) for i in range(pieces.n_cells)])
    result = lifting.copy()
    for c in range(lifting.shape[1]):
        values = nearest_floats(np.array(_corner_values(pieces, lifting[:, c]), dtype=object))
        common = common_form(points, values)
        if common is not None:
            result[:, c] -= common
    return result


def _find_multiples(
    pieces: ExactPieces, kinks: WideArray, lifting: WideArray, outputs: list[int]
) -> list[float] | None:
    """Return the least multiple of the lifting for each output, rounded up; None if none works."""
    own = pieces.kinks(lifting)
    own = np.broadcast_to(own, kinks.shape) if own.shape[1] == 1 else own[:, outputs]
    if any(kink < 0 for kink in own.ravel().tolist()):
        return None
    result = []
    for mine, given in zip(own.T.tolist(), kinks.T.tolist(), strict=True):
        if any(g < 0 and not m for m, g in zip(mine, given, strict=True)):
            return None
        least = max((-g / m for m, g in zip(mine, given, strict=True) if g < 0), default=fmpq(0))
        # A lifting made for this function needs no multiple.
        result.append(1.0 if fmpq(1, 2) < least <= 1 else _round_up_to_few_bits(least))
    return result if np.isfinite(result).all() else None


def _round_up_to_few_bits(number: fmpq) -> float:
    """Round up to a float with few bits, so that products with it need few additional bits."""
    above = float(round_up([number])[0])
    mantissa, exponent = np.frexp(above)
    with np.errstate(over="ignore"):
        short = np.ldexp(ceil(np.ldexp(mantissa, _LAMBDA_BITS)), int(exponent) - _LAMBDA_BITS)
    # At the limits of float64 the short number may be too small or infinite.
    return float(short) if above <= short < np.inf else above
