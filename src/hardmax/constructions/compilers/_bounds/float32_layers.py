r"""Float32 errors of a transformer on small boxes, bounded layer by layer with intervals.

**The model.** Arithmetic is IEEE 754 binary32 with $u = 2^{-24}$. Weights are rounded once, when
they are stored. Sums are computed in any order. Inputs are float32 numbers. A softmax subtracts the
largest logit from all logits, its exponential has a relative error of at most $8u$, and
$\exp(0) = 1$.

**Pieces.** Let $\hat z = \langle a, s\rangle + b$ be computed with $n$ nonzero $a_j$. A product has
three roundings (of $a_j$, of $s_j = x_j - o_j$, and its own) and $n$ more on its path to the root
of the sum; the offset has $1 + n$. Hence
$|\hat z - z| \le |a|\delta + u\big((n+3)|a||s| + (n+1)|b|\big)$, where $\delta$ is the error of the
state. The bound is smaller where more is known: the changes of $a$ and $b$ due to storage are
computed; products with powers of two, and differences of numbers within a factor of 2 of each other
[Ste74], are exact; and the rounding error of the last sum is relative to its result. Pieces are
added to work slots that contain 0, without rounding.

**Heads.** Let $k$ pieces be within $32\tau + 8uM$ of the largest, where $M \ge |\max z|$. All other
weights are below $e^{-32}$, so they change sums by at most $T e^{-32} M$, which is far less than
$u$. If $k = 1$, the weight of the winner is 1, and its value is not rounded. Otherwise, logits are
rounded three times, which corresponds to keys with errors $\eta \le 4u M$ and lowers the mean by at
most $2\eta$ (`certified_errors`). The sum of the $k$ weights has an error of $(k + 1)u$, and the
mean of $k$ values of another $(k + 1)u$. Single weights have a relative error of $(k + 10)u$, which
applies only to the differences of the values from the largest, on average the gap of the soft mean.
If $|\max z| \ge 2^{32}\tau$, the logits of distinct float32 keys are equal or differ by more than
110. Then all weights are equal, and $(k/2 + 4)u$ covers both errors.

**Readouts.** Adding $t$ to a number has a rounding error of at most $|t|$. Hence terms below $u/n$
of the whole sum count once, and only the other terms count with every addition.
"""

from typing import NamedTuple

import numpy as np

from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan
from hardmax.constructions.compilers._bounds.grouped_gaps import gap_bounds
from hardmax.constructions.compilers._bounds.interval_images import IntervalMap
from hardmax.constructions.compilers._bounds.local_networks import LocalNetwork
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.exact.rounding import RAISE, UNDERFLOW_ALLOWANCE_32, UNIT_ROUNDOFF_32
from hardmax.models.argmax import AffineMap
from hardmax.typing import BoolArray, FloatArray

LARGEST_32 = 2.0**127
_NARROW = 2.0**-48
"""A bound on the relative rounding error of the bounds themselves, which use float64."""
_HALVINGS = 8


class LocalErrors(NamedTuple):
    """Bounds on boxes.

    Attributes:
        bounds: The errors of the outputs, shape `(n_boxes, dim_out)`.
        steep: The largest slope of a relevant piece in each input, shape `(n_boxes, dim)`.
        near: Which pieces of the last hidden layer can affect their unit.
        errors: The errors of the units of the last hidden layer.
    """

    bounds: FloatArray
    steep: FloatArray
    near: BoolArray
    errors: FloatArray


def bound_local_errors(network: LocalNetwork, low: FloatArray, high: FloatArray) -> LocalErrors:
    """Bound the errors on boxes `(n_boxes, n)`."""
    error, near = np.zeros_like(low), np.zeros((len(low), 0), dtype=bool)
    steep = np.ones_like(low)
    parts = zip(network.layers, network.maps, network.plans, strict=True)
    fits = np.ones(len(low), dtype=bool)
    with np.errstate(all="ignore"):
        for index, (layer, of, plan) in enumerate(parts):
            size = np.maximum(np.abs(low), np.abs(high)) + error
            span = of.moduli(size)
            slack = (span + np.abs(layer.offsets)) * _NARROW
            z_low, z_high = of.images(low, high, slack)
            off = of.moduli(error) + _piece_errors(layer, low, high, span, z_low, z_high) * RAISE
            off += UNDERFLOW_ALLOWANCE_32
            near, unit = _head_errors(layer, plan, z_low, z_high, off, network.n_tokens)
            if not index:
                moduli = np.abs(layer.slopes).T
                steep = np.stack([np.where(near, m, 0.0).max(axis=1) for m in moduli], axis=1)
            starts = layer.starts
            low, high = (np.maximum.reduceat(z, starts, axis=1) for z in (z_low, z_high))
            largest = np.maximum(np.abs(z_low), np.abs(z_high)) + off
            held = np.maximum(np.maximum.reduceat(largest, starts, axis=1), np.abs(plan.floors))
            fits &= held.max(axis=1) * max(plan.rate, 1.0) + plan.gate < LARGEST_32
            error = unit
        bounds = _readout_errors(network.last, network.readout, low, high, error) + network.extra
    bounds = np.where(fits[:, None] & np.isfinite(bounds), bounds, np.inf)
    return LocalErrors(bounds, steep, near, error)


def _piece_errors(
    layer: PieceLayer,
    low: FloatArray,
    high: FloatArray,
    span: FloatArray,
    z_low: FloatArray,
    z_high: FloatArray,
) -> FloatArray:
    """Bound the rounding errors of pieces of an exact state: `(n_boxes, n_pieces)`."""
    u, slopes, offsets = UNIT_ROUNDOFF_32, layer.slopes, layer.written_offsets
    # Powers of two are stored, and products with them computed, exactly.
    is_exact = (np.abs(np.frexp(slopes)[0]) == 0.5) | (slopes == 0.0)
    stored = np.abs(offsets.astype(np.float32) - offsets)
    if layer.origins is None:
        stored = stored + 2.0 * u * np.where(is_exact.all(axis=1), 0.0, span)
    else:
        span = np.zeros((len(low), len(offsets)))
        kept = np.abs(slopes.astype(np.float32) - slopes)
        for j, own in enumerate(layer.own_points.T):
            near, far = low[:, j, None], high[:, j, None]
            away = np.maximum(np.abs(near - own), np.abs(far - own))
            moduli = np.abs(slopes[:, j])
            span = span + moduli * away
            factors = kept[:, j] + u * np.where(is_exact[:, j], 0.0, moduli)
            stored = (
                stored + factors * away + u * moduli * np.where(_may_round(near, far, own), away, 0)
            )
    n_sums = np.count_nonzero(slopes, axis=1) + (offsets != 0.0) - 1
    many = u * (span + np.abs(offsets))
    before = stored + np.maximum(n_sums - 1, 0) * many
    last_sum = np.minimum(u * (np.maximum(np.abs(z_low), np.abs(z_high)) + before), many)
    return np.asarray(before + np.where(n_sums > 0, last_sum, 0.0))


def _may_round(low: FloatArray, high: FloatArray, point: FloatArray) -> BoolArray:
    """Return whether numbers between `low` and `high` minus a point may be rounded."""
    size = np.abs(point)
    least = np.where(np.sign(low) * np.sign(high) > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    same = np.sign(low) == np.sign(point)
    within = (least >= size / 2) & (np.maximum(np.abs(low), np.abs(high)) <= 2 * size)
    return np.asarray(~((same & within) | (size == 0.0)))


def _head_errors(
    layer: PieceLayer,
    plan: LayerPlan,
    low: FloatArray,
    high: FloatArray,
    off: FloatArray,
    n_tokens: int,
) -> tuple[BoolArray, FloatArray]:
    """Return which pieces can affect their unit, `(n_boxes, n_pieces)`, and the errors of units."""
    u, tau, starts, owner = UNIT_ROUNDOFF_32, RAISE / plan.rate, layer.starts, layer.owner
    lowest = np.maximum.reduceat(low - off, starts, axis=1)
    highest = np.maximum.reduceat(high + off, starts, axis=1)
    size = np.maximum(np.abs(lowest), np.abs(highest))
    behind = lowest[:, owner] - (high + off)
    near = behind <= (32.0 * tau + 8.0 * u * size)[:, owner]
    count = np.add.reduceat(near, starts, axis=1)
    worst = np.maximum.reduceat(np.where(near, off, 0.0), starts, axis=1)
    # A unit with one piece on every token is a mean of `n_tokens` equal numbers.
    count = np.where(layer.is_everywhere, n_tokens, count)
    margins = np.maximum(behind * (1.0 - 8.0 * u) - (8.0 * u * size)[:, owner], 0.0) / tau
    # A bound for any margins of the rivals.
    gap = np.broadcast_to(tau * np.log1p(layer.ranks / np.e), size.shape)
    if not (gap <= 2.0**-40 * size).all():
        flat_starts = (starts + len(owner) * np.arange(len(low))[:, None]).ravel()
        close = np.minimum(margins, 700.0).ravel()
        gap = tau * gap_bounds(close, flat_starts, _HALVINGS).reshape(size.shape)
    # Idle tokens are at least 64 temperatures below the maximum, and add less than this.
    gap = gap * RAISE + tau * n_tokens * 2.0**-80
    reach = size + gap
    soft = (2 * count + 6) * u * reach + (2 * count + 20) * u * gap
    sharp = (count / 2 + 4) * u * reach + (2 * count + 16) * u * 2.0**32 * tau
    mixed = np.where(count > 1, np.minimum(soft, sharp) + 8.0 * u * size, 0.0)
    mixed = np.where(layer.is_everywhere, np.minimum(soft, sharp), mixed)
    tails = n_tokens * 2.0**-45 * (reach + 64.0 * tau)
    return near, (worst + gap + mixed + tails) * RAISE + UNDERFLOW_ALLOWANCE_32


def _readout_errors(
    last: AffineMap, of: IntervalMap, low: FloatArray, high: FloatArray, error: FloatArray
) -> FloatArray:
    """Bound the errors of the outputs: `(n_boxes, dim_out)`."""
    u, weight = UNIT_ROUNDOFF_32, last.weight.T
    size = np.maximum(np.abs(low), np.abs(high)) + error
    span = of.moduli(size)
    slack = (span + np.abs(last.bias)) * _NARROW
    y_low, y_high = of.images(low, high, slack)
    carried = of.moduli(error)
    value = np.maximum(np.abs(y_low), np.abs(y_high)) + carried
    # Powers of two are exact, as above. The error of one addition is relative to its result.
    is_exact = np.abs(np.frexp(weight)[0]) == 0.5
    products = 2.0 * u * (size @ np.where(is_exact, 0.0, np.abs(weight)).T)
    bias = np.where(last.bias.astype(np.float32) == last.bias, 0.0, u * np.abs(last.bias))
    n_terms = np.count_nonzero(weight, axis=1) + (last.bias != 0.0)
    whole = span + np.abs(last.bias)
    sums = np.where(n_terms <= 2, u * value, n_terms * u * whole)
    for c in np.flatnonzero(n_terms > 2).tolist():
        terms = size * np.abs(weight[c])
        # Adding t has an error of at most |t|, so small terms count once, not with every sum.
        small = terms <= (u / n_terms[c]) * whole[:, c, None]
        counted = len(weight[c]) - np.count_nonzero(small, axis=1) + (last.bias[c] != 0.0)
        rest = 4.0 * np.where(small, terms, 0.0).sum(axis=1)
        sums[:, c] = np.minimum(sums[:, c], counted * u * whole[:, c] + rest)
    return (carried + products + bias + sums) * RAISE + UNDERFLOW_ALLOWANCE_32
