r"""Affine forms composed without rounding, as integers times a power of two.

This is the truth that `composition.EnclosedForms` encloses. It reads stored weights only: the
composition of forms with float64 coefficients through layers with float64 weights has dyadic
coefficients, and here they are, every bit of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from hardmax.algebra.exact.dyadic import (
    ScaledIntegers,
    homogeneous_points,
    integer_matrix,
    matrix_integers,
    nearest_scaled_floats,
)
from hardmax.algebra.exact.selection import selected_indices, selected_mask
from hardmax.algebra.forms import AffineForms
from hardmax.arguments import Sizes, integer
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray, WideArray


@dataclass(frozen=True, eq=False)
class ExactForms:
    r"""The affine forms $x \mapsto \langle a_j, x \rangle + c_j$ with $(a_j, c_j) = m_j \cdot 2^e$.

    Attributes:
        matrix: The integer rows $m_j$, a flint matrix of shape `(n_forms, dim + 1)`, the offset
            last.
        exponent: The $e$ they share.

    Examples:
        In float64 the second form would round to a multiple of the first:

        >>> forms = ExactForms.stored(AffineForms([[1.0], [2.0**-60]], [0.0, 0.0]))
        >>> sums = forms.compose(np.array([[1.0, 1.0], [1.0, 0.0]]))
        >>> sums.coincide(0, 1), sums.coincide(1, 1)
        (False, True)
    """

    matrix: fmpz_mat
    exponent: int

    def __post_init__(self) -> None:
        if not isinstance(self.matrix, fmpz_mat):
            raise DtypeError(
                f"`matrix` must be a flint fmpz_mat; got {type(self.matrix).__name__}."
            )
        if self.matrix.nrows() < 1 or self.matrix.ncols() < 1:
            raise ShapeMismatchError(
                "`matrix` must have shape (n_forms, dim + 1) with n_forms >= 1; "
                f"got ({self.matrix.nrows()}, {self.matrix.ncols()})."
            )
        object.__setattr__(self, "exponent", integer("exponent", self.exponent))

    @staticmethod
    def stored(forms: AffineForms) -> "ExactForms":
        """Read stored forms, which are exact as they stand."""
        return ExactForms(*integer_matrix(np.column_stack([forms.slopes, forms.offsets])))

    @staticmethod
    def stacked(parts: "Sequence[ExactForms]") -> "ExactForms":
        """Put forms on the same space one below the other."""
        if not parts:
            raise EmptyInputError("`parts` must hold at least one group of forms; got none.")
        dims = {part.dim for part in parts}
        if len(dims) > 1:
            raise ShapeMismatchError(
                f"`parts` must live in one dimension; got dimensions {sorted(dims)}."
            )
        exponent = min(part.exponent for part in parts)
        rows = [row for part in parts for row in part._integers_at(exponent).tolist()]
        return ExactForms(fmpz_mat(rows), exponent)

    @property
    def n_forms(self) -> int:
        """How many forms there are."""
        return int(self.matrix.nrows())

    @property
    def dim(self) -> int:
        """The dimension of the space they are defined on."""
        return int(self.matrix.ncols()) - 1

    @property
    def integers(self) -> WideArray:
        """The rows as Python integers, an object array of shape `(n_forms, dim + 1)`."""
        return matrix_integers(self.matrix, self.exponent).integers

    def compose(self, weight: FloatArray, bias: FloatArray | None = None) -> "ExactForms":
        r"""Pass through an affine layer $z = h W + b$, exactly.

        Args:
            weight: The $W$, shape `(n_forms, n_out)`.
            bias: The $b$, shape `(n_out,)`; zero if left out.

        Returns:
            The forms $z_i = \sum_j W_{ji} h_j + b_i$, as many as $W$ has columns.
        """
        sizes = Sizes(n_forms=self.n_forms)
        weight = sizes.floats("weight", weight, ("n_forms", "n_out"))
        factor, exponent = integer_matrix(np.ascontiguousarray(weight.T))
        product = ExactForms(factor * self.matrix, exponent + self.exponent)
        if bias is None:
            return product
        bias = sizes.floats("bias", bias, ("n_out",))
        return product + ExactForms.stored(AffineForms(np.zeros((len(bias), self.dim)), bias))

    def __add__(self, other: "ExactForms") -> "ExactForms":
        """Add form by form, as a residual connection does."""
        if not isinstance(other, ExactForms):
            return NotImplemented
        if (self.n_forms, self.dim) != (other.n_forms, other.dim):
            raise ShapeMismatchError(
                f"`other` must have {self.n_forms} forms in {self.dim} dimensions; "
                f"got {other.n_forms} in {other.dim}."
            )
        exponent = min(self.exponent, other.exponent)
        return ExactForms(self._integers_at(exponent) + other._integers_at(exponent), exponent)

    def pick(self, indices: IntArray) -> "ExactForms":
        """Keep the listed forms, in the listed order."""
        chosen = selected_indices("indices", indices, self.n_forms)
        rows = self.matrix.tolist()
        return ExactForms(fmpz_mat([rows[i] for i in chosen.tolist()]), self.exponent)

    def mask(self, keep: BoolArray) -> "ExactForms":
        """Replace every form that is not kept by the zero form, as an inactive ReLU does."""
        keep = selected_mask("keep", keep, self.n_forms)
        zero = [0] * (self.dim + 1)
        rows = [row if on else zero for row, on in zip(self.matrix.tolist(), keep, strict=True)]
        return ExactForms(fmpz_mat(rows), self.exponent)

    def difference(self, plus: IntArray, minus: IntArray) -> "ExactForms":
        """Form the differences of the forms `plus` and `minus`, one for each pair."""
        a, b = self.pick(plus), self.pick(minus)
        if a.n_forms != b.n_forms:
            raise ShapeMismatchError(
                f"`minus` must name {a.n_forms} forms (as in `plus`); got {b.n_forms}."
            )
        return ExactForms(a.matrix - b.matrix, self.exponent)

    def coincide(self, i: int, j: int) -> bool:
        """Decide whether two forms are the same affine function."""
        rows = self.pick(np.array([i, j])).matrix.tolist()
        return bool(rows[0] == rows[1])

    def first_coinciding(self) -> IntArray:
        """Return for each form the first index of a form equal to it, shape `(n_forms,)`.

        Examples:
            >>> forms = ExactForms.stored(AffineForms([[1.0], [2.0], [1.0]], [0.0, 0.0, 0.0]))
            >>> forms.first_coinciding().tolist()
            [0, 1, 0]
        """
        seen: dict[tuple[int, ...], int] = {}
        rows = [tuple(row) for row in self.integers.tolist()]
        first = [seen.setdefault(row, index) for index, row in enumerate(rows)]
        return np.array(first, dtype=np.int64)

    def signs(self, points: FloatArray) -> SignArray:
        """Decide the sign of every form at every float64 point: `(n_points, n_forms)`."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        homogeneous = homogeneous_points(points)
        factor = fmpz_mat(*homogeneous.shape, homogeneous.ravel().tolist())
        return np.sign(matrix_integers(factor * self.matrix.transpose(), 0).integers).astype(
            np.int8
        )

    def rounded(self) -> AffineForms:
        """Return the nearest forms with float64 coefficients.

        Raises:
            NonFiniteError: If a coefficient lies beyond the largest float64.
        """
        table = nearest_scaled_floats(ScaledIntegers(self.integers, self.exponent))
        return AffineForms(table[:, :-1], table[:, -1])

    def _integers_at(self, exponent: int) -> fmpz_mat:
        """Return the integer rows that go with a smaller exponent."""
        return self.matrix * (1 << (self.exponent - exponent))
