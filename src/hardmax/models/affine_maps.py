"""Affine maps between the layers of a model: in floats, with radii, and in integers."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.algebra.exact.dyadic import integer_matrix
from hardmax.arguments import Sizes
from hardmax.display import html_card, short_repr
from hardmax.models.enclosures import EnclosedMap
from hardmax.models.pickling import WithoutCaches
from hardmax.typing import FloatArray

_MOST_KEPT = 1 << 23
"""An integer takes several times the memory of a float; more of them are not kept."""


@dataclass(frozen=True, eq=False)
class AffineMap(WithoutCaches):
    r"""The map $x \mapsto x W + b$ on row vectors.

    Attributes:
        weight: The $W$, shape `(dim_in, dim_out)`.
        bias: The $b$, shape `(dim_out,)`.
    """

    weight: FloatArray
    bias: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        weight, bias = Sizes().owned(
            ("weight", self.weight, ("dim_in", "dim_out")), ("bias", self.bias, ("dim_out",))
        )
        self.__dict__.update(weight=weight, bias=bias)

    @classmethod
    def trusted(cls, weight: FloatArray, bias: FloatArray) -> "AffineMap":
        """Return a map of finite float64 arrays of the right shapes that nobody else writes to."""
        trusted = object.__new__(cls)
        trusted.__dict__.update(weight=weight, bias=bias)
        return trusted

    @staticmethod
    def identity(dim: int) -> "AffineMap":
        r"""Return the identity of $\mathbb{R}^{dim}$, without a matrix in memory.

        Examples:
            >>> identity = AffineMap.identity(10**6)
            >>> identity.weight.shape, identity.weight[7, 6:9].tolist(), identity.is_identity
            ((1000000, 1000000), [0.0, 1.0, 0.0], True)
        """
        return _identity(dim)

    @cached_property
    def is_identity(self) -> bool:
        """Whether it returns its argument."""
        return (
            self.dim_in == self.dim_out
            and self.weight.item(0) == 1.0
            and not self.bias.any()
            and bool((self.weight.diagonal() == 1.0).all())
            and np.count_nonzero(self.weight) == self.dim_in
        )

    @cached_property
    def enclosed(self) -> EnclosedMap | None:
        """The map on enclosed vectors; None for the identity."""
        return None if self.is_identity else EnclosedMap(self.weight, self.bias)

    @cached_property
    def exact(self) -> tuple[fmpz_mat, int]:
        r"""The rows $(W^\top, b)$ as integers and their exponent: `(dim_out, dim_in + 1)`."""
        return integer_matrix(np.column_stack([self.weight.T, self.bias]))

    def on_integers(self, rows: fmpz_mat) -> tuple[fmpz_mat, int]:
        """Apply the map to integer rows: of its argument and, last, of the constant 1.

        Args:
            rows: Shape `(dim_in + 1, n_columns)`.

        Returns:
            The rows of its values, shape `(dim_out, n_columns)`, and the exponent of their scale
            over that of the given ones.
        """
        n_columns = rows.ncols()
        if self.is_identity:
            return fmpz_mat(self.dim_out, n_columns, rows.entries()[:-n_columns]), 0
        if self.weight.size <= _MOST_KEPT:
            matrix, exponent = self.exact
            return matrix * rows, exponent
        step = max(1, _MOST_KEPT // self.dim_in)
        products = []
        for i in range(0, self.dim_out, step):
            table = np.column_stack([self.weight[:, i : i + step].T, self.bias[i : i + step]])
            matrix, exponent = integer_matrix(table)
            products.append((matrix * rows, exponent))
        lowest = min(exponent for _, exponent in products)
        scaled = (product * fmpz(1 << (e - lowest)) for product, e in products)
        entries = [entry for part in scaled for entry in part.entries()]
        return fmpz_mat(self.dim_out, n_columns, entries), lowest

    def hashed_parts(self) -> dict[str, object]:
        """What a fingerprint reads: of an identity its dimension."""
        if self.is_identity:
            return {"": "AffineMap", "identity": self.dim_in}
        return {"": "AffineMap", "weight": self.weight, "bias": self.bias}

    @property
    def dim_in(self) -> int:
        """The dimension of its arguments."""
        return int(self.weight.shape[0])

    @property
    def dim_out(self) -> int:
        """The dimension of its values."""
        return int(self.weight.shape[1])


@lru_cache(maxsize=64)
def _identity(dim: int) -> AffineMap:
    if dim < 1:
        return AffineMap(np.eye(dim), np.zeros(dim))
    # Every row is the same line of zeros around a one, seen through another window.
    line = np.zeros(2 * dim - 1)
    line[dim - 1] = 1.0
    line.setflags(write=False)
    step = line.itemsize
    weight = np.ndarray((dim, dim), line.dtype, line, (dim - 1) * step, (-step, step))
    bias = np.zeros(dim)
    bias.setflags(write=False)
    identity = AffineMap.trusted(weight, bias)
    identity.__dict__["is_identity"] = True
    return identity
