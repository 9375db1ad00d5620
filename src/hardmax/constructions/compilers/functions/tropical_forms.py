r"""Functions that are already maxima: differences, rational maps, and max-min lattice forms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import integer, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    assemble,
    exact_numbers,
    read_box,
)
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, read_sequence
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.typing import WideArray

Maximum = AffineForms | TropicalPolynomial


@dataclass(frozen=True, eq=False)
class DifferenceOfMaxima:
    r"""The function $\max_i \ell_i(x) - \max_j \ell'_j(x)$.

    Every continuous piecewise linear function is of this form [KS87].

    Attributes:
        above: The forms $\ell_i$, as `AffineForms` or a `TropicalPolynomial`.
        below: The forms $\ell'_j$, as `AffineForms` or a `TropicalPolynomial`; None stands for 0.

    Examples:
        >>> tent = DifferenceOfMaxima(AffineForms([[1.0]], [0.0]), AffineForms([[0.0], [2.0]],
        ...                                                                   [0.0, -1.0]))
        >>> tent.dim
        1
    """

    above: Maximum
    below: Maximum | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        for name, given in (("above", self.above), ("below", self.below)):
            if given is None and name == "below":
                continue
            if not isinstance(given, AffineForms | TropicalPolynomial):
                raise DtypeError(
                    f"`{name}` must be AffineForms or a TropicalPolynomial; got "
                    f"{type(given).__name__}."
                )
            if given.dim != self.above.dim:
                raise ShapeMismatchError(
                    f"`below` must have {self.above.dim} variables, like `above`; got {given.dim}."
                )

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.above.dim


@dataclass(frozen=True, eq=False)
class LatticeForm:
    r"""The function $\max_s \min_{i \in S_s} \ell_i(x)$.

    Attributes:
        forms: The forms $\ell_i$.
        sets: The sets $S_s$, as nonempty sequences of indices of forms.

    References:
        [TM99].

    Examples:
        >>> forms = AffineForms([[1.0], [-1.0], [0.0]], [0.0, 2.0, 0.5])
        >>> tent_or_half = LatticeForm(forms, [[0, 1], [2]])
        >>> tent_or_half.sets
        ((0, 1), (2,))
    """

    forms: AffineForms
    sets: Sequence[Sequence[int]]

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        if not isinstance(self.forms, AffineForms):
            raise DtypeError(f"`forms` must be AffineForms; got {type(self.forms).__name__}.")
        read = []
        for s, given in enumerate(read_sequence("sets", self.sets)):
            chosen = read_sequence(f"sets[{s}]", given, nonempty=False)
            if not chosen:
                raise EmptyInputError(
                    f"`sets[{s}]` must contain the index of at least one form; it is empty."
                )
            last = self.forms.n_forms - 1
            read.append(
                tuple(integer(f"sets[{s}]", index, at_least=0, at_most=last) for index in chosen)
            )
        object.__setattr__(self, "sets", tuple(read))

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.forms.dim


def maxout_from_difference(difference: DifferenceOfMaxima, box: Box | str) -> MaxoutForm:
    """Write a difference of maxima as a maxout network of one layer with at most two units.

    Args:
        difference: The function.
        box: The box on which rounding is bounded: a `Box`, or its text. Affine forms are stored
            without rounding; the terms of a polynomial that results from arithmetic may be rounded.

    Examples:
        >>> tent = DifferenceOfMaxima(AffineForms([[1.0]], [0.0]), AffineForms([[0.0], [2.0]],
        ...                                                                   [0.0, -1.0]))
        >>> form = maxout_from_difference(tent, Box([0], [1]))
        >>> form.network([[0.25], [0.5], [1.0]]).ravel().tolist(), form.rounding.tolist()
        ([0.25, 0.5, 0.0], [0.0])
    """
    box = read_box(box, difference.dim)
    units, weights = [exact_forms(difference.above)], [[1.0]]
    if difference.below is not None:
        units.append(exact_forms(difference.below))
        weights.append([-1.0])
    method = "convex" if difference.below is None else "difference"
    return assemble(units, np.array(weights), box, method)


def maxout_from_rational_map(rational: TropicalRationalMap, box: Box | str) -> MaxoutForm:
    r"""Write a tropical rational map as a maxout network of one layer.

    The network has one unit for each numerator and one for the denominator, which is subtracted
    from all outputs. A denominator with a single term is merged into the numerators. Terms that
    never win are removed first.

    Args:
        rational: The map.
        box: The box on which rounding is bounded: a `Box`, or its text.

    Examples:
        >>> x = TropicalRationalMap.from_affine([[1.0]])
        >>> tent = x.minimum(TropicalRationalMap.from_affine([[-1.0]], [1.0]))
        >>> form = maxout_from_rational_map(tent, Box([-1], [2]))
        >>> form.network, form.network([[0.25], [2.0]]).ravel().tolist()
        (MaxoutNetwork(1 -> [2] -> 1, ranks 1 to 2), [0.25, -1.0])
    """
    box = read_box(box, rational.dim_in)
    pruned = rational.prune()
    above = [exact_forms(polynomial) for polynomial in pruned.numerators]
    below = exact_forms(pruned.denominator)
    eye = np.eye(rational.dim_out)
    if len(below) == 1:
        return assemble([forms - below for forms in above], eye, box, "convex")
    readout = np.vstack([eye, -np.ones(rational.dim_out)])
    return assemble([*above, below], readout, box, "difference")


def maxout_from_lattice(lattice: LatticeForm, box: Box | str) -> MaxoutForm:
    r"""Write a max-min form as a maxout network of two layers.

    The first layer has the units $g_s = \max_{i \in S_s} (-\ell_i)$. The second layer has the
    single unit $\max_s (-g_s)$. Nothing is rounded.

    Args:
        lattice: The function.
        box: The box of the result: a `Box`, or its text.

    Examples:
        >>> forms = AffineForms([[1.0], [-1.0], [0.0]], [0.0, 2.0, 0.5])
        >>> form = maxout_from_lattice(LatticeForm(forms, [[0, 1], [2]]), Box([-1], [3]))
        >>> form.network([[0.0], [1.0], [1.75]]).ravel().tolist()
        [0.5, 1.0, 0.5]
    """
    box = read_box(box, lattice.dim)
    chosen = [list(indices) for indices in lattice.sets]
    slopes = [-lattice.forms.slopes[indices] for indices in chosen]
    offsets = [-lattice.forms.offsets[indices] for indices in chosen]
    network = MaxoutNetwork([slopes, [-np.eye(len(chosen))], [[1.0]]], [offsets, None, None])
    return MaxoutForm(network, read_only_copy(np.zeros(1)), box, "lattice")


def exact_forms(maximum: Any) -> WideArray:
    """Return the forms $(a, c)$ of a maximum as flint rationals, shape `(n_forms, dim + 1)`."""
    if isinstance(maximum, TropicalPolynomial):
        coefficients = maximum.coefficients
        scale = fmpq(2) ** coefficients.exponent
        return np.asarray(coefficients.integers * scale, dtype=object)
    return exact_numbers(np.column_stack([maximum.slopes, maximum.offsets]))
