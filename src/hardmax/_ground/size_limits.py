"""Limits on the memory and time that reading a file may take.

Reading a file of n bytes may allocate `BASE_BYTES + BYTES_PER_BYTE * n` bytes. Ordinary files stay
far below this limit: the tensors of a checkpoint need a small multiple of the size of the file. A
graph that repeats, stretches or pads its tensors can need much more memory; such a file is rejected
before the memory is allocated. Steps that take time rather than memory are counted as the number of
bytes that they could have written in this time.
"""

from hardmax.errors import RecordFormatError, SizeLimitError

BASE_BYTES = 1 << 28
BYTES_PER_BYTE = 128
MOST_TENSORS = 100_000
"""Maximum number of tensors in one file; each costs time, however small it is."""
MOST_AXES = 64
"""Maximum number of axes of a tensor, as for NumPy arrays."""


class SizeLimit:
    """A counter of the memory that reading one file needs.

    Args:
        n_file_bytes: The size of the file.
        max_bytes: The limit; None for the default limit for files of this size.

    Examples:
        >>> limit = SizeLimit(1000)
        >>> limit.take(10**8)
        >>> limit.take(10**9)
        Traceback (most recent call last):
            ...
        hardmax.errors.SizeLimitError: reading it would take at least 1,100,000,000 bytes of
        memory; the limit for a file of 1,000 bytes is 268,563,456.
    """

    def __init__(self, n_file_bytes: int, max_bytes: int | None = None) -> None:
        self.n_file_bytes, self.is_given = n_file_bytes, max_bytes is not None
        default = BASE_BYTES + BYTES_PER_BYTE * n_file_bytes
        self.max_bytes = default if max_bytes is None else max_bytes
        self.n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count bytes that are about to be allocated.

        Raises:
            SizeLimitError: If the total exceeds the limit.
        """
        self.n_bytes += max(n_bytes, 0)
        if self.n_bytes > self.max_bytes:
            allowed = (
                f"`max_bytes` is {self.max_bytes:,}"
                if self.is_given
                else f"the limit for a file of {self.n_file_bytes:,} bytes is {self.max_bytes:,}"
            )
            raise SizeLimitError(
                f"reading it would take at least {_format_size(self.n_bytes)} bytes of memory; "
                f"{allowed}."
            )


def check_tensor_count(n_tensors: int) -> None:
    """Raise an error if a file has more than `MOST_TENSORS` tensors."""
    if n_tensors > MOST_TENSORS:
        raise RecordFormatError(
            f"the file must have at most {MOST_TENSORS:,} tensors; got {_format_size(n_tensors)}."
        )


def _format_size(n: int) -> str:
    """Format a size; products of sizes from a file can have thousands of digits."""
    return f"{n:,}" if n < 1 << 80 else f"2^{n.bit_length() - 1}"
