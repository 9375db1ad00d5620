r"""Error bounds of a compiled transformer that hold for every input in a box.

The following bounds are propagated from layer to layer, rounded outward:

- An interval for each unit. It contains the values of the unit in the network and in the
  transformer, both exact and as evaluated in float64. In addition, an ellipsoid contains the whole
  state (`state_ellipsoids`).
- An interval $[d^-, d^+]$ for each unit. It contains the transformer's value minus the network's. A
  piece $\langle a, h\rangle + b$ turns it into $[\langle a^+, d^-\rangle - \langle a^-, d^+\rangle,
  \langle a^+, d^+\rangle - \langle a^-, d^-\rangle]$. A maximum turns it into the hull over the
  pieces that can win. A soft mean lowers the lower end by at most $\tau\lambda$
  (`grouped_gaps.gap_bounds`). The signs are kept because soft means err to one side only.

The intervals $[d^-, d^+]$ are sharp in shallow networks, and grow with the sums of absolute
weights. Therefore the error that each layer adds is also propagated directly to the outputs, by the
sensitivity of the outputs to it (`sensitivities`). The smaller of the two bounds is used.

A layer adds the gap of the soft mean, and the rounding errors of the transformer and of the
network. A piece $p$ is written by a pair of units, $\mathrm{relu}(\hat p) - \mathrm{relu}(\hat p')$
with $\hat p = p + e$ and $\hat p' = -p + e'$. If one of the units is 0, the error is $|e|$ or
$|e'|$ (or $|p|$, which is less than both). If neither is, the result is $2p + e - e'$ with
$-e < p < e'$, and its error is $p + e - e'$. Hence the error of the pair is at most
$\max(|e|, |e'|)$, as for a single number. The rounding error of a head at temperature $\tau$ does
not grow as $\tau \to 0$: logits $z_c/\tau$ with errors $\eta_c$ are the exact logits of the numbers
$z_c + \tau\eta_c$, whose soft mean has an error of at most $2\tau\max|\eta|$, and $\tau\eta$ is a
few rounding errors of $z$.
"""

from dataclasses import dataclass, replace

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.constructions.compilers._bounds.grouped_gaps import gap_bounds
from hardmax.constructions.compilers._bounds.sensitivities import (
    last_sensitivity,
    sensitivity_before,
)
from hardmax.constructions.compilers._bounds.slope_ranges import SlopeRanges, slope_ranges
from hardmax.constructions.compilers._bounds.state_ellipsoids import StateEllipsoid, ellipsoid_after
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.errors import ArgumentError
from hardmax.exact.rounding import SMALL_RAISE, UNDERFLOW_ALLOWANCE, UNIT_ROUNDOFF, rounding_factor
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.typing import BoolArray, FloatArray

_MAX_PRODUCTS_EACH, _MAX_PRODUCTS = 2**26, 2**31
"""Maximum numbers of products for sensitivities: of each output separately, and of all at once."""
_IDLE_GAP = 64.0
"""Minimum gap of an idle token below the maximum, in temperatures: 64 e^-64 is 1e-26."""


@dataclass(frozen=True, eq=False)
class LayerPlan:
    r"""The parameters of a compiled layer, in addition to the weights of the network.

    Attributes:
        rate: The rate $1/\tau$ of the layer's heads; 1 in a hard transformer.
        gate: The number $M$ that closes the gate of a piece on every token but its own.
        floors: For each unit, the value on tokens that hold no piece of the unit, shape
            `(n_units,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.constructions import compile_relu
        >>> net = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
        >>> plan = compile_relu(net, Box([-1], [1])).plans[0]
        >>> plan.rate, plan.gate, plan.floors.tolist()
        (1.0, 2.0, [0.0, 0.0])
    """

    rate: float
    gate: float
    floors: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False)
class ErrorBounds:
    """The result of `propagate`.

    Attributes:
        plans: The plan of each hidden layer.
        errors: For each output, a bound on |transformer - network|, shape `(dim_out,)`.
        sizes: For each hidden layer, a bound on the numbers that its heads compare.
        shares: For each hidden layer, the largest change of an output due to the layer's own
            errors, shape `(n_layers,)`.
    """

    plans: tuple[LayerPlan, ...]
    errors: FloatArray
    sizes: tuple[float, ...]
    shares: FloatArray

    @property
    def worst(self) -> float:
        """The largest bound over all outputs."""
        return float(self.errors.max())

    @property
    def temperatures(self) -> FloatArray:
        """The temperatures, that is, the inverse rates, shape `(n_layers,)`."""
        return np.array([1.0 / plan.rate for plan in self.plans])

    def add_error(self, rounding: FloatArray | float) -> "ErrorBounds":
        """Add the error of the network itself, for each output, rounded up."""
        if not np.any(rounding):
            return self
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, errors=np.nextafter(self.errors + rounding, np.inf))


@dataclass(frozen=True, eq=False)
class _State:
    """Intervals of the state and of its errors, and an ellipsoid that contains the state."""

    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    ellipsoid: StateEllipsoid

    @property
    def size(self) -> FloatArray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def error(self) -> FloatArray:
        return np.maximum(-self.below, self.above)


@dataclass(frozen=True, eq=False)
class _Images:
    """Intervals of affine functions of the state; rounding errors are relative to `scale`."""

    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class _LayerErrors:
    """The errors that a layer adds, downwards and upwards, and the slopes that can occur in it."""

    ranges: SlopeRanges
    below: FloatArray
    above: FloatArray


@dataclass(frozen=True)
class _Precision:
    """The arithmetic of the transformer: its unit roundoff, and a bound on underflow errors."""

    roundoff: float
    underflow: float

    def factor(self, n_products: int) -> float:
        """Return `rounding_factor` for this precision."""
        return 2.0 * (n_products + 4) * self.roundoff


def propagate(
    layers: list[PieceLayer],
    last: AffineMap,
    box: Box,
    rates: list[float] | None,
    plans: tuple[LayerPlan, ...] | None = None,
    *,
    roundoff: float = UNIT_ROUNDOFF,
    underflow: float = UNDERFLOW_ALLOWANCE,
) -> ErrorBounds:
    """Bound the error of the compiled transformer over a box, and plan its layers.

    Args:
        layers: The hidden layers of the network.
        last: Its last layer.
        box: The box.
        rates: The inverse temperature of each layer; None for the hard transformer.
        plans: Plans to check instead of choosing new ones; they must have the same `rates`.
        roundoff: The unit roundoff of the transformer's arithmetic; the network is evaluated in
            float64.
        underflow: A bound on the total underflow error of one dot product in that arithmetic.

    Raises:
        ArgumentError: If the bounds overflow, or a given plan is not valid on the box.
    """
    precision = _Precision(roundoff, underflow)
    n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
    zero = np.zeros(box.dim)
    made, sizes, steps = [], [], []
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        around = StateEllipsoid.around(box)
        if _count_products([layer.slopes for layer in layers]) > _MAX_PRODUCTS:
            around = StateEllipsoid.everything(around.centre)
        state = _State(box.low, box.high, zero, zero, around)
        for index, layer in enumerate(layers):
            tau = 0.0 if rates is None else SMALL_RAISE / rates[index]
            given = None if plans is None else plans[index]
            state, step, plan, size = _propagate_layer(
                layer, state, tau, n_tokens, given, precision
            )
            rate = 1.0 if rates is None else rates[index]
            made.append(LayerPlan(rate, plan.gate, plan.floors))
            sizes.append(size)
            steps.append(step)
        output = _bound_images(last.weight.T, last.bias, state)
        down, up, shares = _bound_contributions(steps, last)
        errors = np.maximum(
            np.fmin(-output.below, down.sum(axis=0)), np.fmin(output.above, up.sum(axis=0))
        )
        roundings = _dot_factor(len(last.weight), roundoff + UNIT_ROUNDOFF) * output.scale
        errors = (errors + roundings) * SMALL_RAISE + underflow
    logits = [size * plan.rate for size, plan in zip(sizes, made, strict=True)]
    if not np.isfinite([*errors, *sizes, *logits, *(plan.gate for plan in made)]).all():
        raise ArgumentError(
            "`box` must be small enough for the network's values to be bounded in float64; the "
            "bounds overflow. Shrink the box or scale the weights down."
        )
    return ErrorBounds(tuple(made), errors, tuple(sizes), shares)


def _dot_factor(n_products: int, roundoff: float) -> float:
    """Bound the error of a dot product with an offset, relative to its sum of absolute values."""
    return (n_products + 4) * roundoff


def _count_products(matrices: list[FloatArray]) -> int:
    """Estimate the number of products for propagating a form through matrices."""
    return sum(matrix.size * max(matrix.shape) for matrix in matrices)


def _bound_contributions(
    steps: list[_LayerErrors], last: AffineMap
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bound how far the errors of each layer move each output, down and up.

    Returns:
        Two arrays of shape `(n_layers, dim_out)`; and for each layer, the bound for the output with
        the largest total, shape `(n_layers,)`.
    """
    n_out = last.dim_out
    down, up = np.full((2, len(steps), n_out), np.inf)
    work = _count_products([step.ranges.means for step in steps])
    if work > _MAX_PRODUCTS:
        return down, up, np.ones(len(steps))
    # The norm of several outputs bounds each of them, and may be smaller than separate bounds.
    groups = [[o] for o in range(n_out)] if n_out == 1 or n_out * work <= _MAX_PRODUCTS_EACH else []
    groups += [list(range(n_out))] if n_out > 1 else []
    for group in groups:
        sensitivity = last_sensitivity(last.weight[:, group])
        for index in range(len(steps) - 1, -1, -1):
            below, above = sensitivity.bound_products(steps[index].below, steps[index].above)
            down[index, group] = np.fmin(down[index, group], below)
            up[index, group] = np.fmin(up[index, group], above)
            if index:
                sensitivity = sensitivity_before(sensitivity, steps[index].ranges)
    worst = np.maximum(down, up)
    return down, up, worst[:, int(worst.sum(axis=0).argmax())]


def _bound_images(slopes: FloatArray, offsets: FloatArray, state: _State) -> _Images:
    """Bound affine functions of the state, rounded outward."""
    positive, negative = np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0)
    kappa = rounding_factor(slopes.shape[1] + 8)
    scale = (np.abs(slopes) @ state.size + np.abs(offsets)) * SMALL_RAISE + UNDERFLOW_ALLOWANCE
    slack = (np.abs(slopes) @ state.error) * kappa
    around = state.ellipsoid
    central = (np.abs(slopes) @ np.abs(around.centre) + np.abs(offsets)) * SMALL_RAISE
    central += UNDERFLOW_ALLOWANCE
    middle = slopes @ around.centre + offsets
    radius = around.radii(slopes) + kappa * central
    low = positive @ state.low - negative @ state.high + offsets - kappa * scale
    high = positive @ state.high - negative @ state.low + offsets + kappa * scale
    return _Images(
        np.fmax(low, middle - radius * SMALL_RAISE),
        np.fmin(high, middle + radius * SMALL_RAISE),
        positive @ state.below - negative @ state.above - slack,
        positive @ state.above - negative @ state.below + slack,
        np.fmin(scale, (central + around.moduli(slopes)) * SMALL_RAISE),
    )


def _propagate_layer(
    layer: PieceLayer,
    state: _State,
    tau: float,
    n_tokens: int,
    given: LayerPlan | None,
    precision: _Precision,
) -> tuple[_State, _LayerErrors, LayerPlan, float]:
    """Propagate the bounds through a layer; also bound the numbers that its heads compare."""
    pieces = _bound_images(layer.slopes, layer.offsets, state)
    owner, starts = layer.owner, layer.starts
    n_products = layer.slopes.shape[1]
    held_scale, foreign_scale = pieces.scale, pieces.scale
    if layer.origins is not None:
        reaches = layer.reach(state.low, state.high)
        held_scale, foreign_scale = (reach * SMALL_RAISE + UNDERFLOW_ALLOWANCE for reach in reaches)
    # One of the two units of a pair is 0, or both are as small as their rounding errors.
    rho = _dot_factor(n_products, precision.roundoff) * held_scale + precision.underflow
    written = np.maximum(np.abs(pieces.low), np.abs(pieces.high))
    rho += precision.factor(4) * written
    low, high = pieces.low - rho, pieces.high + rho
    gate = _choose_gate(layer, np.maximum(-low, high), foreign_scale, given)

    lowest = np.maximum.reduceat(low, starts)
    highest = np.maximum.reduceat(high, starts)
    size = np.maximum.reduceat(np.maximum(-low, high), starts)
    is_idle = ~layer.is_everywhere & (layer.ranks < n_tokens)
    floors = _choose_floors(lowest, size, tau, is_idle, given)
    size = np.maximum(size, np.where(is_idle, np.abs(floors), 0.0))
    rounding = precision.factor(2 * n_tokens + 40) * size + precision.underflow
    gap = np.zeros(layer.n_units)
    if tau > 0.0:
        margins = np.maximum((lowest - rounding)[owner] - high, 0.0) / tau
        far = np.where(is_idle, (lowest - floors - rounding) / tau, np.inf)
        idle = np.where(is_idle, (n_tokens - layer.ranks) * far * np.exp(-far), 0.0)
        idle[~is_idle] = 0.0
        gap = tau * (gap_bounds(margins, starts) + idle * SMALL_RAISE) * SMALL_RAISE

    can_win = high >= lowest[owner]
    # The network is evaluated in float64, the transformer in the given precision.
    own = _dot_factor(n_products, UNIT_ROUNDOFF) * pieces.scale + UNDERFLOW_ALLOWANCE
    apart = np.maximum.reduceat(np.where(can_win, rho + own, 0.0), starts)
    ranges = slope_ranges(layer, can_win)
    step = _LayerErrors(
        ranges, (apart + gap + rounding) * SMALL_RAISE, (apart + rounding) * SMALL_RAISE
    )
    below = np.minimum.reduceat(np.where(can_win, pieces.below, np.inf), starts)
    above = np.maximum.reduceat(np.where(can_win, pieces.above, -np.inf), starts)
    ellipsoid = ellipsoid_after(state.ellipsoid, layer, ranges, step.below)
    after = _State(
        lowest - gap - rounding,
        highest + rounding,
        (below - step.below) * SMALL_RAISE,
        (above + step.above) * SMALL_RAISE,
        ellipsoid,
    )
    return after, step, LayerPlan(1.0, gate, floors), float(size.max())


def _choose_gate(
    layer: PieceLayer, size: FloatArray, scale: FloatArray, given: LayerPlan | None
) -> float:
    """Choose a power of two that closes every gate, with a margin for rounding even in float32."""
    moving = ~layer.is_constant
    if not moving.any():
        return 1.0 if given is None else given.gate
    if layer.origins is not None:  # A piece is also evaluated at the origins of other tokens.
        size = np.maximum(size, scale)
    needed = float((size * (1.0 + 2.0**-6) + 2.0**-10 * scale)[moving].max())
    if given is None:
        return float(np.exp2(np.ceil(np.log2(needed))))
    enough = float((size * (1.0 + 2.0**-7) + 2.0**-11 * scale)[moving].max())
    if not given.gate >= enough:
        raise ArgumentError(
            f"`gate` must be at least {enough} to close every gate on the box; got {given.gate}."
        )
    return given.gate


def _choose_floors(
    lowest: FloatArray, size: FloatArray, tau: float, is_idle: BoolArray, given: LayerPlan | None
) -> FloatArray:
    """Choose numbers that stay below every unit with an idle token."""
    if given is None:
        floors = lowest - np.maximum(np.maximum(1.5 * _IDLE_GAP * tau, size / 16.0), 2.0**-30)
        return np.where(is_idle, floors, 0.0)
    least = 1.25 * _IDLE_GAP * tau + 2.0**-40 * size
    if not (given.floors <= lowest - least)[is_idle].all():
        raise ArgumentError(
            "`floors` must lie below the values of the units on the box; at least one does not."
        )
    return given.floors
