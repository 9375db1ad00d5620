"""The coarsest dyadic grid that holds an array. No checks."""

import math

import numba
import numpy as np

from hardmax.typing import FloatArray


@numba.njit(cache=True)
def grid_exponent(values: FloatArray, coarsest: int) -> int:
    r"""Return the largest $e \le$ `coarsest` with all values in $2^e \mathbb{Z}$.

    Args:
        values: Shape `(n,)`, finite.
        coarsest: The answer for zeros.
    """
    lowest = coarsest
    for value in values:
        if value == 0.0:
            continue
        significand, exponent = math.frexp(value)
        exponent -= 53
        if exponent >= lowest:
            continue
        mantissa = np.int64(significand * 9007199254740992.0)
        while mantissa & 1 == 0:
            mantissa >>= 1
            exponent += 1
        lowest = min(lowest, exponent)
    return lowest
