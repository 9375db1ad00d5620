"""The explored fraction of a domain: floating-point estimates, for progress display only."""

from ctypes import addressof
from itertools import accumulate

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock
from hardmax.regions._search.searches import N_EDGE, PlaneCell, SpaceCell


def approximate_volume(cell: PlaneCell | SpaceCell) -> float:
    """Estimate the volume of a bounded cell of a stack; NaN if that would take long."""
    if isinstance(cell, PlaneCell):
        # The row of an edge holds its line, then the vertex where it starts.
        x, y = cell.edges[:, N_EDGE // 2 : N_EDGE // 2 + 2].T
        with np.errstate(over="ignore", invalid="ignore"):
            return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    if cell.vertices.shape[1] == 4:
        return float(np.ptp(cell.vertices[:, 0]))
    dim, given, library = cell.vertices.shape[1] // 2 - 1, cell.as_struct(), core()
    scratch = MemoryBlock(library.hm_volume_size(dim, addressof(given)), is_cleared=False)
    return float(library.hm_volume(dim, addressof(given), scratch.address))


def split_index(sizes: list[float]) -> int:
    """Return where to cut a stack so that the total sizes of both parts are about equal.

    The lowest cell is the largest and the least explored. If the sizes are unknown, it forms a part
    by itself.

    Args:
        sizes: The sizes of the cells, the lowest first.

    Examples:
        >>> split_index([0.5, 0.2, 0.2, 0.1]), split_index([0.1, 0.1, 0.3])
        (1, 2)
        >>> split_index([np.nan] * 3), split_index([7])
        (1, 0)
    """
    below = list(accumulate(sizes[:-1]))
    return 1 + min(range(len(below)), key=lambda i: abs(2 * below[i] - sum(sizes)), default=-1)


def explored_text(left: float, whole: float) -> str:
    """Format the explored share of a domain; return an empty text if it is unknown.

    Examples:
        >>> explored_text(0.25, 1.0), explored_text(float("nan"), 1.0)
        (', 75.00 % of the volume', '')
    """
    share = 1.0 - left / whole if 0.0 < whole < np.inf else np.nan
    return "" if np.isnan(share) else f", {100 * min(max(share, 0.0), 1.0):.2f} % of the volume"
