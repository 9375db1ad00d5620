"""How much of a domain has been explored, for who waits: floats, nothing is decided by them."""

from ctypes import addressof
from itertools import accumulate

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory
from hardmax.regions._search.searches import N_EDGE, PlaneCell, SpaceCell


def volume(cell: PlaneCell | SpaceCell) -> float:
    """Return about the volume of a bounded cell of a stack; NaN where that would take long."""
    if isinstance(cell, PlaneCell):
        # An edge has its line first, then the vertex where it starts.
        x, y = cell.edges[:, N_EDGE // 2 : N_EDGE // 2 + 2].T
        with np.errstate(over="ignore", invalid="ignore"):
            return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    if cell.vertices.shape[1] == 4:
        return float(np.ptp(cell.vertices[:, 0]))
    dim, given, library = cell.vertices.shape[1] // 2 - 1, cell.given(), core()
    scratch = Memory(library.hm_volume_size(dim, addressof(given)), is_cleared=False)
    return float(library.hm_volume(dim, addressof(given), scratch.address))


def middle(sizes: list[float]) -> int:
    """Return where to cut a stack, given how large its cells are, so that both parts are alike.

    The lowest cell is the largest, and has been looked at least: where sizes are not known, it is a
    part of its own.

    Examples:
        >>> middle([0.5, 0.2, 0.2, 0.1]), middle([0.1, 0.1, 0.3]), middle([np.nan] * 3), middle([7])
        (1, 2, 1, 0)
    """
    below = list(accumulate(sizes[:-1]))
    return 1 + min(range(len(below)), key=lambda i: abs(2 * below[i] - sum(sizes)), default=-1)


def explored_text(left: float, whole: float) -> str:
    """Say which share of a domain has been explored; nothing if that cannot be told.

    Examples:
        >>> explored_text(0.25, 1.0), explored_text(float("nan"), 1.0)
        (', 75.00 % of the volume', '')
    """
    share = 1.0 - left / whole if 0.0 < whole < np.inf else np.nan
    return "" if np.isnan(share) else f", {100 * min(max(share, 0.0), 1.0):.2f} % of the volume"
