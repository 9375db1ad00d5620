"""Forms on a line composed through a layer, in float64 with proven radii."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.algebra.exact.rounding import rounding_factor
from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer
from hardmax.models.enclosures import Enclosed, enclosed_sum, known
from hardmax.models.form_scores import enclosed_scores
from hardmax.models.recomposition import RationalForms
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.line_filter import LineForms
from hardmax.regions.line_signatures import changed_entries
from hardmax.typing import AnyArray, FloatArray, IntArray


def charted_forms(line: ChartedDomain) -> LineForms:
    """The points of a line, as forms of its coordinate."""
    direction, origin = line.chart.weight, line.chart.bias[np.newaxis]
    radii = np.zeros_like(direction)
    if len(line.stages) > 1:
        # A difference of two ends, rounded once; one that overflowed was replaced.
        radii = np.where(direction == 0.0, 0.0, np.abs(direction) * 2.0**-52 + 2.0**-1070)
        radii[np.abs(direction) >= 2.0**1023] = np.inf
    return LineForms(known(direction, radii), Enclosed.exactly(origin))


def mapped_forms(affine: AffineMap, stream: LineForms) -> LineForms:
    """Apply an affine map to forms: the bias goes to the offsets."""
    if affine.enclosed is None:
        return stream
    return _applied(affine.enclosed, stream)


def score_forms(layer: ArgmaxLayer, stream: LineForms) -> LineForms:
    """The scores of all forms of a layer."""
    return _applied(partial(enclosed_scores, layer), mapped_forms(layer.query, stream))


def _applied(function: Callable[..., Enclosed], stream: LineForms) -> LineForms:
    """Apply a map to slopes, without its bias, and offsets: one product for both."""
    n = len(stream.slopes.values)
    pairs = zip(stream.slopes, stream.offsets, strict=True)
    both = function(Enclosed(*(np.concatenate(pair) for pair in pairs)), n_linear=n)
    return LineForms(chosen_rows(both, slice(n)), chosen_rows(both, slice(n, None)))


def output_forms(
    layer: ArgmaxLayer, stream: LineForms, scores: LineForms, owner: IntArray, winners: IntArray
) -> LineForms:
    """The stream after a layer on parts of intervals where the winners are strict."""
    chosen = layer.starts[:-1] + winners
    gains = layer.gains[chosen]
    slopes = _times(gains, _taken(scores.slopes, owner, chosen))
    offsets = _times(gains, _taken(scores.offsets, owner, chosen))
    shape = len(owner), layer.output.dim_in
    blocks = LineForms(*(Enclosed(np.zeros(shape), np.zeros(shape)) for _ in range(2)))
    width = layer.values.shape[1]
    if layer.has_own_slots and not layer.values.any():
        for part, passed in ((blocks.slopes, slopes), (blocks.offsets, offsets)):
            part.values[:, layer.slots], part.radii[:, layer.slots] = passed
    else:
        for g, slot in enumerate(layer.slots.tolist()):
            constants = Enclosed.exactly(layer.values[chosen[:, g]])
            _add_to(blocks.slopes, slice(slot, slot + 1), chosen_rows(slopes, (slice(None), [g])))
            _add_to(blocks.offsets, slice(slot, slot + 1), chosen_rows(offsets, (slice(None), [g])))
            _add_to(blocks.offsets, slice(slot, slot + width), constants)
    result = mapped_forms(layer.output, blocks)
    if not layer.residual:
        return result
    return LineForms(
        enclosed_sum(chosen_rows(stream.slopes, owner), result.slopes),
        enclosed_sum(chosen_rows(stream.offsets, owner), result.offsets),
    )


def final_forms(
    layer: ArgmaxLayer,
    readout: AffineMap,
    stream: LineForms,
    scores: LineForms,
    owner: IntArray,
    winners: AnyArray,
) -> LineForms:
    r"""The output after the last layer on parts of intervals where the winners are strict.

    Next to nothing changes from one part of an interval to the next. If units pass their scores
    on, a running sum over the changes replaces the product of all scores with the read-out. A sum
    of $m$ rounded terms is wrong by at most $\gamma_m$ times the sum of their sizes, and by their
    own errors.
    """
    first = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    if not copies_winners(layer) or 4 * len(first) > len(owner):
        return mapped_forms(readout, output_forms(layer, stream, scores, owner, winners))
    starts = mapped_forms(
        readout, output_forms(layer, stream, scores, owner[first], winners[first])
    )
    row, group = changed_entries(winners[1:] != winners[:-1])
    kept = owner[row + 1] == owner[row]
    row, group = row[kept], group[kept]
    old = layer.starts[group] + winners[row, group]
    new = layer.starts[group] + winners[row + 1, group]
    weight = readout.weight[layer.slots[group]]
    kappa = 4 * rounding_factor(len(row) + len(owner) + 8)

    def summed(at_start: Enclosed, part: Enclosed) -> Enclosed:
        mine = owner[row]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            change = (part.values[mine, new] - part.values[mine, old])[:, np.newaxis] * weight
            error = (part.radii[mine, new] + part.radii[mine, old])[:, np.newaxis] * np.abs(weight)
            values, sizes, errors = np.zeros((3, len(owner), readout.dim_out))
            values[first], sizes[first], errors[first] = (
                at_start[0],
                np.abs(at_start[0]),
                at_start[1],
            )
            for total, terms in ((values, change), (sizes, np.abs(change)), (errors, error)):
                np.add.at(total, row + 1, terms)
                for begin, end in pairwise([*first.tolist(), len(owner)]):
                    np.cumsum(total[begin:end], axis=0, out=total[begin:end])
            return known(values, errors * (1.0 + 2.0**-20) + kappa * sizes + 2.0**-1000)

    return LineForms(summed(starts.slopes, scores.slopes), summed(starts.offsets, scores.offsets))


def copies_winners(layer: ArgmaxLayer) -> bool:
    """Whether the stream after a layer is nothing but scores of winners, each in its own place."""
    return (
        layer.output.is_identity
        and not layer.residual
        and layer.has_own_slots
        and bool(layer.passes_maximum.all())
    )


def _add_to(blocks: Enclosed, columns: slice, part: Enclosed) -> None:
    """Add to some columns in place; zeros add nothing, not even a radius."""
    if not (part.values.any() or part.radii.any()):
        return
    held = Enclosed(blocks.values[:, columns], blocks.radii[:, columns])
    if held.values.any() or held.radii.any():
        part = enclosed_sum(held, part)
    blocks.values[:, columns], blocks.radii[:, columns] = part


def _times(gains: FloatArray, part: Enclosed) -> Enclosed:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        values = gains * part.values
        # One rounding, covered four times, and its underflow; a factor 0 or 1 rounds nothing.
        rounding = 4 * 2.0**-53 * np.abs(values) + 2.0**-1020
        radii = np.abs(gains) * part.radii * (1.0 + 2.0**-20) + rounding
    radii = np.where(gains == 0.0, 0.0, np.where(gains == 1.0, part.radii, radii))
    return known(np.where(gains == 0.0, 0.0, values), radii)


def _taken(part: Enclosed, owner: IntArray, chosen: IntArray) -> Enclosed:
    rows = owner[:, np.newaxis]
    return Enclosed(part.values[rows, chosen], part.radii[rows, chosen])


def chosen_rows(part: Enclosed, chosen: Any) -> Enclosed:
    """Index values and radii alike."""
    return Enclosed(part.values[chosen], part.radii[chosen])


def rounded_forms(forms: RationalForms) -> Enclosed:
    """Round exact forms: values and radii, shape `(n_forms, 2)`."""
    values = forms.rounded()
    nonzero = np.array([[entry != 0 for entry in row] for row in forms.rows])
    with np.errstate(over="ignore"):
        radii = np.where(nonzero, np.abs(values) * 2.0**-52 + 2.0**-1070, 0.0)
    return known(values, radii)


def stacked_forms(parts: list[Enclosed]) -> LineForms:
    """Join streams as `rounded_forms` returns them, one for each interval."""
    values = np.stack([value for value, _ in parts])
    radii = np.stack([radius for _, radius in parts])
    return LineForms(
        *(
            Enclosed(np.ascontiguousarray(values[..., k]), np.ascontiguousarray(radii[..., k]))
            for k in range(2)
        )
    )
