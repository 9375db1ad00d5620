r"""Rows of ReLU pre-activations along a line: their signs, zeros and what follows them. No checks.

Row $i$ holds forms $s_j t + c_j$ on an interval, as floats with $|\hat s_j - s_j| \le A_i
\omega_j$ and $|\hat c_j - c_j| \le A'_i \omega_j + \beta_i |b_j|$, as is proved in
`hardmax.regions.rectified_lines`. A radius is exactly 0 where its factors are; otherwise it is
raised by `RAISE`, more than its own rounding, and by `TINY`, more than every underflow.
"""

import numba
import numpy as np

from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

UNIT = 2.0**-53
RAISE = 1.0 + 2.0**-20
TINY = 2.0**-1000
FLOOR = 2.0**-480
"""Squares of numbers that are not smaller do not underflow."""

LEFT, RIGHT = 1, 2
"""Bits of a state: whether a unit is on at the left and at the right end."""


@numba.njit(cache=True)
def _radius(scale: float, omega: float, beta: float, bias: float) -> float:
    if (scale == 0.0 or omega == 0.0) and bias == 0.0:
        return 0.0
    return (scale * omega + beta * bias) * RAISE + TINY


@numba.njit(cache=True)
def _known_sign(
    s: float, r_s: float, c: float, r_c: float, t: float, r_t: float, side: float
) -> int:
    """The sign of a form at an end of its interval, 2 if floats do not know it."""
    if s == 0.0 and r_s == 0.0:
        value, radius = c, r_c
        if c == 0.0 and r_c == 0.0:
            return 0
    elif np.isinf(t):
        value, radius = side * s, r_s
    else:
        product = s * t
        value = product + c
        radius = r_s * (abs(t) + r_t) + abs(s) * r_t + r_c
        radius = (radius + 4.0 * UNIT * (abs(product) + abs(c))) * RAISE + TINY
    if value > radius:
        return 1
    if value < -radius:
        return -1
    return 2


@numba.njit(cache=True)
def find_states(
    rows: FloatArray,
    scales: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    ends: FloatArray,
    states: AnyArray,
    n_zeros: IntArray,
    is_open: BoolArray,
) -> None:
    r"""Find which units are on at both ends of each row.

    Args:
        rows: Slopes and offsets, shape `(2, n, n_units)`.
        scales: The $A$, $A'$ and $\beta$ of each row, shape `(n, 3)`.
        omega: The norm of the weights of each unit.
        bias: The size of the bias of each unit.
        ends: Left end, its radius, right end, its radius; shape `(4, n)`.
        states: Shape `(n, n_units)`, overwritten with bits; a form that is 0 is off.
        n_zeros: Shape `(n,)`, overwritten: how many units change in the interval.
        is_open: Shape `(n,)`, overwritten: whether floats leave a sign open.
    """
    n, n_units = states.shape
    for i in range(n):
        count = 0
        is_open[i] = False
        low, high = ends[0, i], ends[2, i]
        near, far = max(ends[1, i], ends[3, i]), max(abs(low), abs(high))
        from_slope = scales[i, 0] * (far + near) * RAISE
        for j in range(n_units):
            s, c = rows[0, i, j], rows[1, i, j]
            # One radius for both ends settles nearly all; at infinity it is infinite or NaN.
            at_low, at_high = s * low + c, s * high + c
            radius = (from_slope + scales[i, 1]) * omega[j] + scales[i, 2] * bias[j]
            radius += abs(s) * (near + 4.0 * UNIT * far) + 4.0 * UNIT * abs(c)
            radius = radius * RAISE + TINY
            if abs(at_low) > radius and abs(at_high) > radius:
                left_on, right_on = at_low > 0.0, at_high > 0.0
                states[i, j] = LEFT * left_on + RIGHT * right_on
                count += left_on != right_on
                continue
            r_s = _radius(scales[i, 0], omega[j], 0.0, 0.0)
            r_c = _radius(scales[i, 1], omega[j], scales[i, 2], bias[j])
            left = _known_sign(s, r_s, c, r_c, ends[0, i], ends[1, i], -1.0)
            right = _known_sign(s, r_s, c, r_c, ends[2, i], ends[3, i], 1.0)
            if left == 2 or right == 2:
                is_open[i] = True
                break
            states[i, j] = (LEFT if left == 1 else 0) + (RIGHT if right == 1 else 0)
            if left != right:
                count += 1
        n_zeros[i] = 0 if is_open[i] else count


@numba.njit(cache=True)
def find_zeros(
    rows: FloatArray,
    scales: FloatArray,
    omega: FloatArray,
    bias: FloatArray,
    states: AnyArray,
    starts: IntArray,
    units: IntArray,
    zeros: FloatArray,
    is_open: BoolArray,
) -> None:
    r"""Find where units change, from left to right in each row.

    The zero of $s t + c$ is known to $(r_c + |t| r_s) / (|s| - r_s) + 4u|t|$.

    Args:
        rows: As for `find_states`, as are the next three.
        scales: Same.
        omega: Same.
        bias: Same.
        states: What `find_states` found.
        starts: The zeros of row $i$ go to `starts[i]` up to `starts[i + 1]`.
        units: Overwritten with the unit of each zero.
        zeros: Overwritten with the zeros and their radii, shape `(2, n_zeros)`.
        is_open: Rows whose zeros floats cannot find or order are marked.
    """
    n, n_units = states.shape
    for i in range(n):
        first, last = starts[i], starts[i + 1]
        if first == last:
            continue
        k = first
        for j in range(n_units):
            if states[i, j] != LEFT and states[i, j] != RIGHT:
                continue
            s, c = rows[0, i, j], rows[1, i, j]
            r_s = _radius(scales[i, 0], omega[j], 0.0, 0.0) + 2.0 * UNIT * abs(s)
            r_c = _radius(scales[i, 1], omega[j], scales[i, 2], bias[j]) + 2.0 * UNIT * abs(c)
            t = -c / s
            radius = (r_c + abs(t) * r_s) / (abs(s) - r_s) + 4.0 * UNIT * abs(t)
            radius = radius * RAISE + TINY
            if not (abs(s) > 4.0 * r_s and np.isfinite(t + radius)):
                is_open[i] = True
                break
            units[k], zeros[0, k], zeros[1, k] = j, t, radius
            k += 1
        if is_open[i]:
            continue
        order = first + np.argsort(zeros[0, first:last])
        units[first:last] = units[order]
        zeros[0, first:last] = zeros[0, order]
        zeros[1, first:last] = zeros[1, order]
        for k in range(first + 1, last):
            if not zeros[0, k] - zeros[0, k - 1] > (zeros[1, k] + zeros[1, k - 1]) * RAISE:
                is_open[i] = True


@numba.njit(cache=True)
def switched_rows(
    rows: FloatArray, states: AnyArray, switched: FloatArray, norms: FloatArray, n_on: IntArray
) -> None:
    """Write the rows with units that are off at the left end set to 0, and their sizes.

    Args:
        rows: Shape `(2, n, n_units)`.
        states: Shape `(n, n_units)`.
        switched: Same shape as the rows, overwritten.
        norms: Shape `(2, n)`, overwritten with bounds on the Euclidean norms.
        n_on: Shape `(n,)`, overwritten with how many units are on.
    """
    n, n_units = states.shape
    for i in range(n):
        n_on[i] = 0
        for part in range(2):
            total = 0.0
            for j in range(n_units):
                if states[i, j] & LEFT:
                    value = rows[part, i, j]
                    switched[part, i, j] = value
                    if value != 0.0:
                        total += max(abs(value), FLOOR) ** 2
                    n_on[i] += part
                else:
                    switched[part, i, j] = 0.0
            norms[part, i] = np.sqrt(total) * RAISE


@numba.njit(cache=True)
def next_rows(
    before: FloatArray,
    owner: IntArray,
    units: IntArray,
    is_on: BoolArray,
    weight: FloatArray,
    after: FloatArray,
) -> None:
    """Write the rows of parts that follow one another: each is the last one and one unit's share.

    Args:
        before: The rows of the pre-activations the units belong to, shape `(2, n, n_units)`.
        owner: For each part the row it is part of, shape `(n_parts,)`.
        units: For each part the unit that changed at its left end, -1 if its row is there already.
        is_on: Whether that unit is on from there on.
        weight: What a unit adds, shape `(n_units, width)`.
        after: Shape `(2, n_parts, width)`, filled where `units` is -1; the first part is.
    """
    n_parts, width = after.shape[1], after.shape[2]
    for part in range(2):
        for k in range(n_parts):
            u = units[k]
            if u < 0:
                continue
            share = before[part, owner[k], u]
            if not is_on[k]:
                share = -share
            for j in range(width):
                after[part, k, j] = after[part, k - 1, j] + share * weight[u, j]


@numba.njit(cache=True)
def next_scales(
    before: FloatArray,
    errors: FloatArray,
    norms: FloatArray,
    n_on: IntArray,
    owner: IntArray,
    units: IntArray,
    is_on: BoolArray,
    kappa: float,
    state: FloatArray,
    after: FloatArray,
) -> None:
    r"""Carry the bounds of `next_rows`: for each part $(e, e', \rho, \rho', \beta)$.

    Args:
        before: As for `next_rows`, as are `owner`, `units` and `is_on`.
        errors: Bounds on the norms of the errors of the rows, shape `(2, n)`.
        norms: Bounds on the norms of the switched rows, shape `(2, n)`.
        n_on: How many units are on in them.
        owner: Same.
        units: Same.
        is_on: Same.
        kappa: The rounding of a product.
        state: The norms, how many units are on, and the bounds of the part before the first:
            shape `(8,)`, overwritten with those of the last.
        after: Shape `(n_parts, 5)`, overwritten.
    """
    for k in range(len(owner)):
        i = owner[k]
        u = units[k]
        if u < 0:
            state[0], state[1], state[2] = norms[0, i], norms[1, i], n_on[i]
            for part in range(2):
                state[3 + part] = errors[part, i] if n_on[i] else 0.0
                state[5 + part] = kappa * norms[part, i] * RAISE
            state[7] = kappa
        else:
            state[2] += 1.0 if is_on[k] else -1.0
            for part in range(2):
                share = abs(before[part, i, u])
                if share > 0.0:
                    share = max(share, FLOOR)
                if is_on[k]:
                    state[part] = np.sqrt(state[part] ** 2 + share**2) * RAISE
                e, rho = errors[part, i], state[5 + part]
                state[3 + part] = e if state[2] else 0.0
                state[5 + part] = (rho + 8.0 * UNIT * (share + state[part] + e + rho)) * RAISE
            state[7] += 8.0 * UNIT
        for m in range(5):
            after[k, m] = state[3 + m]
