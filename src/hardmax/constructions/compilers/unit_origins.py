r"""Where the units of a compiled function stand: each is evaluated from its own point of the plane.

A steep unit that matters close to a point $o$ only has large numbers that cancel. Tokens therefore
start with $x - o_1, \dots, x - o_m$ side by side in place of $x$, the same on every token, and each
unit reads the difference that is its own: $\langle a, x\rangle + b$ is evaluated as
$\langle a, x - o\rangle + (b + \langle a, o\rangle)$. Origins are float32 numbers, and the
difference of two float32 numbers within a factor of 2 is one, so close to its origin a piece loses
$u|a||x - o|$ to rounding, however steep it is and wherever it stands.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import Sizes, owned
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class UnitOrigins:
    """Points the first layer is evaluated from, and which of them every unit has.

    Attributes:
        points: Float32 numbers, shape `(n_origins, dim_in)`.
        units: The point of each unit of the first layer, shape `(n_units,)`.

    Examples:
        >>> UnitOrigins([[0.5]], [0, 0]).units.tolist()
        [0, 0]
        >>> UnitOrigins([[0.1]], [0])
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `points` must be float32 numbers; one is not.
    """

    points: FloatArray
    units: IntArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        points = float32_points(self.points)
        units = Sizes().ints("units", self.units, ("n_units",))
        if not ((units >= 0) & (units < len(points))).all():
            raise ArgumentError(f"`units` must be from 0 to {len(points) - 1}; one is not.")
        frozen = units.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "units", frozen)


def float32_points(points: FloatArray) -> FloatArray:
    """Check that origins are float32 numbers, and own them: shape `(n_origins, dim_in)`."""
    read = Sizes().floats("points", points, ("n_origins", "dim_in"))
    with np.errstate(over="ignore", under="ignore"):
        narrow = read.astype(np.float32).astype(np.float64)
    if not np.array_equal(narrow, read):
        raise ArgumentError("`points` must be float32 numbers; one is not.")
    return owned(read)
