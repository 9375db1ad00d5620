"""What torch and ONNX do to tensors, as operations on the slots of a graph.

A traced tensor has the shape it has there, the batch included, which is 1. Constants are arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.models.formats.activations import Activation, clip
from hardmax.models.graphs.building import GraphBuilder
from hardmax.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Traced:
    """A tensor that depends on the input.

    Attributes:
        slots: Its slots, with its shape.
        left_off: A last operation, such as Softmax, that was left off; nothing may follow it.
    """

    slots: IntArray
    left_off: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the batch included."""
        return self.slots.shape

    def image(self, n_axes: int) -> IntArray:
        """The slots without the batch, of a tensor of channels and `n_axes` more axes."""
        if len(self.shape) == n_axes + 1:
            return self.slots
        if len(self.shape) != n_axes + 2 or self.shape[0] != 1:
            raise ArgumentError(f"it must act on channels and {n_axes} axes; got {self.shape}.")
        return np.asarray(self.slots[0])

    def like(self, slots: IntArray) -> "Traced":
        """What comes out, with a batch if this has one."""
        return Traced(slots[np.newaxis] if len(self.shape) == slots.ndim + 1 else slots)


def is_traced(*values: Any) -> bool:
    """Whether all values depend on the input."""
    return all(isinstance(value, Traced) for value in values)


def real(value: Any) -> FloatArray:
    """Read a constant."""
    if isinstance(value, Traced):
        raise ArgumentError("an argument must be a constant; this one depends on the input.")
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise ArgumentError(f"its constants must be real numbers; got dtype {array.dtype}.")
    return np.asarray(array, dtype=np.float64)


def fold(build: GraphBuilder, function: Callable[..., Any], a: Any, b: Any) -> AnyArray:
    """Apply a function of numbers to two constants, entry by entry."""
    left, right = np.asarray(a), np.asarray(b)
    build.limit.take(16 * prod(np.broadcast_shapes(left.shape, right.shape)))
    return np.asarray(function(left, right))


def added(build: GraphBuilder, a: Any, b: Any, factor: float = 1.0, name: str = "sum") -> Any:
    """Return `a + factor * b`."""
    if is_traced(a, b):
        return Traced(build.add(a.slots, b.slots, factor, name))
    if isinstance(a, Traced):
        return Traced(build.scale(a.slots, 1.0, factor * real(b), name))
    if isinstance(b, Traced):
        return Traced(build.scale(b.slots, factor, real(a), name))
    return fold(build, lambda left, right: left + factor * right, a, b)


def multiplied(build: GraphBuilder, a: Any, b: Any, name: str = "product") -> Any:
    """Return `a * b`, one of them a constant."""
    if is_traced(a, b):
        raise ArgumentError("it multiplies two tensors that depend on the input.")
    if isinstance(b, Traced):
        a, b = b, a
    if isinstance(a, Traced):
        return Traced(build.scale(a.slots, real(b), 0.0, name))
    return fold(build, np.multiply, a, b)


def divided(build: GraphBuilder, a: Any, b: Any, name: str = "quotient") -> Any:
    """Return `a / b`, the quotient 1 / b rounded once."""
    if isinstance(b, Traced):
        raise ArgumentError("it divides by something that depends on the input.")
    if not isinstance(a, Traced):
        return fold(build, np.divide, a, b)
    divisor = real(b)
    mantissas = np.abs(np.frexp(divisor)[0])
    if not divisor.all():
        raise ArgumentError("it divides by zero.")
    if (mantissas != 0.5).any():
        build.note(f"{name}: quotients of 1 are rounded to float64")
    return Traced(build.scale(a.slots, 1.0 / divisor, 0.0, name))


def product(build: GraphBuilder, a: Any, b: Any, name: str = "matrix") -> Any:
    """Return the matrix product, one of the two a constant with two axes at most."""
    if is_traced(a, b):
        raise ArgumentError("it multiplies two tensors that depend on the input.")
    if isinstance(a, Traced):
        matrix = real(b)
        if matrix.ndim == 1:
            return Traced(build.multiply(a.slots, matrix[:, np.newaxis], None, name)[..., 0])
        return Traced(build.multiply(a.slots, _matrix(matrix), None, name))
    if isinstance(b, Traced):
        turned = np.swapaxes(b.slots, -1, -2)
        result = build.multiply(turned, _matrix(real(a)).T, None, name)
        return Traced(np.swapaxes(result, -1, -2))
    left, right = np.asarray(a), np.asarray(b)
    n_inner = left.shape[-1] if left.ndim else 1
    n_outer = left.size // max(n_inner, 1) * (right.size // max(n_inner, 1))
    # Also the products, which take time.
    build.limit.take(8 * n_outer + n_inner * n_outer // 4)
    return left @ right


def _matrix(array: FloatArray) -> FloatArray:
    flat = array.reshape(array.shape[-2:]) if prod(array.shape[:-2]) == 1 else array
    if flat.ndim != 2:
        raise ArgumentError(f"a matrix must have two axes; got shape {array.shape}.")
    return flat


def normalised(
    build: GraphBuilder,
    x: Traced,
    scale: AnyArray | None,
    shift: AnyArray | None,
    mean: AnyArray,
    variance: AnyArray,
    epsilon: float,
    name: str,
) -> Traced:
    """Return a batch normalisation of evaluation: a factor and a shift for each channel."""
    spread = np.sqrt(real(variance) + epsilon)
    factor = (1.0 if scale is None else real(scale)) / spread
    offset = (0.0 if shift is None else real(shift)) - real(mean) * factor
    build.note(f"{name}: the factor and the shift of each channel are rounded to float64")
    shape = (1, -1, *(1,) * (len(x.shape) - 2))
    return Traced(build.scale(x.slots, factor.reshape(shape), offset.reshape(shape), name))


def activated(build: GraphBuilder, x: Traced, activation: Activation, name: str) -> Traced:
    """Apply an activation; slopes of several channels belong to the second axis."""
    if activation.n_channels is None or x.shape[0] != 1:
        return Traced(build.activate(x.slots, activation, name))
    return Traced(build.activate(x.slots[0], activation, name)[np.newaxis])


def extreme(build: GraphBuilder, a: Any, b: Any, sign: float, name: str) -> Any:
    """Return the larger of two, or the smaller for `sign` -1."""
    if not is_traced(a) and not is_traced(b):
        return fold(build, np.maximum if sign > 0 else np.minimum, a, b)
    signal, bound = (a, b) if is_traced(a) else (b, a)
    if not is_traced(bound) and np.size(bound) == 1:
        number = float(real(bound).ravel()[0])
        limits = (number, None) if sign > 0 else (None, number)
        return activated(build, signal, clip(*limits), name)
    slots = [v.slots if isinstance(v, Traced) else build.constant(real(v)) for v in (a, b)]
    return Traced(build.larger(slots[0], slots[1], sign, name))


def both_pads(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """Return pads as pairs."""
    return [(int(a), int(b)) for a, b in zip(before, after, strict=True)]


def with_ceiling(
    sizes: Sequence[int],
    sides: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Return pads such that a last window that is not full is counted, if it begins inside."""
    padded = []
    for size, side, stride, (low, high) in zip(sizes, sides, strides, pads, strict=True):
        count = -(-(size + low + high - side) // stride) + 1
        if (count - 1) * stride >= size + low:
            count -= 1
        padded.append((low, max(high, (count - 1) * stride + side - size - low)))
    return padded
