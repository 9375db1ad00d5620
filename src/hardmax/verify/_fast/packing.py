r"""Affine forms of the verifier, each as one integer.

A form with integer coefficients $c_0, \dots, c_{n-1}$, the constant last, is the integer
$c_0 + c_1 X + \dots + c_{n-1} X^{n-1}$ for a power of two $X = 2^w$ (Kronecker substitution). This
is linear in the form, so composing layers is multiplying integer matrices with one column, and as
long as $|c_k| < 2^{w-1}$ the coefficients can be read off. Every list of forms carries a proven
bound of its coefficients, and the width $w$ has room for what is made of them before the next
bound: the scores of a layer, and the difference of two.
"""

from collections.abc import Sequence
from typing import NamedTuple

from flint import fmpz, fmpz_mat


class Packing(NamedTuple):
    """How forms become integers.

    Attributes:
        n_columns: How many coefficients a form has, the constant included.
        width: The $w$.
        reserve: How many of the $w$ bits stay free in the forms between layers.
    """

    n_columns: int
    width: int
    reserve: int

    @property
    def one(self) -> int:
        """The constant form 1."""
        return 1 << (self.width * (self.n_columns - 1))

    def packed(self, coefficients: Sequence[int]) -> int:
        """Write a form as one integer.

        Examples:
            >>> packing = Packing(3, 8, 2)
            >>> packing.packed([1, 0, -1]), packing.unpacked(packing.packed([1, -2, 3]))
            (-65535, (1, -2, 3))
        """
        total = 0
        for coefficient in reversed(coefficients):
            total = (total << self.width) + int(coefficient)
        return total

    def unpacked(self, form: int) -> tuple[int, ...]:
        """Read the coefficients, each less than $2^{w-1}$ in absolute value."""
        width = self.width
        half, mask = 1 << (width - 1), (1 << width) - 1
        coefficients = []
        for _ in range(self.n_columns - 1):
            coefficient = ((form + half) & mask) - half
            coefficients.append(coefficient)
            form = (form - coefficient) >> width
        return (*coefficients, form)

    def repacked(self, forms: Sequence[fmpz], old: "Packing") -> list[fmpz]:
        """Pack forms that were packed in another way."""
        return [fmpz(self.packed(old.unpacked(int(form)))) for form in forms]


class Forms(NamedTuple):
    r"""Affine forms with a common denominator: $q f_1, \dots, q f_n$, and last the constant $q$.

    Attributes:
        column: The packed forms, shape `(n_forms + 1, 1)`.
        scale: The positive integer $q$.
        bits: All coefficients are below $2^{\text{bits}}$ in absolute value.
        packing: How they are packed; the width is at least the bits and the reserve.
    """

    column: fmpz_mat
    scale: int
    bits: int
    packing: Packing

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], width: int, reserve: int) -> "Forms":
        """Pack rows of coefficients, the last of which is the constant form times the scale.

        Args:
            rows: The rows.
            width: At least how many bits a coefficient gets.
            reserve: How many stay free.
        """
        bits = max(abs(x).bit_length() for row in rows for x in row)
        packing = Packing(len(rows[0]), max(width, bits + reserve), reserve)
        column = fmpz_mat(len(rows), 1, [packing.packed(row) for row in rows])
        return cls(column, rows[-1][-1], bits, packing)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The coefficients of all forms, and last those of the constant form."""
        return [self.packing.unpacked(int(form)) for form in self.column.entries()]

    def widened(self, bits: int) -> "Forms":
        """Pack the same forms so that such a bound would still leave the reserve."""
        _, width, reserve = self.packing
        # Some more: what comes after will be longer still.
        return Forms.of(self.rows, max(bits + reserve, width + width // 4), reserve)
