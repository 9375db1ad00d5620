"""Memory that is lent to the core, and arrays that it fills and that grow without a copy."""

import mmap
from contextlib import suppress
from ctypes import addressof, c_char
from math import prod
from typing import Any

import numpy as np

from hardmax.typing import AnyArray

_BOUNDARY = 64


class Memory:
    """A block of bytes on a boundary that the core asks for.

    Attributes:
        n_bytes: How many they are.
        address: Where it begins.
    """

    def __init__(self, n_bytes: int, *, is_cleared: bool = True) -> None:
        """Allocate `n_bytes`, zeros if cleared; pages that nobody touches take no room."""
        self.n_bytes = n_bytes
        allocate = np.zeros if is_cleared else np.empty
        self._bytes = allocate(n_bytes + _BOUNDARY, dtype=np.uint8)
        self._origin = address(self._bytes)
        self.address = -(-self._origin // _BOUNDARY) * _BOUNDARY

    def copied(self, at: int, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """Copy an array that the core has left in this block, given its address."""
        return np.ndarray(shape, dtype, self._bytes.data, at - self._origin).copy()


def address(array: Any) -> int:
    """Return the address of the first number of a contiguous array."""
    try:
        return addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):
        # Read-only, or empty; this takes four times as long.
        return int(array.ctypes.data)


_SMALL = 1 << 20
"""Up to so many bytes, a copy is quicker than pages of the system."""
_spare: list[AnyArray] = []
"""Blocks of so many bytes that nobody uses: new memory costs as much as a small search."""
_MOST_SPARE = 16
_LARGE = 1 << 23
"""From so many bytes on, large pages: asking the system for small ones costs more than a search."""


class GrowingArray:
    """Rows that are written through an address, as many as there turn out to be.

    Small arrays are copied out of a block that is used again. Larger ones are pages of the system,
    which take room only where they have been written to, and which grow without being copied where
    the system can do that.

    Args:
        kind: The type of the numbers.
        row_shape: The shape of a row.
        n_rows: For how many rows there is room at first.

    Attributes:
        row_bytes: How many bytes a row takes.

    Examples:
        >>> rows = GrowingArray(np.int64, (2,), 3)
        >>> rows.grow(10**6)
        >>> rows.taken(2).shape
        (2, 2)
    """

    def __init__(self, kind: Any, row_shape: tuple[int, ...], n_rows: int) -> None:
        self._kind, self._row_shape = np.dtype(kind), row_shape
        self._per_row = prod(row_shape)
        self.row_bytes: int = self._per_row * self._kind.itemsize
        self._pages: mmap.mmap | None = None
        self._block: AnyArray | None = _block()
        self.grow(n_rows)

    @property
    def address(self) -> int:
        """Where the first row begins."""
        return address(self._block if self._pages is None else self._pages)

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows in all; what has been written stays."""
        n_bytes = n_rows * self.row_bytes
        if self._pages is not None:
            self._pages = _resized(self._pages, max(1, n_bytes))
        elif n_bytes > _SMALL:
            self._pages = _pages(n_bytes)
            assert self._block is not None
            self._pages[:_SMALL] = self._block.data
            self._give_back()

    def _give_back(self) -> None:
        if self._block is not None and len(_spare) < _MOST_SPARE:
            _spare.append(self._block)
        self._block = None

    def rows(self, n_rows: int) -> AnyArray:
        """Return a copy of the first rows."""
        return self._first(self._block if self._pages is None else self._pages, n_rows).copy()

    def taken(self, n_rows: int) -> AnyArray:
        """Return the first rows; nothing more may be written."""
        if self._pages is None:
            rows = self.rows(n_rows)
            self._give_back()
            return rows
        n_bytes = n_rows * self.row_bytes
        pages, self._pages = _resized(self._pages, max(1, n_bytes)), None
        return self._first(pages, n_rows)

    def copy_to(self, rows: AnyArray, more: int) -> None:
        """Copy the first rows, numbers increased by `more`; nothing more may be written."""
        given = self._first(self._block if self._pages is None else self._pages, len(rows))
        if more:
            np.add(given, more, out=rows)
        else:
            rows[...] = given
        self._give_back()
        self._pages = None

    def _first(self, memory: Any, n_rows: int) -> AnyArray:
        numbers = np.frombuffer(memory, self._kind, n_rows * self._per_row)
        return numbers.reshape(n_rows, *self._row_shape)


def _block() -> AnyArray:
    try:
        return _spare.pop()
    except IndexError:
        return np.empty(_SMALL, np.uint8)


def _pages(n_bytes: int) -> mmap.mmap:
    """Return pages of the system; private ones where it knows others, which do not grow."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, n_bytes)
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if n_bytes >= _LARGE:
        _ask_for_large_pages(pages)
    return pages


def _ask_for_large_pages(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A system without them says so.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)


def _resized(pages: mmap.mmap, n_bytes: int) -> mmap.mmap:
    """Return pages with another size, and what was written to them."""
    try:
        grows_large = len(pages) < _LARGE <= n_bytes
        pages.resize(n_bytes)
        if grows_large:
            _ask_for_large_pages(pages)
    except (SystemError, ValueError, OSError):
        # Not every system can.
        kept = min(len(pages), n_bytes)
        new = _pages(n_bytes)
        new[:kept] = pages[:kept]
        return new
    return pages
