"""Every exception of the library.

A message names the argument in backticks, the requirement, what came, and what to do next where
that is known. Each class also derives from the built-in exception a caller would expect, so
`except ValueError` keeps working.
"""

from typing import Any

# The class all derive from is `hardmax.HardmaxError`.
__all__ = [
    "ArgumentError",
    "CoreError",
    "DiscontinuityError",
    "DtypeError",
    "EmptyInputError",
    "IncompleteError",
    "Interrupted",
    "MissingExtraError",
    "NonFiniteError",
    "PositiveCycleError",
    "RecordFormatError",
    "ShapeMismatchError",
    "SizeLimitError",
    "TaskError",
]


class HardmaxError(Exception):
    """Anything the library refuses to do.

    Examples:
        >>> import hardmax as hm
        >>> try:
        ...     hm.Box([1.0], [0.0])
        ... except HardmaxError as error:
        ...     print(error)
        `low` must be below `high` in every coordinate; got low[0] = 1.0 and high[0] = 0.0.
    """


class ArgumentError(HardmaxError, ValueError):
    """A value lies outside what the argument allows."""


class ShapeMismatchError(ArgumentError):
    """An array has the wrong number of axes, or disagrees with another array about a size."""


class EmptyInputError(ArgumentError):
    """An array has no entries along an axis that needs at least one."""


class NonFiniteError(ArgumentError):
    """An array holds NaN, or an infinity where none is allowed."""


class DiscontinuityError(ArgumentError):
    """A function that must be continuous jumps; the message names the place and both values."""


class IncompleteError(ArgumentError):
    """All cells are needed, but the search for them was stopped early."""


class DtypeError(HardmaxError, TypeError):
    """A value cannot be read as float64 (or int64) without losing something."""


class PositiveCycleError(ArgumentError):
    """A Kleene star diverges: some cycle has a weight better than the tropical one."""


class SizeLimitError(HardmaxError):
    """A computation was refused before it started, because its result would be too large."""


class RecordFormatError(HardmaxError, ValueError):
    """A stored record cannot be read back."""


class MissingExtraError(HardmaxError, ImportError):
    """An optional dependency is needed and not installed."""


class CoreError(HardmaxError, ImportError):
    """The compiled core is missing, of another version, or cannot compute exactly here."""


class TaskError(HardmaxError, RuntimeError):
    """Parts of a search failed again and again; the message names their paths."""


class Interrupted(HardmaxError, KeyboardInterrupt):  # noqa: N818 (not an error)
    """Ctrl-C ended a computation; what it had found until then is not lost.

    It is a `KeyboardInterrupt`, so a script that does not expect it stops.

    Attributes:
        partial: What was found: of a search for cells the `Partition` so far, of a question to a
            partition that partition; None if nothing had begun.

    Examples:
        >>> try:
        ...     raise Interrupted("the search was interrupted", partial=["a cell"])
        ... except KeyboardInterrupt as stop:
        ...     print(stop, stop.partial)
        the search was interrupted ['a cell']
    """

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial
