r"""The float32 error: a bound on the exported module minus the network, over the whole box.

The bound of `float32_layers` is computed for many small boxes that fill the box; the boxes with the
largest bounds are split first. The result is the largest remaining bound, so stopping early makes
it weaker but not wrong. If the units have origins, most units are 0 on a small box, and the
remaining units form a small network (`local_networks`).
"""

import heapq
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan, propagate
from hardmax.constructions.compilers._bounds.float32_layers import (
    LARGEST_32,
    LocalErrors,
    bound_local_errors,
)
from hardmax.constructions.compilers._bounds.interval_images import compact
from hardmax.constructions.compilers._bounds.local_networks import LocalNetwork, is_zero
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import ArgumentError
from hardmax.exact.rounding import RAISE, UNDERFLOW_ALLOWANCE_32, UNIT_ROUNDOFF_32
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.typing import FloatArray

_SMALLEST_32 = 2.0**-126
_WORK, _AT_ONCE, _CALL = 2**26, 2**20, 2**14
"""The total budget of products, the maximum per call, and the overhead of a call in products."""
_SMALL = 2**12
"""Networks with a smaller cost are not reduced further; many boxes are split at once instead."""
_MOST_SPLIT_DIM = 6
_GOOD = 1.25
_MOST_POINTS, _DIRECTIONS = 512, 4
_TIE = 2.0**-40


@dataclass(frozen=True, eq=False)
class Float32Rounding:
    r"""A bound on the error of a compiled transformer in float32.

    Attributes:
        errors: For each output, a proven bound on $|\hat T(x) - f(x)|$ for all float32 inputs $x$
            in the box, where $\hat T$ is the module in float32 and $f$ is the network (or function)
            without rounding; shape `(dim_out,)`. Infinite if float32 cannot represent the numbers.
        conditioning: The largest value of $\sum_j |\partial_j f_c(x)||x_j| u$ with $u = 2^{-24}$
            that was found, that is, the change of the function when only its input is rounded to
            float32. It is found at many points, not proven.
        where: The centre of the small box with the largest bound, shape `(dim_in,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.constructions import compile_relu
        >>> net = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
        >>> rounding = compile_relu(net, Box([-1], [1]), 1e-3).float32
        >>> 0.0 < rounding.error < 1e-2, rounding.where.shape
        (True, (1,))
    """

    errors: FloatArray
    conditioning: float
    where: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def error(self) -> float:
        """The largest bound over all outputs."""
        return float(self.errors.max())

    def __str__(self) -> str:
        return (
            f"at most {self.error:.3g}; rounding the input alone can cost {self.conditioning:.3g}"
        )


def float32_rounding(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> Float32Rounding:
    """Bound the float32 error of the soft transformer of a network over a box.

    Args:
        layers: The hidden layers of the network.
        last: Its last layer.
        plans: The plans of the layers of the soft transformer.
        box: The box.
    """
    if not _do_weights_fit(layers, last, plans, box):
        unknown = np.full(last.dim_out, np.inf)
        middle = box.low / 2 + box.high / 2
        return Float32Rounding(unknown, _estimate_conditioning(layers, last, middle[None]), middle)
    lows, highs, bounds = _refine(LocalNetwork.of(layers, last, plans), box)
    errors = bounds.max(axis=0)
    # Units with their own origins are numerous, and all of them are large somewhere on the box.
    if not layers or not isinstance(layers[0].origins, UnitOrigins):
        errors = np.fmin(errors, _bound_whole_box(layers, last, plans, box))
    errors = errors * RAISE
    middle = lows / 2 + highs / 2
    worst = int(bounds.max(axis=1).argmax())
    points = _choose_probe_points(layers, box, middle[np.argsort(-bounds.max(axis=1))])
    return Float32Rounding(errors, _estimate_conditioning(layers, last, points), middle[worst])


def _bound_whole_box(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> FloatArray:
    """Return the bound of `certified_errors` in float32; infinite if it cannot be computed."""
    rates = [plan.rate for plan in plans]
    try:
        whole = propagate(
            layers, last, box, rates, plans,
            roundoff=UNIT_ROUNDOFF_32, underflow=UNDERFLOW_ALLOWANCE_32,
        )  # fmt: skip
    except ArgumentError:  # The bounds over the whole box overflow.
        return np.full(last.dim_out, np.inf)
    fits = max([0.0, *(s * r for s, r in zip(whole.sizes, rates, strict=True))]) < LARGEST_32
    return whole.errors if fits else np.full(last.dim_out, np.inf)


def _choose_probe_points(layers: list[PieceLayer], box: Box, found: FloatArray) -> FloatArray:
    """Choose points where the function may be steep: in the worst boxes, and near the origins."""
    rng = np.random.default_rng(0)
    probes = [found[:_MOST_POINTS], rng.uniform(box.low, box.high, (_MOST_POINTS, box.dim))]
    if layers and layers[0].origins is not None:
        around = rng.permutation(layers[0].origins.points)[:_MOST_POINTS]
        steps = rng.uniform(-1.0, 1.0, (_DIRECTIONS, *around.shape)) * 2.0**-16
        moved = around + steps * (box.high / 2 - box.low / 2)
        probes.append(np.clip(moved.reshape(-1, box.dim), box.low, box.high))
    return np.concatenate(probes)


def _do_weights_fit(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> bool:
    """Return whether every weight fits float32 without overflow or underflow."""
    numbers = [box.low, box.high, last.weight, last.bias, *(plan.floors for plan in plans)]
    numbers += [np.array([plan.rate, plan.gate]) for plan in plans]
    for layer in layers:
        numbers += [layer.slopes, layer.written_offsets]
    sizes = np.abs(np.concatenate([array.ravel() for array in numbers]))
    return bool(sizes.max() < LARGEST_32 and sizes[sizes > 0.0].min(initial=1.0) > _SMALLEST_32)


@dataclass(frozen=True, eq=False)
class _BoxSet:
    """Boxes `(n_boxes, dim)` with their bounds, and the network restricted to them."""

    network: LocalNetwork
    lows: FloatArray
    highs: FloatArray
    bounds: FloatArray
    steep: FloatArray
    found: LocalErrors | None

    @property
    def worst(self) -> float:
        """The largest bound."""
        return float(self.bounds.max())


def _refine(network: LocalNetwork, box: Box) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Divide the box into smaller ones; return their corners and bounds `(n_boxes, dim_out)`."""
    numbers = count()
    first = _make_part(network, box.low[None], box.high[None])
    heap = [(-first.worst, next(numbers), first)]
    left, reachable, done = _WORK if box.dim <= _MOST_SPLIT_DIM else 0, 0.0, []
    while left > 0 and heap and heap[0][2].worst > _GOOD * reachable:
        part = heapq.heappop(heap)[2]
        # Splitting cannot lower the result below the bound at a point.
        top = part.bounds.max(axis=1).argsort()[::-1][:16]
        middle = part.lows[top] / 2 + part.highs[top] / 2
        reachable = max(
            reachable, float(bound_local_errors(part.network, middle, middle).bounds.max())
        )
        smaller = _drop_idle_units(part)
        pieces, work = _halve_worst_boxes(part if smaller is None else smaller, smaller is not None)
        left -= work + len(middle) * part.network.cost + _CALL
        if not pieces:
            done.append(part)
        for piece in pieces:
            heapq.heappush(heap, (-piece.worst, next(numbers), piece))
    parts = [*done, *(entry[2] for entry in heap)]
    arrays = zip(*((p.lows, p.highs, p.bounds) for p in parts), strict=True)
    lows, highs, bounds = (np.concatenate(array) for array in arrays)
    return lows, highs, bounds


def _make_part(network: LocalNetwork, lows: FloatArray, highs: FloatArray) -> _BoxSet:
    found = bound_local_errors(network, lows, highs)
    return _BoxSet(network, lows, highs, found.bounds, found.steep, found)


def _drop_idle_units(part: _BoxSet) -> _BoxSet | None:
    """Drop units that are 0 on a single box, if units have their own origins; None if no change."""
    network, found = part.network, part.found
    if found is None or len(part.lows) > 1 or network.cost <= _SMALL:
        return None
    if not network.layers or not isinstance(network.layers[0].origins, UnitOrigins):
        return None
    idle = is_zero(network.layers[-1], found.near)[0] & np.isfinite(found.errors[0])
    idle[0] &= not idle.all()
    return replace(part, network=network.drop_units(idle, found.errors[0]))


def _halve_worst_boxes(part: _BoxSet, apart: bool) -> tuple[list[_BoxSet], int]:
    """Halve the worst boxes of a part; with `apart`, the halves of its one box become two parts.

    Returns:
        The parts, or none if floats are too coarse; and the approximate number of products.
    """
    cost = part.network.cost
    worst = part.bounds.max(axis=1)
    top = worst.argsort()[::-1]
    chosen = top[worst[top] >= worst[top[0]] / _GOOD][: max(_AT_ONCE // cost, 1)]
    lows, highs = part.lows, part.highs
    axis = (part.steep[chosen] * (highs[chosen] - lows[chosen])).argmax(axis=1)
    rows = np.arange(len(chosen))
    cut = lows[chosen, axis] / 2 + highs[chosen, axis] / 2
    if not ((cut > lows[chosen, axis]) & (cut < highs[chosen, axis])).all():
        return [], 0
    left, right = highs[chosen].copy(), lows[chosen].copy()
    left[rows, axis] = right[rows, axis] = cut
    work = 2 * len(chosen) * cost + _CALL
    if apart:
        halves = ((lows, left), (right, highs))
        return [
            _tighten(_make_part(part.network, *half), part.bounds) for half in halves
        ], work + _CALL
    new_lows, new_highs = np.vstack([lows[chosen], right]), np.vstack([left, highs[chosen]])
    new = _tighten(
        _make_part(part.network, new_lows, new_highs), np.tile(part.bounds[chosen], (2, 1))
    )
    keep = np.ones(len(lows), dtype=bool)
    keep[chosen] = False
    together = _BoxSet(
        part.network,
        np.vstack([lows[keep], new.lows]),
        np.vstack([highs[keep], new.highs]),
        np.vstack([part.bounds[keep], new.bounds]),
        np.vstack([part.steep[keep], new.steep]),
        None,
    )
    return [together], work


def _tighten(part: _BoxSet, above: FloatArray) -> _BoxSet:
    """Lower the bounds of boxes to the bounds of the larger boxes that contain them."""
    return replace(part, bounds=np.fmin(part.bounds, above))


def _estimate_conditioning(layers: list[PieceLayer], last: AffineMap, points: FloatArray) -> float:
    """Return the largest effect of rounding the inputs at some points inside their cells."""
    worst = 0.0
    matrices = [(compact(layer.slopes), compact(np.abs(layer.slopes))) for layer in layers]
    with np.errstate(all="ignore"):
        for x in points:
            slopes = _slopes_at(layers, matrices, x)
            if slopes is not None:
                moved = np.abs(last.weight.T @ slopes) @ np.abs(x)
                worst = max(worst, float(moved.max()) * UNIT_ROUNDOFF_32)
    return worst


def _slopes_at(
    layers: list[PieceLayer], matrices: list[tuple[Any, Any]], x: FloatArray
) -> FloatArray | None:
    """Return the slopes of the last hidden layer at a point; None if pieces (nearly) tie there."""
    state, slopes = x, np.eye(len(x))
    for layer, (matrix, moduli) in zip(layers, matrices, strict=True):
        values = matrix @ state + layer.offsets
        best = np.maximum.reduceat(values, layer.starts)
        scale = moduli @ np.abs(state) + np.abs(layer.offsets)
        near = np.flatnonzero(values >= best[layer.owner] - _TIE * scale)
        first = near[np.searchsorted(near, layer.starts)]
        if (layer.slopes[near] != layer.slopes[first[layer.owner[near]]]).any():
            return None
        state, slopes = best, matrix[first] @ slopes
    return np.asarray(slopes)
