r"""Pack each affine form of the verifier into one integer.

A form with integer coefficients $c_0, \dots, c_{n-1}$, the constant last, becomes the integer
$c_0 + c_1 X + \dots + c_{n-1} X^{n-1}$ for a power of two $X = 2^w$ (Kronecker substitution). This
is linear in the form, so composing layers means multiplying integer matrices by one column. The
coefficients can be read off as long as $|c_k| < 2^{w-1}$. Every list of forms has a proven bound on
its coefficients. The width $w$ leaves enough bits for the results computed before the next bound,
namely the scores of a layer and the difference of two scores.
"""

from collections.abc import Sequence
from typing import NamedTuple

from flint import fmpz, fmpz_mat


class Packing(NamedTuple):
    """The layout of forms packed into integers.

    Attributes:
        n_columns: The number of coefficients of a form, including the constant.
        width: The width $w$.
        reserve: The number of the $w$ bits that stay free in the forms between layers.
    """

    n_columns: int
    width: int
    reserve: int

    @property
    def one(self) -> int:
        """The constant form 1."""
        return 1 << (self.width * (self.n_columns - 1))

    def pack(self, coefficients: Sequence[int]) -> int:
        """Pack a form into one integer.

        Examples:
            >>> packing = Packing(3, 8, 2)
            >>> packing.pack([1, 0, -1]), packing.unpack(packing.pack([1, -2, 3]))
            (-65535, (1, -2, 3))
        """
        total = 0
        for coefficient in reversed(coefficients):
            total = (total << self.width) + int(coefficient)
        return total

    def unpack(self, form: int) -> tuple[int, ...]:
        """Return the coefficients, which must be below $2^{w-1}$ in absolute value."""
        width = self.width
        half, mask = 1 << (width - 1), (1 << width) - 1
        coefficients = []
        for _ in range(self.n_columns - 1):
            coefficient = ((form + half) & mask) - half
            coefficients.append(coefficient)
            form = (form - coefficient) >> width
        return (*coefficients, form)

    def repack(self, forms: Sequence[fmpz], old: "Packing") -> list[fmpz]:
        """Pack forms again that were packed with another layout."""
        return [fmpz(self.pack(old.unpack(int(form)))) for form in forms]


class Forms(NamedTuple):
    r"""Affine forms with a common denominator: $q f_1, \dots, q f_n$, and last the constant $q$.

    Attributes:
        column: The packed forms, shape `(n_forms + 1, 1)`.
        scale: The positive integer $q$.
        bits: A bound: all coefficients are below $2^{\text{bits}}$ in absolute value.
        packing: The layout. Its width is at least the sum of the bits and the reserve.
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
            width: The minimum number of bits per coefficient.
            reserve: The number of bits that stay free.
        """
        bits = max(abs(x).bit_length() for row in rows for x in row)
        packing = Packing(len(rows[0]), max(width, bits + reserve), reserve)
        column = fmpz_mat(len(rows), 1, [packing.pack(row) for row in rows])
        return cls(column, rows[-1][-1], bits, packing)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The coefficients of all forms, with the constant form last."""
        return [self.packing.unpack(int(form)) for form in self.column.entries()]

    def widen(self, bits: int) -> "Forms":
        """Pack the same forms with enough width for a given bound and the reserve."""
        _, width, reserve = self.packing
        # Add some extra width, because later forms will be longer still.
        return Forms.of(self.rows, max(bits + reserve, width + width // 4), reserve)
