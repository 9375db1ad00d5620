"""All exceptions of the library.

A message names the argument in backticks, the requirement and the received value, and the next step
if there is one. Most classes also derive from a built-in exception, so that for example
`except ValueError` works as expected.
"""

from typing import Any

# The base class of all exceptions is exported as `hardmax.HardmaxError`.
__all__ = [
    "ArgumentError",
    "CoreError",
    "DiscontinuityError",
    "DtypeError",
    "EmptyInputError",
    "FileError",
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
    """The base class of all exceptions of the library.

    Examples:
        >>> import hardmax as hm
        >>> try:
        ...     hm.Box([1.0], [0.0])
        ... except HardmaxError as error:
        ...     print(error)
        `low` must be below `high` in every coordinate; got low[0] = 1.0 and high[0] = 0.0.
    """


class ArgumentError(HardmaxError, ValueError):
    """An argument has a value that is not allowed.

    Examples:
        >>> import hardmax as hm
        >>> hm.bounds.cells_bias_free(0, 1, 2)
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `n_keys` must be at least 1; got 0.
    """


class ShapeMismatchError(ArgumentError):
    """An array has the wrong number of axes, or a size that does not match another array.

    Examples:
        >>> import hardmax as hm
        >>> hm.Box([0.0, 0.0], [1.0])
        Traceback (most recent call last):
            ...
        hardmax.errors.ShapeMismatchError: `high` must have shape (dim,) with dim = 2 (as in
        `low`); got (1,).
    """


class EmptyInputError(ArgumentError):
    """An array or sequence is empty along an axis that needs at least one entry.

    Examples:
        >>> import hardmax as hm
        >>> hm.HardTransformer([])
        Traceback (most recent call last):
            ...
        hardmax.errors.EmptyInputError: `blocks` must have at least one entry; got none.
    """


class NonFiniteError(ArgumentError):
    """An array contains NaN, or an infinity that is not allowed.

    Examples:
        >>> import hardmax as hm
        >>> hm.PowerDiagram.from_keys([[float("nan"), 0.0]])
        Traceback (most recent call last):
            ...
        hardmax.errors.NonFiniteError: `keys` must not hold NaN; found one at index (0, 0).
    """


class DiscontinuityError(ArgumentError):
    """A function that must be continuous jumps; the message states the place and both values.

    Examples:
        >>> import hardmax as hm
        >>> hm.constructions.approximate(lambda x: 1.0 * (x[:, 0] > 0.25), hm.Box([0], [1]), 40)
        Traceback (most recent call last):
            ...
        hardmax.errors.DiscontinuityError: `f` must be continuous; it jumps by 1, from [1.0] at
        [0.25000000000000006] to [0.0] at [0.25]. No continuous function is closer to it than
        0.5.
    """


class IncompleteError(ArgumentError):
    """An operation needs all cells, but the search for cells was stopped early.

    Examples:
        >>> import hardmax as hm
        >>> net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]), max_cells=2).certificate()
        Traceback (most recent call last):
            ...
        hardmax.errors.IncompleteError: `certificate` needs all cells, but the search was
        stopped early and `n_found` is 2. Search again without a limit.
    """


class DtypeError(HardmaxError, TypeError):
    """A value has the wrong type, or cannot be converted to float64 (or int64) exactly.

    Examples:
        >>> import hardmax as hm
        >>> hm.Box(["a"], [1.0])
        Traceback (most recent call last):
            ...
        hardmax.errors.DtypeError: `low` must hold real numbers that convert exactly to float64; got
        dtype <U1.
    """


class PositiveCycleError(ArgumentError):
    """A Kleene star diverges, because some cycle has a weight better than the tropical unit.

    Examples:
        >>> import hardmax as hm
        >>> hm.maxplus.kleene_star([[-1, 2], [-1, 0]])
        Traceback (most recent call last):
            ...
        hardmax.errors.PositiveCycleError: `matrix` must not have a cycle of positive weight,
        because walks around it have no best weight; the cycle 0 -> 1 -> 0 has weight 1.0.
    """


class SizeLimitError(HardmaxError):
    """A computation was not started, because it would be too large.

    Examples:
        >>> import hardmax as hm
        >>> p = hm.TropicalPolynomial([[0], [1], [3]], [0, 0, 0])
        >>> p.times(p, max_terms=2)
        Traceback (most recent call last):
            ...
        hardmax.errors.SizeLimitError: this tropical product has 3 x 3 = 9 terms, more than
        `max_terms` = 2. Prune the factors or raise `max_terms`.
    """


class RecordFormatError(HardmaxError, ValueError):
    """A stored record or file has an invalid format.

    Examples:
        >>> import hardmax as hm
        >>> hm.Certificate.from_json("{}")
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `text` must be a certificate of format
        'hardmax.certificate/1'; got None.
    """


class FileError(HardmaxError, OSError):
    """A file cannot be written.

    An existing file with this name is unchanged, and no part of a new file remains. The exception
    is also an instance of the class that the system raised (`FileNotFoundError`, ...), with the
    same `errno` and `strerror`, and with `filename`.

    Examples:
        >>> import hardmax as hm
        >>> try:
        ...     hm.save_model(hm.ReluNetwork([[[1.0]]]), "/no/such/folder/model.safetensors")
        ... except FileError as error:
        ...     print(error)
        ...     print(isinstance(error, FileNotFoundError), error.strerror)
        `path` must be a file that can be written; /no/such/folder: No such file or directory.
        True No such file or directory
    """

    @classmethod
    def of(cls, error: OSError, path: str) -> "FileError":
        """Return a `FileError` for a system error that occurred while writing a file or folder."""
        return _file_error(_system_class(error), error.errno, error.strerror or str(error), path)

    def __str__(self) -> str:
        if self.filename is None:
            return str(self.args[0]) if self.args else ""
        return f"`path` must be a file that can be written; {self.filename}: {self.strerror}."

    def __reduce__(self) -> tuple[Any, ...]:
        if self.filename is None:
            return FileError, self.args
        return _file_error, (_system_class(self), self.errno, self.strerror, self.filename)


def _system_class(error: OSError) -> type[OSError]:
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _file_error(kind: type[OSError], *fields: Any) -> FileError:
    """Return a `FileError` that is also an instance of a built-in class of system errors."""
    if kind is OSError:
        return FileError(*fields)
    mixed: type[FileError] = type("FileError", (FileError, kind), {"__module__": __name__})
    return mixed(*fields)


class MissingExtraError(HardmaxError, ImportError):
    """An optional dependency is required but not installed.

    Examples:
        >>> try:
        ...     raise MissingExtraError("run `pip install 'hardmax[dask]'`")
        ... except ImportError as error:
        ...     print(error)
        run `pip install 'hardmax[dask]'`
    """


class CoreError(HardmaxError, ImportError):
    """The compiled core is missing, has the wrong version, or cannot compute exactly here.

    Examples:
        >>> try:
        ...     raise CoreError("the compiled core is missing")
        ... except ImportError as error:
        ...     print(error)
        the compiled core is missing
    """


class TaskError(HardmaxError, RuntimeError):
    """Parts of a search failed repeatedly, or the cluster that runs them has no workers.

    Examples:
        >>> try:
        ...     raise TaskError("1 of 8 jobs failed three times: the cells that begin like [0, 2]")
        ... except RuntimeError as error:
        ...     print(error)
        1 of 8 jobs failed three times: the cells that begin like [0, 2]
    """


class Interrupted(HardmaxError, KeyboardInterrupt):  # noqa: N818 (not an error)
    """Ctrl-C ended a computation; the results so far are available as `partial`.

    This is a `KeyboardInterrupt`, so a script that does not handle it stops.

    Attributes:
        partial: The results so far. For a search for cells this is the incomplete `Partition`. For
            a later computation on a partition it is this partition. None if nothing had begun.

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
