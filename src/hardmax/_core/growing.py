"""Arrays that the core fills and that grow where they are: no second copy, at no time."""

import mmap
from math import prod
from typing import Any

import numpy as np

from hardmax._core.memory import address
from hardmax.typing import AnyArray

_SMALL = 1 << 20
"""Up to so many bytes, a copy is quicker than pages of the system."""


class GrowingArray:
    """Rows that are written through an address, as many as there turn out to be.

    Small arrays are ordinary ones. Larger ones are pages of the system, which take room only where
    they have been written to, and which grow without being copied where the system can do that.

    Args:
        kind: The type of the numbers.
        row_shape: The shape of a row.
        n_rows: For how many rows there is room at first.

    Examples:
        >>> rows = GrowingArray(np.int64, (2,), 3)
        >>> rows.grow(10**6)
        >>> rows.taken(2).shape
        (2, 2)
    """

    def __init__(self, kind: Any, row_shape: tuple[int, ...], n_rows: int) -> None:
        self._kind, self._row_shape = np.dtype(kind), row_shape
        self._per_row = prod(row_shape)
        self._pages: mmap.mmap | None = None
        self._numbers: AnyArray | None = np.empty(n_rows * self._per_row, dtype=kind)
        if self._numbers.nbytes > _SMALL:
            self.grow(n_rows)

    @property
    def address(self) -> int:
        """Where the first row begins."""
        return address(self._numbers if self._pages is None else self._pages)

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows in all; what has been written stays."""
        count = n_rows * self._per_row
        n_bytes = max(1, count * self._kind.itemsize)
        if self._pages is not None:
            self._pages = _resized(self._pages, n_bytes)
            return
        old = self._numbers
        assert old is not None
        if n_bytes <= _SMALL:
            self._numbers = np.empty(count, dtype=self._kind)
            self._numbers[: len(old)] = old
            return
        self._pages, self._numbers = _pages(n_bytes), None
        self._in_pages(self._pages, len(old))[:] = old

    def like(self, n_rows: int) -> AnyArray:
        """Return an ordinary array of such rows, not yet written."""
        return np.empty((n_rows, *self._row_shape), dtype=self._kind)

    def rows(self, n_rows: int) -> AnyArray:
        """Return a copy of the first rows."""
        count = n_rows * self._per_row
        if self._pages is None:
            assert self._numbers is not None
            first = self._numbers[:count]
        else:
            first = self._in_pages(self._pages, count)
        return first.reshape(n_rows, *self._row_shape).copy()

    def taken(self, n_rows: int) -> AnyArray:
        """Return the first rows; nothing more may be written."""
        if self._pages is None:
            return self.rows(n_rows)
        count = n_rows * self._per_row
        pages, self._pages = _resized(self._pages, max(1, count * self._kind.itemsize)), None
        return self._in_pages(pages, count).reshape(n_rows, *self._row_shape)

    def _in_pages(self, pages: mmap.mmap, count: int) -> AnyArray:
        return np.frombuffer(pages, dtype=self._kind, count=count)


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
