r"""Bounds that hold for every input of a box: what a compiled transformer can be off by.

From layer to layer, rounded outwards, are carried

- an interval for each unit that contains its value in the network and in the transformer, exact and
  as float64 evaluates them, and an ellipsoid that contains the whole state (`state_ellipsoids`);
- an interval $[d^-, d^+]$ for each unit that contains transformer minus network. A piece
  $\langle a, h\rangle + b$ turns it into $[\langle a^+, d^-\rangle - \langle a^-, d^+\rangle,
  \langle a^+, d^+\rangle - \langle a^-, d^-\rangle]$; a maximum into the hull over the pieces that
  can win; a soft mean lowers the lower end by at most $\tau\lambda$ (`grouped_gaps.gap_bounds`).
  Keeping the signs matters: soft means err to one side only.

These last intervals are sharp in shallow networks and grow with the sums of absolute weights. So
the same errors, what each layer adds on its own, are also carried to the outputs by how strongly
those react to them (`sensitivities`), and the smaller of the two bounds counts.

What a layer adds is the soft mean's gap, and rounding of the transformer and of the network it is
compared with. A piece is written by a pair of units, $\mathrm{relu}(\hat p) -
\mathrm{relu}(\hat p')$ with $\hat p = p + e$ and $\hat p' = -p + e'$. If one of them is 0, the
result is off by $|e|$ or $|e'|$ (or by $|p|$, less than both); if none is, by $p + e - e'$ where
$-e < p < e'$. So the pair is off by $\max(|e|, |e'|)$, as if it were one number. Rounding of a head
at temperature $\tau$ does not grow as $\tau \to 0$: logits $z_c/\tau$ off by $\eta_c$ are those of
the numbers $z_c + \tau\eta_c$, whose soft mean is off by $2\tau\max|\eta|$ at most, and $\tau\eta$
is a few roundings of $z$.
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

_MOST_WORK, _MOST_AT_ALL = 2**26, 2**31
"""How many products sensitivities of outputs one by one may take, and those of all together."""
_FAR = 64.0
"""How many temperatures below the maximum an idle token must stay: 64 e^-64 is 1e-26."""


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
        errors: For each output, a bound on transformer minus network, shape `(dim_out,)`.
        sizes: For each hidden layer, the largest number that its heads compare.
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

    def plus(self, rounding: FloatArray | float) -> "ErrorBounds":
        """Add the error of the network itself, for each output, rounded up."""
        if not np.any(rounding):
            return self
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, errors=np.nextafter(self.errors + rounding, np.inf))


@dataclass(frozen=True, eq=False)
class _State:
    """Intervals of the state and of the errors in it, and an ellipsoid that holds the state."""

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
    """The same for affine functions of the state; roundings are relative to `scale`."""

    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class _Step:
    """What a layer adds: the slopes that count, and how far its state is from theirs."""

    ranges: SlopeRanges
    below: FloatArray
    above: FloatArray


@dataclass(frozen=True)
class _Precision:
    """How the transformer is evaluated: its unit roundoff and what underflow costs."""

    roundoff: float
    underflow: float

    def factor(self, n_products: int) -> float:
        """What `rounding_factor` is in this precision."""
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
        rates: One over the temperature of each layer; None for the hard transformer.
        plans: If given, plans to judge in place of new ones; `rates` must be theirs.
        roundoff: The unit roundoff of the arithmetic the transformer is evaluated in; the network
            is evaluated in float64.
        underflow: More than all underflow of one dot product in that arithmetic.

    Raises:
        ArgumentError: If bounds overflow, or a given plan does not hold on the box.
    """
    precision = _Precision(roundoff, underflow)
    n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
    zero = np.zeros(box.dim)
    made, sizes, steps = [], [], []
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        around = StateEllipsoid.around(box)
        if _work([layer.slopes for layer in layers]) > _MOST_AT_ALL:
            around = StateEllipsoid.unknown(around.centre)
        state = _State(box.low, box.high, zero, zero, around)
        for index, layer in enumerate(layers):
            tau = 0.0 if rates is None else SMALL_RAISE / rates[index]
            given = None if plans is None else plans[index]
            state, step, plan, size = _through_layer(layer, state, tau, n_tokens, given, precision)
            rate = 1.0 if rates is None else rates[index]
            made.append(LayerPlan(rate, plan.gate, plan.floors))
            sizes.append(size)
            steps.append(step)
        output = _images(last.weight.T, last.bias, state)
        down, up, shares = _reaches(steps, last)
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
    """What a dot product with an offset is off by, relative to its sum of absolute values."""
    return (n_products + 4) * roundoff


def _work(matrices: list[FloatArray]) -> int:
    """About how many products a form costs on its way through matrices."""
    return sum(matrix.size * max(matrix.shape) for matrix in matrices)


def _reaches(steps: list[_Step], last: AffineMap) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How far each layer's own errors move each output down and up, `(n_layers, dim_out)`.

    The third is how far they move the output that is moved most, for each layer.
    """
    n_out = last.dim_out
    down, up = np.full((2, len(steps), n_out), np.inf)
    work = _work([step.ranges.means for step in steps])
    if work > _MOST_AT_ALL:
        return down, up, np.ones(len(steps))
    # Together outputs are bounded by their norm, which may be less than what each is alone.
    groups = [[o] for o in range(n_out)] if n_out == 1 or n_out * work <= _MOST_WORK else []
    groups += [list(range(n_out))] if n_out > 1 else []
    for group in groups:
        sensitivity = last_sensitivity(last.weight[:, group])
        for index in range(len(steps) - 1, -1, -1):
            below, above = sensitivity.reach(steps[index].below, steps[index].above)
            down[index, group] = np.fmin(down[index, group], below)
            up[index, group] = np.fmin(up[index, group], above)
            if index:
                sensitivity = sensitivity_before(sensitivity, steps[index].ranges)
    worst = np.maximum(down, up)
    return down, up, worst[:, int(worst.sum(axis=0).argmax())]


def _images(slopes: FloatArray, offsets: FloatArray, state: _State) -> _Images:
    """Bound affine functions of the state, outwards."""
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


def _through_layer(
    layer: PieceLayer,
    state: _State,
    tau: float,
    n_tokens: int,
    given: LayerPlan | None,
    precision: _Precision,
) -> tuple[_State, _Step, LayerPlan, float]:
    """Carry the bounds through a layer; the last number is the largest its heads compare."""
    pieces = _images(layer.slopes, layer.offsets, state)
    owner, starts = layer.owner, layer.starts
    n_products = layer.slopes.shape[1]
    held_scale, foreign_scale = pieces.scale, pieces.scale
    if layer.origins is not None:
        reaches = layer.reach(state.low, state.high)
        held_scale, foreign_scale = (reach * SMALL_RAISE + UNDERFLOW_ALLOWANCE for reach in reaches)
    # Of the two units of a gate one is 0, or both are as small as their rounding (see above).
    rho = _dot_factor(n_products, precision.roundoff) * held_scale + precision.underflow
    written = np.maximum(np.abs(pieces.low), np.abs(pieces.high))
    rho += precision.factor(4) * written
    low, high = pieces.low - rho, pieces.high + rho
    gate = _gate(layer, np.maximum(-low, high), foreign_scale, given)

    lowest = np.maximum.reduceat(low, starts)
    highest = np.maximum.reduceat(high, starts)
    size = np.maximum.reduceat(np.maximum(-low, high), starts)
    is_idle = ~layer.is_everywhere & (layer.ranks < n_tokens)
    floors = _floors(lowest, size, tau, is_idle, given)
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
    # The network is evaluated in float64, the transformer in its own precision.
    own = _dot_factor(n_products, UNIT_ROUNDOFF) * pieces.scale + UNDERFLOW_ALLOWANCE
    apart = np.maximum.reduceat(np.where(can_win, rho + own, 0.0), starts)
    ranges = slope_ranges(layer, can_win)
    step = _Step(ranges, (apart + gap + rounding) * SMALL_RAISE, (apart + rounding) * SMALL_RAISE)
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


def _gate(layer: PieceLayer, size: FloatArray, scale: FloatArray, given: LayerPlan | None) -> float:
    """A power of two that closes every gate, with room for rounding, in float32 as well."""
    moving = ~layer.is_constant
    if not moving.any():
        return 1.0 if given is None else given.gate
    if layer.origins is not None:  # What a piece is at the origin of another token.
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


def _floors(
    lowest: FloatArray, size: FloatArray, tau: float, is_idle: BoolArray, given: LayerPlan | None
) -> FloatArray:
    """Numbers that no unit with an idle token ever goes down to."""
    if given is None:
        floors = lowest - np.maximum(np.maximum(1.5 * _FAR * tau, size / 16.0), 2.0**-30)
        return np.where(is_idle, floors, 0.0)
    least = 1.25 * _FAR * tau + 2.0**-40 * size
    if not (given.floors <= lowest - least)[is_idle].all():
        raise ArgumentError("`floors` must lie below what the units reach on the box; they do not.")
    return given.floors
