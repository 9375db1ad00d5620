"""Validation of arguments: arrays with named sizes, and errors that name the argument.

A public function starts with `sizes = Sizes()` and reads each array with a shape whose axes have
names. The first array with a given name fixes its size. If a later array has a different size, the
error message names both arguments.

Examples:
    >>> sizes = Sizes()
    >>> keys = sizes.floats("keys", [[0, 1], [2, 3]], ("n_keys", "d_k"))
    >>> sizes.floats("values", [[1.0]], ("n_keys", "d_v"))
    Traceback (most recent call last):
        ...
    hardmax.errors.ShapeMismatchError: `values` must have shape (n_keys, d_v) with n_keys = 2
    (as in `keys`); got (1, 1).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isfinite, prod
from typing import Any, Literal, TypeVar

import numpy as np

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.typing import AnyArray, FloatArray, IntArray

Bytes = TypeVar("Bytes", bytes, bytearray)
Infinity = Literal["none", "negative", "positive", "both"]
_FLOAT64 = np.dtype(np.float64)
_SMALL = 4096
_MOST_LAYOUTS = 256


class Sizes:
    """The named sizes that the arguments of one call have fixed so far."""

    def __init__(self, **known: int) -> None:
        self._size: dict[str, int] = dict(known)
        self._source: dict[str, str] = {}

    def __getitem__(self, name: str) -> int:
        return self._size[name]

    def knows(self, axis: str | int) -> bool:
        """Return whether the size of an axis has been fixed."""
        return axis in self._size

    def floats(
        self,
        name: str,
        value: Any,
        shape: tuple[str | int, ...],
        *,
        nonempty: bool | Iterable[str] = True,
        infinity: Infinity = "none",
    ) -> FloatArray:
        """Read `value` as a C-contiguous float64 array of the named shape.

        Args:
            name: The name of the argument, for error messages.
            value: An array-like of real numbers. Integers and narrower floats are accepted if they
                convert exactly.
            shape: One entry per axis: a size, or a name that has the same size in every array.
            nonempty: True if no axis may be empty, or the names of the axes that may not be empty.
            infinity: The infinities that are allowed. NaN is never allowed.

        Raises:
            DtypeError: If the entries are not real numbers, or are not representable as float64.
            ShapeMismatchError: If the array has the wrong shape.
            EmptyInputError: If an axis is empty that must not be empty.
            NonFiniteError: If the array contains NaN or an infinity that is not allowed.
        """
        array = _exact_float64(name, value)
        self.bind(name, array.shape, shape, nonempty)
        _refuse_non_finite(name, array, infinity)
        return array

    def ints(
        self,
        name: str,
        value: Any,
        shape: tuple[str | int, ...],
        *,
        nonempty: bool | Iterable[str] = True,
    ) -> IntArray:
        """Read `value` as a C-contiguous int64 array of the named shape (see `floats`).

        Raises:
            DtypeError: If the entries are not integers, or an entry does not fit int64.
        """
        array = _real_array(name, value)
        if array.size and array.dtype.kind not in "iu":
            raise DtypeError(f"`{name}` must hold integers; got dtype {array.dtype}.")
        self.bind(name, array.shape, shape, nonempty)
        return prepare_array(array, np.int64, name)

    def bind(
        self,
        name: str,
        got: tuple[int, ...],
        shape: tuple[str | int, ...],
        nonempty: bool | Iterable[str] = True,
    ) -> None:
        """Check the shape of an array against a named shape, and record the sizes it fixes."""
        known, fits = self._size, len(got) == len(shape)
        for axis, size in zip(shape, got, strict=False):
            if isinstance(axis, int):
                fits = fits and axis == size
            elif axis not in known:
                known[axis], self._source[axis] = size, name
            elif known[axis] != size:
                fits = False
        if not fits:
            # Do not report sizes that this array itself has fixed.
            for axis in [axis for axis, source in self._source.items() if source == name]:
                del known[axis], self._source[axis]
            raise ShapeMismatchError(
                f"`{name}` must have shape {self._format(shape)}; got {_format_shape(got)}."
            )
        if 0 in got:
            needed = set(shape) if nonempty is True else set(nonempty or ())
            for size, axis in zip(got, shape, strict=True):
                if size == 0 and axis in needed:
                    raise EmptyInputError(
                        f"`{name}` must have {axis} >= 1 in its shape {_format_shape(shape)}; "
                        f"got {_format_shape(got)}."
                    )

    def _format(self, shape: tuple[str | int, ...]) -> str:
        """Format the required shape, with the sizes that are already known."""
        known = [
            f"{axis} = {self._size[axis]}"
            + (f" (as in `{self._source[axis]}`)" if axis in self._source else "")
            for axis in dict.fromkeys(shape)
            if isinstance(axis, str) and axis in self._size
        ]
        return _format_shape(shape) + (f" with {', '.join(known)}" if known else "")


class ArrayGroup:
    """The names and shapes of the arrays of a model, which are read and copied together.

    Args:
        arrays: For each array, its name and its shape (see `Sizes.floats`).

    Examples:
        >>> affine = ArrayGroup(("weight", ("dim_in", "dim_out")), ("bias", ("dim_out",)))
        >>> weight, bias = affine.read([[1, 2]], None)
        >>> weight.tolist(), bias.tolist(), weight.flags.writeable
        ([[1.0, 2.0]], [0.0, 0.0], False)
    """

    def __init__(self, *arrays: tuple[str, tuple[str | int, ...]]) -> None:
        self._arrays = arrays
        # Start, end and shape of each array in the common memory, by the shapes of the inputs.
        self._layouts: dict[tuple[Any, ...], list[tuple[int, int, tuple[int, ...]]]] = {}

    def read(self, *values: Any) -> list[FloatArray]:
        """Read arrays as `Sizes.floats` does, and return read-only copies.

        The copies are contiguous in memory and are checked together.

        Args:
            values: The arrays, or None for zeros of a shape that the earlier arrays determine.
        """
        arrays: Sequence[Any] = values
        # The shapes of float64 arrays. This is a fast path: models are read by the thousand.
        shapes = tuple(
            [x.shape if type(x) is np.ndarray and x.dtype is _FLOAT64 else None for x in values]
        )
        if None in shapes:
            named = zip(values, self._arrays, strict=True)
            arrays = [None if x is None else _exact_float64(name, x) for x, (name, _) in named]
            shapes = tuple([None if array is None else array.shape for array in arrays])
        layout = self._layouts.get(shapes) or self._lay_out(shapes)
        if None in shapes:
            laid_out = zip(arrays, layout, strict=True)
            arrays = [np.zeros(shape) if x is None else x for x, (_, _, shape) in laid_out]
        together = np.frombuffer(join_bytes(arrays, b""))
        if not _are_finite(together):
            for array, (name, _) in zip(arrays, self._arrays, strict=True):
                _refuse_non_finite(name, array, "none")
        return [together[start:end].reshape(shape) for start, end, shape in layout]

    def _lay_out(self, shapes: tuple[Any, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
        """Check the shapes, and return the start, the end and the shape of each array."""
        sizes, layout, start = Sizes(), [], 0
        for given, (name, axes) in zip(shapes, self._arrays, strict=True):
            shape = given
            if shape is None:
                # Only an array can determine the size of such an axis.
                if not all(sizes.knows(axis) for axis in axes):
                    _exact_float64(name, None)
                shape = tuple(sizes[str(axis)] for axis in axes)
            sizes.bind(name, shape, axes)
            layout.append((start, start + prod(shape), shape))
            start += prod(shape)
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[shapes] = layout
        return layout


def join_bytes(arrays: Sequence[Any], empty: Bytes) -> Bytes:
    """Return the concatenated bytes of arrays, in a fraction of the time that numpy takes.

    Args:
        arrays: Arrays of the same dtype.
        empty: An empty object of the required type, `b""` or `bytearray()`.

    Examples:
        >>> list(join_bytes([np.array([1, 2], np.int8), np.array([[3]], np.int8)], b""))
        [1, 2, 3]
    """
    try:
        return empty.join(arrays)
    except TypeError:
        # Some arrays are not contiguous.
        return empty.join([array.tobytes() for array in arrays])


def floats(
    name: str,
    value: Any,
    shape: tuple[str | int, ...],
    *,
    nonempty: bool | Iterable[str] = True,
    infinity: Infinity = "none",
) -> FloatArray:
    """Read a single array (see `Sizes.floats`)."""
    return Sizes().floats(name, value, shape, nonempty=nonempty, infinity=infinity)


def floats_any_shape(name: str, value: Any, *, infinity: Infinity = "none") -> FloatArray:
    """Read an array of any shape, including a scalar (see `Sizes.floats`)."""
    array = _exact_float64(name, value)
    _refuse_non_finite(name, array, infinity)
    return array


@lru_cache(maxsize=64)
def read_only_zeros(n: int) -> FloatArray:
    """Return a read-only array of `n` zeros."""
    return read_only_copy(np.zeros(n))


def read_only_copy(array: FloatArray) -> FloatArray:
    """Return a read-only copy, for storage in a frozen dataclass."""
    copy = array.copy()
    copy.setflags(write=False)
    return copy


def prepare_array(array: AnyArray, dtype: Any = np.float64, name: str = "array") -> AnyArray:
    """Return an array in the form that compiled code reads: C-contiguous, aligned, of one dtype.

    If the array already has this form, it is returned itself, and otherwise a copy. A buffer that
    was read from a file may be unaligned, which `np.ascontiguousarray` does not change.

    Args:
        array: The array, with at least one axis.
        dtype: The dtype in the compiled code.
        name: The name of the argument, for error messages.

    Raises:
        DtypeError: If an integer does not fit the dtype.

    Examples:
        >>> prepare_array(np.array([1, 2**40]), np.int32, "codes")
        Traceback (most recent call last):
            ...
        hardmax.errors.DtypeError: `codes` must hold integers that fit int32; got 1099511627776.
    """
    result = np.ascontiguousarray(array, dtype=dtype)
    if not result.flags.aligned:
        result = result.copy()
    if result.dtype.kind in "iu" and not np.can_cast(array.dtype, result.dtype):
        limits = np.iinfo(result.dtype)
        wrong = (array < limits.min) | (array > limits.max)
        if wrong.any():
            raise DtypeError(
                f"`{name}` must hold integers that fit {result.dtype}; got {array[wrong].flat[0]}."
            )
    return result


def number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    infinity: Infinity = "none",
) -> float:
    """Read one real number within limits; bool is not accepted.

    Examples:
        >>> number("tau", -1, at_least=0)
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `tau` must be at least 0; got -1.0.
    """
    if isinstance(value, bool | np.bool_):
        raise DtypeError(f"`{name}` must be a number; got {value!r}.")
    array = floats_any_shape(name, value, infinity=infinity)
    if array.ndim:
        raise ShapeMismatchError(
            f"`{name}` must be one number; got shape {_format_shape(array.shape)}."
        )
    result = float(array)
    if at_least is not None and not result >= at_least:
        raise ArgumentError(f"`{name}` must be at least {at_least}; got {result}.")
    if above is not None and not result > above:
        raise ArgumentError(f"`{name}` must be above {above}; got {result}.")
    return result


def integer(
    name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None
) -> int:
    """Read one integer within limits; bool and float are not accepted."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise DtypeError(f"`{name}` must be an integer; got {value!r}.")
    result = int(value)
    if at_least is not None and result < at_least:
        raise ArgumentError(f"`{name}` must be at least {at_least}; got {result}.")
    if at_most is not None and result > at_most:
        raise ArgumentError(f"`{name}` must be at most {at_most}; got {result}.")
    return result


def choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """Read one of several allowed strings."""
    options = list(allowed)
    if value not in options:
        raise ArgumentError(f"`{name}` must be one of {', '.join(options)}; got {value!r}.")
    return value


def _real_array(name: str, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise ShapeMismatchError(f"`{name}` must be a rectangular array; {ragged}.") from None
    if array.dtype.kind not in "biuf":
        raise DtypeError(
            f"`{name}` must hold real numbers that convert exactly to float64; "
            f"got dtype {array.dtype}."
        )
    return array


def _exact_float64(name: str, value: Any) -> FloatArray:
    if type(value) is np.ndarray and value.dtype is _FLOAT64:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value
    array = _real_array(name, value)
    with np.errstate(over="ignore"):
        result = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
    # A comparison in the wider type is exact; NaN is found by the finiteness check. Integers are
    # compared as Python integers, because the comparison of int64 with float64 itself rounds.
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        exact = (
            all(int(f) == int(i) for f, i in zip(result.flat, array.flat, strict=True))
            if (array.size and max(abs(int(array.max())), abs(int(array.min()))) > 2**53)
            else True
        )
    elif array.dtype.itemsize > 8:
        exact = bool(np.all((result == array) | np.isnan(array)))
    else:
        exact = True
    if not exact:
        raise DtypeError(
            f"`{name}` must convert to float64 exactly; got {array.dtype} values that would be "
            "rounded."
        )
    return result


def _are_finite(array: FloatArray) -> bool:
    # If the sum of squares is finite, all numbers are finite; the converse fails, because the sum
    # can overflow. The sum is faster for small arrays. For large arrays BLAS would use threads.
    is_small = array.size <= _SMALL
    return (is_small and isfinite(np.vdot(array, array))) or bool(np.isfinite(array).all())


def _refuse_non_finite(name: str, array: FloatArray, infinity: Infinity) -> None:
    if _are_finite(array):
        return
    if np.isnan(array).any():
        if not array.ndim:
            raise NonFiniteError(f"`{name}` must be a number; got NaN.")
        where = _format_shape(np.argwhere(np.isnan(array))[0].tolist())
        raise NonFiniteError(f"`{name}` must not hold NaN; found one at index {where}.")
    for sign, word in ((np.inf, "positive"), (-np.inf, "negative")):
        if infinity not in (word, "both") and (array == sign).any():
            where = _format_shape(np.argwhere(array == sign)[0].tolist())
            raise NonFiniteError(f"`{name}` must not hold {sign}; found one at index {where}.")


def _format_shape(items: Iterable[object]) -> str:
    """Format a shape without quotes around its names: `(n_keys, 2)`."""
    words = [str(item) for item in items]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"
