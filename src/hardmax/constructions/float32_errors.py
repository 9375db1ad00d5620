r"""What float32 costs: a bound on the exported module minus the network, over the whole box.

**The model.** Arithmetic is IEEE 754 binary32, $u = 2^{-24}$; weights are rounded once when they
are stored; sums are taken in any order; inputs are float32 numbers. A softmax subtracts the largest
logit from all, its exponential is within $8u$ of the true one, relatively, and $\exp(0) = 1$.

**Pieces.** Of $\hat z = \langle a, s\rangle + b$ with $n$ nonzero $a_j$ a product has three
roundings (of $a_j$, of $s_j = x_j - o_j$, its own) and $n$ more on its way to the root, the offset
has $1 + n$; so $|\hat z - z| \le |a|\delta + u\big((n+3)|a||s| + (n+1)|b|\big)$, with $\delta$ the
error of the state. Fewer are counted where $a_j$ is a power of two, $b$ is a float32 number or 0,
or there is one sum only. In later layers the work slot still holds what it held before:
$4u(|z| + |Z|)$.

**Heads.** Let $k$ pieces be within $32\tau + 8uM$ of the largest, $M \ge |\max z|$. All other
weights are below $e^{-32}$, so they move sums by $T e^{-32} M$ at most, far less than $u$. If $k =
1$, the weight of the winner is 1, and its value comes through unrounded. Otherwise logits, rounded
three times, are those of keys off by $\eta \le 4u M$, which lowers the mean by $2\eta$ at most
(`certified_errors`), $k$ weights are off by $(k + 10)u$, relatively, and the mean of $k$ values by
$(k + 1)u$ more. Where $|\max z| \ge 2^{32}\tau$, distinct float32 keys have logits that are equal
or differ by more than 110; then all weights are equal, and $(k/2 + 4)u$ covers both.

All this is done for many small boxes that fill the box, with interval bounds on each; those with
the largest bound are split first. The bound is the largest that remains, so stopping early makes it
weaker and not wrong.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.certified_errors import LayerPlan, propagate
from hardmax.constructions.grouped_gaps import gap_bounds
from hardmax.constructions.piece_layers import PieceLayer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax_layers import AffineMap
from hardmax.typing import BoolArray, FloatArray

UNIT_ROUNDOFF_32 = 2.0**-24
_UNDERFLOW_32 = 2.0**-100
"""More than all underflow of one dot product in float32, flushed to zero or gradual."""
_LARGEST_32, _SMALLEST_32 = 2.0**127, 2.0**-126
_UP = 1.0 + 2.0**-20
_NARROW = 2.0**-48
"""What the float64 arithmetic of the bounds themselves may be off by, relatively."""
_WORK = 2**26
_AT_ONCE = 2**22
_MOST_SPLIT_DIM = 6
_GOOD = 1.25
_MOST_POINTS, _DIRECTIONS = 512, 4
_TIE = 2.0**-40


@dataclass(frozen=True, eq=False)
class Float32Rounding:
    r"""How far a compiled transformer in float32 can be off.

    Attributes:
        errors: For each output a proven bound on $|\hat T(x) - f(x)|$ for all float32 numbers $x$
            of the box: $\hat T$ the module in float32, $f$ the network (or function) without
            rounding. Infinite if float32 cannot hold the numbers. Shape `(dim_out,)`.
        conditioning: The largest $\sum_j |\partial_j f_c(x)||x_j| u$ that was found, $u = 2^{-24}$:
            how far rounding the input to float32 alone moves the function. Found at many points,
            not proved.
        where: The point where the bound is attained to within the size of a small box, shape
            `(dim_in,)`.
    """

    errors: FloatArray
    conditioning: float
    where: FloatArray

    @property
    def error(self) -> float:
        """The bound for the worst output."""
        return float(self.errors.max())

    def __str__(self) -> str:
        return (
            f"at most {self.error:.3g}; rounding the input alone can cost {self.conditioning:.3g}"
        )


def float32_rounding(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> Float32Rounding:
    """Bound what the soft transformer of a network is off by in float32, over a box.

    Args:
        layers: The hidden layers of the network.
        last: Its last layer.
        plans: The plans of the layers of the soft transformer.
        box: The box.
    """
    rates = [plan.rate for plan in plans]
    if not _weights_fit(layers, last, plans, box):
        unknown = np.full(last.dim_out, np.inf)
        middle = box.low / 2 + box.high / 2
        return Float32Rounding(unknown, _conditioning(layers, last, middle[None]), middle)
    lows, highs, bounds = _split(layers, last, plans, box)
    errors = bounds.max(axis=0)
    try:
        whole = propagate(
            layers, last, box, rates, plans, roundoff=UNIT_ROUNDOFF_32, underflow=_UNDERFLOW_32
        )
        fits = max([0.0, *(s * r for s, r in zip(whole.sizes, rates, strict=True))]) < _LARGEST_32
        errors = np.fmin(errors, whole.errors) if fits else errors
    except ArgumentError:  # Bounds over the whole box overflow.
        pass
    errors = errors * _UP
    middle = lows / 2 + highs / 2
    worst = int(bounds.max(axis=1).argmax())
    points = _probes(layers, box, middle[np.argsort(-bounds.max(axis=1))])
    return Float32Rounding(errors, _conditioning(layers, last, points), middle[worst])


def _probes(layers: list[PieceLayer], box: Box, found: FloatArray) -> FloatArray:
    """Points where the function may be steep: the worst boxes, and around the tokens."""
    rng = np.random.default_rng(0)
    probes = [found[:_MOST_POINTS], rng.uniform(box.low, box.high, (_MOST_POINTS, box.dim))]
    if layers and layers[0].origins is not None:
        around = rng.permutation(layers[0].origins.points)[:_MOST_POINTS]
        steps = rng.uniform(-1.0, 1.0, (_DIRECTIONS, *around.shape)) * 2.0**-16
        moved = around + steps * (box.high / 2 - box.low / 2)
        probes.append(np.clip(moved.reshape(-1, box.dim), box.low, box.high))
    return np.concatenate(probes)


def _weights_fit(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> bool:
    """Say whether float32 holds every weight without overflow or underflow."""
    numbers = [box.low, box.high, last.weight, last.bias, *(plan.floors for plan in plans)]
    numbers += [np.array([plan.rate, plan.gate]) for plan in plans]
    for layer in layers:
        numbers += [layer.slopes, layer.written_offsets]
    sizes = np.abs(np.concatenate([array.ravel() for array in numbers]))
    return bool(sizes.max() < _LARGEST_32 and sizes[sizes > 0.0].min(initial=1.0) > _SMALLEST_32)


def _split(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...], box: Box
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fill the box with smaller ones: their corners, and the bounds `(n_boxes, dim_out)`."""
    cost = 1 + sum(layer.slopes.size + 8 * len(layer.offsets) for layer in layers)
    budget = max(_WORK // cost, 16) if box.dim <= _MOST_SPLIT_DIM else 1
    at_once = max(_AT_ONCE // cost, 1)
    lows, highs = box.low[None], box.high[None]
    bounds, steep = _local(layers, last, plans, lows, highs)
    reachable = np.zeros(last.dim_out)
    while budget > 0:
        worst = bounds.max(axis=1)
        top = worst.argsort()[::-1]
        chosen = top[worst[top] >= worst[top[0]] / _GOOD][: min(at_once, budget)]
        # The bound at a point is what no splitting gets below.
        middle = lows[chosen[:16]] / 2 + highs[chosen[:16]] / 2
        points, _ = _local(layers, last, plans, middle, middle)
        reachable = np.maximum(reachable, points.max(axis=0))
        if not worst[top[0]] > _GOOD * reachable.max():
            break
        axis = (steep[chosen] * (highs[chosen] - lows[chosen])).argmax(axis=1)
        rows = np.arange(len(chosen))
        cut = lows[chosen, axis] / 2 + highs[chosen, axis] / 2
        if not ((cut > lows[chosen, axis]) & (cut < highs[chosen, axis])).all():
            break
        left, right = highs[chosen].copy(), lows[chosen].copy()
        left[rows, axis] = right[rows, axis] = cut
        new_lows, new_highs = np.vstack([lows[chosen], right]), np.vstack([left, highs[chosen]])
        found, slopes = _local(layers, last, plans, new_lows, new_highs)
        # A part is no worse than the whole, also where its own bound is rounded up.
        found = np.fmin(found, np.tile(bounds[chosen], (2, 1)))
        keep = np.ones(len(lows), dtype=bool)
        keep[chosen] = False
        lows, highs = np.vstack([lows[keep], new_lows]), np.vstack([highs[keep], new_highs])
        bounds, steep = np.vstack([bounds[keep], found]), np.vstack([steep[keep], slopes])
        budget -= 2 * len(chosen)
    return lows, highs, bounds


def _local(
    layers: list[PieceLayer],
    last: AffineMap,
    plans: tuple[LayerPlan, ...],
    low: FloatArray,
    high: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Bound the errors on boxes `(n_boxes, n)`: `(n_boxes, dim_out)`, and how steep pieces are."""
    u = UNIT_ROUNDOFF_32
    n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
    error, held = np.zeros_like(low), np.zeros((len(low), 0))
    steep = np.ones_like(low)
    fits = np.ones(len(low), dtype=bool)
    with np.errstate(all="ignore"):
        for index, (layer, plan) in enumerate(zip(layers, plans, strict=True)):
            size = np.maximum(np.abs(low), np.abs(high)) + error
            moduli = np.abs(layer.slopes)
            span = size @ moduli.T
            slack = (span + np.abs(layer.offsets)) * _NARROW
            z_low, z_high = _affine(layer.slopes, layer.offsets, low, high, slack)
            own = span if layer.origins is None else _own_spans(layer, low, high)
            off = error @ moduli.T + _rounded_pieces(layer, own, z_low, z_high) * _UP
            if index:
                before = np.zeros((len(low), max(held.shape[1], layer.n_units)))
                before[:, : held.shape[1]] = held
                sizes = np.maximum(np.abs(z_low), np.abs(z_high)) + before[:, layer.owner]
                off += 4 * u * sizes * _UP
            off += _UNDERFLOW_32
            near, unit = _head(layer, plan, z_low, z_high, off, n_tokens)
            if not index:
                steep = np.stack([np.where(near, m, 0.0).max(axis=1) for m in moduli.T], axis=1)
            starts = layer.starts
            low, high = (np.maximum.reduceat(z, starts, axis=1) for z in (z_low, z_high))
            largest = np.maximum(np.abs(z_low), np.abs(z_high)) + off
            held = np.maximum(np.maximum.reduceat(largest, starts, axis=1), np.abs(plan.floors))
            fits &= held.max(axis=1) * max(plan.rate, 1.0) + plan.gate < _LARGEST_32
            error = unit
        bounds = _readout(last, low, high, error)
    return np.where(fits[:, None] & np.isfinite(bounds), bounds, np.inf), steep


def _rounded_pieces(
    layer: PieceLayer, span: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Bound what pieces lose with an exact state: `(n_boxes, n_pieces)`."""
    u, offsets = UNIT_ROUNDOFF_32, layer.written_offsets
    n_sums = np.count_nonzero(layer.slopes, axis=1) + (offsets != 0.0) - 1
    # A power of two is stored and multiplied by exactly.
    is_exact = ((np.abs(np.frexp(layer.slopes)[0]) == 0.5) | (layer.slopes == 0.0)).all(axis=1)
    products = np.where(is_exact, 0, 2) + (layer.origins is not None)
    kept = offsets.astype(np.float32) == offsets
    stored = u * (products * span + np.where(kept, 0.0, np.abs(offsets)))
    one_sum = np.maximum(np.abs(low), np.abs(high)) + stored
    many = np.maximum(n_sums, 0) * (span + np.abs(offsets))
    return np.asarray(stored + u * np.where(n_sums <= 1, np.minimum(one_sum, many), many))


def _head(
    layer: PieceLayer,
    plan: LayerPlan,
    low: FloatArray,
    high: FloatArray,
    off: FloatArray,
    n_tokens: int,
) -> tuple[BoolArray, FloatArray]:
    """Which pieces can matter, `(n_boxes, n_pieces)`, and the errors of units."""
    u, tau, starts, owner = UNIT_ROUNDOFF_32, _UP / plan.rate, layer.starts, layer.owner
    lowest = np.maximum.reduceat(low - off, starts, axis=1)
    highest = np.maximum.reduceat(high + off, starts, axis=1)
    size = np.maximum(np.abs(lowest), np.abs(highest))
    behind = lowest[:, owner] - (high + off)
    near = behind <= (32.0 * tau + 8.0 * u * size)[:, owner]
    count = np.add.reduceat(near, starts, axis=1)
    worst = np.maximum.reduceat(np.where(near, off, 0.0), starts, axis=1)
    # Units of one piece on every token are the mean of as many equal numbers.
    count = np.where(layer.is_everywhere, n_tokens, count)
    margins = np.maximum(behind * (1.0 - 8.0 * u) - (8.0 * u * size)[:, owner], 0.0) / tau
    # As many rivals as there are cost this much, however close they are.
    gap = np.broadcast_to(tau * np.log1p(layer.ranks / np.e), size.shape)
    if not (gap <= 2.0**-40 * size).all():
        flat_starts = (starts + len(owner) * np.arange(len(low))[:, None]).ravel()
        gap = tau * gap_bounds(np.minimum(margins, 700.0).ravel(), flat_starts).reshape(size.shape)
    # At 64 temperatures and more below, idle tokens add less than this.
    gap = gap * _UP + tau * n_tokens * 2.0**-80
    reach = size + gap
    soft = (2 * count + 16) * u * reach
    sharp = (count / 2 + 4) * u * reach + (2 * count + 16) * u * 2.0**32 * tau
    mixed = np.where(count > 1, np.minimum(soft, sharp) + 8.0 * u * size, 0.0)
    mixed = np.where(layer.is_everywhere, np.minimum(soft, sharp), mixed)
    tails = n_tokens * 2.0**-45 * (reach + 64.0 * tau)
    return near, (worst + gap + mixed + tails) * _UP + _UNDERFLOW_32


def _own_spans(layer: PieceLayer, low: FloatArray, high: FloatArray) -> FloatArray:
    """Bound each piece's $|a||x - o|$ at the origin of its token: `(n_boxes, n_pieces)`."""
    assert layer.origins is not None
    own = layer.origins.points[layer.place]
    total = np.zeros((len(low), len(own)))
    for j, slopes in enumerate(np.abs(layer.slopes).T):
        away = np.abs(low[:, j, None] - own[:, j]), np.abs(high[:, j, None] - own[:, j])
        total += slopes * np.maximum(*away)
    return total


def _affine(
    slopes: FloatArray, offsets: FloatArray, low: FloatArray, high: FloatArray, slack: FloatArray
) -> tuple[FloatArray, FloatArray]:
    positive, negative = np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0)
    return (
        low @ positive.T - high @ negative.T + offsets - slack,
        high @ positive.T - low @ negative.T + offsets + slack,
    )


def _readout(last: AffineMap, low: FloatArray, high: FloatArray, error: FloatArray) -> FloatArray:
    """Bound the errors of the outputs: `(n_boxes, dim_out)`."""
    u, weight = UNIT_ROUNDOFF_32, last.weight.T
    size = np.maximum(np.abs(low), np.abs(high)) + error
    span = size @ np.abs(weight).T
    slack = (span + np.abs(last.bias)) * _NARROW
    y_low, y_high = _affine(weight, last.bias, low, high, slack)
    carried = error @ np.abs(weight).T
    value = np.maximum(np.abs(y_low), np.abs(y_high)) + carried
    # A power of two is stored and multiplied by exactly; one addition rounds its result only.
    is_exact = np.abs(np.frexp(weight)[0]) == 0.5
    products = 2.0 * u * (size @ np.where(is_exact, 0.0, np.abs(weight)).T)
    bias = np.where(last.bias.astype(np.float32) == last.bias, 0.0, u * np.abs(last.bias))
    n_terms = np.count_nonzero(weight, axis=1) + (last.bias != 0.0)
    sums = np.where(n_terms <= 2, u * value, n_terms * u * (span + np.abs(last.bias)))
    return (carried + products + bias + sums) * _UP + _UNDERFLOW_32


def _conditioning(layers: list[PieceLayer], last: AffineMap, points: FloatArray) -> float:
    """Return the largest effect of rounding the inputs at some points inside their cells."""
    worst = 0.0
    with np.errstate(all="ignore"):
        for x in points:
            slopes = _slopes_at(layers, x)
            if slopes is not None:
                moved = np.abs(last.weight.T @ slopes) @ np.abs(x)
                worst = max(worst, float(moved.max()) * UNIT_ROUNDOFF_32)
    return worst


def _slopes_at(layers: list[PieceLayer], x: FloatArray) -> FloatArray | None:
    """Return the slopes of the last hidden layer at a point, None where pieces (nearly) tie."""
    state, slopes = x, np.eye(len(x))
    for layer in layers:
        values = layer.slopes @ state + layer.offsets
        best = np.maximum.reduceat(values, layer.starts)
        scale = np.abs(layer.slopes) @ np.abs(state) + np.abs(layer.offsets)
        near = values >= best[layer.owner] - _TIE * scale
        first = np.minimum.reduceat(
            np.where(near, np.arange(len(values)), len(values)), layer.starts
        )
        if (near & (layer.slopes != layer.slopes[first[layer.owner]]).any(axis=1)).any():
            return None
        state, slopes = best, layer.slopes[first] @ slopes
    return np.asarray(slopes)
