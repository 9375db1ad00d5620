"""Memory that is lent to the core, and arrays that it fills and that grow without a copy."""

import mmap
from contextlib import suppress
from ctypes import addressof, c_char
from math import prod
from typing import Any

import numpy as np

from hardmax.errors import CoreError
from hardmax.typing import AnyArray

_BOUNDARY = 64


class Memory:
    """A block of bytes on a boundary that the core asks for.

    Attributes:
        n_bytes: How many they are.
        address: Where it begins.
        bytes: The bytes, shape `(n_bytes,)`.
        notes: What has been worked out about its use, for whoever uses it next.
    """

    def __init__(self, n_bytes: int, *, is_cleared: bool = True) -> None:
        """Allocate `n_bytes`, zeros if cleared; pages that nobody touches take no room."""
        self.n_bytes = n_bytes
        allocate = np.zeros if is_cleared else np.empty
        block = allocate(n_bytes + _BOUNDARY, dtype=np.uint8)
        origin = address(block)
        start = -origin % _BOUNDARY
        self.bytes: AnyArray = block[start : start + n_bytes]
        self.address = origin + start
        self.notes: dict[Any, Any] = {}

    def copied(self, at: int, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """Copy an array that the core has left in this block, given its address."""
        return np.ndarray(shape, dtype, self.bytes, at - self.address).copy()


def address(array: Any) -> int:
    """Return the address of the first number of an array that the core may read or write.

    Raises:
        CoreError: If numbers of the array are not aligned (see `prepare_array`).
    """
    try:
        place = addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):
        # Read-only, or empty, or with steps between rows; this takes four times as long.
        place = int(array.ctypes.data)
    # Nearly all arrays begin on a multiple of eight, and need no closer look.
    if place % 8 and not array.flags.aligned:
        raise CoreError(f"an array of {array.dtype} at an address that is no multiple of its size.")
    return place


_spare: dict[int, list[Memory]] = {1 << 20: [], 1 << 22: [], 1 << 24: []}
"""Blocks that nobody uses, by their size: new memory costs as much as a small search."""
_MOST_SPARE = {1 << 20: 6, 1 << 22: 6, 1 << 24: 2}
"""How many of them are kept."""
_LARGE = 1 << 23
"""From so many bytes on, large pages: asking the system for small ones costs more than a search."""


def spare_block(n_bytes: int = 0) -> Memory:
    """Return a block of at least so many bytes, whatever is in it.

    Examples:
        >>> spare_block(1000).n_bytes >= 1000
        True
    """
    for size, blocks in _spare.items():
        if size >= n_bytes:
            # Another thread may have taken the last one.
            try:
                return blocks.pop()
            except IndexError:
                return Memory(size, is_cleared=False)
    return Memory(n_bytes, is_cleared=False)


def give_back(block: Memory) -> None:
    """Let a block be used again that nobody looks at."""
    spare = _spare.get(block.n_bytes)
    if spare is not None and len(spare) < _MOST_SPARE[block.n_bytes]:
        spare.append(block)


class GrowingArray:
    """Rows that are written through an address, as many as there turn out to be.

    They are pages of the system, which take room only where they have been written to, and which
    grow without being copied where the system can do that.

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
        self._pages = _pages(self._n_bytes(n_rows))

    def _n_bytes(self, n_rows: int) -> int:
        return max(1, n_rows * self._per_row * int(self._kind.itemsize))

    @property
    def address(self) -> int:
        """Where the first row begins."""
        return address(self._pages)

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows in all; what has been written stays."""
        self._pages = _resized(self._pages, self._n_bytes(n_rows))

    def rows(self, n_rows: int) -> AnyArray:
        """Return the first rows, as they are; while they are looked at, nothing may grow."""
        numbers = np.frombuffer(self._pages, self._kind, n_rows * self._per_row)
        return numbers.reshape(n_rows, *self._row_shape)

    def taken(self, n_rows: int) -> AnyArray:
        """Return the first rows; nothing more may be written."""
        self.grow(n_rows)
        return self.rows(n_rows)


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
