"""Formatting of numbers in sentences and on axes."""

from collections.abc import Iterable
from typing import Any


def join_numbers(numbers: Iterable[Any]) -> str:
    """Write numbers as a list in a sentence.

    Examples:
        >>> join_numbers([1, 2.5, 4.0]), join_numbers([3])
        ('1, 2.5 and 4', '3')
    """
    *others, last = (format_count(n) if isinstance(n, int) else f"{n:g}" for n in numbers)
    return f"{', '.join(others)} and {last}" if others else last


def format_count(count: int) -> str:
    r"""Write a count with nonbreaking spaces between thousands.

    Examples:
        >>> format_count(262144)
        '262\xa0144'
    """
    return f"{count:,}".replace(",", "\xa0")


def set_plain_ticks(axis: Any) -> None:
    """Label 1, 2 and 5 in every decade of a logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())
