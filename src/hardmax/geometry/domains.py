"""Where a diagram or a partition is looked at: a box, or all of space."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hardmax.arguments import Sizes, integer, owned
from hardmax.errors import ArgumentError
from hardmax.typing import BoolArray, FloatArray


class Domain(Protocol):
    r"""A full-dimensional polyhedron $\{x : A x \le b\}$."""

    @property
    def dim(self) -> int:
        """The dimension of the space."""

    @property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)` with shapes `(n_rows, dim)` and `(n_rows,)`."""


@dataclass(frozen=True, eq=False)
class Box:
    r"""The box $[l_1, h_1] \times \dots \times [l_d, h_d]$.

    Attributes:
        low: The $l_k$, shape `(dim,)`.
        high: The $h_k$, shape `(dim,)`, each above its $l_k$.

    Raises:
        ArgumentError: If an entry of `low` is not below the entry of `high`.
        NonFiniteError: If a bound is NaN or infinite (use `WholeSpace` for all of space).

    Examples:
        >>> square = Box([-1, -1], [1, 1])
        >>> square.contains([[0, 1], [0, 1.5]]).tolist()
        [True, False]
    """

    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        sizes = Sizes()
        low = sizes.floats("low", self.low, ("dim",))
        high = sizes.floats("high", self.high, ("dim",))
        empty = np.flatnonzero(low >= high)
        if empty.size:
            k = int(empty[0])
            raise ArgumentError(
                f"`low` must be below `high` in every coordinate; "
                f"got low[{k}] = {low[k]} and high[{k}] = {high[k]}."
            )
        object.__setattr__(self, "low", owned(low))
        object.__setattr__(self, "high", owned(high))

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.low.shape[0])

    @property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)`: first all `x[k] <= high[k]`, then all `-x[k] <= -low[k]`."""
        identity = np.eye(self.dim)
        return np.concatenate([identity, -identity]), np.concatenate([self.high, -self.low])

    def contains(self, points: FloatArray) -> BoolArray:
        """Say which rows of `points` lie in the box, its boundary included."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        return np.asarray(((points >= self.low) & (points <= self.high)).all(axis=1))


@dataclass(frozen=True, eq=False)
class WholeSpace:
    r"""All of $\mathbb{R}^d$.

    Attributes:
        dim: The $d$, at least 1.

    Examples:
        >>> WholeSpace(2).inequalities[0].shape
        (0, 2)
    """

    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", integer("dim", self.dim, at_least=1))

    @property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)` without rows."""
        return np.zeros((0, self.dim)), np.zeros(0)

    def contains(self, points: FloatArray) -> BoolArray:
        """Say True for every row of `points`."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        return np.ones(points.shape[0], dtype=np.bool_)
