"""Leads of the heads of a hard network for a batch of points, in floats with proven ends."""

from typing import NamedTuple

import numpy as np

from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.enclosures import Enclosed, enclosed_sum, known
from hardmax.models.form_scores import enclosed_scores
from hardmax.stability.models import head_names
from hardmax.typing import BoolArray, FloatArray


class EnclosedLeads(NamedTuple):
    """Lower and upper ends of leads.

    Attributes:
        low: No lead is below this, shape `(n_points, n_heads)`; `inf` for heads with one key.
        high: None is above this.
        is_known: False where floats could not decide a winner; the ends then say nothing.
    """

    low: FloatArray
    high: FloatArray
    is_known: BoolArray


def enclosed_leads(network: ArgmaxNetwork, points: FloatArray) -> EnclosedLeads:
    """Evaluate the leads of all heads; points near a wall are marked unknown."""
    stream = _applied(network.embedding, Enclosed.exactly(points))
    is_known = np.ones(len(points), dtype=bool)
    n_heads = len(head_names(network))
    low, high = np.full((2, len(points), n_heads), np.inf)
    head = 0
    for layer in network.layers:
        query = _applied(layer.query, stream)
        scores = enclosed_scores(layer, query)
        values = np.zeros((len(points), layer.output.dim_in))
        radii = np.zeros_like(values)
        for group in range(layer.n_groups):
            part, lead_low, lead_high = _group(layer, scores, group)
            is_known &= lead_low > 0.0
            slot = int(layer.slots[group])
            where = slice(slot, slot + part.values.shape[1])
            total = enclosed_sum(Enclosed(values[:, where], radii[:, where]), part)
            values[:, where], radii[:, where] = total
            if layer.is_table[group]:
                low[:, head], high[:, head] = lead_low, lead_high
                head += 1
        result = _applied(layer.output, Enclosed(values, radii))
        stream = enclosed_sum(stream, result) if layer.residual else result
    return EnclosedLeads(low, high, is_known)


def _applied(affine: AffineMap, stream: Enclosed) -> Enclosed:
    return stream if affine.enclosed is None else affine.enclosed(stream)


def _group(
    layer: ArgmaxLayer, scores: Enclosed, group: int
) -> tuple[Enclosed, FloatArray, FloatArray]:
    """What a group contributes, and the ends of its winner's lead."""
    forms = slice(int(layer.starts[group]), int(layer.starts[group + 1]))
    values, radii = scores.values[:, forms], scores.radii[:, forms]
    each = np.arange(len(values))
    best = values.argmax(axis=1)
    top, spread = values[each, best], radii[each, best]
    low = high = np.full(len(values), np.inf)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if values.shape[1] > 1:
            others = np.where(np.arange(values.shape[1]) == best[:, None], -np.inf, values)
            # The radii of `enclosures` leave room for one more rounding of such sums.
            low = (top - spread) - (others + radii).max(axis=1)
            high = (top + spread) - (others - radii).max(axis=1)
            slack = 2.0**-50 * (np.abs(top) + np.abs(others[np.isfinite(others)]).max(initial=0.0))
            low, high = low - slack, high + slack
        low = np.where(np.isfinite(radii).all(axis=1), low, -np.inf)
        chosen = layer.values[forms][best]
        part = Enclosed(chosen.copy(), np.zeros_like(chosen))
        gains = layer.gains[forms][best]
        if gains.any():
            passed = gains * top
            size = 4 * 2.0**-53 * np.abs(passed) + np.abs(gains) * spread * (1.0 + 2.0**-20)
            error = np.where(gains == 0.0, 0.0, size + 2.0**-1020)
            first = enclosed_sum(known(passed, error), Enclosed(chosen[:, 0], np.zeros(len(top))))
            part.values[:, 0], part.radii[:, 0] = first
    return part, low, high
