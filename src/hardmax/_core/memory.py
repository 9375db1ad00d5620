"""Memory blocks that the core uses, and arrays that it fills and that grow without copying."""

import mmap
from contextlib import suppress
from ctypes import addressof, c_char
from math import prod
from typing import Any

import numpy as np

from hardmax.errors import CoreError
from hardmax.typing import AnyArray

_BOUNDARY = 64


class MemoryBlock:
    """A block of bytes with the alignment that the core requires.

    Attributes:
        n_bytes: The size of the block.
        address: The address of the first byte.
        bytes: The bytes, shape `(n_bytes,)`.
        notes: Facts about previous uses of the block, for its next user.
    """

    def __init__(self, n_bytes: int, *, is_cleared: bool = True) -> None:
        """Allocate `n_bytes`, set to zero if `is_cleared`; untouched pages use no memory."""
        self.n_bytes = n_bytes
        allocate = np.zeros if is_cleared else np.empty
        block = allocate(n_bytes + _BOUNDARY, dtype=np.uint8)
        origin = address(block)
        start = -origin % _BOUNDARY
        self.bytes: AnyArray = block[start : start + n_bytes]
        self.address = origin + start
        self.notes: dict[Any, Any] = {}

    def copy_array(self, at: int, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """Return a copy of an array that the core has stored in this block at an address."""
        return np.ndarray(shape, dtype, self.bytes, at - self.address).copy()


def address(array: Any) -> int:
    """Return the address of the first number of an array that the core may read or write.

    Raises:
        CoreError: If the numbers of the array are not aligned (see `prepare_array`).
    """
    try:
        place = addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):
        # The array is read-only, empty or not contiguous. This takes four times as long.
        place = int(array.ctypes.data)
    # Nearly all arrays start at a multiple of eight, so that the slow check is not needed.
    if place % 8 and not array.flags.aligned:
        raise CoreError(f"an array of {array.dtype} is not aligned in memory.")
    return place


_spare: dict[int, list[MemoryBlock]] = {1 << 20: [], 1 << 22: [], 1 << 24: []}
"""Unused blocks by size, kept because allocating new memory costs as much as a small search."""
_MOST_SPARE = {1 << 20: 6, 1 << 22: 6, 1 << 24: 2}
"""Maximum number of unused blocks of each size."""
_LARGE = 1 << 23
"""Size in bytes from which huge pages are used: small pages would cost more than a search."""


def borrow_block(n_bytes: int = 0) -> MemoryBlock:
    """Return a block of at least `n_bytes` bytes with arbitrary content (see `release_block`).

    Examples:
        >>> borrow_block(1000).n_bytes >= 1000
        True
    """
    for size, blocks in _spare.items():
        if size >= n_bytes:
            # Another thread may have taken the last block.
            try:
                return blocks.pop()
            except IndexError:
                return MemoryBlock(size, is_cleared=False)
    return MemoryBlock(n_bytes, is_cleared=False)


def release_block(block: MemoryBlock) -> None:
    """Return a block to the pool; the caller must not use it any more."""
    spare = _spare.get(block.n_bytes)
    if spare is not None and len(spare) < _MOST_SPARE[block.n_bytes]:
        spare.append(block)


class GrowingArray:
    """An array whose rows are written through an address, and whose length is not known beforehand.

    Its memory consists of pages of the operating system, which use physical memory only where they
    have been written to. They grow without being copied if the system supports this.

    Args:
        kind: The dtype.
        row_shape: The shape of a row.
        n_rows: The initial capacity in rows.

    Examples:
        >>> rows = GrowingArray(np.int64, (2,), 3)
        >>> rows.grow(10**6)
        >>> rows.finish(2).shape
        (2, 2)
    """

    def __init__(self, kind: Any, row_shape: tuple[int, ...], n_rows: int) -> None:
        self._kind, self._row_shape = np.dtype(kind), row_shape
        self._per_row = prod(row_shape)
        self._pages = _allocate_pages(self._n_bytes(n_rows))

    def _n_bytes(self, n_rows: int) -> int:
        return max(1, n_rows * self._per_row * int(self._kind.itemsize))

    @property
    def address(self) -> int:
        """The address of the first row."""
        return address(self._pages)

    def grow(self, n_rows: int) -> None:
        """Change the capacity to `n_rows` rows in total; the content is kept."""
        self._pages = _resize(self._pages, self._n_bytes(n_rows))

    def rows(self, n_rows: int) -> AnyArray:
        """Return a view of the first rows; the array must not grow while the view is in use."""
        numbers = np.frombuffer(self._pages, self._kind, n_rows * self._per_row)
        return numbers.reshape(n_rows, *self._row_shape)

    def finish(self, n_rows: int) -> AnyArray:
        """Return the first rows and release the rest; no more rows may be written."""
        self.grow(n_rows)
        return self.rows(n_rows)


def _allocate_pages(n_bytes: int) -> mmap.mmap:
    """Allocate pages of the system; private ones if possible, because shared pages cannot grow."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, n_bytes)
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if n_bytes >= _LARGE:
        _request_huge_pages(pages)
    return pages


def _request_huge_pages(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A system without huge pages raises an error.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)


def _resize(pages: mmap.mmap, n_bytes: int) -> mmap.mmap:
    """Return pages of another size with the same content."""
    try:
        grows_large = len(pages) < _LARGE <= n_bytes
        pages.resize(n_bytes)
        if grows_large:
            _request_huge_pages(pages)
    except (SystemError, ValueError, OSError):
        # Not every system can resize pages.
        kept = min(len(pages), n_bytes)
        new = _allocate_pages(n_bytes)
        new[:kept] = pages[:kept]
        return new
    return pages
