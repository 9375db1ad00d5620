"""Numbers that summarise a partition: sizes, neighbours, walls, inscribed balls."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.algebra.exact.dyadic import nearest_floats
from hardmax.display import html_card, short_repr
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.integer_vectors import Vector, rounded_directions, wide_rows
from hardmax.geometry.linear_programs import maximise
from hardmax.regions.cell_rows import Wall
from hardmax.typing import FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class Statistics:
    """How the cells of a partition spread.

    Attributes:
        n_unbounded: How many cells have infinite volume.
        volume_quantiles: The 0, 25, 50, 75 and 100 percent quantiles of the finite volumes,
            rounded; NaN where there is none. Shape `(5,)`.
        mean_neighbours: The mean number of neighbours of a cell.
        max_neighbours: The largest number.
        walls_of: For each `(layer, group)` how many pairs of neighbours it separates.
    """

    n_unbounded: int
    volume_quantiles: FloatArray
    mean_neighbours: float
    max_neighbours: int
    walls_of: dict[Wall, int]

    __repr__ = short_repr
    _repr_html_ = html_card


def partition_statistics(
    volumes: WideArray, degrees: IntArray, walls: Sequence[Sequence[Wall]]
) -> Statistics:
    """Summarise volumes, numbers of neighbours and walls."""
    # A fraction is finite, also where it exceeds every float.
    finite = sorted(volume for volume in volumes.tolist() if isinstance(volume, Fraction))
    quantiles = np.full(5, np.nan)
    if finite:
        quantiles = nearest_floats(np.array([_quartile(finite, k) for k in range(5)], dtype=object))
    return Statistics(
        len(volumes) - len(finite),
        quantiles,
        float(degrees.mean()) if len(degrees) else 0.0,
        int(degrees.max(initial=0)),
        dict(sorted(Counter(wall for named in walls for wall in named).items())),
    )


def _quartile(ordered: Sequence[Fraction], k: int) -> Fraction:
    """Return the quantile `k / 4` of sorted numbers, linear between two of them."""
    below, part = divmod((len(ordered) - 1) * k, 4)
    if not part:
        return ordered[below]
    return ordered[below] + Fraction(part, 4) * (ordered[below + 1] - ordered[below])


def inscribed_ball(rows: Sequence[Vector], dim: int) -> tuple[FloatArray, float] | None:
    r"""Find a largest ball in $\{t : \langle a, t\rangle + c \ge 0\}$ by a linear program.

    Args:
        rows: Integers $(a, c)$ of a set with an interior.
        dim: The dimension.

    Returns:
        Centre and radius, rounded, NaN where a float solver cannot cope; None if balls of every
        size fit, which is decided exactly.

    Examples:
        >>> centre, radius = inscribed_ball([(1, 0, 0), (0, 1, 0), (-1, 0, 2), (0, -1, 4)], 2)
        >>> centre[0].item(), radius
        (1.0, 1.0)
        >>> inscribed_ball([(1, 0, 0)], 2) is None
        True
    """
    slopes_only = wide_rows([row[:-1] for row in rows if any(row[:-1])], dim)
    if decide_open_cone(slopes_only).is_open:
        return None
    floats = rounded_directions(rows, dim + 1)
    norms = np.sqrt((floats[:, :-1] ** 2).sum(axis=1))
    steep = norms > 0.0
    slopes = floats[steep, :-1] / norms[steep, np.newaxis]
    bounds = floats[steep, -1] / norms[steep]
    matrix = np.column_stack([-slopes, np.ones(len(slopes))])
    radius_only = np.zeros(dim + 1)
    radius_only[-1] = 1.0
    best = maximise(radius_only, matrix, bounds)
    if best is None:
        # Coefficients too wild for a float solver: there is a ball, but it cannot be told.
        return np.full(dim, np.nan), float("nan")
    return best[:-1], float(best[-1])
