"""Models that are too large to build, refused before any memory is asked for."""

from hardmax.errors import SizeLimitError

MOST_NUMBERS = 2**28
"""The most numbers a construction stores: 2 GiB in float64."""

OBJECT_NUMBERS = 256
"""What a head, a block or an array costs beside its numbers, in numbers."""


def refuse_size(n_numbers: int, **sizes: int) -> None:
    """Refuse a construction of more than `MOST_NUMBERS` numbers.

    Args:
        n_numbers: About how many numbers it would store.
        sizes: The arguments that decide how many.

    Raises:
        SizeLimitError: If there are too many.

    Examples:
        >>> refuse_size(2**40, dim=10**6, n_heads=10**6)
        Traceback (most recent call last):
            ...
        hardmax.errors.SizeLimitError: `dim` = 1000000 and `n_heads` = 1000000 need about 2^40
        numbers, more than the 2^28 a construction may store; choose smaller sizes.
    """
    if n_numbers > MOST_NUMBERS:
        words = [f"`{name}` = {size}" for name, size in sizes.items()]
        listed = ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]
        raise SizeLimitError(
            f"{listed} need about 2^{(n_numbers - 1).bit_length()} numbers, more than the "
            f"2^{MOST_NUMBERS.bit_length() - 1} a construction may store; choose smaller sizes."
        )
