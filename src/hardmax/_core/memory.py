"""Memory that is lent to the core."""

from ctypes import addressof, c_char
from typing import Any

import numpy as np

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
