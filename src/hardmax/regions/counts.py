"""How many there are: a number where all are known, and else only how many there are at least."""

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, TypeAlias

from hardmax._ground.arguments import integer
from hardmax.errors import IncompleteError

Count: TypeAlias = Any
"""An `int` where all are known, else an `AtLeast`. No union, for where nothing stops a search the
count is a number, and nobody should have to tell the type checker."""


@dataclass(frozen=True, repr=False)
class AtLeast:
    r"""An unknown count $n \ge$ `lower`: what a search that was stopped early can say.

    It is no number, and nothing turns it into one by accident: there is no `int(...)`, no
    arithmetic, and it is no index and no length. A comparison that holds for every $n \ge$ `lower`,
    or for none, is answered; any other is refused. Equality compares what is said, not the unknown
    $n$: two are equal if their lower bounds are, and none equals a number.

    Attributes:
        lower: The lower bound, a whole number.

    Examples:
        >>> count = AtLeast(3)
        >>> count, f"{count} cells", f"{AtLeast(12345):,} cells"
        (at least 3, 'at least 3 cells', 'at least 12,345 cells')
        >>> count >= 2, count < 3, count == 3
        (True, False, False)
        >>> count >= 4
        Traceback (most recent call last):
        ...
        hardmax.errors.IncompleteError: `count` must be known to compare it with 4; it is at least
        3, for the search was stopped early. Its `lower` is a number, and a lower bound.
        >>> count + 1
        Traceback (most recent call last):
        ...
        TypeError: unsupported operand type(s) for +: 'AtLeast' and 'int'
    """

    lower: int

    __array_ufunc__ = None  # NumPy's numbers leave comparisons to this class.

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
        """Say whether every count this can be is at least (or above) a number, if one answer is."""
        if not isinstance(other, Real | AtLeast):
            return NotImplemented
        if isinstance(other, Real):
            if self.lower > other or (self.lower == other and not strictly):
                return True
            if other == inf:
                return False
        raise IncompleteError(
            f"`count` must be known to compare it with {other}; it is {self}, for the search was "
            "stopped early. Its `lower` is a number, and a lower bound."
        )


def as_count(n_found: int, is_complete: bool) -> Count:
    """Return how many there are: the number found if these are all.

    Examples:
        >>> as_count(7, True), as_count(7, False)
        (7, at least 7)
    """
    return n_found if is_complete else AtLeast(n_found)
