"""Evaluation of a batch in multiples of float64 precision, for networks too deep for one float64.

The radii of `run_float_pass` grow by a factor of about 4 per layer at width 64, even if the true
errors do not; after about 20 layers they are useless. With more limbs, the radii start
correspondingly lower. Numbers short enough to fit have radius 0, so this pass also detects their
exact ties.
"""

from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardmax.exact.limbs import (
    LimbFormat,
    LimbMap,
    Limbs,
    Term,
    round_sums,
    split_into_limbs,
)
from hardmax.exact.rounding import RAISE, TINY
from hardmax.models._arithmetic.enclosures import EnclosedMap
from hardmax.models._arithmetic.float_pass import PreparedLayer, prepare_layers
from hardmax.models._arithmetic.form_bundles import FormBundle, ReluBundle
from hardmax.models._arithmetic.layers import VectorBackend, decide
from hardmax.models._arithmetic.normed_maps import cached_normed_map, is_relu_network
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import BoolArray, FloatArray, IntArray

_MOST_WEIGHTS = 1 << 23
"""Every weight is stored in several limbs; larger networks are evaluated in integers instead."""

_CLOSE_BITS = 40

_maps: "WeakKeyDictionary[EnclosedMap, dict[LimbFormat, LimbMap]]" = WeakKeyDictionary()


class LimbPassResult(NamedTuple):
    """The winners for a batch.

    Attributes:
        first: Index of the first winner in each group, shape `(n_points, n_groups)`.
        n_tied: The number of winning forms in each group, shape `(n_points, n_groups)`.
        is_open: Whether a group is undecided, shape `(n_points,)`; the winners are then a guess.
        is_close: Whether a group is undecided although its radius is small, shape `(n_points,)`:
            there is a tie or a near-tie, and more limbs are unlikely to help.
    """

    first: IntArray
    n_tied: IntArray
    is_open: BoolArray
    is_close: BoolArray


def is_limb_compatible(network: ArgmaxNetwork) -> bool:
    """Whether `run_limb_pass` applies: all groups contribute their maximum or constants."""
    return _count_weights(network) <= _MOST_WEIGHTS and all(
        layer.n_largest_overlap == 1
        and all(
            isinstance(bundle, ReluBundle) or bundle.is_maximum or bundle.is_table
            for bundle in layer.bundles
        )
        for layer in prepare_layers(network)
    )


def run_limb_pass(
    network: ArgmaxNetwork, points: FloatArray, n_limbs: int, chart: AffineMap | None = None
) -> LimbPassResult:
    """Find the winners at a batch of points.

    Args:
        network: The network, which must be compatible (see `is_limb_compatible`).
        points: Shape `(n_points, dim_in)`, finite; preferably of one order of magnitude.
        n_limbs: The number of limbs, from 2 to 32.
        chart: If given, the points are coordinates, and this map takes them to inputs.
    """
    ready = prepare_layers(network)
    widths = [points.shape[1], network.dim_in, *(layer.dim_in for layer in network.layers)]
    widths += [layer.query.dim_out for layer in network.layers]
    widths += [layer.output.dim_in for layer in network.layers]
    form = LimbFormat.for_width(n_limbs, max(widths))
    stream = split_into_limbs(form, [Term(points.copy())], np.zeros(points.shape))
    shape = len(points), network.n_groups
    marks = np.zeros((2, len(points)), dtype=np.bool_)
    found = LimbPassResult(np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.int64), *marks)
    if is_relu_network(network):
        before = [m for m in (chart, network.embedding) if m is not None and not m.is_identity]
        _decide_relu_network(form, network, before, stream, found)
        return found

    def contribute(place: Place, query: Limbs) -> Limbs:
        mine = LimbPassResult(found.first[:, place.groups], found.n_tied[:, place.groups], *marks)
        return _contribute(form, place.layer, ready[place.depth], query, mine)

    def apply(affine: AffineMap, vectors: Limbs) -> Limbs:
        return _apply_map(form, affine.enclosed, vectors)

    decide(network, stream, VectorBackend(apply, partial(_add_limbs, form)), contribute, chart)
    return found


def _decide_relu_network(
    form: LimbFormat,
    network: ArgmaxNetwork,
    before: list[AffineMap],
    stream: Limbs,
    found: LimbPassResult,
) -> None:
    """Decide the units of a ReLU network, with bounds on whole vectors as in `run_normed_pass`."""
    errors = _bound_norms(stream.radii)
    for affine in before:
        stream, errors = _apply_with_norms(form, affine, stream, errors)
    for _, layer, groups in network.places:
        query, errors = _apply_with_norms(form, layer.query, stream, errors)
        stream = _rectify(query, found, groups)


def _apply_with_norms(
    form: LimbFormat, affine: AffineMap, stream: Limbs, errors: FloatArray
) -> tuple[Limbs, FloatArray]:
    """Apply a map; return the values with radii, and the norms of their errors."""
    if affine.enclosed is None:
        return stream._replace(radii=np.maximum(stream.radii, errors[:, np.newaxis])), errors
    image = _apply_map(form, affine.enclosed, stream._replace(radii=np.zeros_like(stream.radii)))
    if not errors.any():
        return image, _bound_norms(image.radii)
    normed = cached_normed_map(affine)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        least = np.where(errors > 0.0, TINY, 0.0)
        radii = image.radii + (errors[:, np.newaxis] * normed.omega * RAISE + least[:, np.newaxis])
        errors = (normed.sigma * errors + _bound_norms(image.radii)) * RAISE + least
    # Infinity times 0, or infinity minus infinity, gives no bound.
    return image._replace(radii=_replace_nan(radii)), _replace_nan(errors)


@np.errstate(under="ignore")
def _bound_norms(radii: FloatArray) -> FloatArray:
    """Bound the norms of vectors from bounds on their entries."""
    largest = radii.max(axis=1, initial=0.0)
    return np.asarray(largest * (np.sqrt(radii.shape[1]) * RAISE))


def _replace_nan(bounds: FloatArray) -> FloatArray:
    return np.where(np.isnan(bounds), np.inf, bounds)


def _count_weights(network: ArgmaxNetwork) -> int:
    maps = [network.embedding]
    for layer in network.layers:
        maps += [layer.query, layer.output]
    forms = sum(layer.slopes.size for layer in network.layers)
    return forms + sum(affine.weight.size for affine in maps if not affine.is_identity)


def _apply_map(form: LimbFormat, affine: EnclosedMap | None, stream: Limbs) -> Limbs:
    if affine is None:
        return stream
    known = _maps.setdefault(affine, {})
    if form not in known:
        known[form] = LimbMap(form, affine.weight, affine.bias)
    return known[form](stream)


@np.errstate(under="ignore")
def _add_limbs(form: LimbFormat, left: Limbs, right: Limbs) -> Limbs:
    terms = _to_terms(form, left) + _to_terms(form, right)
    return split_into_limbs(form, terms, (left.radii + right.radii) * RAISE)


def _to_terms(form: LimbFormat, limbs: Limbs) -> list[Term]:
    parts = enumerate(limbs.parts.copy())
    return [Term(part, limbs.exponent - form.bits * (k + 1)) for k, part in parts]


def _contribute(
    form: LimbFormat, layer: ArgmaxLayer, ready: PreparedLayer, query: Limbs, found: LimbPassResult
) -> Limbs:
    if ready.only_rectifies:
        return _rectify(query, found, slice(None))
    shape = len(found.first), layer.output.dim_in
    constants, radii = np.zeros(shape), np.zeros(shape)
    terms: list[Term] = []
    for bundle in ready.bundles:
        slots = layer.slots[bundle.groups]
        if isinstance(bundle, ReluBundle):
            units = _rectify(query.columns(bundle.columns), found, bundle.groups)
        else:
            scores = _apply_map(form, bundle.scores, query.columns(bundle.columns))
            winner, units = _decide_bundle(bundle, scores, found)
            if bundle.is_table:
                each = np.arange(len(slots))
                columns = np.add.outer(slots, np.arange(layer.values.shape[1]))
                constants[:, columns] = bundle.values.values[each, winner]
                radii[:, columns] = bundle.values.radii[each, winner]
                continue
        # Bundles may have different exponents; every slot is written by exactly one of them.
        parts = np.zeros((form.n_limbs, *shape))
        parts[:, :, slots] = units.parts
        radii[:, slots] = units.radii
        terms += _to_terms(form, Limbs(parts, units.exponent, radii))
    terms.append(Term(constants))
    return _sum_terms(form, terms, radii)


def _sum_terms(form: LimbFormat, terms: list[Term], radii: FloatArray) -> Limbs:
    """Add any number of terms, `2 * n_limbs` at a time."""
    while len(terms) > 2 * form.n_limbs:
        some = split_into_limbs(form, terms[: 2 * form.n_limbs], radii)
        radii = some.radii
        terms = _to_terms(form, some) + terms[2 * form.n_limbs :]
    return split_into_limbs(form, terms, radii)


def _rectify(query: Limbs, found: LimbPassResult, groups: IntArray | slice) -> Limbs:
    """Decide ReLU units, and apply them."""
    values = round_sums(query.parts)
    is_on = values > 0.0
    # The sign is known if the value exceeds its radius; a zero of radius 0 is a tie.
    unclear = np.abs(values) <= query.radii * RAISE
    # Where the winner is unclear, guess the first form that may win, which is 0.
    found.first[:, groups] = is_on & ~unclear
    if unclear.any():
        found.n_tied[:, groups] = 1 + unclear
        _mark_open(found, unclear & (query.radii > 0.0), query.radii, query.exponent)
    radii = np.where(is_on | unclear, query.radii, 0.0)
    return Limbs(query.parts * is_on, query.exponent, radii)


def _decide_bundle(
    bundle: FormBundle, scores: Limbs, found: LimbPassResult
) -> tuple[IntArray, Limbs]:
    """Decide groups of forms; return the position of a winner of each, and the largest scores."""
    shape = len(found.first), *bundle.first.shape
    parts = scores.parts.reshape(-1, *shape)
    radii = scores.radii.reshape(shape)
    best = round_sums(scores.parts).reshape(shape).argmax(axis=2)
    chosen, gaps = _subtract_best(parts, best)
    for _ in range(len(parts)):
        # Rounded sums may tie although the limbs do not; their differences show this.
        if not (gaps > 0.0).any():
            break
        best = gaps.argmax(axis=2)
        chosen, gaps = _subtract_best(parts, best)
    reach = (radii + np.take_along_axis(radii, best[:, :, np.newaxis], axis=2)) * RAISE
    candidates = gaps >= -reach
    winner = candidates.argmax(axis=2)
    each = np.arange(len(bundle.groups))
    is_alone = candidates.sum(axis=2) == 1
    # Candidates whose difference is known to be 0 tie; any others leave the group open.
    is_open = np.where(
        is_alone[:, :, np.newaxis], np.isinf(reach), candidates & ((reach > 0.0) | (gaps > 0.0))
    )
    found.first[:, bundle.groups] = bundle.first[each, winner]
    found.n_tied[:, bundle.groups] = (candidates * bundle.copies).sum(axis=2)
    if bundle.is_table:
        # If constants tie, the output is a mean, which is left to the exact pass.
        is_open |= ~is_alone[:, :, np.newaxis]
    _mark_open(found, is_open, reach, scores.exponent)
    largest = np.where(candidates, radii, 0.0).max(axis=2)
    return winner, Limbs(chosen[:, :, :, 0], scores.exponent, largest)


def _subtract_best(parts: FloatArray, best: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the limbs of one score of each group, and all scores minus this score."""
    chosen = np.take_along_axis(parts, best[np.newaxis, :, :, np.newaxis], axis=3)
    return chosen, round_sums(parts - chosen)


def _mark_open(
    found: LimbPassResult, undecided: BoolArray, radii: FloatArray, exponent: int
) -> None:
    """Mark the points with undecided groups, and the points where such a radius is small."""
    axes = tuple(range(1, undecided.ndim))
    found.is_open[:] |= undecided.any(axis=axes)
    found.is_close[:] |= (undecided & (radii < 2.0 ** (exponent - _CLOSE_BITS))).any(axis=axes)
