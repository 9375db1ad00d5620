"""Array aliases: which numbers an array holds. Shapes are named in docstrings."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
SignArray: TypeAlias = NDArray[np.int8]
"""Entries -1, 0, +1."""
WideArray: TypeAlias = NDArray[np.object_]
"""Python integers of any size, or rationals."""
AnyArray: TypeAlias = NDArray[Any]

__all__ = [
    "AnyArray",
    "ArrayLike",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "SignArray",
    "WideArray",
]
