r"""Tropical rational maps: exact vector-valued differences of maxima of affine forms.

**Common denominators.** A weighted sum $\sum_i v_i R_i$ of convex piecewise linear functions is a
tropical quotient. In tropical notation it is the Laurent monomial $\prod_i R_i^{v_i}$. Hence
several such sums have a *least* common denominator $\prod_i R_i^{\mu_i}$, where $-\mu_i$ is the
smallest exponent of $R_i$ or zero, whichever is less. This module does all arithmetic of rational
maps, in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hardmax._ground.arguments import Sizes, integer, number
from hardmax._ground.display import format_card
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError, SizeLimitError
from hardmax.exact.dyadic import ScaledIntegers, nearest_floats, scaled_integers
from hardmax.tropical.coefficients import align, reduce_twos, terms_key
from hardmax.tropical.polynomials import MAX_TERMS, TropicalPolynomial
from hardmax.typing import ArrayLike, FloatArray, WideArray

if TYPE_CHECKING:
    from hardmax.tropical.pieces import AffinePieces


Factor = tuple[TropicalPolynomial, int]
"""A polynomial and its exponent, in units of the common power of two of the weights."""


def over_common_denominator(
    polynomials: Sequence[TropicalPolynomial],
    weights: ScaledIntegers,
    bias: ScaledIntegers,
    *,
    max_terms: int,
) -> tuple[list[TropicalPolynomial], TropicalPolynomial]:
    r"""Write $y_k = b_k + \sum_i v_{ik} R_i$ as $N_k - D$ with convex $N_k$ and $D$.

    With $\mu_i = \max(0, \max_k -v_{ik})$,

    $$D = \sum_i \mu_i R_i, \qquad N_k = b_k + \sum_i (v_{ik} + \mu_i) R_i .$$

    Equal $R_i$ are merged first. A monomial factor is an affine form, which is moved to the
    numerators with either sign. Every other $R_i$ is first divided by its lexicographically
    smallest monomial, so that $D$ has no monomial factor. Products are pruned after each factor.

    Args:
        polynomials: At least one polynomial $R_i$, all in the same variables.
        weights: The weights $v_{ik}$, shape `(n_polynomials, n_outputs)`.
        bias: The constants $b_k$, shape `(n_outputs,)`.
        max_terms: The maximum number of terms that a product may form before pruning.

    Returns:
        The pruned polynomials $N_k$, and $D$.

    Raises:
        SizeLimitError: Before a product of more than `max_terms` terms is formed.
    """
    dim, n_outputs = polynomials[0].dim, weights.integers.shape[1]
    exponent = weights.exponent
    affine = _AffineParts(dim, n_outputs)
    affine.add_constants(bias)
    bodies: dict[object, TropicalPolynomial] = {}
    totals: dict[object, WideArray] = {}
    for polynomial, row in zip(polynomials, weights.integers, strict=True):
        body, monomial = _split_off_monomial(polynomial)
        affine.add_monomial(monomial, row, exponent)
        if body.n_terms > 1:
            key = terms_key(body.coefficients)
            bodies.setdefault(key, body)
            totals[key] = totals[key] + row if key in totals else row
    needed = {key: max(0, *(-int(v) for v in row)) for key, row in totals.items()}
    denominator = pruned_product(
        [(bodies[key], power) for key, power in needed.items()], exponent, dim, max_terms
    )
    numerators = []
    for k in range(n_outputs):
        factors = [(bodies[key], int(totals[key][k]) + needed[key]) for key in bodies]
        product = pruned_product(factors, exponent, dim, max_terms)
        numerators.append(product.times(affine.monomial(k), max_terms=product.n_terms))
    return numerators, denominator


def pruned_product(
    factors: Sequence[Factor], exponent: int, dim: int, max_terms: int
) -> TropicalPolynomial:
    r"""Return $\sum_i f_i 2^e R_i$, pruned, multiplying the smallest factors first."""
    product = TropicalPolynomial.constant(0.0, dim)
    powers = [polynomial.scaled(power, exponent) for polynomial, power in factors if power]
    for power in sorted(powers, key=lambda polynomial: polynomial.n_terms):
        count = product.n_terms * power.n_terms
        if count > max_terms:
            raise SizeLimitError(
                f"a tropical product of {len(powers)} factors would form {product.n_terms} x "
                f"{power.n_terms} = {count} terms, more than `max_terms` = {max_terms}. Raise "
                "`max_terms`, or use fewer or narrower layers."
            )
        product = product.times(power, max_terms=max_terms).prune()
    return product


def _split_off_monomial(
    polynomial: TropicalPolynomial,
) -> tuple[TropicalPolynomial, ScaledIntegers]:
    """Prune a polynomial, and divide it by the term with the lexicographically smallest slope."""
    pruned = polynomial.prune()
    exact = pruned.coefficients
    smallest = exact.integers[min(range(pruned.n_terms), key=exact.integers.tolist().__getitem__)]
    shifted = ScaledIntegers(exact.integers - smallest, exact.exponent)
    return TropicalPolynomial.from_coefficients(shifted), ScaledIntegers(smallest, exact.exponent)


class _AffineParts:
    """Exact sums of the affine forms that go into the numerators, one row per output."""

    def __init__(self, dim: int, n_outputs: int) -> None:
        self._rows = ScaledIntegers(np.full((n_outputs, dim + 1), 0, dtype=object), 0)

    def add_monomial(self, monomial: ScaledIntegers, weights: WideArray, exponent: int) -> None:
        product = np.multiply.outer(weights, monomial.integers)
        self._add(ScaledIntegers(product, monomial.exponent + exponent))

    def add_constants(self, bias: ScaledIntegers) -> None:
        rows = np.full(self._rows.integers.shape, 0, dtype=object)
        rows[:, -1] = bias.integers
        self._add(ScaledIntegers(rows, bias.exponent))

    def monomial(self, k: int) -> TropicalPolynomial:
        exact = ScaledIntegers(self._rows.integers[k : k + 1], self._rows.exponent)
        return TropicalPolynomial.from_coefficients(exact)

    def _add(self, part: ScaledIntegers) -> None:
        (left, right), exponent = align((self._rows, part))
        self._rows = reduce_twos(left + right, exponent)


Numerators: TypeAlias = tuple[TropicalPolynomial, ...]
Operand: TypeAlias = "TropicalRationalMap | TropicalPolynomial | float"


@dataclass(frozen=True, eq=False, repr=False)
class TropicalRationalMap:
    r"""The map $F : \mathbb{R}^d \to \mathbb{R}^n$ with channels $F_c = P_c \oslash Q = P_c - Q$.

    Every continuous piecewise linear map has this form, with one denominator for all channels:
    $P_c - Q_c = (P_c + \sum_{c' \ne c} Q_{c'}) - \sum_{c'} Q_{c'}$.

    **Arithmetic** is the ordinary arithmetic of functions: `F + G`, `F - G`, `-F` and `2 * F` are
    the sum, difference, negative and multiple; `F.maximum(G)` is the tropical sum. (For
    `TropicalPolynomial`, in contrast, `+` and `*` are tropical.) The difference is the tropical
    quotient, so `F / G` equals `F - G`. Either operand of a difference may be a polynomial or a
    number, which is then used in every channel. Results are exact, pruned, and have the least
    common denominator of the known factors. Methods that multiply polynomials take `max_terms`, and
    raise an error before a product exceeds it; operators use the default, 20 000.

    Attributes:
        numerators: The polynomials $P_c$, one for each of the `dim_out` channels (at least one).
        denominator: The polynomial $Q$.

    References:
        Definition III.6 of [SL26]; [ZNL18].

    Examples:
        The tent function $\min(x, 1 - x)$ is concave, so it needs a denominator:

        >>> x = TropicalRationalMap.from_affine([[1.0]])
        >>> tent = x.minimum(TropicalRationalMap.from_affine([[-1.0]], [1.0]))
        >>> print(tent)
        x - max(2x - 1, 0)
        >>> tent([[0.0], [0.5], [2.0]]).ravel().tolist()
        [0.0, 0.5, -1.0]
        >>> (tent - tent).equals(0 * tent)
        True
    """

    numerators: Numerators
    denominator: TropicalPolynomial

    __array_ufunc__ = None  # Lets `numpy_scalar * F` reach `__rmul__`.

    def __post_init__(self) -> None:
        if not isinstance(self.numerators, list | tuple):
            raise DtypeError(
                "`numerators` must be a sequence (a list or a tuple) of TropicalPolynomial; "
                f"got {type(self.numerators).__name__}."
            )
        object.__setattr__(self, "numerators", tuple(self.numerators))
        if not self.numerators:
            raise EmptyInputError("`numerators` must have at least one polynomial; got none.")
        named = [(f"numerators[{c}]", p) for c, p in enumerate(self.numerators)]
        for name, polynomial in [*named, ("denominator", self.denominator)]:
            if not isinstance(polynomial, TropicalPolynomial):
                raise DtypeError(
                    f"`{name}` must be a TropicalPolynomial; got {type(polynomial).__name__}."
                )
            if polynomial.dim != self.numerators[0].dim:
                raise ShapeMismatchError(
                    f"`{name}` must have the same number of variables as `numerators[0]`, "
                    f"{self.numerators[0].dim}; got {polynomial.dim}."
                )

    @classmethod
    def from_affine(cls, weight: ArrayLike, bias: ArrayLike | None = None) -> TropicalRationalMap:
        """Return the affine map `x -> x @ weight + bias`.

        Args:
            weight: The weight matrix, shape `(dim_in, dim_out)`.
            bias: The bias vector, shape `(dim_out,)`. By default, zero.
        """
        sizes = Sizes()
        matrix = sizes.floats("weight", weight, ("dim_in", "dim_out"))
        offset = np.zeros(sizes["dim_out"]) if bias is None else bias
        offset = sizes.floats("bias", offset, ("dim_out",))
        numerators = [
            TropicalPolynomial(matrix[:, [c]].T, offset[[c]]) for c in range(sizes["dim_out"])
        ]
        return cls(tuple(numerators), TropicalPolynomial.constant(0.0, sizes["dim_in"]))

    @property
    def dim_in(self) -> int:
        """The number of variables."""
        return self.denominator.dim

    @property
    def dim_out(self) -> int:
        """The number of channels."""
        return len(self.numerators)

    @property
    def n_terms(self) -> int:
        """The total number of terms of all numerators and the denominator."""
        return sum(p.n_terms for p in self.numerators) + self.denominator.n_terms

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate at a point `(dim_in,)` or a batch `(n_points, dim_in)`, rounded.

        The errors of the polynomials (see `TropicalPolynomial.__call__`) can be large compared with
        their difference; `exact_values` is exact.

        Returns:
            The values, shape `(dim_out,)` for a point, `(n_points, dim_out)` for a batch.
        """
        above = np.stack([np.asarray(p(x)) for p in self.numerators], axis=-1)
        with np.errstate(invalid="ignore"):
            values = np.asarray(above - np.asarray(self.denominator(x))[..., None])
        if not np.isfinite(values).all():  # Both can exceed float64 although their difference fits.
            return nearest_floats(self.exact_values(x))
        return values

    def exact_values(self, x: ArrayLike) -> WideArray:
        """Evaluate like `F(x)`, but exactly, as `fractions.Fraction` objects."""
        columns = [np.asarray(p.exact_values(x), dtype=object) for p in self.numerators]
        below = np.asarray(self.denominator.exact_values(x), dtype=object)
        return np.asarray(np.stack(columns, axis=-1) - below[..., None])

    def affine(
        self, weight: ArrayLike, bias: ArrayLike | None = None, *, max_terms: int = MAX_TERMS
    ) -> TropicalRationalMap:
        """Apply an affine map to the output: `x -> F(x) @ weight + bias`.

        Args:
            weight: The weight matrix, shape `(dim_out, n)`.
            bias: The bias vector, shape `(n,)`. By default, zero.
            max_terms: The maximum number of terms that a product may form.

        Raises:
            SizeLimitError: Before a product of more than `max_terms` terms is formed.
        """
        sizes = Sizes(dim_out=self.dim_out)
        matrix = sizes.floats("weight", weight, ("dim_out", "n"))
        offset = np.zeros(sizes["n"]) if bias is None else bias
        offset = sizes.floats("bias", offset, ("n",))
        return _combine([(self, matrix)], offset, max_terms)

    def substitute(self, weight: ArrayLike, bias: ArrayLike | None = None) -> TropicalRationalMap:
        """Apply an affine map to the input: `x -> F(x @ weight + bias)`, pruned.

        With `n < dim_in`, this restricts the map to an affine subspace.

        Args:
            weight: The weight matrix, shape `(n, dim_in)`.
            bias: The bias vector, shape `(dim_in,)`. By default, zero.
        """
        numerators = [p.substitute(weight, bias) for p in self.numerators]
        below = self.denominator.substitute(weight, bias)
        return TropicalRationalMap(tuple(numerators), below).prune()

    def maximum(
        self, other: TropicalRationalMap, *, max_terms: int = MAX_TERMS
    ) -> TropicalRationalMap:
        r"""Return the tropical sum $F \oplus G$, the maximum in each channel.

        Raises:
            SizeLimitError: Before a product of more than `max_terms` terms is formed.
        """
        first, second, below = self._over_one_denominator(other, max_terms)
        return TropicalRationalMap(_maxima(first, second), below)

    def minimum(
        self, other: TropicalRationalMap, *, max_terms: int = MAX_TERMS
    ) -> TropicalRationalMap:
        r"""Return the minimum in each channel, $F + G - (F \oplus G)$.

        Raises:
            SizeLimitError: Before a product of more than `max_terms` terms is formed.
        """
        first, second, below = self._over_one_denominator(other, max_terms)
        larger = _maxima(first, second)
        eye = np.eye(self.dim_out)
        parts = [(TropicalRationalMap(p, below), w) for p, w in ((first, eye), (second, eye))]
        parts.append((TropicalRationalMap(larger, below), -eye))
        return _combine(parts, np.zeros(self.dim_out), max_terms)

    def relu(self) -> TropicalRationalMap:
        r"""Return $\max(F, 0) = (P_c \oplus Q) \oslash Q$, which requires no product."""
        larger = [(p + self.denominator).prune() for p in self.numerators]
        return TropicalRationalMap(tuple(larger), self.denominator.prune())

    def __add__(self, other: TropicalRationalMap) -> TropicalRationalMap:
        self._require_same_shape(other)
        eye = np.eye(self.dim_out)
        return _combine([(self, eye), (other, eye)], np.zeros(self.dim_out), MAX_TERMS)

    def __sub__(self, other: Operand) -> TropicalRationalMap:
        return _subtract(self, self._operand(other), MAX_TERMS)

    def __rsub__(self, other: Operand) -> TropicalRationalMap:
        return _subtract(self._operand(other), self, MAX_TERMS)

    __truediv__, __rtruediv__ = __sub__, __rsub__

    def __neg__(self) -> TropicalRationalMap:
        return self.affine(-np.eye(self.dim_out))

    def __mul__(self, factor: float) -> TropicalRationalMap:
        return self.affine(number("factor", factor) * np.eye(self.dim_out))

    __rmul__ = __mul__

    def prune(self) -> TropicalRationalMap:
        """Remove every term that is not active in its polynomial. The map does not change."""
        return TropicalRationalMap(
            tuple(p.prune() for p in self.numerators), self.denominator.prune()
        )

    def equals(self, other: TropicalRationalMap, *, max_terms: int = MAX_TERMS) -> bool:
        r"""Decide exactly whether two maps are the same function: $P_c \odot Q' = P'_c \odot Q$.

        Raises:
            SizeLimitError: Before a product of more than `max_terms` terms is formed.
        """
        self._require_same_shape(other)
        gap = _subtract(self, other, integer("max_terms", max_terms, at_least=1))
        below = terms_key(gap.denominator.coefficients)
        return all(terms_key(p.coefficients) == below for p in gap.numerators)

    def common_refinement(self, *, max_terms: int = MAX_TERMS) -> AffinePieces:
        """Find the cells on which every numerator and the denominator has one winner.

        Args:
            max_terms: The maximum number of candidates to form at once.

        Returns:
            The cells, the affine map on each, and the linear regions that they form.

        Raises:
            SizeLimitError: Before more than `max_terms` candidates are formed at once.
        """
        from hardmax.tropical.pieces import affine_pieces

        return affine_pieces(self, integer("max_terms", max_terms, at_least=1))

    def __str__(self) -> str:
        above = [str(p) for p in self.numerators]
        joined = above[0] if len(above) == 1 else f"({', '.join(above)})"
        below = str(self.denominator)
        if below == "0":
            return joined
        return f"{joined} - {below if below.startswith('max') else f'({below})'}"

    def __repr__(self) -> str:
        counts = ", ".join(str(p.n_terms) for p in self.numerators)
        return (
            f"TropicalRationalMap(<{self.dim_in} -> {self.dim_out}, terms "
            f"({counts}) - {self.denominator.n_terms}>)"
        )

    def to_latex(self, tropical: bool = False) -> str:
        r"""Return the formula of the map in LaTeX.

        Args:
            tropical: Whether to write $\oplus$, $\odot$ and $\oslash$ instead of $\max$, $+$ and
                $-$.
        """
        below = self.denominator.to_latex(tropical)
        rows = []
        for polynomial in self.numerators:
            above = polynomial.to_latex(tropical)
            if tropical:
                rows.append(rf"\left({above}\right) \oslash \left({below}\right)")
            elif below == "0":
                rows.append(above)
            elif self.denominator.n_terms > 1:
                rows.append(f"{above} - {below}")
            else:
                rows.append(rf"{above} - \left({below}\right)")
        if len(rows) == 1:
            return rows[0]
        return r"\begin{pmatrix}" + r" \\ ".join(rows) + r"\end{pmatrix}"

    def _repr_html_(self) -> str:
        rows = {"channels": [str(p) for p in self.numerators], "denominator": str(self.denominator)}
        return format_card(repr(self), rows)

    def _repr_latex_(self) -> str:
        return f"${self.to_latex()}$"

    def _over_one_denominator(
        self, other: TropicalRationalMap, max_terms: int
    ) -> tuple[Numerators, Numerators, TropicalPolynomial]:
        """Return the numerators of both maps over a common denominator, and this denominator."""
        self._require_same_shape(other)
        n = self.dim_out
        eye, zero = np.eye(n), np.zeros((n, n))
        parts = [(self, np.c_[eye, zero]), (other, np.c_[zero, eye])]
        both = _combine(parts, np.zeros(2 * n), max_terms)
        return both.numerators[:n], both.numerators[n:], both.denominator

    def _operand(self, other: Any) -> TropicalRationalMap:
        """Read an operand; a polynomial or a number becomes a map with it in every channel."""
        if isinstance(other, int | float | np.number) and not isinstance(other, bool):
            other = TropicalPolynomial.constant(float(number("other", other)), self.dim_in)
        if isinstance(other, TropicalPolynomial):
            one = TropicalPolynomial.constant(0.0, other.dim)
            other = TropicalRationalMap((other,) * self.dim_out, one)
        self._require_same_shape(other)
        return other  # type: ignore[no-any-return]

    def _require_same_shape(self, other: Any) -> None:
        if not isinstance(other, TropicalRationalMap):
            raise DtypeError(f"`other` must be a TropicalRationalMap; got {type(other).__name__}.")
        if (other.dim_in, other.dim_out) != (self.dim_in, self.dim_out):
            raise ShapeMismatchError(
                f"`other` must map {self.dim_in} variables to {self.dim_out} channels, like this "
                f"map; got {other.dim_in} to {other.dim_out}."
            )


def _maxima(first: Numerators, second: Numerators) -> Numerators:
    return tuple((p + q).prune() for p, q in zip(first, second, strict=True))


def _subtract(
    left: TropicalRationalMap, right: TropicalRationalMap, max_terms: int
) -> TropicalRationalMap:
    eye = np.eye(left.dim_out)
    return _combine([(left, eye), (right, -eye)], np.zeros(left.dim_out), max_terms)


def _combine(
    parts: Sequence[tuple[TropicalRationalMap, FloatArray]], bias: FloatArray, max_terms: int
) -> TropicalRationalMap:
    r"""Return $x \mapsto b + \sum_i F^{(i)}(x) W^{(i)}$.

    The weight of a denominator is the negative sum of the weights of its numerators, computed in
    integers.
    """
    limit = integer("max_terms", max_terms, at_least=1)
    scaled = scaled_integers(np.concatenate([weight for _, weight in parts]))
    polynomials: list[TropicalPolynomial] = []
    rows: list[WideArray] = []
    start = 0
    for rational, weight in parts:
        block = scaled.integers[start : start + len(weight)]
        start += len(weight)
        polynomials += [*rational.numerators, rational.denominator]
        rows += [*block, -block.sum(axis=0)]
    weights = type(scaled)(np.stack(rows), scaled.exponent)
    numerators, below = over_common_denominator(
        polynomials, weights, scaled_integers(bias), max_terms=limit
    )
    return TropicalRationalMap(tuple(numerators), below)
