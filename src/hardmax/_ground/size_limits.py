"""The limit on the memory and time that reading a file may take.

A file of n bytes may ask for `BASE_BYTES + BYTES_PER_BYTE * n` bytes. Honest files stay far below:
the tensors of a checkpoint take a small multiple of its own size. A file whose graph repeats,
stretches or pads its tensors asks for more than it brings, and is refused before that is allocated.
Steps that take time rather than memory are counted as the bytes that they could have written.
"""

from hardmax.errors import RecordFormatError, SizeLimitError

BASE_BYTES = 1 << 28
BYTES_PER_BYTE = 128
MOST_TENSORS = 100_000
"""How many tensors one file may hold; each costs time, however small it is."""
MOST_AXES = 64
"""How many axes a tensor may have: as many as a NumPy array."""


class SizeLimit:
    """Counts what reading one file asks for.

    Args:
        n_file_bytes: The size of the file.
        max_bytes: The limit; None for the one that belongs to the size of the file.

    Examples:
        >>> limit = SizeLimit(1000)
        >>> limit.take(10**8)
        >>> limit.take(10**9)
        Traceback (most recent call last):
            ...
        hardmax.errors.SizeLimitError: reading it would take at least 1,100,000,000 bytes of
        memory; a file of 1,000 bytes may take at most 268,563,456.
    """

    def __init__(self, n_file_bytes: int, max_bytes: int | None = None) -> None:
        self.n_file_bytes, self.is_given = n_file_bytes, max_bytes is not None
        default = BASE_BYTES + BYTES_PER_BYTE * n_file_bytes
        self.max_bytes = default if max_bytes is None else max_bytes
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count bytes that are about to be allocated.

        Raises:
            SizeLimitError: If they are more than what is left.
        """
        self.n_bytes += max(n_bytes, 0)
        if self.n_bytes > self.max_bytes:
            allowed = (
                f"`max_bytes` is {self.max_bytes:,}"
                if self.is_given
                else f"a file of {self.n_file_bytes:,} bytes may take at most {self.max_bytes:,}"
            )
            raise SizeLimitError(
                f"reading it would take at least {_spell(self.n_bytes)} bytes of memory; {allowed}."
            )


def check_tensor_count(n_tensors: int) -> None:
    """Raise if a file holds more tensors than are read from one file."""
    if n_tensors > MOST_TENSORS:
        raise RecordFormatError(
            f"it must hold at most {MOST_TENSORS:,} tensors; it holds {_spell(n_tensors)}."
        )


def _spell(n: int) -> str:
    """Write a size; products of sizes from a file can have thousands of digits."""
    return f"{n:,}" if n < 1 << 80 else f"2^{n.bit_length() - 1}"
