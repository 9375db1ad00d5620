"""Array aliases: which numbers an array holds. Shapes are named in docstrings.

To a type checker they are what numpy calls them. At run time they are names only, so that `help`
shows `FloatArray` and `ArrayLike`, not the unions these stand for.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray: TypeAlias = NDArray[np.float64]
    IntArray: TypeAlias = NDArray[np.int64]
    BoolArray: TypeAlias = NDArray[np.bool_]
    SignArray: TypeAlias = NDArray[np.int8]
    WideArray: TypeAlias = NDArray[np.object_]
    AnyArray: TypeAlias = NDArray[Any]
else:

    class _Alias(type):
        """A name for a type; what is an instance of that type is one of the name."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.meaning)

    class ArrayLike(metaclass=_Alias):
        """What `numpy.asarray` reads: an array, a number, or nested sequences of numbers.

        Examples:
            >>> isinstance([[1, 2], [3, 4]], ArrayLike)
            True
        """

        meaning = object

    class FloatArray(metaclass=_Alias):
        """An array of float64.

        Examples:
            >>> isinstance(np.zeros(2), FloatArray)
            True
        """

        meaning = np.ndarray

    class IntArray(metaclass=_Alias):
        """An array of int64.

        Examples:
            >>> isinstance(np.arange(3), IntArray)
            True
        """

        meaning = np.ndarray

    class BoolArray(metaclass=_Alias):
        """An array of booleans.

        Examples:
            >>> isinstance(np.array([True]), BoolArray)
            True
        """

        meaning = np.ndarray

    class SignArray(metaclass=_Alias):
        """An array of int8 with entries -1, 0, +1.

        Examples:
            >>> isinstance(np.array([-1, 0, 1], np.int8), SignArray)
            True
        """

        meaning = np.ndarray

    class WideArray(metaclass=_Alias):
        """An array of Python integers of any size, or of rationals.

        Examples:
            >>> isinstance(np.array([2**99], object), WideArray)
            True
        """

        meaning = np.ndarray

    class AnyArray(metaclass=_Alias):
        """An array of anything.

        Examples:
            >>> isinstance(np.array([1.5, 2.0]), AnyArray)
            True
        """

        meaning = np.ndarray


__all__ = [
    "AnyArray",
    "ArrayLike",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "SignArray",
    "WideArray",
]
