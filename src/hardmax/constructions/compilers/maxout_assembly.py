r"""From exact units to a stored network: rounding the pieces, and the resulting error.

All front ends end here. A front end has units $u_i(x) = \max_j \langle a_{ij}, x\rangle + c_{ij}$
with rational coefficients, and weights $w_{ic}$ with $f_c = \sum_i w_{ic} u_i$ on its domain. The
stored coefficients are float64, so each form changes, by at most $r_{ij}$ on the box. A maximum
changes by at most the largest change of its forms, *regardless of which forms win before and
after*. The network therefore differs from $f_c$ by at most $\sum_i |w_{ic}| \max_j r_{ij}$
everywhere on the box.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.constructions.compilers.token_origins import TokenOrigins, token_origins
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.exact.dyadic import fraction, nearest_floats, rationals
from hardmax.geometry.domain_text import read_domain
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.typing import FloatArray, WideArray


@dataclass(frozen=True, eq=False)
class MaxoutForm:
    r"""A maxout network that computes a piecewise linear function, with a bound on its error.

    Attributes:
        network: The network.
        rounding: For each output, a bound on $|{\rm network}(x) - f(x)|$ for $x$ in the box (and in
            the domain of $f$), with exact arithmetic; shape `(dim_out,)`. It is 0 if every
            coefficient is a float64.
        box: The box on which the bound holds.
        method: The method by which the function was written as a difference of maxima: `"convex"`,
            `"concave"`, `"difference"`, `"lattice"`, `"lifting"`, `"layers"` or `"facet kinks"`; or
            in another form: `"segments"` or `"hats"`.
        origins: The origins of the tokens of the transformer, or of the units of the first layer;
            None if origins would not make the numbers smaller.

    Examples:
        >>> from hardmax import Box, TropicalPolynomial
        >>> from hardmax.constructions import maxout_form
        >>> form = maxout_form(TropicalPolynomial([[1.0], [-1.0]], [0.0, 0.0]), Box([-1], [1]))
        >>> form.method, form.rounding.tolist(), form.n_pieces
        ('convex', [0.0], 2)
    """

    network: MaxoutNetwork
    rounding: FloatArray
    box: Box
    method: str
    origins: TokenOrigins | UnitOrigins | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_pieces(self) -> int:
        """The total number of affine forms of all units of the network."""
        return sum(rank for layer in self.network.ranks for rank in layer)


def exact_numbers(array: FloatArray) -> WideArray:
    """Return float64 numbers as flint rationals, in an object array of the same shape."""
    return as_flint(rationals(array))


def as_flint(numbers: WideArray) -> WideArray:
    """Turn integers and `fractions.Fraction` into flint rationals."""
    turned = np.frompyfunc(_flint, 1, 1)(np.asarray(numbers, dtype=object))
    return np.asarray(turned, dtype=object)


def read_box(box: Box | str, dim: int) -> Box:
    """Return a box of the right dimension, from a `Box` or its text."""
    box = read_domain(box, "box")
    if not isinstance(box, Box):
        raise DtypeError(
            "`box` must be a bounded Box, or its text such as 'box:-1,1^2'; got "
            f"{type(box).__name__}."
        )
    if box.dim != dim:
        raise ShapeMismatchError(
            f"`box` must have dimension {dim}, like the domain of the function; got {box.dim}."
        )
    return box


def assemble(
    units: Sequence[WideArray],
    readout: FloatArray,
    box: Box,
    method: str,
    places: Sequence[FloatArray] | None = None,
) -> MaxoutForm:
    r"""Store one layer of exact units and its readout.

    Args:
        units: For each unit, its forms $(a, c)$ as flint rationals, shape `(n_forms, dim + 1)`.
            Repeated forms are stored once.
        readout: The weights $w_{ic}$, shape `(n_units, dim_out)`.
        box: The box on which the error is bounded.
        method: The method by which the units were found.
        places: For each unit and each of its forms, a point of the cell where the form is largest,
            rounded, shape `(n_forms, dim)`; None if unknown.

    Raises:
        ArgumentError: If a coefficient exceeds the largest float64.
    """
    kept = [first_of_each(forms) for forms in units]
    stored = [round_forms(forms[rows], box) for forms, rows in zip(units, kept, strict=True)]
    bound = [
        sum((abs(_flint(w)) * r for w, (_, _, r) in zip(column, stored, strict=True)), fmpq(0))
        for column in rationals(readout).T.tolist()
    ]
    network = MaxoutNetwork(
        [[slopes for slopes, _, _ in stored], readout],
        [[offsets for _, offsets, _ in stored], None],
    )
    origins = None
    if places is not None:
        origins = token_origins(
            [slopes for slopes, _, _ in stored],
            [offsets for _, offsets, _ in stored],
            [points[rows] for points, rows in zip(places, kept, strict=True)],
        )
    return MaxoutForm(network, read_only_copy(round_up(bound)), box, method, origins)


def distinct(forms: WideArray) -> WideArray:
    """Drop repeated rows, keeping the first of each."""
    return np.asarray(forms[first_of_each(forms)], dtype=object)


def first_of_each(forms: WideArray) -> list[int]:
    """Return the indices of the rows that do not repeat an earlier row."""
    kept = {tuple(row): i for i, row in reversed(list(enumerate(forms.tolist())))}
    return sorted(kept.values())


def round_forms(
    forms: WideArray, box: Box, about: WideArray | None = None
) -> tuple[FloatArray, FloatArray, fmpq]:
    r"""Round exact forms to float64, with offsets that minimize the error at one point.

    Args:
        forms: The forms as flint rationals, shape `(n_forms, dim + 1)`.
        box: The box on which the error is bounded.
        about: The point as flint rationals, shape `(dim,)`; None for the centre of the box.

    Returns:
        The slopes `(n_forms, dim)`, the offsets `(n_forms,)`, and the exact maximum of
        $|\tilde\ell(x) - \ell(x)|$ over all forms and the box.
    """
    low, high = exact_numbers(box.low), exact_numbers(box.high)
    middle = (low + high) / 2 if about is None else about
    half = np.maximum(np.abs(low - middle), np.abs(high - middle))
    slopes = nearest_floats(forms[:, :-1])
    _require_finite(slopes, "slope")
    moved = forms[:, :-1] - exact_numbers(slopes)
    shifted = forms[:, -1] + moved @ middle
    offsets = nearest_floats(shifted)
    _require_finite(offsets, "offset")
    spread = np.abs(moved) @ half + np.abs(shifted - exact_numbers(offsets))
    return slopes, offsets, max(spread.tolist())


@np.errstate(over="ignore", under="ignore")
def round_up(numbers: Iterable[fmpq]) -> FloatArray:
    """Round nonnegative rationals up to float64."""
    exact = [fraction(number) for number in numbers]
    near = nearest_floats(np.array(exact, dtype=object))
    below = [x < np.inf and Fraction(x) < y for x, y in zip(near.tolist(), exact, strict=True)]
    return np.asarray(np.where(below, np.nextafter(near, np.inf), near))


def _require_finite(array: FloatArray, word: str) -> None:
    if not np.isfinite(array).all():
        raise ArgumentError(
            f"The coefficients of every piece must fit into float64; a {word} exceeds the largest "
            "float64. Rescale the function or its domain."
        )


def _flint(number: Fraction | fmpq | int) -> fmpq:
    if isinstance(number, fmpq):
        return number
    exact = Fraction(number)
    return fmpq(exact.numerator, exact.denominator)
