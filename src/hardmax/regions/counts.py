"""Counts: an integer if every cell is known, otherwise a lower bound."""

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, TypeAlias

from hardmax._ground.arguments import integer
from hardmax.errors import IncompleteError

Count: TypeAlias = Any
"""An `int` if the search is complete, otherwise an `AtLeast`. The type is not a union, because the
count of a search without limits is a number, and callers need not prove that to a type checker."""


@dataclass(frozen=True, repr=False)
class AtLeast:
    r"""An unknown count $n \ge$ `lower`, from a search that was stopped early.

    An `AtLeast` is not a number and cannot become one by accident: it supports neither `int(...)`
    nor arithmetic, and it is neither an index nor a length. A comparison returns True if it holds
    for every $n \ge$ `lower`, False if it holds for none, and raises `IncompleteError` otherwise.
    Equality compares the bounds, not the unknown $n$: two objects are equal if their lower bounds
    are equal, and an `AtLeast` never equals a number.

    Attributes:
        lower: The lower bound, an integer.

    Examples:
        >>> count = AtLeast(3)
        >>> count, f"{count} cells", f"{AtLeast(12345):,} cells"
        (at least 3, 'at least 3 cells', 'at least 12,345 cells')
        >>> count >= 2, count < 3, count == 3
        (True, False, False)
        >>> count >= 4
        Traceback (most recent call last):
        ...
        hardmax.errors.IncompleteError: `count` cannot be compared with 4: it is at least 3, because
        the search was stopped early. Compare its lower bound, `count.lower`, instead.
        >>> count + 1
        Traceback (most recent call last):
        ...
        TypeError: unsupported operand type(s) for +: 'AtLeast' and 'int'
    """

    lower: int

    __array_ufunc__ = None  # NumPy scalars then leave comparisons to this class.

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", integer("lower", self.lower, at_least=0))

    def __repr__(self) -> str:
        return f"at least {self.lower}"

    def __format__(self, spec: str) -> str:
        return f"at least {self.lower:{spec}}"

    def __bool__(self) -> bool:
        return bool(self > 0)

    def __ge__(self, other: object) -> Any:
        return self._reaches(other, strictly=False)

    def __gt__(self, other: object) -> Any:
        return self._reaches(other, strictly=True)

    def __lt__(self, other: object) -> Any:
        reaches = self._reaches(other, strictly=False)
        return reaches if reaches is NotImplemented else not reaches

    def __le__(self, other: object) -> Any:
        exceeds = self._reaches(other, strictly=True)
        return exceeds if exceeds is NotImplemented else not exceeds

    def _reaches(self, other: object, strictly: bool) -> Any:
        """Return whether every possible count is at least (or above) a number; raise if unknown."""
        if not isinstance(other, Real | AtLeast):
            return NotImplemented
        if isinstance(other, Real):
            if self.lower > other or (self.lower == other and not strictly):
                return True
            if other == inf:
                return False
        raise IncompleteError(
            f"`count` cannot be compared with {other}: it is {self}, because the search was "
            "stopped early. Compare its lower bound, `count.lower`, instead."
        )


def as_count(n_found: int, is_complete: bool) -> Count:
    """Return the number found if the search is complete, otherwise an `AtLeast`.

    Examples:
        >>> as_count(7, True), as_count(7, False)
        (7, at least 7)
    """
    return n_found if is_complete else AtLeast(n_found)
