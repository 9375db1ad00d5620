"""A check that refuses models that are too large, before any memory is allocated."""

from hardmax.errors import SizeLimitError

MOST_NUMBERS = 2**28
"""The maximum number of float64 numbers that a construction stores: 2 GiB."""

OBJECT_NUMBERS = 256
"""The overhead of a head, a block or an array, in units of one number."""


def refuse_size(n_numbers: int, **sizes: int) -> None:
    """Raise an error if a construction would store more than `MOST_NUMBERS` numbers.

    Args:
        n_numbers: The approximate number of numbers to store.
        sizes: The arguments that determine this number, for the error message.

    Raises:
        SizeLimitError: If the construction is too large.

    Examples:
        >>> refuse_size(2**40, dim=10**6, n_heads=10**6)
        Traceback (most recent call last):
            ...
        hardmax.errors.SizeLimitError: `dim` = 1000000 and `n_heads` = 1000000 require about 2^40
        numbers, more than the limit of 2^28. Choose smaller sizes.
    """
    if n_numbers > MOST_NUMBERS:
        words = [f"`{name}` = {size}" for name, size in sizes.items()]
        listed = ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]
        verb = "requires" if len(words) == 1 else "require"
        raise SizeLimitError(
            f"{listed} {verb} about 2^{(n_numbers - 1).bit_length()} numbers, more than the "
            f"limit of 2^{MOST_NUMBERS.bit_length() - 1}. Choose smaller sizes."
        )
