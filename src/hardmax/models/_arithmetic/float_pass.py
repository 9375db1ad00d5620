"""Evaluation of a batch in float64 with error radii, which decides winners where it can.

Rows in which a radius leaves a required decision open are reported, not guessed; `run_exact_pass`
settles them. The required decisions depend on the purpose: the output of a ReLU or maxout unit is
continuous, so a value only requires decisions of heads, but a signature requires all decisions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import fmpz

from hardmax.exact.rounding import EXP_UNDERFLOWS_BELOW, RAISE, UNDERFLOW_ALLOWANCE, rounding_factor
from hardmax.models._arithmetic.enclosures import (
    Enclosed,
    add_enclosures,
    mark_overflow,
    scale_enclosure,
)
from hardmax.models._arithmetic.form_bundles import (
    FormBundle,
    ReluBundle,
    bundle_groups,
    find_coinciding_forms,
)
from hardmax.models._arithmetic.form_scores import enclosed_scores
from hardmax.models._arithmetic.layers import ENCLOSED, evaluate
from hardmax.models._arithmetic.recomposition import chart_forms, layer_scores
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.models.soft_attention import normalise_weights
from hardmax.typing import BoolArray, FloatArray, IntArray

_LARGEST_LOG_ERROR = 0.25
_LARGEST_WEIGHT_ERROR = 2.0**-20
"""The largest proven error of soft weights at which interval arithmetic is not needed.

The bound is pessimistic: where it is 1e-6, the weights are accurate to about 1e-13.
"""


class FloatPassResult(NamedTuple):
    """The outputs and winners of a batch.

    Attributes:
        output: The output with radii, shape `(n_points, dim_out)`.
        winners: Index of the first winner in each group, shape `(n_points, n_groups)`.
        is_open: Whether a required decision is open, shape `(n_points,)`.
        has_ties: Whether different forms are known to tie exactly, shape `(n_points,)`.
    """

    output: Enclosed
    winners: IntArray
    is_open: BoolArray
    has_ties: BoolArray


class _LayerMarks(NamedTuple):
    """Arrays that a layer fills in place: its part of the winners, and the marks of the points."""

    names: IntArray
    is_open: BoolArray
    has_ties: BoolArray

    def mark_open(self, undecided: BoolArray) -> None:
        np.logical_or(self.is_open, undecided.any(axis=1), out=self.is_open)

    def mark_ties(self, tied: BoolArray) -> None:
        np.logical_or(self.has_ties, tied.any(axis=1), out=self.has_ties)


@dataclass(frozen=True, eq=False)
class PreparedLayer:
    """The groups of a layer in bundles.

    If `only_rectifies` is true, entry i of the blocks is the ReLU of entry i of the query.
    """

    bundles: list[ReluBundle | FormBundle]
    n_largest_overlap: int
    only_rectifies: bool


def prepare_layers(network: ArgmaxNetwork) -> list[PreparedLayer]:
    """Prepare the layers of a network; the result is cached."""
    cached: list[PreparedLayer] | None = network.kept.get("prepared")
    if cached is None:
        probe = np.random.default_rng(0).normal(size=(1, network.dim_in))
        layers = []
        for i, layer in enumerate(network.layers):
            # The first layer only sees the image of the embedding, where more forms may coincide.
            stream = Enclosed.exactly(probe)
            if i == 0:
                stream = ENCLOSED.apply_affine(network.embedding, stream)
            layers.append(_prepare_layer(layer, stream, network.embedding if i == 0 else None))
            probe = np.random.default_rng(i + 1).normal(size=(1, layer.dim_out))
        cached = network.kept["prepared"] = layers
    return cached


def run_float_pass(
    network: ArgmaxNetwork,
    points: FloatArray,
    taus: list[float] | None,
    *,
    named: bool,
    chart: AffineMap | None = None,
) -> FloatPassResult:
    """Evaluate a batch.

    Args:
        network: The network.
        points: Shape `(n_points, dim_in)`, finite.
        taus: A temperature for the heads of each layer, or None for the hard network.
        named: Whether all groups must be decided, not only those that the output requires.
        chart: If given, the points are coordinates, and this map takes them to inputs.
    """
    ready = prepare_layers(network)
    is_open, has_ties = np.zeros((2, len(points)), dtype=bool)
    winners = np.zeros((len(points), network.n_groups), dtype=np.int64)

    def contribute(place: Place, query: Enclosed) -> Enclosed:
        marks = _LayerMarks(winners[:, place.groups], is_open, has_ties)
        prepared_layer = ready[place.depth]
        if prepared_layer.only_rectifies:
            if named:
                _decide_units(query, marks.names, marks)
            return _rectify(query)
        tau = taus[place.depth] if taus is not None else 0.0
        return _contribute(place.layer, prepared_layer, query, tau, named, marks)

    output = evaluate(network, Enclosed.exactly(points), ENCLOSED, contribute, chart)
    if not named:
        is_open |= ~np.isfinite(output.radii).all(axis=1)
    return FloatPassResult(output, winners, is_open, has_ties)


def _prepare_layer(
    layer: ArgmaxLayer, probe: Enclosed, embedding: AffineMap | None
) -> PreparedLayer:
    def exact_rows() -> list[list[fmpz]]:
        stream = chart_forms(AffineMap.identity(layer.dim_in) if embedding is None else embedding)
        return layer_scores(layer, stream).rows

    scores = enclosed_scores(layer, ENCLOSED.apply_affine(layer.query, probe))
    copies = find_coinciding_forms(layer, scores, exact_rows)
    width = layer.values.shape[1]
    covered = np.add.outer(layer.slots, np.arange(width)).ravel()
    bundles = bundle_groups(layer, copies)
    return PreparedLayer(
        bundles,
        int(np.bincount(covered).max()),
        isinstance(bundles[0], ReluBundle)
        and layer.n_groups == layer.query.dim_out == layer.output.dim_in
        and np.array_equal(bundles[0].columns, np.arange(layer.n_groups))
        and np.array_equal(layer.slots, np.arange(layer.n_groups)),
    )


def _contribute(
    layer: ArgmaxLayer,
    ready: PreparedLayer,
    query: Enclosed,
    tau: float,
    named: bool,
    marks: _LayerMarks,
) -> Enclosed:
    """Return the contributions of the groups of a layer; the marks are filled in place."""
    shape = len(query.values), layer.output.dim_in
    blocks = Enclosed(np.zeros(shape), np.zeros(shape))
    for bundle in ready.bundles:
        if isinstance(bundle, ReluBundle):
            q = Enclosed(query.values[:, bundle.columns], query.radii[:, bundle.columns])
            part = _rectify(q)
            if named:
                units = np.empty(q.values.shape, dtype=np.int64)
                _decide_units(q, units, marks)
                marks.names[:, bundle.groups] = units
        else:
            scores = _score_bundle(bundle, query)
            if bundle.is_table and tau > 0.0:
                part = _soften_bundle(bundle, scores, tau, marks)
            else:
                part = _decide_bundle(bundle, scores, named, marks)
        _add_blocks(layer.slots[bundle.groups], ready.n_largest_overlap, part, blocks)
    if ready.n_largest_overlap == 1:
        return blocks
    with np.errstate(over="ignore", invalid="ignore"):
        return mark_overflow(blocks.values, blocks.radii * RAISE)


def _decide_units(q: Enclosed, names: IntArray, marks: _LayerMarks) -> None:
    names[:] = q.values > 0.0
    # The sign is known if the value exceeds its radius; a value 0 with radius 0 is an exact zero.
    unclear = np.abs(q.values) <= q.radii
    if unclear.any():
        marks.mark_open(unclear & (q.radii > 0.0))
        marks.mark_ties(unclear & (q.radii == 0.0))


def _rectify(q: Enclosed) -> Enclosed:
    """Return the ReLU of enclosed numbers: exactly 0 where they are certainly negative."""
    return Enclosed(np.maximum(q.values, 0.0), np.where(q.values < -q.radii, 0.0, q.radii))


def _score_bundle(bundle: FormBundle, query: Enclosed) -> Enclosed:
    """Return the scores of a bundle, shape `(n_points, n, k)`."""
    columns = bundle.columns
    if len(columns) < query.values.shape[1]:
        query = Enclosed(query.values[:, columns], query.radii[:, columns])
    scores = bundle.scores(query)
    return Enclosed(*(part.reshape(len(part), *bundle.first.shape) for part in scores))


def _decide_bundle(
    bundle: FormBundle, scores: Enclosed, named: bool, marks: _LayerMarks
) -> Enclosed:
    """Return the contributions of hard groups, `(n_points, n, width)`; mark undecided rows."""
    values, radii = scores
    # A score that overflows has an infinite radius, so its group stays open.
    with np.errstate(over="ignore", invalid="ignore"):
        candidates = values + radii >= (values - radii).max(axis=2, keepdims=True)
    n_candidates = candidates.sum(axis=2)
    spread = np.where(candidates, radii, 0.0).max(axis=2)
    # Candidates of radius 0 are exactly tied.
    settled = np.isfinite(radii).all(axis=2) & ((n_candidates == 1) | (spread == 0.0))
    winner = candidates.argmax(axis=2)
    each = np.arange(len(bundle.groups))
    marks.names[:, bundle.groups] = bundle.first[each, winner]
    tied = (n_candidates > 1) & settled
    marks.mark_ties(tied)
    if bundle.is_maximum:
        if named:
            marks.mark_open(~settled)
        return Enclosed(values.max(axis=2)[:, :, None], spread[:, :, None])
    marks.mark_open(~settled)
    parts = Enclosed(bundle.values.values[each, winner], bundle.values.radii[each, winner])
    if not bundle.is_table:
        parts = _add_gains(bundle, scores, winner, parts)
    for h in np.flatnonzero(tied.any(axis=0)):
        # All tied scores are 0 here, so only the values count.
        rows = np.flatnonzero(tied[:, h])
        weights = candidates[rows, h] * bundle.copies[h]
        mixed = _mix_values(weights / weights.sum(axis=1, keepdims=True), bundle, int(h), 0.0)
        parts.values[rows, h], parts.radii[rows, h] = mixed
    return parts


def _add_gains(bundle: FormBundle, scores: Enclosed, winner: IntArray, parts: Enclosed) -> Enclosed:
    """Add the winning scores times their gains to the first column."""
    each = np.arange(len(bundle.groups))
    gains = bundle.gains[each, winner]
    kept = winner[:, :, None]
    values = np.take_along_axis(scores.values, kept, axis=2)[:, :, 0]
    radii = np.take_along_axis(scores.radii, kept, axis=2)[:, :, 0]
    passed = scale_enclosure(gains, Enclosed(values, radii))
    head = add_enclosures(passed, Enclosed(parts.values[:, :, 0], parts.radii[:, :, 0]))
    values_all, radii_all = parts.values.copy(), parts.radii.copy()
    values_all[:, :, 0], radii_all[:, :, 0] = head
    return Enclosed(values_all, radii_all)


def _soften_bundle(
    bundle: FormBundle, scores: Enclosed, tau: float, marks: _LayerMarks
) -> Enclosed:
    r"""Return the contributions of soft heads; mark rows whose weights floats cannot determine.

    If logarithms of weights are off by at most $\delta \le 1/4$, then weights $p_j$ are off by
    at most $3 \delta p_j$, and $z = \sum_j p_j v_j$ by $3 \delta \sum_j p_j |v_j - z|$, because
    the errors of the weights sum to 0. A mean deviation is at most half the range of the values,
    and at most $2(1 - p_j)$ times the range for every $j$.
    """
    values, radii = scores
    top = values.argmax(axis=2)[:, :, None]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gaps = values - np.take_along_axis(values, top, axis=2)
        spread = radii + np.take_along_axis(radii, top, axis=2)
        logs = gaps / tau
        matters = (gaps + spread) / tau >= EXP_UNDERFLOWS_BELOW
        errors = np.where(matters, spread / tau, 0.0).max(axis=2)
    is_certain = np.isfinite(radii).all(axis=2) & (matters.sum(axis=2) == 1)
    errors = np.where(is_certain, 0.0, errors)
    logs = np.where(np.isnan(logs), 0.0, logs) + np.log(bundle.copies)
    logs -= logs.max(axis=2, keepdims=True)
    n_points, n_heads, k = logs.shape
    weights = normalise_weights(logs.reshape(n_points * n_heads, k)).reshape(logs.shape)
    rest = np.where(weights == weights.max(axis=2, keepdims=True), 0.0, weights).sum(axis=2)
    shared = np.minimum(2.0 * np.maximum(rest, 1.0 - weights.max(axis=2)), 0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = 3.0 * errors * shared
    marks.mark_open(~((errors <= _LARGEST_LOG_ERROR) & (moved <= _LARGEST_WEIGHT_ERROR)))
    parts = [_mix_values(weights[:, h], bundle, h, moved[:, h, None]) for h in range(n_heads)]
    return Enclosed(*(np.stack(part, axis=1) for part in zip(*parts, strict=True)))


def _mix_values(
    weights: FloatArray, bundle: FormBundle, head: int, moved: FloatArray | float
) -> Enclosed:
    """Return the mean of one head's values with weights `(n, k)`.

    The error of the weights adds `moved` times the range of the values to the radius.
    """
    values, radii = bundle.values.values[head], bundle.values.radii[head]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        mixed = weights @ values
        roundings = 4 * rounding_factor(len(values) + 8) * (weights @ np.abs(values))
        moves = moved * np.ptp(values, axis=0)
        total = roundings + moves + 2.0 * (weights @ radii) + UNDERFLOW_ALLOWANCE
    return mark_overflow(mixed, total)


def _add_blocks(slots: IntArray, n_largest_overlap: int, part: Enclosed, blocks: Enclosed) -> None:
    """Write contributions `(n_points, n)` or `(n_points, n, width)` to their blocks."""
    widened = [p[:, :, None] if p.ndim == 2 else p for p in part]
    width = widened[0].shape[2]
    if n_largest_overlap == 1:
        columns = np.add.outer(slots, np.arange(width))
        blocks.values[:, columns], blocks.radii[:, columns] = widened
        return
    kappa = rounding_factor(n_largest_overlap)
    for g, slot in enumerate(slots.tolist()):
        where = slice(slot, slot + width)
        before = blocks.values[:, where]
        with np.errstate(over="ignore", invalid="ignore"):
            blocks.radii[:, where] += widened[1][:, g] + kappa * (
                np.abs(before) + np.abs(widened[0][:, g])
            )
            blocks.values[:, where] += widened[0][:, g]
