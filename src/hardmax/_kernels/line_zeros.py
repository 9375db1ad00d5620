r"""Signs and zeros of forms between two points of a line, from their values there. No checks.

A value $a_j$ has radius $A \omega_j + \beta |b_j|$, exactly 0 where its factors are; otherwise it
is raised by `RAISE`, more than its own rounding, and by `TINY`, more than every underflow. The
points are off from the true ends of the interval by at most $\eta$ of its length. What this proves
is said in `hardmax.regions.rectified_lines`.
"""

import numba
import numpy as np

from hardmax._kernels.rectified_rows import RAISE, TINY, UNIT
from hardmax.typing import FloatArray, IntArray

_WIDEST_BLUR = 0.25
_MOST_INSERTED = 24


@numba.njit(cache=True)
def count_changes(
    left: FloatArray,
    right: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    scale: float,
    beta: float,
    eta: float,
) -> tuple[int, int]:
    """How many units change between two points, and the sum of their numbers.

    The first is -1 if a sign may be in doubt.
    """
    n_changes, n_doubts, total = 0, 0, 0
    for j in range(len(left)):
        a, b = left[j], right[j]
        radius = scale * omega[j] + beta * bias[j] + eta * (abs(a) + abs(b)) + TINY
        n_doubts += not ((abs(a) > radius) & (abs(b) > radius))
        changes = (a > 0.0) != (b > 0.0)
        n_changes += changes
        total += j * changes
    return -1 if n_doubts else n_changes, total


@numba.njit(cache=True)
def _radius(scale: float, omega: float, beta: float, bias: float) -> float:
    if (scale == 0.0 or omega == 0.0) and (beta == 0.0 or bias == 0.0):
        return 0.0
    return (scale * omega + beta * bias) * RAISE + TINY


@numba.njit(cache=True)
def count_carefully(
    left: FloatArray,
    right: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    scales: FloatArray,
    etas: FloatArray,
) -> int:
    """The same with the radii of each end; a form that is 0, or is so at an exact end, is known."""
    n_changes = 0
    for j in range(len(left)):
        a, b = left[j], right[j]
        r_a = _radius(scales[0, 0] + scales[0, 1], omega[j], scales[0, 2], bias[j])
        r_b = _radius(scales[1, 0] + scales[1, 1], omega[j], scales[1, 2], bias[j])
        is_zero_left = a == 0.0 and r_a == 0.0
        is_zero_right = b == 0.0 and r_b == 0.0
        if is_zero_left and is_zero_right:
            continue
        if is_zero_left and etas[0] == 0.0 and abs(b) > r_b:
            continue
        if is_zero_right and etas[1] == 0.0 and abs(a) > r_a:
            continue
        reach = (abs(a) + abs(b) + r_a + r_b) * RAISE
        if not (abs(a) > (r_a + etas[0] * reach) * RAISE):
            return -1
        if not (abs(b) > (r_b + etas[1] * reach) * RAISE):
            return -1
        n_changes += (a > 0.0) != (b > 0.0)
    return n_changes


@numba.njit(cache=True)
def _sort(units: IntArray, parts: FloatArray) -> None:
    """Sort zeros from left to right."""
    n = len(units)
    if n > _MOST_INSERTED:
        order = np.argsort(parts[:, 0])
        units[:] = units[order]
        parts[:] = parts[order]
        return
    for k in range(1, n):
        unit, part, blur = units[k], parts[k, 0], parts[k, 1]
        i = k
        while i > 0 and parts[i - 1, 0] > part:
            units[i], parts[i, 0], parts[i, 1] = units[i - 1], parts[i - 1, 0], parts[i - 1, 1]
            i -= 1
        units[i], parts[i, 0], parts[i, 1] = unit, part, blur


@numba.njit(cache=True)
def find_zero(
    left: FloatArray,
    right: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    scale: float,
    beta: float,
    j: int,
    part: FloatArray,
) -> bool:
    r"""Find where one unit vanishes, as part of the way, and how far off that may be.

    The zero of a form with values $a, b$ of opposite signs, known to $r$, is at $\lambda = |a| / S$
    with $S = |a| + |b|$, known to $(r + 4u|a|) / (S - 2r)$.
    """
    size = abs(left[j]) + abs(right[j])
    radius = (scale * omega[j] + beta * bias[j]) * RAISE + TINY
    part[0] = abs(left[j]) / size
    part[1] = (radius + 4.0 * UNIT * abs(left[j])) / (size - 2.0 * radius) * RAISE + TINY
    return bool(size > 4.0 * radius and size < np.inf)


@numba.njit(cache=True)
def find_zeros(
    left: FloatArray,
    right: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    scale: float,
    beta: float,
    units: IntArray,
    parts: FloatArray,
) -> bool:
    """Find the zeros of all units that change between two points, from left to right."""
    k, is_sure = 0, True
    for j in range(len(left)):
        if k == len(units):
            break
        if (left[j] > 0.0) != (right[j] > 0.0) and left[j] != 0.0 and right[j] != 0.0:
            is_sure &= find_zero(left, right, omega, bias, scale, beta, j, parts[k])
            units[k] = j
            k += 1
    if is_sure and k > 1:
        _sort(units, parts)
    return is_sure


@numba.njit(cache=True)
def find_etas(parts: FloatArray, outer: FloatArray, etas: FloatArray) -> bool:
    """Divide how far ends may be off by the lengths of the parts they bound; False if too far."""
    n = len(parts)
    before, blur = 0.0, outer[0]
    for k in range(n + 1):
        after = parts[k, 0] if k < n else 1.0
        next_blur = parts[k, 1] if k < n else outer[1]
        length = after - before
        if not (length > 0.0 and blur + next_blur < _WIDEST_BLUR * length):
            return False
        etas[k, 0], etas[k, 1] = blur / length * RAISE, next_blur / length * RAISE
        before, blur = after, next_blur
    return True
