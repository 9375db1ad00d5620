r"""Origins of the units of a compiled function: each unit is evaluated from its own point.

A steep unit that matters only close to a point $o$ has large terms that cancel. Every token
therefore starts with the differences $x - o_1, \dots, x - o_m$ side by side instead of $x$, and
each unit reads one of the differences: $\langle a, x\rangle + b$ is evaluated as
$\langle a, x - o\rangle + (b + \langle a, o\rangle)$. Origins are float32 numbers. The difference
of two float32 numbers within a factor of 2 of each other is a float32 number, so close to its
origin the rounding error of a piece is $u|a||x - o|$, regardless of its slope and its origin.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class UnitOrigins:
    """The origins of the units of the first layer.

    Attributes:
        points: The distinct origins, float32 numbers, shape `(n_origins, dim_in)`.
        units: The index of each unit's origin, shape `(n_units,)`.

    Examples:
        >>> UnitOrigins([[0.5]], [0, 0]).units.tolist()
        [0, 0]
        >>> UnitOrigins([[0.1]], [0])
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `points` must be exactly representable in float32; at least
        one coordinate is not.
    """

    points: FloatArray
    units: IntArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        points = float32_points(self.points)
        units = Sizes().ints("units", self.units, ("n_units",))
        if not ((units >= 0) & (units < len(points))).all():
            raise ArgumentError(
                f"`units` must contain indices from 0 to {len(points) - 1}; got indices from "
                f"{units.min()} to {units.max()}."
            )
        frozen = units.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "units", frozen)


def float32_points(points: FloatArray) -> FloatArray:
    """Return a read-only copy of the origins, which must be float32: `(n_origins, dim_in)`."""
    read = Sizes().floats("points", points, ("n_origins", "dim_in"))
    with np.errstate(over="ignore", under="ignore"):
        narrow = read.astype(np.float32).astype(np.float64)
    if not np.array_equal(narrow, read):
        raise ArgumentError(
            "`points` must be exactly representable in float32; at least one coordinate is not."
        )
    return read_only_copy(read)
