r"""The groups of a layer in bundles, each of which is evaluated by one array operation.

ReLU units form one bundle; other groups share a bundle if they read the same columns of the query
and have the same number of forms. Forms of a group that are equal as functions of the layer's input
tie everywhere: they are merged into one form, whose contribution is their mean.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpz

from hardmax.exact.dyadic import nearest_floats
from hardmax.exact.rounding import SMALLEST_SUBNORMAL, UNIT_ROUNDOFF
from hardmax.models._arithmetic.enclosures import Enclosed, EnclosedMap
from hardmax.models.argmax import ArgmaxLayer
from hardmax.typing import BoolArray, FloatArray, IntArray

Copies = dict[int, list[int]]
"""Maps the first of several coinciding forms to the list of all of them."""


@dataclass(frozen=True, eq=False)
class ReluBundle:
    """Groups of the forms 0 and $q_i$ that contribute the larger one.

    Attributes:
        groups: The indices of the groups in the layer, shape `(n,)`.
        columns: The $i$ of each group, shape `(n,)`.
    """

    groups: IntArray
    columns: IntArray


@dataclass(frozen=True, eq=False)
class FormBundle:
    r"""Groups of $k$ distinct forms each, on the same columns of the query.

    Attributes:
        groups: The indices of the groups in the layer, shape `(n,)`.
        columns: The columns of the query that the forms read.
        scores: The map from those columns to the `n * k` scores.
        first: The index within its group of the first copy of each form, shape `(n, k)`.
        copies: The number of forms of the layer that each form represents, shape `(n, k)`.
        gains: The factor by which a winning form's score is contributed, shape `(n, k)`.
        values: The constants that a winning form contributes, averaged over its copies: values
            with radii, shape `(n, k, width)`.
        is_table: Whether every group contributes constants, as heads do.
        is_maximum: Whether every group contributes its largest score, as units do.
    """

    groups: IntArray
    columns: IntArray
    scores: EnclosedMap
    first: IntArray
    copies: FloatArray
    gains: FloatArray
    values: Enclosed
    is_table: bool
    is_maximum: bool


def bundle_groups(layer: ArgmaxLayer, copies: Copies) -> list[ReluBundle | FormBundle]:
    """Sort the groups of a layer into bundles.

    Args:
        layer: The layer.
        copies: The coinciding forms of the layer, as returned by `find_coinciding_forms`.
    """
    starts = layer.starts.tolist()
    is_relu, columns_read = _find_relu_groups(layer)
    bundles: list[ReluBundle | FormBundle] = []
    if is_relu.any():
        bundles.append(ReluBundle(np.flatnonzero(is_relu), columns_read[is_relu]))
    shared: dict[tuple[bytes, int, bool, bool], list[tuple[int, list[int]]]] = defaultdict(list)
    repeated = {j for members in copies.values() for j in members[1:]}
    for g in np.flatnonzero(~is_relu).tolist():
        forms = [j for j in range(starts[g], starts[g + 1]) if j not in repeated]
        columns = np.flatnonzero(layer.slopes[starts[g] : starts[g + 1]].any(axis=0))
        if layer.reads is not None:
            columns = np.sort(layer.reads[g, columns])
        kind = bool(layer.is_table[g]), bool(layer.passes_maximum[g])
        shared[columns.tobytes(), len(forms), *kind].append((g, forms))
    for (columns_key, *_), members in shared.items():
        columns = np.frombuffer(columns_key, dtype=np.int64)
        bundles.append(_build_bundle(layer, copies, members, columns))
    return bundles


def find_coinciding_forms(
    layer: ArgmaxLayer, probe: Enclosed, exact_rows: Callable[[], list[list[fmpz]]]
) -> Copies:
    """Find the forms of each group with equal gains that are equal as functions of the input.

    Args:
        layer: The layer.
        probe: The scores at any one point, shape `(1, n_forms)`. Forms with different scores there
            are different.
        exact_rows: Returns the exact forms; called only if the probe does not separate all forms.
    """
    copies: Copies = {}
    doubtful = _find_close_groups(layer, probe)
    rows = exact_rows() if doubtful else []
    for g in doubtful:
        members: dict[tuple[float, ...], list[int]] = defaultdict(list)
        for j in range(int(layer.starts[g]), int(layer.starts[g + 1])):
            members[float(layer.gains[j]), *map(int, rows[j])].append(j)
        copies |= {forms[0]: forms for forms in members.values() if len(forms) > 1}
    return copies


def _find_close_groups(layer: ArgmaxLayer, probe: Enclosed) -> list[int]:
    """Return the groups with forms of equal gain that a probe may not separate."""
    values, radii = probe.values[0], probe.radii[0]
    # A score that overflows is separated from no other, so its group stays doubtful.
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = values - radii, values + radii
    sizes = np.diff(layer.starts)
    found: list[int] = []
    for size in np.unique(sizes[sizes > 1]).tolist():
        groups = np.flatnonzero(sizes == size)
        forms = layer.starts[groups, np.newaxis] + np.arange(size)
        gains = np.sort(layer.gains[forms], axis=1)
        repeats = (gains[:, 1:] == gains[:, :-1]).any(axis=1)
        groups, forms = groups[repeats], forms[repeats]
        forms = np.take_along_axis(forms, np.argsort(values[forms], axis=1), axis=1)
        reach = np.maximum.accumulate(high[forms[:, :-1]], axis=1)
        found += groups[~(low[forms[:, 1:]] > reach).all(axis=1)].tolist()
    return sorted(found)


def _find_relu_groups(layer: ArgmaxLayer) -> tuple[BoolArray, IntArray]:
    """Return the mask of the groups that compute the ReLU of some $q_i$, and the $i$ of each."""
    first, size = layer.starts[:-1], np.diff(layer.starts)
    second = np.minimum(first + 1, len(layer.offsets) - 1)
    nonzero = layer.slopes != 0.0
    n_nonzero = nonzero.sum(axis=1)
    is_constant = (layer.offsets != 0.0) | layer.values.any(axis=1)
    is_relu = (
        (size == 2)
        & (n_nonzero[first] == 0)
        & (n_nonzero[second] == 1)
        & (layer.slopes.max(axis=1)[second] == 1.0)
        & (layer.gains[second] == 1.0)
        & ~(is_constant[first] | is_constant[second])
    )
    place = nonzero.argmax(axis=1)[second]
    if layer.reads is not None:
        place = layer.reads[np.arange(layer.n_groups), place]
    return is_relu, place


def _build_bundle(
    layer: ArgmaxLayer,
    copies: Copies,
    members: list[tuple[int, list[int]]],
    columns: IntArray,
) -> FormBundle:
    flat = [j for _, forms in members for j in forms]
    shape = len(members), len(members[0][1])
    width = layer.values.shape[1]
    gains, values = layer.gains[flat], Enclosed.exactly(layer.values[flat])
    for position, j in enumerate(flat):
        if j in copies:
            mean = _enclose_mean(layer.values[copies[j]])
            values.values[position], values.radii[position] = mean
    group_starts = layer.starts[[g for g, _ in members]]
    slopes = np.vstack([_select_slopes(layer, g, forms, columns) for g, forms in members])
    return FormBundle(
        np.array([g for g, _ in members]),
        columns,
        EnclosedMap(np.ascontiguousarray(slopes.T), layer.offsets[flat]),
        np.array(flat).reshape(shape) - group_starts[:, None],
        np.array([float(len(copies.get(j, [j]))) for j in flat]).reshape(shape),
        gains.reshape(shape),
        Enclosed(*(part.reshape(*shape, width) for part in values)),
        bool(layer.is_table[members[0][0]]),
        bool(layer.passes_maximum[members[0][0]]),
    )


def _select_slopes(
    layer: ArgmaxLayer, group: int, forms: list[int], columns: IntArray
) -> FloatArray:
    """Return the slopes of some forms of a group on the given entries of the query."""
    if layer.reads is not None:
        reads = layer.reads[group]
        order = np.argsort(reads)
        columns = order[np.searchsorted(reads, columns, sorter=order)]
    return layer.slopes[forms][:, columns]


def _enclose_mean(rows: FloatArray) -> Enclosed:
    """Return the mean of some rows, rounded once, with a bound on the rounding error."""
    exact = [sum(map(Fraction, column), Fraction(0)) / len(rows) for column in rows.T.tolist()]
    values = nearest_floats(np.array(exact, dtype=object))
    wrong = [Fraction(v) != e for v, e in zip(values.tolist(), exact, strict=True)]
    return Enclosed(
        values, np.where(wrong, 2 * UNIT_ROUNDOFF * np.abs(values) + SMALLEST_SUBNORMAL, 0.0)
    )
