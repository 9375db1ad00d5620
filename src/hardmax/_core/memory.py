"""Memory that is lent to the core."""

from ctypes import addressof, c_char
from typing import Any

import numpy as np

_BOUNDARY = 64


class Memory:
    """A block of bytes on a boundary that the core asks for.

    Attributes:
        address: Where it begins.
    """

    def __init__(self, n_bytes: int) -> None:
        """Allocate `n_bytes` zeros; pages that nobody touches take no room."""
        self._bytes = np.zeros(n_bytes + _BOUNDARY, dtype=np.uint8)
        self.address = -(-address(self._bytes) // _BOUNDARY) * _BOUNDARY


def address(array: Any) -> int:
    """Return the address of the first number of a contiguous array."""
    try:
        return addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):
        # Read-only, or empty; this takes four times as long.
        return int(array.ctypes.data)
