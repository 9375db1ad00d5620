r"""Affine forms composed without rounding, as integers times a power of two.

Composing forms with float64 coefficients through layers with float64 weights gives dyadic
coefficients, which this module represents exactly.
"""

from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from hardmax._ground.arguments import integer
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import DtypeError, ShapeMismatchError
from hardmax.exact.dyadic import (
    ScaledIntegers,
    integer_matrix,
    matrix_integers,
    round_scaled_integers,
)
from hardmax.exact.forms import AffineForms
from hardmax.typing import IntArray, WideArray


@dataclass(frozen=True, eq=False)
class ExactForms:
    r"""The affine forms $x \mapsto \langle a_j, x \rangle + c_j$ with $(a_j, c_j) = m_j \cdot 2^e$.

    Attributes:
        matrix: The integer rows $m_j$ with the offset in the last column, as a flint matrix of
            shape `(n_forms, dim + 1)`.
        exponent: The common exponent $e$.

    Examples:
        Two forms that float64 cannot tell apart:

        >>> forms = ExactForms(fmpz_mat([[2**60, 0], [2**60 + 1, 0]]), 0)
        >>> forms.first_coinciding().tolist(), forms.rounded().slopes.tolist()
        ([0, 1], [[1.152921504606847e+18], [1.152921504606847e+18]])
    """

    matrix: fmpz_mat
    exponent: int

    __repr__ = short_repr
    _repr_html_ = html_card

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
        """Convert forms with float64 coefficients exactly."""
        return ExactForms(*integer_matrix(np.column_stack([forms.slopes, forms.offsets])))

    @property
    def integers(self) -> WideArray:
        """The rows as Python integers, an object array of shape `(n_forms, dim + 1)`."""
        return matrix_integers(self.matrix, self.exponent).integers

    def first_coinciding(self) -> IntArray:
        """Return for each form the smallest index of an equal form; shape `(n_forms,)`.

        Examples:
            >>> forms = ExactForms.stored(AffineForms([[1.0], [2.0], [1.0]], [0.0, 0.0, 0.0]))
            >>> forms.first_coinciding().tolist()
            [0, 1, 0]
        """
        seen: dict[tuple[int, ...], int] = {}
        rows = [tuple(row) for row in self.integers.tolist()]
        first = [seen.setdefault(row, index) for index, row in enumerate(rows)]
        return np.array(first, dtype=np.int64)

    def rounded(self) -> AffineForms:
        """Return the nearest forms with float64 coefficients.

        Raises:
            NonFiniteError: If a coefficient is outside the range of float64.
        """
        table = round_scaled_integers(ScaledIntegers(self.integers, self.exponent))[0]
        return AffineForms(table[:, :-1], table[:, -1])
