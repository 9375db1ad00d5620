r"""Bounds that hold for every input of a box: what a compiled transformer can be off by.

Three things are carried from layer to layer, each for every unit, and each rounded outwards:

- an interval that contains the unit's value in the exact network and in the transformer as float64
  evaluates it;
- an interval $[d^-, d^+]$ that contains the difference of the two. A piece
  $\langle a, h\rangle + b$ turns it into $[\langle a^+, d^-\rangle - \langle a^-, d^+\rangle,
  \langle a^+, d^+\rangle - \langle a^-, d^-\rangle]$; a maximum into the hull over the pieces that
  can win; a soft mean lowers the lower end by at most $\tau\lambda$ (`grouped_gaps.gap_bounds`).
  Keeping the signs matters: soft means err to one side only;
- a bound on what float64 rounding adds, to the transformer and to the evaluation of the network
  it is compared with.

Rounding of a head at temperature $\tau$ does not grow as $\tau \to 0$: logits $z_c/\tau$ off by
$\eta_c$ are those of the numbers $z_c + \tau\eta_c$, whose soft mean is off by $2\tau\max|\eta|$ at
most, and $\tau\eta$ is a few roundings of $z$.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.algebra.exact.rounding import UNDERFLOW_ALLOWANCE, rounding_factor
from hardmax.constructions.grouped_gaps import gap_bounds
from hardmax.constructions.piece_layers import PieceLayer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax_layers import AffineMap
from hardmax.typing import BoolArray, FloatArray

_UP = 1.0 + 2.0**-40
_FAR = 64.0
"""How many temperatures below the maximum an idle token must stay: 64 e^-64 is 1e-26."""


@dataclass(frozen=True, eq=False)
class LayerPlan:
    r"""The numbers a compiled layer needs beside the weights of the network.

    Attributes:
        rate: The $1/\tau$ of the layer's heads; 1 in the hard transformer.
        gate: The $M$ that closes the gate of a piece on every token but its own.
        floors: For each unit what the tokens without a piece of it hold, shape `(n_units,)`.
    """

    rate: float
    gate: float
    floors: FloatArray


@dataclass(frozen=True, eq=False)
class ErrorBounds:
    """What `propagate` finds.

    Attributes:
        plans: The plan of each hidden layer.
        errors: For each output the bound on transformer minus network, shape `(dim_out,)`.
        sizes: For each hidden layer the largest number its heads compare.
    """

    plans: tuple[LayerPlan, ...]
    errors: FloatArray
    sizes: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The bound for the worst output."""
        return float(self.errors.max())


@dataclass(frozen=True, eq=False)
class _State:
    """Intervals of the state, of the transformer's error in it, and the network's rounding."""

    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    rounding: FloatArray

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
    rounding: FloatArray
    scale: FloatArray


def propagate(
    layers: list[PieceLayer],
    last: AffineMap,
    box: Box,
    rates: list[float] | None,
    plans: tuple[LayerPlan, ...] | None = None,
) -> ErrorBounds:
    """Bound the error of the compiled transformer over a box, and plan its layers.

    Args:
        layers: The hidden layers of the network.
        last: Its last layer.
        box: The box.
        rates: One over the temperature of each layer; None for the hard transformer.
        plans: If given, plans to judge in place of new ones; `rates` must be theirs.

    Raises:
        ArgumentError: If bounds overflow, or a given plan does not hold on the box.
    """
    n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
    zero = np.zeros(box.dim)
    state = _State(box.low, box.high, zero, zero, zero)
    made, sizes = [], []
    held = np.zeros(max((layer.n_units for layer in layers), default=0))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for index, layer in enumerate(layers):
            tau = 0.0 if rates is None else _UP / rates[index]
            given = None if plans is None else plans[index]
            state, plan, held = _through_layer(layer, state, tau, n_tokens, held, given)
            rate = 1.0 if rates is None else rates[index]
            made.append(LayerPlan(rate, plan.gate, plan.floors))
            sizes.append(float(held.max()))
        output = _images(last.weight.T, last.bias, state)
        roundings = 2.0 * rounding_factor(len(last.weight) + 8) * output.scale
        errors = np.maximum(-output.below, output.above) + output.rounding + roundings
        errors = errors * _UP + UNDERFLOW_ALLOWANCE
    logits = [size * plan.rate for size, plan in zip(sizes, made, strict=True)]
    if not np.isfinite([*errors, *sizes, *logits, *(plan.gate for plan in made)]).all():
        raise ArgumentError(
            "`box` must be small enough for the network's values to be bounded in float64; the "
            "bounds overflow. Shrink the box or scale the weights down."
        )
    return ErrorBounds(tuple(made), errors, tuple(sizes))


def _images(slopes: FloatArray, offsets: FloatArray, state: _State) -> _Images:
    """Bound affine functions of the state, outwards."""
    positive, negative = np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0)
    kappa = rounding_factor(slopes.shape[1] + 8)
    scale = (np.abs(slopes) @ state.size + np.abs(offsets)) * _UP + UNDERFLOW_ALLOWANCE
    slack = (np.abs(slopes) @ state.error) * kappa
    return _Images(
        positive @ state.low - negative @ state.high + offsets - kappa * scale,
        positive @ state.high - negative @ state.low + offsets + kappa * scale,
        positive @ state.below - negative @ state.above - slack,
        positive @ state.above - negative @ state.below + slack,
        (np.abs(slopes) @ state.rounding + kappa * scale) * _UP,
        scale,
    )


def _through_layer(
    layer: PieceLayer,
    state: _State,
    tau: float,
    n_tokens: int,
    held: FloatArray,
    given: LayerPlan | None,
) -> tuple[_State, LayerPlan, FloatArray]:
    """Carry the bounds through a layer; `held` bounds what the work slots held and now hold."""
    pieces = _images(layer.slopes, layer.offsets, state)
    owner, starts = layer.owner, layer.starts
    # Both units of a gate may be rounded, and so is the sum that clears the slot before.
    written = np.maximum(np.abs(pieces.low), np.abs(pieces.high))
    rho = 2.0 * rounding_factor(layer.slopes.shape[1] + 8) * pieces.scale
    rho += rounding_factor(16) * (written + 2.0 * held[owner])
    low, high = pieces.low - rho, pieces.high + rho
    gate = _gate(layer, np.maximum(-low, high), pieces.scale, given)

    lowest = np.maximum.reduceat(low, starts)
    highest = np.maximum.reduceat(high, starts)
    size = np.maximum.reduceat(np.maximum(-low, high), starts)
    is_idle = (layer.ranks > 1) & (layer.ranks < n_tokens)
    floors = _floors(lowest, size, tau, is_idle, given)
    size = np.maximum(size, np.where(is_idle, np.abs(floors), 0.0))
    rounding = rounding_factor(2 * n_tokens + 40) * size + UNDERFLOW_ALLOWANCE
    gap = np.zeros(layer.n_units)
    if tau > 0.0:
        margins = np.maximum((lowest - rounding)[owner] - high, 0.0) / tau
        far = np.where(is_idle, (lowest - floors - rounding) / tau, np.inf)
        idle = np.where(is_idle, (n_tokens - layer.ranks) * far * np.exp(-far), 0.0)
        idle[~is_idle] = 0.0
        gap = tau * (gap_bounds(margins, starts) + idle * _UP) * _UP

    can_win = high >= lowest[owner]
    below = np.minimum.reduceat(np.where(can_win, pieces.below - rho, np.inf), starts)
    above = np.maximum.reduceat(np.where(can_win, pieces.above + rho, -np.inf), starts)
    own = np.maximum.reduceat(np.where(can_win, pieces.rounding, 0.0), starts)
    after = _State(
        lowest - gap - rounding,
        highest + rounding,
        (below - gap - rounding) * _UP,
        (above + rounding) * _UP,
        own,
    )
    holds = np.zeros_like(held)
    holds[: layer.n_units] = size
    return after, LayerPlan(1.0, gate, floors), holds


def _gate(layer: PieceLayer, size: FloatArray, scale: FloatArray, given: LayerPlan | None) -> float:
    """A power of two that closes every gate, with room for rounding, in float32 as well."""
    moving = ~layer.is_constant
    if not moving.any():
        return 1.0 if given is None else given.gate
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
