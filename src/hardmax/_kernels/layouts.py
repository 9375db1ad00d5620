r"""What both searches read: a network flattened, and what is known about the layers on a path.

Forms in $d$ variables are kept by component: a block `(d + 2, n)` holds the slopes, the offsets
$c$ and the radii $e$ of $n$ forms. With the scale $X \ge 1$ of the domain, a radius means
$|a_k^* - a_k| \le e / X$ and $|c^* - c| \le e$, where the star is the form composed exactly.
"""

from typing import Any, NamedTuple

import numpy as np

from hardmax.typing import FloatArray, IntArray

# Entries of a row of `Tables.layout`.
(
    N_IN, N_QUERY, N_FORMS, N_GROUPS, N_Y, N_OUT, WIDTH, IS_RELU, RESIDUAL, QUERY_IS_IDENTITY,
    OUTPUT_IS_IDENTITY, AT_QUERY, AT_QUERY_BIAS, AT_SLOPES, AT_OFFSETS, AT_STARTS, AT_SLOTS,
    AT_GAINS, AT_VALUES, AT_OUTPUT, AT_OUTPUT_BIAS, FIRST_GROUP, QUERY_GRID, QUERY_BIAS_GRID,
    SLOPES_GRID, OFFSETS_GRID, GAINS_GRID, VALUES_GRID, OUTPUT_GRID, OUTPUT_BIAS_GRID,
    IS_HOMOGENEOUS, IS_TAME, IS_PENCIL, IS_DENSE, IS_PLAIN,
) = range(35)  # fmt: skip
N_LAYOUT = 35

# Entries of a row of `Frames.flags`: whether the stream is exact, the exponent of a grid on which
# its forms of radius 0 lie, the same for the scores, a count of the regions, whether coinciding
# forms have been merged, how many groups are pending, and whether the output has been composed with
# all pending units off. About updates: how often the scores have been updated, plus 1, or 0 where
# they have to be composed; the count of changes of the layer before then; whether an exact
# stream had scores far from any grid; whether they have just been updated; a count of their
# changes; whether radii hold errors only (see `effect_updates`); and whether the stream before the
# layer is known by its scores alone. Last, the count of the regions for which doubled forms are
# known (see `doubled_paths`), two that nobody uses any more, and how many
# forms before the layer vary (see `varying_forms`).
(
    STREAM_IS_EXACT, STREAM_GRID, SCORES_ARE_EXACT, SCORES_GRID, VERSION, IS_MERGED, N_PENDING,
    HAS_OUTPUT, N_UPDATES, BASE, IS_ROUGH, IS_FRESH, N_CHANGES, IS_TOTAL, IS_STALE, DOUBLED,
    RAY, RAY_UNIT, N_VARYING,
) = range(19)  # fmt: skip
N_FLAGS = 19

# What the searches return; more of it in their own buffers.
DONE, BUDGET, STACK_FULL, LEAVES_FULL, CELL_LIMIT, PARKED = range(6)

Axes = tuple[int, int] | IntArray
"""The axes of a domain. Compiled code knows the length of a tuple: plane loops are unrolled."""


class Tables(NamedTuple):
    """A network, flattened.

    Attributes:
        layout: `(n_layers + 1, N_LAYOUT)`: sizes, flags and offsets; the last row is the read-out.
        numbers: All weights.
        sizes: Their absolute values.
        indices: The `starts` and `slots` of all layers.
        first: `(n_layers, most_forms)`: the first form of the group that coincides with each
            form whatever comes before, so that only firsts compete. In a ReLU layer, for each unit
            the first one with the same weights and bias, or, as -1 less it, with the opposite ones.
        gains: `(n_layers, 2, most_forms)`: the gains and their radii, means over coinciding forms.
        values: `(n_layers, 2, most_forms, most_width)`: values and radii likewise.
        scale: `(1,)`: the $X$.
    """

    layout: IntArray
    numbers: FloatArray
    sizes: FloatArray
    indices: IntArray
    first: IntArray
    gains: FloatArray
    values: FloatArray
    scale: FloatArray


def layer_arrays(tables: Tables, n_groups: int, dim: int) -> dict[str, Any]:
    """Allocate the part that both kinds of frames share, by field."""
    layout = tables.layout
    n = len(layout)
    most_rows = int(layout[:, : N_OUT + 1].max()) + 1
    most_groups = int(layout[:, N_GROUPS].max(initial=1))
    return {
        "blocks": np.zeros((2 * n + 2, dim + 2, most_rows)),
        "flags": np.zeros((n, N_FLAGS), dtype=np.int64),
        "shares": np.zeros((n, 2)),
        "composed": np.zeros((n, most_groups), dtype=np.int8),
        "first": tables.first.copy(),
        "gains": tables.gains.copy(),
        "values": tables.values.copy(),
        "fixed": np.zeros((n, most_groups), dtype=np.int64),
        "pending": np.zeros((n, most_groups), dtype=np.int64),
        "candidates": np.zeros((n, most_rows), dtype=np.int64),
        "n_candidates": np.zeros((n, most_groups), dtype=np.int64),
        "signature": np.zeros(max(n_groups, 1), dtype=np.int64),
    }
