r"""Continuous piecewise linear functions as differences of two maxima, [KS87], [GWMCB13].

Let $f$ be given on the cells of a convex set. If some convex function $\psi$ is affine on each cell
and strictly convex wherever $f$ is concave, then with

$$\lambda = \max_{F} \frac{-\kappa_F(f)}{\kappa_F(\psi)}, \qquad
f = (f + \lambda\psi) - \lambda\psi$$

the first term is convex as well: both are maxima of one form for each cell, and there are *no new
pieces*. Such a $\psi$ is called a lifting here; [BGH25] describes all differences on given cells.
Where no lifting is found, concave kinks are filled along their hyperplanes (`facet_kinks`), which
cuts cells.
"""

from collections.abc import Callable, Iterable
from math import ceil

import numpy as np
from flint import fmpq

from hardmax.constructions.compilers.functions.common_forms import common_form
from hardmax.constructions.compilers.functions.exact_pieces import ExactPieces
from hardmax.constructions.compilers.functions.facet_kinks import (
    Fills,
    filled_units,
    fills,
    require_few_pieces,
)
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    assemble,
    exact_numbers,
    round_up,
)
from hardmax.exact.dyadic import nearest_float, nearest_floats
from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, WideArray

MAX_PIECES = 5_000
"""How many pieces filling concave kinks may make before it is refused."""

Lifting = Callable[[WideArray], WideArray | None]
"""Proposes convex functions on the cells, `(n_cells, 1 or dim_out, dim + 1)`, given the kinks."""

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
        pieces: The function, continuous.
        box: Where rounding is bounded.
        liftings: Names and proposals, tried in order; each proposal is checked in rationals.
        max_pieces: How many pieces filling concave kinks may make.

    Raises:
        SizeLimitError: If no proposal works and filling could exceed `max_pieces`.
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
    found = _flattest(pieces, kinks, mixed, liftings) if mixed else None
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
        used: list[Fills] = [fills(pieces, kinks[:, c]) for c in mixed]
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


def _flattest(
    pieces: ExactPieces,
    kinks: WideArray,
    outputs: list[int],
    liftings: Iterable[tuple[str, Lifting]],
) -> tuple[str, WideArray, list[float]] | None:
    """Return the first lifting that is not much steeper than the function, or the flattest.

    A steep lifting is as correct as a flat one, but what it adds must cancel, and rounding does
    not.
    """
    best: tuple[str, WideArray, list[float]] | None = None
    least = np.inf
    own = np.array([_spread(pieces, pieces.forms[:, c]) for c in outputs])
    for name, propose in liftings:
        lifting = propose(kinks[:, outputs])
        steps = None if lifting is None else _multiples(pieces, kinks[:, outputs], lifting, outputs)
        if lifting is None or steps is None:
            continue
        lifting = _centred(pieces, lifting)
        chosen = [0] * len(outputs) if lifting.shape[1] == 1 else outputs
        heights = np.array([_spread(pieces, lifting[:, c]) for c in chosen])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steepness = float(np.max(np.array(steps) * heights / own))
        if best is None or steepness < least:
            best, least = (name, lifting, steps), steepness
        if least <= _STEEP:
            break
    return best


def _spread(pieces: ExactPieces, forms: WideArray) -> float:
    """Return the largest minus the smallest value at the corners, rounded."""
    values = _corner_values(pieces, forms)
    return nearest_float(max(values) - min(values))


def _corner_values(pieces: ExactPieces, forms: WideArray) -> list[fmpq]:
    return [
        value / weight
        for corners, form in zip(pieces.corners, forms, strict=True)
        for value, weight in zip(corners @ form, corners[:, -1], strict=True)
    ]


def _centred(pieces: ExactPieces, lifting: WideArray) -> WideArray:
    """Take an affine function away from each output of a lifting, which changes no kink."""
    points = np.concatenate([pieces.corner_points(i) for i in range(pieces.n_cells)])
    result = lifting.copy()
    for c in range(lifting.shape[1]):
        values = nearest_floats(np.array(_corner_values(pieces, lifting[:, c]), dtype=object))
        common = common_form(points, values)
        if common is not None:
            result[:, c] -= common
    return result


def _multiples(
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
        # A lifting that was made for the function fits as it is.
        result.append(1.0 if fmpq(1, 2) < least <= 1 else _short_above(least))
    return result if np.isfinite(result).all() else None


def _short_above(number: fmpq) -> float:
    """Round up to a float of few bits, so that multiplying by it costs few bits."""
    above = float(round_up([number])[0])
    mantissa, exponent = np.frexp(above)
    with np.errstate(over="ignore"):
        short = np.ldexp(ceil(np.ldexp(mantissa, _LAMBDA_BITS)), int(exponent) - _LAMBDA_BITS)
    # At the ends of float64 the short one may fall to the wrong side.
    return float(short) if above <= short < np.inf else above
