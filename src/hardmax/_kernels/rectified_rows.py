r"""Rows of ReLU pre-activations along a line, as forms: what follows them. No checks.

Row $i$ holds forms $s_j t + c_j$ on an interval, as floats with $|\hat s_j - s_j| \le A_i
\omega_j$ and $|\hat c_j - c_j| \le A'_i \omega_j + \beta_i |b_j|$, as is proved in
`hardmax.regions.rectified_maps`. Bounds are raised by `RAISE`, more than their own rounding, and by
`TINY`, more than every underflow.
"""

import numba
import numpy as np

from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

UNIT = 2.0**-53
RAISE = 1.0 + 2.0**-20
TINY = 2.0**-1000
FLOOR = 2.0**-480
"""Squares of numbers that are not smaller do not underflow."""


@numba.njit(cache=True)
def switched_rows(
    rows: FloatArray, states: AnyArray, switched: FloatArray, norms: FloatArray, n_on: IntArray
) -> None:
    """Write the rows with units that are off set to 0, and their sizes.

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
                if states[i, j]:
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
