r"""Networks of affine layers and piecewise linear activations as exact networks of maxima.

An affine map is combined with the activation after it: it is written into the forms of the maxima
if all products and sums are float64 numbers. Otherwise (a slope of 0.01 times a weight has more
digits than a float64) the map becomes a separate layer of maxima with one form each, and the next
layer starts from its outputs. The result therefore computes exactly the given function.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import RELU, Activation, Stage
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray

Step = AffineMap | Activation
_NUMBER_BYTES = 48
"""The memory per matrix entry while a network is assembled."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """Maxima of forms: unit `i` has the rows `starts[i]` to `starts[i + 1]`."""

    slopes: FloatArray
    offsets: FloatArray
    starts: IntArray
    relu: AffineMap | None


def build_network(
    steps: Sequence[Step], limit: SizeLimit | None = None
) -> ReluNetwork | MaxoutNetwork:
    """Return the exact network of a sequence of affine maps and activations.

    Args:
        steps: The maps and activations, with at least one map.
        limit: The limit on the memory of the matrices, for steps that come from a file.

    Returns:
        A `ReluNetwork` if every activation is a ReLU and no two adjacent maps would have to be
        multiplied; otherwise a `MaxoutNetwork`.

    Raises:
        ArgumentError: If there is no affine map.
        ShapeMismatchError: If the sizes do not fit.
        SizeLimitError: If the matrices would need more memory than `limit` has left.

    Examples:
        >>> from hardmax.models import read_activation
        >>> double = AffineMap(2.0 * np.eye(1), np.zeros(1))
        >>> build_network([double, RELU, double])
        ReluNetwork(1 -> [1] -> 1)
        >>> network = build_network([double, read_activation("leaky_relu(0.25)")])
        >>> network, network([[-1.0], [1.0]]).ravel().tolist()
        (MaxoutNetwork(1 -> [1] -> 1, ranks 2 to 2), [-0.5, 2.0])
    """
    first = next((step for step in steps if isinstance(step, AffineMap)), None)
    if first is None:
        raise ArgumentError("a network must have at least one Linear layer; got none.")
    layers: list[_Layer] = []
    pending = AffineMap.identity(first.dim_in)

    def count(*n_numbers: int) -> None:
        if limit is not None:
            limit.take(_NUMBER_BYTES * sum(n_numbers))

    for step in steps:
        if isinstance(step, AffineMap):
            if step.dim_in != pending.dim_out:
                raise ShapeMismatchError(
                    f"a layer must take the {pending.dim_out} outputs of the previous layer; got "
                    f"one of shape {step.weight.shape}."
                )
            count(pending.weight.size, pending.dim_in * step.dim_out)
            composed = _compose_exactly(pending, step)
            if composed is None:
                layers.append(_to_affine_layer(pending))
                composed = step
            pending = composed
            continue
        step.refuse_other_sizes(pending.dim_out)
        for stage in step.stages:
            if _is_relu(step) and _is_relu_output(layers, pending):
                continue
            n_units, n_forms = _count_forms(stage, pending.dim_out)
            count(n_forms * pending.dim_in, n_units * pending.dim_out)
            layer = _to_max_layer(pending, stage)
            if layer is None:
                count(pending.weight.size, n_forms * pending.dim_out)
                layers.append(_to_affine_layer(pending))
                pending = AffineMap.identity(pending.dim_out)
                layer = _to_max_layer(pending, stage)
                assert layer is not None
            layers.append(layer)
            pending = _build_readout(stage, pending.dim_out)
    return _assemble(layers, pending)


def interleave(affine: Sequence[AffineMap], activations: Sequence[Activation]) -> list[Step]:
    """Return affine maps and activations as alternating steps."""
    pairs = zip(affine, activations, strict=True)
    return [step for pair in pairs for step in pair]


def _count_forms(stage: Stage, n_channels: int) -> tuple[int, int]:
    """Return the number of maxima in a stage, and the number of their forms."""
    units = [unit for channel in stage for unit in channel]
    times = n_channels // len(stage)
    return len(units) * times, sum(len(unit.pieces) for unit in units) * times


def _is_relu(activation: Activation) -> bool:
    return activation.stages == RELU.stages


def _is_relu_output(layers: list[_Layer], pending: AffineMap) -> bool:
    """Whether the state is the output of a ReLU layer, which a second ReLU does not change."""
    return bool(layers) and layers[-1].relu is not None and pending.is_identity


def _assemble(layers: list[_Layer], last: AffineMap) -> ReluNetwork | MaxoutNetwork:
    maps = [layer.relu for layer in layers]
    if all(affine is not None for affine in maps):
        read: list[Any] = [*maps, last]
        return ReluNetwork([a.weight for a in read], [a.bias for a in read])
    weights: list[Any] = [last.weight]
    biases: list[Any] = [last.bias]
    for layer in reversed(layers):
        ends = layer.starts[1:-1]
        weights.insert(0, np.split(layer.slopes, ends))
        biases.insert(0, np.split(layer.offsets, ends))
    return MaxoutNetwork(weights, biases)


def _to_affine_layer(affine: AffineMap) -> _Layer:
    """Return an affine map as a layer of maxima with one form each."""
    rows = np.ascontiguousarray(affine.weight.T)
    return _Layer(rows, affine.bias, np.arange(affine.dim_out + 1), None)


def _to_max_layer(affine: AffineMap, stage: Stage) -> _Layer | None:
    """Return the maxima of a stage as forms of the state, or None if this requires rounding."""
    units = [(c, unit) for c in range(affine.dim_out) for unit in stage[c % len(stage)]]
    pieces = [(c, *piece) for c, unit in units for piece in unit.pieces]
    channel = np.array([c for c, _, _ in pieces])
    factor = np.array([alpha for _, alpha, _ in pieces])
    added = np.array([gamma for _, _, gamma in pieces])
    slopes, whole = _multiply(affine.weight.T[channel], factor[:, None])
    scaled, whole_too = _multiply(affine.bias[channel], factor)
    offsets, exact = _add(scaled, added)
    if not (whole.all() and whole_too.all() and exact.all()):
        return None
    starts = np.cumsum([0, *(len(unit.pieces) for _, unit in units)])
    relu = affine if stage == RELU.stages[0] else None
    return _Layer(slopes, offsets, starts, relu)


def _build_readout(stage: Stage, n_channels: int) -> AffineMap:
    """Return the map from the units of a stage to channels: signed sums."""
    units = [(c, u.sign) for c in range(n_channels) for u in stage[c % len(stage)]]
    if all(sign == 1.0 for _, sign in units) and len(units) == n_channels:
        return AffineMap.identity(n_channels)
    weight = np.zeros((len(units), n_channels))
    for i, (c, sign) in enumerate(units):
        weight[i, c] = sign
    return AffineMap(weight, np.zeros(n_channels))


def _compose_exactly(first: AffineMap, second: AffineMap) -> AffineMap | None:
    """Return the composition of two affine maps, or None if this requires rounding."""
    one_each = bool((np.count_nonzero(first.weight, axis=1) <= 1).all())
    if not one_each and not (np.count_nonzero(second.weight, axis=0) <= 1).all():
        return None  # The entries would be sums of products.
    if np.any(first.bias) and not (np.count_nonzero(second.weight, axis=0) <= 1).all():
        return None
    weight, exact = _multiply_single_terms(first.weight, second.weight, one_each)
    moved, exact_too = _multiply_single_terms(first.bias[None, :], second.weight, False)
    bias, whole = _add(moved[0], second.bias)
    if not (exact and (exact_too or not first.bias.any()) and whole.all()):
        return None
    return AffineMap(weight, second.bias if not first.bias.any() else bias)


def _multiply_single_terms(
    left: FloatArray, right: FloatArray, one_in_rows: bool
) -> tuple[FloatArray, bool]:
    """Return a matrix product with one term per entry, and whether all entries are exact."""
    if one_in_rows:
        chosen = np.abs(left).argmax(axis=1)
        product, exact = _multiply(left[np.arange(len(left)), chosen][:, None], right[chosen])
    else:
        chosen = np.abs(right).argmax(axis=0)
        product, exact = _multiply(left[:, chosen], right[chosen, np.arange(right.shape[1])])
    return product, bool(exact.all())


def _multiply(left: FloatArray, right: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return products, and the mask of those that certainly fit into a float64."""
    with np.errstate(over="ignore", under="ignore"):
        product = np.asarray(left * right)
    few = _count_bits(left) + _count_bits(right) <= 53
    size = np.abs(product)
    ranged = (size < np.inf) & (size > 2.0**-960)
    trivial = (left == 0.0) | (right == 0.0) | (np.abs(left) == 1.0) | (np.abs(right) == 1.0)
    return product + 0.0, np.asarray(trivial | (few & ranged))


def _count_bits(numbers: FloatArray) -> IntArray:
    """Return the number of significant bits of each number."""
    mantissas = np.ldexp(np.frexp(numbers)[0], 53).astype(np.int64)
    lowest = mantissas & -mantissas
    return np.asarray(53 - np.log2(np.maximum(lowest, 1)).astype(np.int64))


def _add(left: FloatArray, right: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return sums, and the mask of those that are exact [Knu97, 4.2.2]."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = left + right
        back = total - left
        lost = (left - (total - back)) + (right - back)
    return total + 0.0, np.asarray((lost == 0.0) & np.isfinite(total))
