"""The degree of a counted sequence as a polynomial, computed exactly."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import factorial

from hardmax.errors import ArgumentError


def polynomial_degree(values: Sequence[int]) -> int:
    """Return the degree of the polynomial whose values at consecutive integers are given.

    Args:
        values: At least two more values than the degree, so that some difference must vanish.

    Raises:
        ArgumentError: If the values do not belong to a polynomial of at most this degree, that is,
            if no difference of them is constant.

    Examples:
        >>> polynomial_degree([n**2 + n for n in range(2, 6)]), polynomial_degree([7, 7])
        (2, 0)
        >>> polynomial_degree([2**n for n in range(5)])
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `values` must be values of a polynomial of degree at most 3;
        got [1, 2, 4, 8, 16].
    """
    return _constant_difference(values)[0]


def leading_coefficient(values: Sequence[int]) -> Fraction:
    """Return the leading coefficient of the polynomial of `polynomial_degree`.

    Examples:
        >>> leading_coefficient([n * (n - 1) // 2 for n in range(5)])
        Fraction(1, 2)
    """
    degree, difference = _constant_difference(values)
    return Fraction(difference, factorial(degree))


def _constant_difference(values: Sequence[int]) -> tuple[int, int]:
    row = [int(value) for value in values]
    for degree in range(len(values) - 1):
        if len(set(row)) == 1:
            return degree, row[0]
        row = [after - before for before, after in pairwise(row)]
    raise ArgumentError(
        f"`values` must be values of a polynomial of degree at most {len(values) - 2}; "
        f"got {list(values)}."
    )
