r"""The max-plus and min-plus semirings: tropical scalars, arrays and matrices.

**The convention of this library is max-plus.** Tropical addition is the maximum and tropical
multiplication is ordinary addition, so $-\infty$ is the tropical zero and $0$ the tropical one:

$$a \oplus b = \max(a, b), \qquad a \otimes b = a + b.$$

Every polynomial, head and diagram of the library is max-plus. Min-plus is the same algebra under
$x \mapsto -x$; it is provided for shortest paths.

Numbers are float64. $\oplus$ is exact, and $\otimes$ is one correctly rounded addition. The
infinity that is not the tropical zero is not an element of the semiring. It raises an error, as
does a finite result that exceeds the range of float64. Hence an infinite entry of a result is
always the tropical zero.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hardmax._ground.arguments import Infinity, choice, floats_any_shape, integer, number
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.tropical.matrices.products import max_plus_product, overflow_error
from hardmax.typing import ArrayLike, FloatArray


@dataclass(frozen=True, repr=False)
class Semiring:
    r"""One of the two tropical semirings, with its operations on arrays.

    Use the two instances `maxplus` and `minplus`. Calling an instance creates a scalar; the methods
    take array-like arguments.

    Attributes:
        name: `"max-plus"` or `"min-plus"`.
        zero: The identity of $\oplus$, which is absorbing for $\otimes$: $-\infty$ or $+\infty$.
        one: The identity of $\otimes$: `0.0`.

    References:
        [BCOQ92], [But10].

    Examples:
        >>> maxplus
        Semiring(max-plus: a ⊕ b = max(a, b), a ⊗ b = a + b, zero = -inf, one = 0.0)
        >>> maxplus(3) + maxplus(5), maxplus(3) * maxplus(5), maxplus(3) ** 2
        (maxplus(5.0), maxplus(8.0), maxplus(6.0))
        >>> minplus.add([1, 2], [2, 1]).tolist()
        [1.0, 1.0]
        >>> float(maxplus.sum([]))  # The empty sum is the tropical zero.
        -inf
    """

    name: Literal["max-plus", "min-plus"]
    zero: float = field(init=False)
    one: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        choice("name", self.name, ("max-plus", "min-plus"))
        object.__setattr__(self, "zero", -np.inf if self.name == "max-plus" else np.inf)

    def __repr__(self) -> str:
        word = self.name[:3]
        return (
            f"Semiring({self.name}: a ⊕ b = {word}(a, b), a ⊗ b = a + b, "
            f"zero = {self.zero}, one = {self.one})"
        )

    def __call__(self, value: float) -> "TropicalNumber":
        """Create a scalar of this semiring."""
        return TropicalNumber(self, value)

    @property
    def sign(self) -> int:
        """+1 for max-plus, -1 for min-plus: multiplication by it maps the semiring to max-plus."""
        return 1 if self.name == "max-plus" else -1

    @property
    def dual(self) -> "Semiring":
        """The other semiring, to which negation maps this one."""
        return Semiring("min-plus" if self.name == "max-plus" else "max-plus")

    def add(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        r"""Return $a \oplus b$ entry by entry, with broadcasting."""
        left, right = self._read_pair(a, b)
        return self._plus(left, right)  # type: ignore[no-any-return]

    def mul(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        r"""Return $a \otimes b$ entry by entry, with broadcasting.

        Raises:
            ArgumentError: If a finite product exceeds the range of float64.

        Examples:
            >>> maxplus.mul([2, -np.inf], 3).tolist()
            [5.0, -inf]
        """
        left, right = self._read_pair(a, b)
        with np.errstate(over="ignore"):
            product = left + right
        if (np.isinf(product) & np.isfinite(left) & np.isfinite(right)).any():
            raise overflow_error(("a", "b"))
        return product

    def sum(self, array: ArrayLike, axis: int | None = None) -> FloatArray:
        r"""Return the tropical sum $\bigoplus$ of all entries or along an axis."""
        entries = self._read("array", array)
        if axis is not None:
            axis = integer("axis", axis, at_least=-entries.ndim, at_most=entries.ndim - 1)
        return self._plus.reduce(entries, axis=axis, initial=self.zero)  # type: ignore[no-any-return]

    def matmul(self, a: ArrayLike, b: ArrayLike) -> FloatArray:
        r"""Return the matrix product $(a \otimes b)_{ij} = \bigoplus_k a_{ik} \otimes b_{kj}$.

        Each term is one rounded addition and $\bigoplus$ is exact, so every entry equals its
        definition. Large products use compiled, blocked, parallel loops. Memory is bounded by
        copies of the factors and of the result. The cost is `n_rows * inner * n_columns`.

        Args:
            a: The left factor, shape `(n_rows, inner)`, or `(inner,)` for a row vector.
            b: The right factor, shape `(inner, n_columns)`, or `(inner,)` for a column vector.

        Returns:
            The product, shape `(n_rows, n_columns)`, without the axis of a factor that is a vector.
            If `inner` is 0, all entries are tropical zeros.

        Raises:
            ShapeMismatchError: If the shapes do not match.
            NonFiniteError: If an entry is NaN or the infinity that is not the tropical zero.
            ArgumentError: If a finite entry of the result exceeds the range of float64.

        Examples:
            >>> maxplus.matmul([[0, 3], [-np.inf, 1]], [[2, 0], [0, 4]]).tolist()
            [[3.0, 7.0], [1.0, 5.0]]
            >>> maxplus.matmul(np.zeros((2, 0)), np.zeros((0, 1))).tolist()
            [[-inf], [-inf]]
        """
        left, right, shape = matrix_factors(self, a, b)
        return self._product(left, right, ("a", "b")).reshape(shape)[()]

    def power(self, matrix: ArrayLike, exponent: int) -> FloatArray:
        r"""Return $A^{\otimes n}$, the best weights of walks with exactly $n$ edges.

        The power is computed by repeated squaring.

        Args:
            matrix: The matrix $A$, shape `(n_nodes, n_nodes)`.
            exponent: The exponent $n \ge 0$. The zeroth power is the identity.

        Examples:
            >>> ring = [[-np.inf, 1.0], [2.0, -np.inf]]
            >>> maxplus.power(ring, 5).tolist()
            [[-inf, 7.0], [8.0, -inf]]
        """
        square = square_matrix(self, "matrix", matrix)
        remaining = integer("exponent", exponent, at_least=0)
        result = self.identity(square.shape[0])
        while remaining:
            if remaining % 2:
                result = self._product(result, square, ("matrix",))
            remaining //= 2
            if remaining:
                square = self._product(square, square, ("matrix",))
        return result

    def kleene_star(self, matrix: ArrayLike) -> FloatArray:
        r"""Return the Kleene star $A^* = I \oplus A \oplus A^{\otimes 2} \oplus \cdots$.

        Entry $(i, j)$ is the best weight of a walk of any length from node $i$ to node $j$; the
        empty walk has weight 0. Convergence is decided in exact arithmetic, as is the position of
        tropical zeros. Every finite entry is a sum in which each weight undergoes at most
        $\lceil \log_2 n \rceil$ roundings.

        Args:
            matrix: The matrix $A$, shape `(n_nodes, n_nodes)`.

        Raises:
            PositiveCycleError: If the series diverges, because a cycle has positive weight (in
                min-plus, negative weight). The message states such a cycle.
            ArgumentError: If the weight of a best walk exceeds the range of float64.

        Examples:
            >>> maxplus.kleene_star([[-1, 2], [-np.inf, 0]]).tolist()
            [[0.0, 2.0], [-inf, 0.0]]
            >>> maxplus.kleene_star([[-1, 2], [-1, 0]])
            Traceback (most recent call last):
                ...
            hardmax.errors.PositiveCycleError: `matrix` must not have a cycle of positive weight,
            because walks around it have no best weight; the cycle 0 -> 1 -> 0 has weight 1.0.
        """
        from hardmax.tropical.matrices.kleene import kleene_star

        return kleene_star(self, square_matrix(self, "matrix", matrix))

    def identity(self, n: int) -> FloatArray:
        """Return the matrix with tropical ones on the diagonal and tropical zeros elsewhere."""
        size = integer("n", n, at_least=0)
        matrix = np.full((size, size), self.zero)
        np.fill_diagonal(matrix, self.one)
        return matrix

    def zeros(self, shape: int | tuple[int, ...]) -> FloatArray:
        """Return an array of tropical zeros."""
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return np.full(tuple(integer("shape", size, at_least=0) for size in sizes), self.zero)

    @property
    def _plus(self) -> np.ufunc:
        return np.maximum if self.sign > 0 else np.minimum

    @property
    def _infinity(self) -> Infinity:
        return "negative" if self.sign > 0 else "positive"

    def _read(self, name: str, value: ArrayLike) -> FloatArray:
        return floats_any_shape(name, value, infinity=self._infinity)

    def _read_pair(self, a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
        left, right = self._read("a", a), self._read("b", b)
        try:
            np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            raise ShapeMismatchError(
                f"`a` and `b` must broadcast together; got shapes {left.shape} and {right.shape}."
            ) from None
        return left, right

    def _product(self, left: FloatArray, right: FloatArray, names: tuple[str, ...]) -> FloatArray:
        """Multiply checked matrices; min-plus is exactly max-plus of the negated matrices."""
        if self.sign > 0:
            return max_plus_product(left, right, names)
        product = max_plus_product(-left, -right, names)
        # 0 - x, because -x would turn 0.0 into -0.0.
        return np.subtract(0.0, product, out=product)


@dataclass(frozen=True, repr=False)
class TropicalNumber:
    r"""A scalar of a tropical semiring, with operators.

    `a + b` is $a \oplus b$, `a * b` is $a \otimes b$, `a / b` is its inverse, and `a**n` is $n$
    times the value. Ordinary numbers are converted to scalars of the same semiring, so that the
    identities `T.zero` and `T.one` can be used directly. Scalars of the other semiring raise an
    error.

    Attributes:
        semiring: The semiring of the scalar.
        value: The underlying float.

    Examples:
        >>> T = maxplus
        >>> T(3) + T.zero, T(3) * T.one, T(3) * T.zero
        (maxplus(3.0), maxplus(3.0), maxplus(-inf))
        >>> T(8) / T(5), T(T.zero) ** 0  # An empty product is the tropical one.
        (maxplus(3.0), maxplus(0.0))
    """

    semiring: Semiring
    value: float

    # A numpy scalar on the left defers to this class instead of treating it as a sequence.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        value = number("value", self.value, infinity=self.semiring._infinity)
        object.__setattr__(self, "value", value)

    def __add__(self, other: Any) -> "TropicalNumber":
        return self._new(self.semiring._plus(self.value, self._read(other)))

    def __mul__(self, other: Any) -> "TropicalNumber":
        right = self._read(other)
        return self._finite(self.value + right, np.isfinite(self.value) and np.isfinite(right))

    def __truediv__(self, other: Any) -> "TropicalNumber":
        return self * (self._of(other) ** -1)

    def __rtruediv__(self, other: Any) -> "TropicalNumber":
        return self._of(other) / self

    def __pow__(self, exponent: float) -> "TropicalNumber":
        factor = number("exponent", exponent)
        if np.isfinite(self.value):
            return self._finite(self.value * factor, True)
        if factor < 0:
            raise ArgumentError(
                f"the tropical zero {self} has no inverse; `exponent` must be at least 0, but got "
                f"{factor}."
            )
        return self if factor else self._new(self.semiring.one)

    __radd__ = __add__
    __rmul__ = __mul__

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"{self.semiring.name.replace('-', '')}({self.value!r})"

    def _of(self, other: Any) -> "TropicalNumber":
        if isinstance(other, TropicalNumber):
            if other.semiring != self.semiring:
                raise ArgumentError(
                    f"`other` must be a {self.semiring.name} number like {self!r}; got {other!r}."
                )
            return other
        return TropicalNumber(
            self.semiring, number("other", other, infinity=self.semiring._infinity)
        )

    def _read(self, other: Any) -> float:
        return self._of(other).value

    def _new(self, value: float) -> "TropicalNumber":
        return TropicalNumber(self.semiring, value)

    def _finite(self, value: float, must_be_finite: bool) -> "TropicalNumber":
        if must_be_finite and not np.isfinite(value):
            raise overflow_error(("self", "other"))
        return self._new(value)


def matrix_factors(
    semiring: Semiring, a: ArrayLike, b: ArrayLike
) -> tuple[FloatArray, FloatArray, tuple[int, ...]]:
    """Read the factors of a matrix product as matrices, and return them with the result's shape."""
    left, right = semiring._read("a", a), semiring._read("b", b)
    if not (1 <= left.ndim <= 2 and 1 <= right.ndim <= 2) or left.shape[-1] != right.shape[0]:
        raise ShapeMismatchError(
            "`a` and `b` must have shapes (n_rows, inner) and (inner, n_columns), or (inner,) "
            f"for a vector, with the same inner; got {left.shape} and {right.shape}."
        )
    columns = right if right.ndim == 2 else right[:, None]
    return np.atleast_2d(left), columns, left.shape[:-1] + right.shape[1:]


def square_matrix(semiring: Semiring, name: str, value: ArrayLike) -> FloatArray:
    """Read a square matrix of elements of `semiring`, which may be empty."""
    matrix = semiring._read(name, value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeMismatchError(
            f"`{name}` must have shape (n_nodes, n_nodes); got {matrix.shape}."
        )
    return matrix


maxplus = Semiring("max-plus")
minplus = Semiring("min-plus")
