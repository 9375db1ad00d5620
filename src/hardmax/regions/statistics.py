"""Numbers that summarise a partition: volumes, neighbours, walls."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.regions.cell_rows import Wall
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Statistics:
    """How the cells of a partition spread.

    Attributes:
        n_unbounded: How many cells have infinite volume.
        volume_quantiles: The 0, 25, 50, 75 and 100 percent quantiles of the finite volumes;
            NaN where there is none. Shape `(5,)`.
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
    volumes: FloatArray, radii: FloatArray, degrees: IntArray, walls: Sequence[Sequence[Wall]]
) -> Statistics:
    """Summarise volumes with their radii, numbers of neighbours and walls."""
    # A volume beyond all floats is finite, and has a radius.
    is_unbounded = np.isinf(volumes) & (radii == 0.0)
    finite = sorted(volumes[~is_unbounded].tolist())
    quantiles = np.full(5, np.nan)
    if finite:
        quantiles[:] = [_quartile(finite, k) for k in range(5)]
    return Statistics(
        int(is_unbounded.sum()),
        quantiles,
        float(degrees.mean()) if len(degrees) else 0.0,
        int(degrees.max(initial=0)),
        dict(sorted(Counter(wall for named in walls for wall in named).items())),
    )


def _quartile(ordered: Sequence[float], k: int) -> float:
    """Return the quantile `k / 4` of sorted numbers, linear between two of them."""
    below, part = divmod((len(ordered) - 1) * k, 4)
    if not part or ordered[below] == ordered[below + 1]:
        return ordered[below]
    return ordered[below] + part / 4 * (ordered[below + 1] - ordered[below])
