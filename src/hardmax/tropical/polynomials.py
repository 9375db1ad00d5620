r"""Tropical polynomials: an algebra of maxima of affine forms, with exact coefficients.

Polynomials are printed as text, as a constructor call and in LaTeX. Each number is printed as the
shortest decimal that reads back as the same float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._ground.arguments import Sizes, floats_any_shape, integer, number, read_only_copy
from hardmax._ground.display import LONGEST, format_card
from hardmax.errors import (
    ArgumentError,
    DtypeError,
    NonFiniteError,
    ShapeMismatchError,
    SizeLimitError,
)
from hardmax.exact.dyadic import ScaledIntegers, round_scaled_integers, scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.tropical import envelopes
from hardmax.tropical import winning_terms as winning
from hardmax.tropical.coefficients import align, distinct_rows, like_terms, reduce_twos, terms_key
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.geometry.polytopes import Polytope
    from hardmax.tropical.rational_maps import TropicalRationalMap
    from hardmax.tropical.subdivisions import DualSubdivision


_SHOWN_TERMS = 12
_SHOWN_NUMBERS = 30


def format_text(slopes: FloatArray, offsets: FloatArray) -> str:
    r"""Write $\max_j \langle a_j, x\rangle + c_j$ as text, without `max` for a single form.

    Up to three variables are named `x, y, z`, more are named `x1, x2, ...`. Long maxima are
    truncated.

    Args:
        slopes: The slopes $a_j$, shape `(n_terms, dim)`.
        offsets: The offsets $c_j$, shape `(n_terms,)`.

    Examples:
        >>> format_text(np.array([[2.0, 0.0], [0.0, -1.0], [0.0, 0.0]]), np.array([1.0, 0.0, 0.0]))
        'max(2x + 1, -y, 0)'
        >>> format_text(np.array([[0.0, 0.5]]), np.array([-0.25]))
        '0.5y - 0.25'
    """
    dim = slopes.shape[1]
    names = list("xyz")[:dim] if dim <= 3 else [f"x{k + 1}" for k in range(dim)]
    terms = [
        _write_form(slope, offset, names, "")
        for slope, offset in zip(slopes[:_SHOWN_TERMS], offsets[:_SHOWN_TERMS], strict=True)
    ]
    if len(offsets) == 1:
        return terms[0]
    rest = f", ... {len(offsets) - _SHOWN_TERMS} more" if len(offsets) > _SHOWN_TERMS else ""
    return f"max({', '.join(terms)}{rest})"


def format_constructor(slopes: FloatArray, offsets: FloatArray, exact: bool) -> str:
    """Write the constructor call for a polynomial, or only its size if the call would be long.

    Examples:
        >>> format_constructor(np.array([[1.0]]), np.array([0.0]), exact=True)
        'TropicalPolynomial([[1.0]], [0.0])'
        >>> format_constructor(np.zeros((90, 2)), np.zeros(90), exact=True)
        'TropicalPolynomial(<90 terms, 2 variables>)'
        >>> format_constructor(np.array([[1.0]]), np.array([0.0]), exact=False)
        'TropicalPolynomial([[1.0]], [0.0])  # coefficients rounded for display'
    """
    n_terms, dim = slopes.shape
    note = "" if exact else "  # coefficients rounded for display"
    few = n_terms * (dim + 1) <= _SHOWN_NUMBERS
    call = f"TropicalPolynomial({slopes.tolist()}, {offsets.tolist()}){note}" if few else ""
    if not few or len(call) > LONGEST:
        terms = "term" if n_terms == 1 else "terms"
        variables = "variable" if dim == 1 else "variables"
        return f"TropicalPolynomial(<{n_terms} {terms}, {dim} {variables}>){note}"
    return call


def format_latex(slopes: FloatArray, offsets: FloatArray, tropical: bool = False) -> str:
    r"""Write the polynomial in LaTeX.

    Args:
        slopes: The slopes $a_j$, shape `(n_terms, dim)`.
        offsets: The offsets $c_j$, shape `(n_terms,)`.
        tropical: Whether to write $\oplus$ and $\odot$ instead of $\max$ and $+$.

    Examples:
        >>> slopes, offsets = np.array([[1.5], [0.0]]), np.array([-2.0, 0.0])
        >>> print(format_latex(slopes, offsets))
        \max\{1.5 x - 2,\; 0\}
        >>> print(format_latex(slopes, offsets, tropical=True))
        (-2) \odot x^{\odot 1.5} \oplus 0
    """
    dim = slopes.shape[1]
    names = ["x"] if dim == 1 else [f"x_{{{k + 1}}}" for k in range(dim)]
    write = _write_monomial if tropical else _write_latex_form
    terms = [
        write(slope, offset, names)
        for slope, offset in zip(slopes[:_SHOWN_TERMS], offsets[:_SHOWN_TERMS], strict=True)
    ]
    if len(offsets) > _SHOWN_TERMS:
        terms += [r"\cdots", write(slopes[-1], offsets[-1], names)]
    if tropical:
        return r" \oplus ".join(terms)
    return terms[0] if len(offsets) == 1 else r"\max\{" + r",\; ".join(terms) + r"\}"


def _write_form(slope: FloatArray, offset: float, names: Sequence[str], space: str) -> str:
    """Write one form as a signed sum, without zero terms and factors of one."""
    parts: list[tuple[float, str]] = [
        (value, name) for value, name in zip(slope.tolist(), names, strict=True) if value
    ]
    if offset or not parts:
        parts.append((float(offset), ""))
    words = []
    for position, (value, name) in enumerate(parts):
        sign = "-" if value < 0 else ("+" if position else "")
        glue = f" {sign} " if position else sign
        size = _write_decimal(abs(value))
        words.append(
            glue + (name if name and size == "1" else size + (space if name else "") + name)
        )
    return "".join(words)


def _write_latex_form(slope: FloatArray, offset: float, names: Sequence[str]) -> str:
    return _write_form(slope, offset, names, " ")


def _write_monomial(slope: FloatArray, offset: float, names: Sequence[str]) -> str:
    """Write one term as a tropical monomial, without the factor 0 if there are others."""
    powers = [
        name if value == 1 else rf"{name}^{{\odot {_bracket(value)}}}"
        for value, name in zip(slope.tolist(), names, strict=True)
        if value
    ]
    factors = ([_bracket(offset)] if offset or not powers else []) + powers
    return r" \odot ".join(factors)


def _bracket(value: float) -> str:
    return f"({_write_decimal(value)})" if value < 0 else _write_decimal(value)


def _write_decimal(value: float) -> str:
    """Write a float64 as its shortest decimal, and an integer without a decimal point.

    Examples:
        >>> [_write_decimal(v) for v in (2.0, -0.0, 0.1, 1e300)]
        ['2', '0', '0.1', '1e+300']
    """
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e16:
        return np.format_float_positional(value, trim="-")
    return repr(float(value))


MAX_TERMS = 20_000
"""The default limit on the number of terms that a product may form."""


@dataclass(frozen=True, eq=False, repr=False)
class TropicalPolynomial:
    r"""The max-plus polynomial $P(x) = \bigoplus_j c_j \odot x^{\odot a_j}$.

    In ordinary notation, it is

    $$P(x) = \max_{j=1..m} \langle a_j, x\rangle + c_j, \qquad x \in \mathbb{R}^d,$$

    with real exponents $a_j \in \mathbb{R}^d$ (strictly speaking, a tropical *signomial*). It is a
    convex, piecewise linear function.

    **Arithmetic** is tropical. `P + Q` is the maximum, `P * Q` is the ordinary sum, and a number
    stands for a constant polynomial: `2 * P` is $P + 2$. `P ** r` is the ordinary multiple $rP$ for
    real $r \ge 0$. Like terms of the result are collected, so that each exponent occurs once.

    `P / Q` is the tropical quotient $P \oslash Q$, the function $P - Q$ (Definition III.6 of
    [SL26]). It is a `TropicalRationalMap` with one channel, because a difference of convex
    functions need not be convex. `P - Q` is the same function and `-P` is $0 \oslash P$, since the
    maximum itself has no inverse.

    **Exactness.** The float64 entries are taken as exact dyadic rationals, and every operation is
    exact: `coefficients` holds the exact terms of the result as scaled integers, even if they do
    not fit float64. `slopes` and `offsets` are the nearest floats, and `fits_float64` tells whether
    these are exact. All decisions (winners, active terms, equality) are made for the exact terms.
    Only evaluation with `P(x)` rounds.

    Attributes:
        slopes: The exponents $a_j$, shape `(n_terms, dim)` with `n_terms >= 1` and `dim >= 1`.
        offsets: The finite coefficients $c_j$, shape `(n_terms,)`. The tropical zero, the function
            $-\infty$ without terms, is not representable.
        coefficients: The exact rows $(a_j, c_j)$, shape `(n_terms, dim + 1)`.
        fits_float64: Whether `slopes` and `offsets` are exact rather than rounded from
            `coefficients`.

    References:
        Definition III.5 of [SL26], which requires integer exponents, although keys are real;
        [MS15].

    Examples:
        >>> P = TropicalPolynomial([[1, 0], [0, 1], [0, 0]], [0, 0, 0])
        >>> print(P)
        max(x, y, 0)
        >>> P([[3.0, 1.0], [-1.0, -2.0]]).tolist()
        [3.0, 0.0]
        >>> print((P * P).prune())
        max(2x, 2y, 0)
        >>> (P * P).equals(P**2)
        True
        >>> F = TropicalPolynomial([[1], [0]], [0, 0]) / TropicalPolynomial([[1], [0]], [-1, 0])
        >>> print(F)
        max(x, 0) - max(x - 1, 0)
        >>> F([[-3.0], [0.5], [3.0]]).ravel().tolist()
        [0.0, 0.5, 1.0]

        Products are exact even if float64 would round them:

        >>> a, b = (TropicalPolynomial([[0.0]], [c]) for c in (1.0, 2.0**-80))
        >>> (a * b).equals(a), (a * b).offsets.tolist(), (a * b).fits_float64
        (False, [1.0], False)
    """

    slopes: FloatArray
    offsets: FloatArray
    coefficients: ScaledIntegers = field(init=False)
    fits_float64: bool = field(init=False, default=True)

    __array_ufunc__ = None  # Lets `numpy_scalar * P` reach `__rmul__`.

    def __post_init__(self) -> None:
        sizes = Sizes()
        slopes = sizes.floats("slopes", self.slopes, ("n_terms", "dim"))
        offsets = sizes.floats("offsets", self.offsets, ("n_terms",))
        object.__setattr__(self, "slopes", read_only_copy(slopes))
        object.__setattr__(self, "offsets", read_only_copy(offsets))
        object.__setattr__(self, "coefficients", scaled_integers(np.c_[slopes, offsets]))

    @classmethod
    def from_coefficients(cls, coefficients: ScaledIntegers) -> TropicalPolynomial:
        """Build a polynomial from exact rows $(a_j, c_j)$.

        Args:
            coefficients: The rows as scaled integers, shape `(n_terms, dim + 1)`.

        Raises:
            NonFiniteError: If a coefficient exceeds the range of float64.
        """
        exact = reduce_twos(coefficients.integers, coefficients.exponent)
        floats, fits = round_scaled_integers(exact)
        if not np.isfinite(floats).all():
            raise NonFiniteError(
                "a coefficient of the resulting polynomial exceeds the range of float64; "
                "rescale the variables."
            )
        polynomial = cls(floats[:, :-1], floats[:, -1])
        object.__setattr__(polynomial, "coefficients", exact)
        object.__setattr__(polynomial, "fits_float64", fits)
        return polynomial

    @classmethod
    def constant(cls, value: float, dim: int) -> TropicalPolynomial:
        r"""Return the constant polynomial `value` in `dim` variables; 0 is the tropical one."""
        dim = integer("dim", dim, at_least=1)
        return cls(np.zeros((1, dim)), np.array([number("value", value)]))

    @property
    def n_terms(self) -> int:
        """The number of stored terms, active or not."""
        return int(self.slopes.shape[0])

    @property
    def dim(self) -> int:
        """The number of variables."""
        return int(self.slopes.shape[1])

    @property
    def degree(self) -> float:
        r"""The total degree $\max_j \sum_k a_{jk}$: the slope of $P$ far out along $(1, \dots, 1)$.

        Inactive terms do not affect it, because all vertices of the Newton polytope are active.
        """
        largest = self.coefficients.integers[:, :-1].sum(axis=1).max()
        exact = ScaledIntegers(np.array([largest], dtype=object), self.coefficients.exponent)
        return float(round_scaled_integers(exact)[0][0])

    @property
    def forms(self) -> AffineForms:
        """The terms as affine forms in float64.

        Raises:
            ArgumentError: If the coefficients do not fit float64; see `rounded`.
        """
        if not self.fits_float64:
            raise ArgumentError(
                "the coefficients of this polynomial do not fit float64, so its forms would be "
                "rounded. To accept rounding, call `rounded()` first."
            )
        return AffineForms(self.slopes, self.offsets)

    def rounded(self) -> TropicalPolynomial:
        """Return the polynomial with each coefficient rounded to the nearest float64."""
        return TropicalPolynomial(self.slopes, self.offsets)

    def __call__(self, x: ArrayLike) -> FloatArray | float:
        r"""Evaluate at a point `(dim,)` or at each row of a batch `(n_points, dim)`.

        The result is rounded. Up to underflow, its error is at most
        $2(d+4)\,2^{-53} \max_j(\langle|a_j|,|x|\rangle + |c_j|)$. See `exact_values` for exact
        values.
        """
        points, single = self._read_points(x)
        values = winning.float_values(self.coefficients, points)
        return float(values[0]) if single else values

    def exact_values(self, x: ArrayLike) -> WideArray | Fraction:
        """Evaluate like `P(x)`, but exactly, as `fractions.Fraction` objects.

        Examples:
            >>> TropicalPolynomial([[0.1]], [0.0]).exact_values([0.5])
            Fraction(3602879701896397, 72057594037927936)
        """
        points, single = self._read_points(x)
        values = winning.exact_values(self.coefficients, points)
        return values[0] if single else values

    def winning_terms(self, x: ArrayLike) -> BoolArray:
        """Mark all terms that attain the maximum at each point, exactly.

        Returns:
            A Boolean mask of shape `(n_terms,)` for a point, `(n_points, n_terms)` for a batch.
        """
        points, single = self._read_points(x)
        mask = winning.winning_terms(self.coefficients, points)
        return mask[0] if single else mask

    def winners(self, x: ArrayLike) -> IntArray | int:
        """Return the index of the first term that attains the maximum at each point, exactly.

        Examples:
            >>> TropicalPolynomial([[0], [1]], [0, 0]).winners([[-1.0], [0.0], [1.0]]).tolist()
            [0, 0, 1]
        """
        points, single = self._read_points(x)
        first = winning.winning_terms(self.coefficients, points).argmax(axis=1)
        return int(first[0]) if single else first.astype(np.int64)

    def on_hypersurface(self, x: ArrayLike) -> BoolArray | bool:
        r"""Decide whether each point lies on the tropical hypersurface $\mathcal{H}(P)$, exactly.

        The hypersurface is the set of points at which at least two *different* forms attain the
        maximum, that is, at which $P$ is not differentiable. Repeated terms count once. (Taken
        literally, Definition III.7 of [SL26] would include the whole cell of a repeated term.)

        Examples:
            >>> twice = TropicalPolynomial([[1], [1], [0]], [0, 0, 0])
            >>> twice.on_hypersurface([[0.0], [1.0]]).tolist()
            [True, False]
        """
        points, single = self._read_points(x)
        mask = winning.winning_terms(self.coefficients, points)
        tied = mask[:, distinct_rows(self.coefficients.integers)].sum(axis=1) >= 2
        return bool(tied[0]) if single else tied

    def active_terms(self) -> BoolArray:
        """Mark the terms that win on a nonempty open set, exactly, shape `(n_terms,)`.

        Of equal terms, only the first is marked. The marked terms alone define the function.

        Examples:
            >>> TropicalPolynomial([[0], [1], [2], [2]], [0, 0, 0, 0]).active_terms().tolist()
            [True, False, True, False]
        """
        return envelopes.active_rows(self.coefficients.integers)

    def prune(self) -> TropicalPolynomial:
        """Remove all terms that are not active. The function does not change."""
        mask = self.active_terms()
        return self if mask.all() else self._with_rows(self.coefficients.integers[mask])

    def equals(self, other: TropicalPolynomial) -> bool:
        """Decide exactly whether two polynomials are the same function (`==` tests identity)."""
        self._require_same_space(other)
        return terms_key(self.prune().coefficients) == terms_key(other.prune().coefficients)

    def __add__(self, other: TropicalPolynomial | float) -> TropicalPolynomial:
        other = self._operand(other)
        (left, right), exponent = align((self.coefficients, other.coefficients))
        return _collect_like_terms(np.concatenate((left, right)), exponent)

    __radd__ = __add__

    def __mul__(self, other: TropicalPolynomial | float) -> TropicalPolynomial:
        return self.times(self._operand(other))

    __rmul__ = __mul__

    def times(self, other: TropicalPolynomial, *, max_terms: int = MAX_TERMS) -> TropicalPolynomial:
        """Multiply tropically, like `P * Q`, by adding each term of `Q` to each term of `P`.

        Args:
            other: The polynomial $Q$.
            max_terms: The maximum number of terms to form before like terms are collected.

        Raises:
            SizeLimitError: If the product would form more than `max_terms` terms.
        """
        self._require_same_space(other)
        count, limit = self.n_terms * other.n_terms, integer("max_terms", max_terms, at_least=1)
        if count > limit:
            raise SizeLimitError(
                f"this tropical product has {self.n_terms} x {other.n_terms} = {count} terms, more "
                f"than `max_terms` = {limit}. Prune the factors or raise `max_terms`."
            )
        (left, right), exponent = align((self.coefficients, other.coefficients))
        sums = left[:, None, :] + right[None, :, :]
        return _collect_like_terms(sums.reshape(count, self.dim + 1), exponent)

    def __truediv__(self, other: TropicalPolynomial | float) -> TropicalRationalMap:
        from hardmax.tropical.rational_maps import TropicalRationalMap

        if isinstance(other, TropicalRationalMap):
            return NotImplemented
        return TropicalRationalMap((self,), self._operand(other))

    def __rtruediv__(self, other: float) -> TropicalRationalMap:
        return self._operand(other) / self

    def __neg__(self) -> TropicalRationalMap:
        return 0.0 / self

    __sub__, __rsub__ = __truediv__, __rtruediv__

    def __pow__(self, exponent: float) -> TropicalPolynomial:
        scaled = scaled_integers(np.array([number("exponent", exponent, at_least=0)]))
        return self.scaled(scaled.integers[0], scaled.exponent)

    def scaled(self, factor: int, exponent: int = 0) -> TropicalPolynomial:
        r"""Return the ordinary multiple $f \cdot 2^e \cdot P$ for integers $f \ge 0$ and $e$.

        It is the $f 2^e$-th tropical power of $P$, because
        $(\bigoplus_j t_j)^{\odot r} = \bigoplus_j t_j^{\odot r}$ for every $r \ge 0$.

        Args:
            factor: The integer $f \ge 0$.
            exponent: The integer $e$.
        """
        factor = integer("factor", factor, at_least=0)
        rows, own_exponent = self.coefficients.integers, self.coefficients.exponent
        return _collect_like_terms(rows * factor, own_exponent + integer("exponent", exponent))

    def substitute(self, weight: ArrayLike, bias: ArrayLike | None = None) -> TropicalPolynomial:
        r"""Compose with an affine map: $x \mapsto P(x W + b)$.

        The slopes become $W a_j$ and the offsets $c_j + \langle b, a_j\rangle$, without rounding.

        Args:
            weight: The matrix $W$, which acts on row vectors, shape `(dim_in, dim)`.
            bias: The vector $b$, shape `(dim,)`. By default, zero.

        Examples:
            >>> P = TropicalPolynomial([[1, 0], [0, 1]], [0, 0])
            >>> print(P.substitute([[1, -1]], [0, 2]))
            max(x, -x + 2)
        """
        sizes = Sizes(dim=self.dim)
        matrix = sizes.floats("weight", weight, ("dim_in", "dim"))
        shift = sizes.floats("bias", np.zeros(self.dim) if bias is None else bias, ("dim",))
        homogeneous = np.zeros((self.dim + 1, len(matrix) + 1))
        homogeneous[:-1] = np.c_[matrix.T, shift]
        homogeneous[-1, -1] = 1.0
        scaled = scaled_integers(homogeneous)
        rows = self.coefficients.integers @ scaled.integers
        return _collect_like_terms(rows, self.coefficients.exponent + scaled.exponent)

    def newton_polytope(self, lifted: bool = False) -> Polytope:
        r"""Return the exact Newton polytope $\mathrm{conv}\{a_j\}$, optionally lifted.

        Args:
            lifted: Whether to return $\mathrm{conv}\{(a_j, c_j)\}$ instead. The upper faces of the
                lifted polytope project to the dual subdivision.
        """
        from hardmax.geometry.polytopes import Polytope

        exact = self.coefficients
        rows = exact.integers if lifted else exact.integers[:, :-1]
        points = [tuple(row) for row in (rows << max(exact.exponent, 0)).tolist()]
        return Polytope.from_scaled_points(points, 1 << max(-exact.exponent, 0))

    def dual_subdivision(self) -> DualSubdivision:
        """Return the dual subdivision of the Newton polytope, for one or two variables."""
        from hardmax.tropical.subdivisions import dual_subdivision

        return dual_subdivision(self)

    def __str__(self) -> str:
        return format_text(self.slopes, self.offsets)

    def __repr__(self) -> str:
        return format_constructor(self.slopes, self.offsets, self.fits_float64)

    def to_latex(self, tropical: bool = False) -> str:
        r"""Return the formula in LaTeX, with $\max$ and $+$ or with $\oplus$ and $\odot$.

        Args:
            tropical: Whether to write $\oplus$ and $\odot$.

        Examples:
            >>> P = TropicalPolynomial([[2, 0], [0, -1], [0, 0]], [1, 0, 0])
            >>> print(P.to_latex())
            \max\{2 x_{1} + 1,\; -x_{2},\; 0\}
            >>> print(P.to_latex(tropical=True))
            1 \odot x_{1}^{\odot 2} \oplus x_{2}^{\odot (-1)} \oplus 0
        """
        return format_latex(self.slopes, self.offsets, tropical)

    def _repr_html_(self) -> str:
        rows = {
            "terms": str(self.n_terms),
            "variables": str(self.dim),
            "coefficients": None if self.fits_float64 else "rounded for display",
        }
        return format_card(str(self), rows)

    def _repr_latex_(self) -> str:
        return f"${self.to_latex()}$"

    def _read_points(self, x: ArrayLike) -> tuple[FloatArray, bool]:
        """Read one point or a batch as a batch, and tell whether it is one point."""
        array = floats_any_shape("x", x)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dim:
            raise ShapeMismatchError(
                f"`x` must have shape ({self.dim},) or (n_points, {self.dim}); got {array.shape}."
            )
        return np.atleast_2d(array), array.ndim == 1

    def _operand(self, other: TropicalPolynomial | float) -> TropicalPolynomial:
        if isinstance(other, TropicalPolynomial):
            self._require_same_space(other)
            return other
        return TropicalPolynomial.constant(number("other", other), self.dim)

    def _require_same_space(self, other: Any) -> None:
        if not isinstance(other, TropicalPolynomial):
            raise DtypeError(f"`other` must be a TropicalPolynomial; got {type(other).__name__}.")
        if other.dim != self.dim:
            raise ShapeMismatchError(
                f"`other` must have the same number of variables as this polynomial, {self.dim}; "
                f"got {other.dim}."
            )

    def _with_rows(self, rows: WideArray) -> TropicalPolynomial:
        exact = ScaledIntegers(rows, self.coefficients.exponent)
        return TropicalPolynomial.from_coefficients(exact)


def _collect_like_terms(rows: WideArray, exponent: int) -> TropicalPolynomial:
    """Build a polynomial with one term per exponent."""
    return TropicalPolynomial.from_coefficients(ScaledIntegers(rows[like_terms(rows)], exponent))
