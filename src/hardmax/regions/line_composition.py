"""Forms on a line composed through a layer, in float64 with proven radii."""

from typing import Any

import numpy as np

from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer
from hardmax.models.enclosures import Enclosed, EnclosedMap, enclosed_sum, known
from hardmax.models.recomposition import RationalForms
from hardmax.regions.line_filter import LineForms
from hardmax.typing import FloatArray, IntArray


def mapped_forms(affine: AffineMap, stream: LineForms) -> LineForms:
    """Apply an affine map to forms: the bias goes to the offsets."""
    return _weighted(affine.weight, affine.bias, stream)


def _weighted(weight: FloatArray, bias: FloatArray, stream: LineForms) -> LineForms:
    return LineForms(
        EnclosedMap.of(weight, np.zeros_like(bias))(stream.slopes),
        EnclosedMap.of(weight, bias)(stream.offsets),
    )


def score_forms(layer: ArgmaxLayer, stream: LineForms) -> LineForms:
    """The scores of all forms of a layer."""
    query = stream if layer.query.is_identity else mapped_forms(layer.query, stream)
    copied = _copied_columns(layer)
    if copied is None:
        return _weighted(np.ascontiguousarray(layer.slopes.T), layer.offsets, query)
    return LineForms(_copied(query.slopes, copied), _copied(query.offsets, copied))


def _copied_columns(layer: ArgmaxLayer) -> IntArray | None:
    """Return which query each form is, -1 for zero; None if a form is something else.

    ReLU units are such forms; copying columns takes the place of a product of large matrices.
    """
    nonzero = layer.slopes != 0.0
    if layer.offsets.any() or not (layer.slopes[nonzero] == 1.0).all():
        return None
    counts = nonzero.sum(axis=1)
    if (counts > 1).any():
        return None
    return np.where(counts == 1, nonzero.argmax(axis=1), -1)


def _copied(part: Enclosed, columns: IntArray) -> Enclosed:
    is_zero = columns < 0
    values, radii = part.values[:, columns], part.radii[:, columns]
    values[:, is_zero] = radii[:, is_zero] = 0.0
    return Enclosed(values, radii)


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
    columns = np.add.outer(layer.slots, np.arange(width))
    if len(np.unique(columns)) == columns.size and not layer.values.any():
        for part, passed in ((blocks.slopes, slopes), (blocks.offsets, offsets)):
            part.values[:, layer.slots], part.radii[:, layer.slots] = passed
    else:
        for g, slot in enumerate(layer.slots.tolist()):
            constants = Enclosed.exactly(layer.values[chosen[:, g]])
            _add_to(blocks.slopes, slice(slot, slot + 1), chosen_rows(slopes, (slice(None), [g])))
            _add_to(blocks.offsets, slice(slot, slot + 1), chosen_rows(offsets, (slice(None), [g])))
            _add_to(blocks.offsets, slice(slot, slot + width), constants)
    result = blocks if layer.output.is_identity else mapped_forms(layer.output, blocks)
    if not layer.residual:
        return result
    return LineForms(
        enclosed_sum(chosen_rows(stream.slopes, owner), result.slopes),
        enclosed_sum(chosen_rows(stream.offsets, owner), result.offsets),
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
