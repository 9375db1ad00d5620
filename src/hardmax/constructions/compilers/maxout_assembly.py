r"""From exact units to a stored network: rounding the pieces, and the error this makes.

Every front end ends here. It has units $u_i(x) = \max_j \langle a_{ij}, x\rangle + c_{ij}$ with
rational coefficients and weights $w_{ic}$ with $f_c = \sum_i w_{ic} u_i$ on its domain. Stored
coefficients are float64, so each form moves by some amount, at most $r_{ij}$ on the box. A maximum
moves by no more than the form that moves most, *whichever form wins before and after*, so the
network differs from $f_c$ by at most $\sum_i |w_{ic}| \max_j r_{ij}$ everywhere on the box.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import owned
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
    r"""A piecewise linear function as a maxout network, and how far the two are apart.

    Attributes:
        network: The network.
        rounding: For each output a bound on $|{\rm network}(x) - f(x)|$ for $x$ in the box (and in
            the domain of $f$), both taken without rounding; shape `(dim_out,)`. It is 0 where every
            coefficient is a float64.
        box: The box the bound holds on.
        method: How the function became a difference of maxima: `"convex"`, `"concave"`,
            `"difference"`, `"lattice"`, `"lifting"`, `"layers"` or `"facet kinks"`; or how it was
            written without: `"segments"`, `"hats"`.
        origins: Where the tokens of its transformer or the units of its first layer stand, if that
            makes numbers smaller.

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
        """How many affine forms the units of the network have together."""
        return sum(rank for layer in self.network.ranks for rank in layer)


def exact_numbers(array: FloatArray) -> WideArray:
    """Return float64 numbers as flint rationals, in an object array of the same shape."""
    return as_flint(rationals(array))


def as_flint(numbers: WideArray) -> WideArray:
    """Turn integers and `fractions.Fraction` into flint rationals."""
    turned = np.frompyfunc(_flint, 1, 1)(np.asarray(numbers, dtype=object))
    return np.asarray(turned, dtype=object)


def read_box(box: Box | str, dim: int) -> Box:
    """Return a box in the right space, from a `Box` or its text."""
    box = read_domain(box, "box")
    if not isinstance(box, Box):
        raise DtypeError(
            "`box` must be a Box, bounded in every coordinate, or its text such as 'box:-1,1^2'; "
            f"got {type(box).__name__}."
        )
    if box.dim != dim:
        raise ShapeMismatchError(
            f"`box` must lie in R^{dim}, where the function is defined; got one in R^{box.dim}."
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
        units: For each unit its forms $(a, c)$ as flint rationals, shape `(n_forms, dim + 1)`;
            repeated forms are stored once.
        readout: The $w_{ic}$, shape `(n_units, dim_out)`.
        box: Where the error is bounded.
        method: How the units were found.
        places: For each unit and each of its forms a point of the cell where the form is largest,
            rounded, shape `(n_forms, dim)`; None if unknown.

    Raises:
        ArgumentError: If a coefficient lies beyond the largest float64.
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
    return MaxoutForm(network, owned(round_up(bound)), box, method, origins)


def distinct(forms: WideArray) -> WideArray:
    """Drop repeated rows, keeping the first of each."""
    return np.asarray(forms[first_of_each(forms)], dtype=object)


def first_of_each(forms: WideArray) -> list[int]:
    """Return the rows that do not occur before."""
    kept = {tuple(row): i for i, row in reversed(list(enumerate(forms.tolist())))}
    return sorted(kept.values())


def round_forms(
    forms: WideArray, box: Box, about: WideArray | None = None
) -> tuple[FloatArray, FloatArray, fmpq]:
    r"""Round exact forms to float64, offsets so that the error is least at one point.

    Args:
        forms: Flint rationals, shape `(n_forms, dim + 1)`.
        box: Where the error is bounded.
        about: The point, flint rationals, shape `(dim,)`; None for the middle of the box.

    Returns:
        Slopes `(n_forms, dim)`, offsets `(n_forms,)`, and the largest $|\tilde\ell(x) - \ell(x)|$
        over all forms and the box, exactly.
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
    """Round non-negative rationals to float64 from above."""
    exact = [fraction(number) for number in numbers]
    near = nearest_floats(np.array(exact, dtype=object))
    below = [x < np.inf and Fraction(x) < y for x, y in zip(near.tolist(), exact, strict=True)]
    return np.asarray(np.where(below, np.nextafter(near, np.inf), near))


def _require_finite(array: FloatArray, word: str) -> None:
    if not np.isfinite(array).all():
        raise ArgumentError(
            f"every piece must fit float64; got one with a {word} beyond the largest float64: "
            "rescale the function or its domain."
        )


def _flint(number: Fraction | fmpq | int) -> fmpq:
    if isinstance(number, fmpq):
        return number
    exact = Fraction(number)
    return fmpq(exact.numerator, exact.denominator)
