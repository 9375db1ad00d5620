"""Arrays that the core fills and that grow where they are: no second copy, at no time."""

import mmap
from typing import Any

import numpy as np

from hardmax._core.memory import address
from hardmax.typing import AnyArray

_SMALL = 1 << 17
"""Up to so many bytes, a copy is quicker than pages of the system."""


class GrowingArray:
    """Rows that are written through an address, as many as there turn out to be.

    Small arrays are ordinary ones. Larger ones are pages of the system, which take room only where
    they have been written to, and which grow without being copied where the system can do that.

    Args:
        row_type: The type of a row.
        n_rows: For how many rows there is room at first.

    Examples:
        >>> rows = GrowingArray(np.dtype((np.int64, 2)), 3)
        >>> rows.grow(10**6)
        >>> rows.taken(2).shape
        (2, 2)
    """

    def __init__(self, row_type: np.dtype[Any], n_rows: int) -> None:
        self._type = row_type
        self._pages: mmap.mmap | None = None
        self._rows: AnyArray | None = np.empty(n_rows, dtype=row_type)
        if self._rows.nbytes > _SMALL:
            self.grow(n_rows)

    @property
    def address(self) -> int:
        """Where the first row begins."""
        return address(self._rows if self._pages is None else self._pages)

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows in all; what has been written stays."""
        n_bytes = max(1, n_rows * self._type.itemsize)
        if self._pages is not None:
            self._pages = _resized(self._pages, n_bytes)
            return
        rows = self._rows
        assert rows is not None
        if n_bytes <= _SMALL:
            self._rows = np.empty(n_rows, dtype=self._type)
            self._rows[: len(rows)] = rows
            return
        self._pages, self._rows = _pages(n_bytes), None
        kept = np.frombuffer(self._pages, dtype=np.uint8, count=rows.nbytes)
        kept[:] = rows.reshape(-1).view(np.uint8)

    def rows(self, n_rows: int) -> AnyArray:
        """Return a copy of the first rows."""
        if self._pages is None:
            assert self._rows is not None
            return self._rows[:n_rows].copy()
        count = n_rows * self._type.itemsize // self._type.base.itemsize
        flat = np.frombuffer(self._pages, dtype=self._type.base, count=count)
        return flat.reshape(n_rows, *self._type.shape).copy()

    def taken(self, n_rows: int) -> AnyArray:
        """Return the first rows; nothing more may be written."""
        if self._pages is None:
            return self.rows(n_rows)
        base, n_bytes = self._type.base, n_rows * self._type.itemsize
        pages, self._pages = _resized(self._pages, max(1, n_bytes)), None
        flat = np.frombuffer(pages, dtype=base, count=n_bytes // base.itemsize)
        return flat.reshape(n_rows, *self._type.shape)


def _pages(n_bytes: int) -> mmap.mmap:
    """Return pages of the system; private ones where it knows others, which do not grow."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, n_bytes)


def _resized(pages: mmap.mmap, n_bytes: int) -> mmap.mmap:
    """Return pages with another size, and what was written to them."""
    try:
        pages.resize(n_bytes)
    except (SystemError, ValueError, OSError):
        # Not every system can.
        kept = min(len(pages), n_bytes)
        new = _pages(n_bytes)
        new[:kept] = pages[:kept]
        return new
    return pages
