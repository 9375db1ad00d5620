"""A batch through a network in several times float64: what one float64 leaves open when deep.

The radii of `float_pass` grow with every layer, by a factor of about 4 at width 64, whatever the
true errors do; after some 20 layers they say nothing. With more limbs they start that much lower.
Numbers short enough to fit have radius 0, so that this pass also sees their exact ties.
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
from hardmax.models._arithmetic.float_pass import PreparedLayer, prepared
from hardmax.models._arithmetic.form_bundles import FormBundle, ReluBundle
from hardmax.models._arithmetic.layers import Numbers, decide
from hardmax.models._arithmetic.normed_maps import is_rectified, normed_map
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import BoolArray, FloatArray, IntArray

_MOST_WEIGHTS = 1 << 23
"""A weight is kept in several limbs; networks with more weights are left to integers."""

_CLOSE_BITS = 40

_maps: "WeakKeyDictionary[EnclosedMap, dict[LimbFormat, LimbMap]]" = WeakKeyDictionary()


class Winners(NamedTuple):
    """Who wins for a batch.

    Attributes:
        first: Index of the first winner in each group, shape `(n_points, n_groups)`.
        n_tied: How many forms of each group win, shape `(n_points, n_groups)`.
        is_open: Whether a group was not decided, shape `(n_points,)`; the rest then is a guess.
        is_close: Whether one was not decided although its radius is small, shape `(n_points,)`:
            there is a tie, or nearly so, and more limbs will hardly help.
    """

    first: IntArray
    n_tied: IntArray
    is_open: BoolArray
    is_close: BoolArray


def fits_limbs(network: ArgmaxNetwork) -> bool:
    """Whether `limb_pass` can be applied: groups pass their maximum on, or constants."""
    return _n_weights(network) <= _MOST_WEIGHTS and all(
        layer.n_largest_overlap == 1
        and all(
            isinstance(bundle, ReluBundle) or bundle.is_maximum or bundle.is_table
            for bundle in layer.bundles
        )
        for layer in prepared(network)
    )


def limb_pass(
    network: ArgmaxNetwork, points: FloatArray, n_limbs: int, chart: AffineMap | None = None
) -> Winners:
    """Find the winners at a batch of points, of a network that fits.

    Args:
        network: The network.
        points: Shape `(n_points, dim_in)`, finite; of one order of magnitude at best.
        n_limbs: How many limbs to compute with, from 2 to 32.
        chart: If given, the points are coordinates, and this map gives the inputs.
    """
    ready = prepared(network)
    widths = [points.shape[1], network.dim_in, *(layer.dim_in for layer in network.layers)]
    widths += [layer.query.dim_out for layer in network.layers]
    widths += [layer.output.dim_in for layer in network.layers]
    form = LimbFormat.for_width(n_limbs, max(widths))
    stream = split_into_limbs(form, [Term(points.copy())], np.zeros(points.shape))
    shape = len(points), network.n_groups
    marks = np.zeros((2, len(points)), dtype=np.bool_)
    found = Winners(np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.int64), *marks)
    if is_rectified(network):
        before = [m for m in (chart, network.embedding) if m is not None and not m.is_identity]
        _name_rectified(form, network, before, stream, found)
        return found

    def contribute(place: Place, query: Limbs) -> Limbs:
        mine = Winners(found.first[:, place.groups], found.n_tied[:, place.groups], *marks)
        return _contributions(form, place.layer, ready[place.depth], query, mine)

    def apply(affine: AffineMap, vectors: Limbs) -> Limbs:
        return _mapped(form, affine.enclosed, vectors)

    decide(network, stream, Numbers(apply, partial(_total, form)), contribute, chart)
    return found


def _name_rectified(
    form: LimbFormat,
    network: ArgmaxNetwork,
    before: list[AffineMap],
    stream: Limbs,
    found: Winners,
) -> None:
    """Name the units of a ReLU network, with bounds on whole vectors as in `normed_pass`."""
    errors = _norms(stream.radii)
    for affine in before:
        stream, errors = _with_norms(form, affine, stream, errors)
    for _, layer, groups in network.places:
        query, errors = _with_norms(form, layer.query, stream, errors)
        stream = _rectified(query, found, groups)


def _with_norms(
    form: LimbFormat, affine: AffineMap, stream: Limbs, errors: FloatArray
) -> tuple[Limbs, FloatArray]:
    """Apply a map; return the values with radii, and the norms of their errors."""
    if affine.enclosed is None:
        return stream._replace(radii=np.maximum(stream.radii, errors[:, np.newaxis])), errors
    image = _mapped(form, affine.enclosed, stream._replace(radii=np.zeros_like(stream.radii)))
    if not errors.any():
        return image, _norms(image.radii)
    normed = normed_map(affine)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        least = np.where(errors > 0.0, TINY, 0.0)
        radii = image.radii + (errors[:, np.newaxis] * normed.omega * RAISE + least[:, np.newaxis])
        errors = (normed.sigma * errors + _norms(image.radii)) * RAISE + least
    # Infinity times 0, or less infinity, is nothing known.
    return image._replace(radii=_known(radii)), _known(errors)


@np.errstate(under="ignore")
def _norms(radii: FloatArray) -> FloatArray:
    """Bound the norms of vectors whose entries have these bounds."""
    largest = radii.max(axis=1, initial=0.0)
    return np.asarray(largest * (np.sqrt(radii.shape[1]) * RAISE))


def _known(bounds: FloatArray) -> FloatArray:
    return np.where(np.isnan(bounds), np.inf, bounds)


def _n_weights(network: ArgmaxNetwork) -> int:
    maps = [network.embedding]
    for layer in network.layers:
        maps += [layer.query, layer.output]
    forms = sum(layer.slopes.size for layer in network.layers)
    return forms + sum(affine.weight.size for affine in maps if not affine.is_identity)


def _mapped(form: LimbFormat, affine: EnclosedMap | None, stream: Limbs) -> Limbs:
    if affine is None:
        return stream
    known = _maps.setdefault(affine, {})
    if form not in known:
        known[form] = LimbMap(form, affine.weight, affine.bias)
    return known[form](stream)


@np.errstate(under="ignore")
def _total(form: LimbFormat, left: Limbs, right: Limbs) -> Limbs:
    terms = _terms(form, left) + _terms(form, right)
    return split_into_limbs(form, terms, (left.radii + right.radii) * RAISE)


def _terms(form: LimbFormat, limbs: Limbs) -> list[Term]:
    parts = enumerate(limbs.parts.copy())
    return [Term(part, limbs.exponent - form.bits * (k + 1)) for k, part in parts]


def _contributions(
    form: LimbFormat, layer: ArgmaxLayer, ready: PreparedLayer, query: Limbs, found: Winners
) -> Limbs:
    if ready.only_rectifies:
        return _rectified(query, found, slice(None))
    shape = len(found.first), layer.output.dim_in
    constants, radii = np.zeros(shape), np.zeros(shape)
    terms: list[Term] = []
    for bundle in ready.bundles:
        slots = layer.slots[bundle.groups]
        if isinstance(bundle, ReluBundle):
            units = _rectified(query.columns(bundle.columns), found, bundle.groups)
        else:
            scores = _mapped(form, bundle.scores, query.columns(bundle.columns))
            winner, units = _decided(bundle, scores, found)
            if bundle.is_table:
                each = np.arange(len(slots))
                columns = np.add.outer(slots, np.arange(layer.values.shape[1]))
                constants[:, columns] = bundle.values.values[each, winner]
                radii[:, columns] = bundle.values.radii[each, winner]
                continue
        # Bundles differ in their grids; every slot is written by one of them.
        parts = np.zeros((form.n_limbs, *shape))
        parts[:, :, slots] = units.parts
        radii[:, slots] = units.radii
        terms += _terms(form, Limbs(parts, units.exponent, radii))
    terms.append(Term(constants))
    return _gathered(form, terms, radii)


def _gathered(form: LimbFormat, terms: list[Term], radii: FloatArray) -> Limbs:
    """Cut any number of terms, few enough at a time."""
    while len(terms) > 2 * form.n_limbs:
        some = split_into_limbs(form, terms[: 2 * form.n_limbs], radii)
        radii = some.radii
        terms = _terms(form, some) + terms[2 * form.n_limbs :]
    return split_into_limbs(form, terms, radii)


def _rectified(query: Limbs, found: Winners, groups: IntArray | slice) -> Limbs:
    """Name ReLU units, and rectify them."""
    values = round_sums(query.parts)
    is_on = values > 0.0
    # Beyond its radius the sign is known; a zero of radius 0 is a tie.
    unclear = np.abs(values) <= query.radii * RAISE
    # As the first of the forms that may win, 0 is the better guess where that is unclear.
    found.first[:, groups] = is_on & ~unclear
    if unclear.any():
        found.n_tied[:, groups] = 1 + unclear
        _open(found, unclear & (query.radii > 0.0), query.radii, query.exponent)
    radii = np.where(is_on | unclear, query.radii, 0.0)
    return Limbs(query.parts * is_on, query.exponent, radii)


def _decided(bundle: FormBundle, scores: Limbs, found: Winners) -> tuple[IntArray, Limbs]:
    """Name groups of forms; return the place of a winner of each, and the largest scores."""
    shape = len(found.first), *bundle.first.shape
    parts = scores.parts.reshape(-1, *shape)
    radii = scores.radii.reshape(shape)
    best = round_sums(scores.parts).reshape(shape).argmax(axis=2)
    chosen, gaps = _gaps(parts, best)
    for _ in range(len(parts)):
        # Rounded sums may tie where limbs do not; differences see that.
        if not (gaps > 0.0).any():
            break
        best = gaps.argmax(axis=2)
        chosen, gaps = _gaps(parts, best)
    reach = (radii + np.take_along_axis(radii, best[:, :, np.newaxis], axis=2)) * RAISE
    candidates = gaps >= -reach
    winner = candidates.argmax(axis=2)
    each = np.arange(len(bundle.groups))
    is_alone = candidates.sum(axis=2) == 1
    # Candidates whose distance is known to be 0 tie; others leave the group open.
    is_open = np.where(
        is_alone[:, :, np.newaxis], np.isinf(reach), candidates & ((reach > 0.0) | (gaps > 0.0))
    )
    found.first[:, bundle.groups] = bundle.first[each, winner]
    found.n_tied[:, bundle.groups] = (candidates * bundle.copies).sum(axis=2)
    if bundle.is_table:
        # Where constants tie, the output is a mean; that is left to integers.
        is_open |= ~is_alone[:, :, np.newaxis]
    _open(found, is_open, reach, scores.exponent)
    largest = np.where(candidates, radii, 0.0).max(axis=2)
    return winner, Limbs(chosen[:, :, :, 0], scores.exponent, largest)


def _gaps(parts: FloatArray, best: IntArray) -> tuple[FloatArray, FloatArray]:
    """The limbs of one score of each group, and by how much the scores exceed it."""
    chosen = np.take_along_axis(parts, best[np.newaxis, :, :, np.newaxis], axis=3)
    return chosen, round_sums(parts - chosen)


def _open(found: Winners, undecided: BoolArray, radii: FloatArray, exponent: int) -> None:
    """Mark the points of what is undecided, and whether their radii are small all the same."""
    axes = tuple(range(1, undecided.ndim))
    found.is_open[:] |= undecided.any(axis=axes)
    found.is_close[:] |= (undecided & (radii < 2.0 ** (exponent - _CLOSE_BITS))).any(axis=axes)
