"""The sizes of shattering transformers: the heads and units per coordinate, and size limits."""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.constructions.families.model_sizes import OBJECT_NUMBERS, refuse_size
from hardmax.errors import ArgumentError, DtypeError

EXACT = 2**53
"""Integers up to this size are float64 numbers."""


@dataclass(frozen=True)
class GridSizes:
    r"""The distribution of the heads of a layer over the coordinates.

    Attributes:
        n_keys: The number of keys $N$ of every head.
        n_heads: The number of heads $H$.
        n_coordinates: The number of coordinates that are cut.
        has_bias: Whether heads have a query bias. If not, the stream has one more coordinate, which
            is 1 and replaces the bias.
    """

    n_keys: int
    n_heads: int
    n_coordinates: int
    has_bias: bool = True

    @property
    def dim(self) -> int:
        """The width of the stream."""
        return self.n_coordinates + (not self.has_bias)

    @property
    def heads_each(self) -> int:
        """The number $m$ of heads for each coordinate; the remaining heads are idle."""
        return self.n_heads // self.n_coordinates

    @property
    def n_cells(self) -> int:
        """The number $n$ of parts into which each coordinate is cut."""
        return 1 + self.heads_each * (self.n_keys - 1)

    @property
    def is_dyadic(self) -> bool:
        r"""Whether $1/n$ is a float64 number."""
        return self.n_cells & (self.n_cells - 1) == 0


def read_shattering(
    n_keys: int, dim: int, depth: int, d_ff: int, n_heads: int | None, *, has_bias: bool
) -> tuple[GridSizes, int, int]:
    """Read and check all sizes: the grid, the number of pieces of each fold, and the depth."""
    sizes, depth = read_grid(n_keys, dim, depth, n_heads, has_bias=has_bias)
    d_ff = integer("d_ff", d_ff, at_least=2 * sizes.n_coordinates)
    return sizes, 2 * (d_ff // (2 * sizes.n_coordinates)), depth


def read_grid(
    n_keys: int, dim: int, depth: int, n_heads: int | None, *, has_bias: bool
) -> tuple[GridSizes, int]:
    """Read and check the sizes of the attention part: the grid and the depth."""
    n_keys = integer("n_keys", n_keys, at_least=1)
    dim = integer("dim", dim, at_least=1 if has_bias else 2)
    depth = integer("depth", depth, at_least=1)
    n_coordinates = dim if has_bias else dim - 1
    if n_heads is None:
        n_heads = n_coordinates
    n_heads = integer("n_heads", n_heads, at_least=n_coordinates)
    return GridSizes(n_keys, n_heads, n_coordinates, has_bias), depth


def refuse_grid(sizes: GridSizes, depth: int, d_ff: int = 0) -> None:
    """Raise an error if a transformer with a fixed memory is too large to build."""
    head = 3 * (sizes.dim + sizes.n_keys) + OBJECT_NUMBERS
    units = 2 * (sizes.dim + 1) * d_ff + OBJECT_NUMBERS
    given = {"n_keys": sizes.n_keys, "dim": sizes.dim, "depth": depth}
    given |= {"d_ff": d_ff} if d_ff else {}
    refuse_size(depth * (sizes.n_heads * head + units), **given, n_heads=sizes.n_heads)


def read_flag(name: str, value: bool) -> bool:
    """Read a bool; a number raises an error."""
    if not isinstance(value, bool | np.bool_):
        raise DtypeError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)


def require_exact_keys(sizes: GridSizes, numerator: int, denominator: int) -> None:
    """Raise an error if an integer key is not exact in float64."""
    largest = max(numerator, denominator * sizes.n_cells) * sizes.n_keys
    if largest > EXACT:
        raise ArgumentError(
            "`n_keys`, `n_heads` and `depth` must keep the keys below 2^53, so that they are exact "
            f"in float64; got sizes with keys up to {float(largest):.3g}."
        )
