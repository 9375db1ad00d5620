"""Batches of points: inputs are processed as rows, and results returned in the caller's form."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from hardmax._ground.arguments import floats_any_shape
from hardmax.errors import ShapeMismatchError
from hardmax.typing import AnyArray, FloatArray

Array = TypeVar("Array", bound=AnyArray)


@dataclass(frozen=True, eq=False)
class PointBatch:
    """Points as rows, and whether the caller passed a single point.

    Attributes:
        rows: The points, shape `(n_points, dim)`; `n_points` may be 0.
        single: Whether the argument had shape `(dim,)`.

    Examples:
        >>> batch = PointBatch.read("x", [1.0, 2.0], dim=2)
        >>> batch.rows.shape, batch.unpack(np.array([7.0]))
        ((1, 2), np.float64(7.0))
    """

    rows: FloatArray
    single: bool

    @classmethod
    def read(cls, name: str, value: Any, dim: int) -> "PointBatch":
        """Read finite coordinates of shape `(dim,)` or `(n_points, dim)`."""
        array = floats_any_shape(name, value)
        if array.ndim not in (1, 2) or array.shape[-1] != dim:
            raise ShapeMismatchError(
                f"`{name}` must have shape (dim,) or (n_points, dim) with dim = {dim}; got "
                f"{array.shape}."
            )
        return cls(np.atleast_2d(array), array.ndim == 1)

    def unpack(self, result: Array) -> Array:
        """Remove the leading axis of `result` if the caller passed a single point."""
        return cast(Array, result[0]) if self.single else result
