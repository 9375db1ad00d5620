r"""Quadrics with rational coefficients: exact sides, inertia, and the type of a plane conic.

If a score is quadratic in the input, or the input is divided by its norm, the walls are pieces of
quadrics instead of hyperplanes (see `own_key` and `normalisation`).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError, NonFiniteError, ShapeMismatchError
from hardmax.exact.dyadic import rationals
from hardmax.models.points import PointBatch
from hardmax.typing import FloatArray, SignArray, WideArray


class Inertia(NamedTuple):
    """The numbers of positive, negative and zero eigenvalues of a symmetric matrix.

    Examples:
        >>> inertia(np.array([[2, 0], [0, 0]], dtype=object))
        Inertia(positive=1, negative=0, zero=1)
    """

    positive: int
    negative: int
    zero: int


@dataclass(frozen=True, eq=False)
class Quadric:
    r"""The quadric $\{x : x^\top A x + \langle b, x\rangle + c = 0\}$ and its two sides.

    Attributes:
        matrix: The $A$, symmetric, shape `(dim, dim)`, exact rationals.
        linear: The $b$, shape `(dim,)`, exact rationals.
        constant: The $c$, exact.

    Examples:
        The circle of radius 1/2 about (1/2, 0):

        >>> circle = Quadric(np.eye(2), np.array([-1.0, 0.0]), 0)
        >>> circle.conic, circle.centre.tolist(), circle.level
        ('circle', [Fraction(1, 2), Fraction(0, 1)], Fraction(1, 4))
        >>> circle.sign(np.array([[0.5, 0.0], [1.0, 0.0], [2.0, 0.0]])).tolist()
        [-1, 0, 1]
        >>> Quadric(np.diag([1.0, 0.0]), np.zeros(2), -1).conic
        'parallel lines'
    """

    matrix: WideArray
    linear: WideArray
    constant: Fraction

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        matrix, linear = (
            _read_fractions("matrix", self.matrix),
            _read_fractions("linear", self.linear),
        )
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not square or linear.shape != matrix.shape[:1] or not len(matrix):
            raise ShapeMismatchError(
                "`matrix` must have shape (dim, dim) and `linear` shape (dim,), with dim >= 1; "
                f"got {matrix.shape} and {linear.shape}."
            )
        if (matrix != matrix.T).any():
            raise ArgumentError("`matrix` must be symmetric; pass (A + A.T) / 2 instead.")
        matrix.setflags(write=False)
        linear.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "linear", linear)
        object.__setattr__(self, "constant", _read_fractions("constant", self.constant).item())

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return len(self.linear)

    def sign(self, x: FloatArray) -> SignArray:
        """Return the exact side of each point: -1, 0 (on the quadric) or +1; shape `(...)`."""
        batch = PointBatch.read("x", x, self.dim)
        signs = np.empty(len(batch.rows), dtype=np.int8)
        for i, point in enumerate(rationals(batch.rows)):
            value = point @ (self.matrix @ point + self.linear) + self.constant
            signs[i] = (value > 0) - (value < 0)
        return batch.unpack(signs)

    def on_slice(self, origin: FloatArray, directions: FloatArray) -> "Quadric":
        r"""Return the exact quadric in the coordinates $t$ of $x = o + t D$.

        Args:
            origin: The $o$, shape `(dim,)`.
            directions: The $D$, shape `(n, dim)`.

        Examples:
            A sphere meets a plane in a circle:

            >>> sphere = Quadric(np.eye(3), np.zeros(3), -1)
            >>> circle = sphere.on_slice([0.0, 0.0, 0.5], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
            >>> circle.conic, circle.level
            ('circle', Fraction(3, 4))
        """
        at, along = _read_fractions("origin", origin), _read_fractions("directions", directions)
        if at.shape != (self.dim,) or along.ndim != 2 or along.shape[1] != self.dim:
            raise ShapeMismatchError(
                f"`origin` must have shape ({self.dim},) and `directions` (n, {self.dim}); got "
                f"{at.shape} and {along.shape}."
            )
        across = along @ self.matrix
        return Quadric(
            across @ along.T,
            2 * across @ at + along @ self.linear,
            at @ (self.matrix @ at + self.linear) + self.constant,
        )

    @cached_property
    def inertia(self) -> Inertia:
        """The inertia of $A$."""
        return inertia(self.matrix)

    @cached_property
    def bordered_inertia(self) -> Inertia:
        r"""The inertia of $\begin{pmatrix} A & b/2 \\ b^\top/2 & c \end{pmatrix}$."""
        bordered = np.empty((self.dim + 1, self.dim + 1), dtype=object)
        bordered[:-1, :-1] = self.matrix
        bordered[:-1, -1] = bordered[-1, :-1] = self.linear / 2
        bordered[-1, -1] = self.constant
        return inertia(bordered)

    @cached_property
    def centre(self) -> WideArray | None:
        """The exact centre of symmetry, or None if $A$ is singular."""
        return solve_rational(self.matrix, -self.linear / 2)

    @property
    def level(self) -> Fraction | None:
        r"""The $\ell$ of $(x-m)^\top A (x-m) = \ell$ for the centre $m$; None if there is none.

        For $A = I$, this is the squared radius.
        """
        if self.centre is None:
            return None
        return -(self.constant + Fraction(self.linear @ self.centre) / 2)

    @property
    def conic(self) -> str:
        """The type of the curve, for `dim = 2`.

        One of circle, ellipse, point, hyperbola, crossing lines, parabola, parallel lines,
        double line, line, empty, plane.

        Raises:
            ArgumentError: If `dim` is not 2.
        """
        if self.dim != 2:
            raise ArgumentError(
                f"`conic` requires a quadric in the plane; this one has dim = {self.dim}."
            )
        positive, negative, zero = self.inertia
        bordered = self.bordered_inertia
        if zero == 2:
            flat = "plane" if self.constant == 0 else "empty"
            return "line" if any(self.linear) else flat
        if zero == 1:
            if bordered.zero == 0:
                return "parabola"
            if bordered.zero == 2:
                return "double line"
            return "parallel lines" if bordered.positive and bordered.negative else "empty"
        if positive and negative:
            return "crossing lines" if bordered.zero else "hyperbola"
        if bordered.zero:
            return "point"
        if not (bordered.positive and bordered.negative):
            return "empty"
        round_ = self.matrix[0, 0] == self.matrix[1, 1] and self.matrix[0, 1] == 0
        return "circle" if round_ else "ellipse"


def inertia(matrix: WideArray) -> Inertia:
    """Return the inertia of a symmetric rational matrix, by Sylvester's law.

    Examples:
        >>> inertia(np.array([[0, 1], [1, 0]], dtype=object))
        Inertia(positive=1, negative=1, zero=0)
    """
    rest = _read_fractions("matrix", matrix)
    positive = negative = 0
    while len(rest):
        diagonal = np.flatnonzero(rest.diagonal() != 0)
        if len(diagonal):
            pivot = int(diagonal[0])
        else:
            pairs = np.argwhere(rest != 0)
            if not len(pairs):
                break
            # The diagonal is zero; adding row and column j to i makes entry (i, i) twice (i, j).
            pivot, other = (int(index) for index in pairs[0])
            rest[pivot] = rest[pivot] + rest[other]
            rest[:, pivot] = rest[:, pivot] + rest[:, other]
        value, column = rest[pivot, pivot], rest[:, pivot].copy()
        positive, negative = positive + (value > 0), negative + (value < 0)
        keep = np.arange(len(rest)) != pivot
        rest = (rest - np.multiply.outer(column, column) / value)[keep][:, keep]
    return Inertia(int(positive), int(negative), len(matrix) - int(positive) - int(negative))


def solve_rational(matrix: WideArray, right: WideArray) -> WideArray | None:
    """Solve a square rational system exactly, or return None if it is singular."""
    n = len(matrix)
    rows = np.column_stack([_read_fractions("matrix", matrix), _read_fractions("right", right)])
    for column in range(n):
        pivots = np.flatnonzero(rows[column:, column] != 0)
        if not len(pivots):
            return None
        pivot = column + int(pivots[0])
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] = rows[column] / rows[column, column]
        for other in range(n):
            if other != column:
                rows[other] = rows[other] - rows[other, column] * rows[column]
    return np.asarray(rows[:, n])


def _read_fractions(name: str, value: Any) -> WideArray:
    """Read finite floats or rationals as fractions, in a new array."""
    try:
        return np.array(np.frompyfunc(Fraction, 1, 1)(value), dtype=object)
    except (ValueError, OverflowError, TypeError):
        raise NonFiniteError(f"`{name}` must hold finite real numbers; got {value!r}.") from None
