r"""Values of a ReLU network at points of a line, layer by layer. No checks.

Rows are the pre-activations of a layer at points $p_0 < p_1 < \dots$; between two of them every
unit is an affine form. What is proved about errors, and where the names come from, is said in
`hardmax.regions.rectified_lines`. A radius is exactly 0 where its factors are; otherwise it is
raised by `RAISE`, more than its own rounding, and by `TINY`, more than every underflow.
"""

import numba
import numpy as np

from hardmax._kernels.line_zeros import (
    count_carefully,
    count_changes,
    find_etas,
    find_zero,
    find_zeros,
)
from hardmax._kernels.rectified_rows import FLOOR, RAISE, TINY, UNIT
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

DONE, PAUSED, OPEN, CROWDED = 0, 1, 2, 3
"""Why `advance` came back: no layer is left; there is much to do; an interval is in doubt; the next
layer would not fit."""


@numba.njit(cache=True)
def _floored_norm(values: FloatArray) -> float:
    """A bound on the Euclidean norm of small numbers, 0 only for zeros."""
    total = 0.0
    for value in values:
        if value != 0.0:
            total += max(abs(value), FLOOR) ** 2
    return float(np.sqrt(total)) * RAISE


@numba.njit(cache=True)
def _larger(one: float, other: float) -> float:
    """The larger of two numbers; infinity if one of them is no number."""
    if one >= other:
        return one
    return other if other > one else np.inf


@numba.njit(cache=True)
def _bias_scale(kappa: float, weight: float) -> float:
    r"""The $\beta$ of a point; 0 only if its weight is, which may be known to few bits."""
    return float(kappa * weight * RAISE + TINY) if weight != 0.0 else 0.0


@numba.njit(cache=True)
def enter(
    ends: FloatArray, weight: FloatArray, kappa: float, rows: FloatArray, scales: FloatArray
) -> None:
    r"""Write the rows of a layer at points where the stream before it is given.

    Args:
        ends: The stream and, last, the weight $w$ of each point, shape `(n, n_in + 1)`.
        weight: The weights and, last, the bias of the layer, shape `(n_in + 1, width)`.
        kappa: The $\kappa$ of the layer.
        rows: Overwritten, shape `(n, width)`.
        scales: Overwritten but for the $e$ in the first column, shape `(n, 3)`.
    """
    np.dot(ends, weight, rows)
    for i in range(len(ends)):
        values = ends[i, :-1]
        total = np.dot(values, values)
        size = _floored_norm(values) if total < 2.0**-900 else np.sqrt(total) * RAISE
        scales[i, 1] = kappa * size * RAISE
        scales[i, 2] = _bias_scale(kappa, ends[i, -1])


@numba.njit(cache=True)
def _rectify(row: FloatArray, rectified: FloatArray) -> float:
    """Write the positive part of a row; return a bound on its norm, 0 only for zeros.

    Four sums at once, because each waits for itself only.
    """
    n = len(row)
    for j in range(n):
        rectified[j] = row[j] if row[j] > 0.0 else 0.0
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    end = n - n % 4
    for j in range(0, end, 4):
        s0 += rectified[j] * rectified[j]
        s1 += rectified[j + 1] * rectified[j + 1]
        s2 += rectified[j + 2] * rectified[j + 2]
        s3 += rectified[j + 3] * rectified[j + 3]
    for j in range(end, n):
        s0 += rectified[j] * rectified[j]
    total = (s0 + s1) + (s2 + s3)
    if total < 2.0**-900:
        return float(_floored_norm(rectified[:n]))
    return float(np.sqrt(total)) * RAISE


@numba.njit(cache=True)
def _continued_norm(size: float, row: FloatArray, units: IntArray) -> float:
    """A bound on the norm of a positive part, and of units that are off but were or will be on."""
    total = size * size
    for unit in units:
        if row[unit] < 0.0:
            total += max(-row[unit], FLOOR) ** 2
    return float(np.sqrt(total)) * RAISE


@numba.njit(cache=True)
def _carry(
    left: FloatArray,
    right: FloatArray,
    units: IntArray,
    parts: FloatArray,
    weight: FloatArray,
    after: FloatArray,
    i: int,
    first: int,
    form: FloatArray,
) -> None:
    """Write the rows of the next layer at the zeros between two points, from those at the points.

    Args:
        left: The row of this layer at the left point.
        right: That at the right one.
        units: The units that change, from left to right.
        parts: Where.
        weight: What a unit adds.
        after: The rows of the next layer; 'i' and 'i + 1' are those of the points.
        i: The left point.
        first: Where the new rows go.
        form: A row to work in.
    """
    n, width = len(units), after.shape[1]
    if n == 1:
        share, part = abs(right[units[0]]), parts[0, 0]
        rest = 1.0 - part
        row = weight[units[0]]
        a, b, new = after[i], after[i + 1], after[first]
        for j in range(width):
            new[j] = rest * a[j] + part * (b[j] - share * row[j])
        return
    # At the right point: the form of each part, from right to left.
    b = after[i + 1]
    for k in range(n - 1, -1, -1):
        share, row, new = abs(right[units[k]]), weight[units[k]], after[first + k]
        for j in range(width):
            new[j] = b[j] - share * row[j]
        b = new
    form[:] = after[i]
    for k in range(n):
        share, row, new = abs(left[units[k]]), weight[units[k]], after[first + k]
        part = parts[k, 0]
        rest = 1.0 - part
        for j in range(width):
            new[j] = rest * form[j] + part * new[j]
            form[j] -= share * row[j]


@numba.njit(cache=True)
def advance(
    index: int,
    widths: IntArray,
    weights: FloatArray,
    weight_starts: IntArray,
    omegas: FloatArray,
    bias_sizes: FloatArray,
    unit_starts: IntArray,
    norms: FloatArray,
    values: FloatArray,
    scales: FloatArray,
    etas: FloatArray,
    places: FloatArray,
    names: IntArray,
    states: AnyArray,
    most_rows: IntArray,
    most_entries: int,
) -> tuple[int, int, int, BoolArray, FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
    r"""Cut intervals by the units of one layer after the other.

    Args:
        index: The layer the rows belong to.
        widths: How many units each layer has, shape `(n_layers,)`.
        weights: For each layer its weights and, last, its bias: one after the other.
        weight_starts: Where those of each layer begin, and the end.
        omegas: The $\omega_j$ of all units.
        bias_sizes: The $|b_j|$ of all units.
        unit_starts: Where the units of each layer begin, and the end.
        norms: For each layer $\sigma$, $\Omega$, the norm of the bias and $\kappa$.
        values: The rows, shape `(n, width)` with `n >= 2`.
        scales: For each the $e$, $\rho$ and $\beta$ of its radii, shape `(n, 3)`.
        etas: How far the true ends of each interval may lie from its points, in lengths of the
            interval; shape `(n - 1, 2)`.
        places: The coordinate $w t$, the weight $w$, which belongs to the values, and once more the
            weight, near the true breakpoint and as precise as the coordinate; shape `(n, 3)`.
        names: Names of the points, shape `(n, 3)`.
        states: Shape `(n_units,)`, overwritten from the first layer on as far as the search gets:
            which units are on in the first interval.
        most_rows: How many rows of each layer are too few to pause before it.
        most_entries: How many entries new rows may have in all.

    Returns:
        The layer it came to, why it came back, how many signs it found in the layers before, which
        intervals are in doubt, then as in the arguments rows, scales, etas, places and names.
    """
    n_layers = len(widths)
    n = len(values)
    order = np.arange(n)
    n_signs = 0
    while True:
        width, start = widths[index], unit_starts[index]
        omega, bias = omegas[start : start + width], bias_sizes[start : start + width]
        is_open = np.zeros(n - 1, dtype=np.bool_)
        starts = np.empty(n, dtype=np.int64)
        totals = np.empty(n - 1, dtype=np.int64)
        starts[0] = 0
        n_open = 0
        for i in range(n - 1):
            a, b = values[order[i]], values[order[i + 1]]
            eta = _larger(etas[i, 0], etas[i, 1])
            raised = (1.0 + 2.0 * eta) * RAISE
            scale = (
                _larger(scales[i, 0] + scales[i, 1], scales[i + 1, 0] + scales[i + 1, 1]) * raised
            )
            beta = _larger(scales[i, 2], scales[i + 1, 2]) * raised
            found, totals[i] = count_changes(a, b, omega, bias, scale, beta, eta * RAISE)
            if found < 0:
                found = count_carefully(a, b, omega, bias, scales[i : i + 2], etas[i])
                # The sum may be that of units that are 0.
                totals[i] = -1
                is_open[i] = found < 0
                n_open += is_open[i]
            starts[i + 1] = starts[i] + max(found, 0)
        n_new = starts[n - 1]
        units, parts = np.empty(n_new, dtype=np.int64), np.empty((n_new, 2))
        new_etas = np.empty((n - 1 + n_new, 2))
        for i in range(n - 1):
            first, last = starts[i], starts[i + 1]
            if first == last:
                new_etas[i + first, 0], new_etas[i + first, 1] = etas[i, 0], etas[i, 1]
                continue
            scale = _larger(scales[i, 0] + scales[i, 1], scales[i + 1, 0] + scales[i + 1, 1])
            beta = _larger(scales[i, 2], scales[i + 1, 2])
            a, b = values[order[i]], values[order[i + 1]]
            if last == first + 1 and totals[i] >= 0:
                units[first] = totals[i]
                is_sure = find_zero(a, b, omega, bias, scale, beta, totals[i], parts[first])
            else:
                mine = slice(first, last)
                is_sure = find_zeros(a, b, omega, bias, scale, beta, units[mine], parts[mine])
            if not is_sure or not find_etas(
                parts[first:last], etas[i], new_etas[i + first : i + last + 1]
            ):
                is_open[i] = True
                n_open += 1
        if n_open:
            status = OPEN
            break
        is_last = index + 1 == n_layers
        following = 0 if is_last else widths[index + 1]
        if n > 2 and n_new * following > most_entries:
            status = CROWDED
            break
        a, b = values[order[0]], values[order[1]]
        for j in range(width):
            states[start + j] = a[j] > 0.0 or (a[j] == 0.0 and b[j] > 0.0)
        new_order = np.empty(n + n_new, dtype=np.int64)
        new_places = np.empty((n + n_new, 3))
        new_names = np.empty((n + n_new, 3), dtype=np.int64)
        for i in range(n):
            k = i + starts[i]
            new_order[k] = i
            for c in range(3):
                new_places[k, c], new_names[k, c] = places[i, c], names[i, c]
            if i == n - 1:
                break
            a, b = values[order[i]], values[order[i + 1]]
            for z in range(starts[i], starts[i + 1]):
                k += 1
                new_order[k] = n + z
                # Far out on a ray the difference of a part to 1 has few digits.
                size = abs(a[units[z]]) + abs(b[units[z]])
                part, rest = parts[z, 0], abs(b[units[z]]) / size
                for c in range(3):
                    x, y = places[i, c], places[i + 1, c]
                    new_places[k, c] = x if x == y else rest * x + part * y
                if places[i, 1] != places[i + 1, 1]:
                    new_places[k, 1] = (1.0 - part) * places[i, 1] + part * places[i + 1, 1]
                rises = b[units[z]] > 0.0
                new_names[k, 0] = index
                new_names[k, 1] = 2 * units[z] + (not rises)
                new_names[k, 2] = 2 * units[z] + rises
        if not is_last:
            weight = weights[weight_starts[index + 1] : weight_starts[index + 2]]
            weight = weight.reshape((width + 1, following))
            sigma, frobenius, bias_norm = norms[index, 0], norms[index, 1], norms[index, 2]
            kappa = norms[index + 1, 3]
            rectified = np.empty((n, width + 1))
            sizes = np.empty(n)
            errors = np.empty(n)
            new_scales = np.empty((n + n_new, 3))
            for i in range(n):
                sizes[i] = _rectify(values[order[i]], rectified[i, :width])
                rectified[i, width] = places[i, 1]
                errors[i] = sigma * scales[i, 0] + frobenius * scales[i, 1]
                errors[i] = (errors[i] + scales[i, 2] * bias_norm) * RAISE + TINY
                k = i + starts[i]
                new_scales[k, 0] = errors[i] if sizes[i] > 0.0 else 0.0
                new_scales[k, 1] = kappa * sizes[i] * RAISE
                new_scales[k, 2] = _bias_scale(kappa, places[i, 1])
            new_values = np.empty((n + n_new, following))
            np.dot(rectified, weight, new_values[:n])
            form = np.empty(following)
            for i in range(n - 1):
                first, last = starts[i], starts[i + 1]
                if first == last:
                    continue
                a, b = values[order[i]], values[order[i + 1]]
                mine = slice(first, last)
                _carry(a, b, units[mine], parts[mine], weight, new_values, i, n + first, form)
                size = _larger(
                    _continued_norm(sizes[i], a, units[mine]),
                    _continued_norm(sizes[i + 1], b, units[mine]),
                )
                rounding = kappa + UNIT * (last - first + 8)
                error = (_larger(errors[i], errors[i + 1]) + 4.0 * UNIT * size) * RAISE
                for k in range(i + first + 1, i + last + 1):
                    new_scales[k, 0] = error
                    new_scales[k, 1] = rounding * size * RAISE
                    new_scales[k, 2] = _bias_scale(
                        rounding, _larger(places[i, 1], places[i + 1, 1])
                    )
            values, scales = new_values, new_scales
        n_signs += (n - 1) * width
        n += n_new
        order, etas, places, names = new_order, new_etas, new_places, new_names
        index += 1
        if is_last:
            status = DONE
            break
        if n > most_rows[index]:
            status = PAUSED
            break
    if status != OPEN:
        is_open = np.zeros(n - 1, dtype=np.bool_)
    if status != DONE:
        values = values[order]
    return index, status, n_signs, is_open, values, scales, etas, places, names
