"""The forms of a ReLU network on an interval of a line, in twice the precision. No checks."""

import numba

from hardmax._kernels.doubled_forms import compose_doubled
from hardmax.typing import AnyArray, FloatArray, IntArray

LINE = (0,)
"""The axes."""


@numba.njit(cache=True)
def compose_units(
    doubled: FloatArray,
    begin: int,
    end: int,
    states: AnyArray,
    widths: IntArray,
    unit_starts: IntArray,
    weights: FloatArray,
    weight_starts: IntArray,
    order: IntArray,
) -> None:
    """Write the forms of some layers, given those of the layer before.

    Args:
        doubled: `(n_layers + 3, 5, most_units)`: the stream before the first layer, the forms of
            all layers, and two blocks of scratch.
        begin: The first layer to write.
        end: The end of these layers.
        states: Which units are on, of all layers but the last written.
        widths: How many units each layer has.
        unit_starts: Where those of each layer begin.
        weights: For each layer the weights and, last, the bias.
        weight_starts: Where those of each layer begin.
        order: Scratch, `(1, most_units)`.
    """
    for i in range(begin, end):
        source, n_in = 0, (weight_starts[i + 1] - weight_starts[i]) // widths[i] - 1
        if i > 0:
            source = doubled.shape[0] - 2
            _switch_units(doubled, i, states[unit_starts[i - 1] : unit_starts[i]], source)
        at_bias = weight_starts[i] + n_in * widths[i]
        compose_doubled(
            doubled, source, n_in, weights, weight_starts[i], at_bias, widths[i], i + 1, 1.0,
            order, LINE,
        )  # fmt: skip


@numba.njit(cache=True)
def _switch_units(doubled: FloatArray, block: int, states: AnyArray, to: int) -> None:
    """Write what units pass on."""
    for j in range(len(states)):
        for k in range(doubled.shape[1]):
            doubled[to, k, j] = doubled[block, k, j] if states[j] == 1 else 0.0
