"""The tensor operations of torch and ONNX, as operations on the slots of a graph.

A tensor has its original shape, including a batch axis of size 1. Constants are arrays.
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
class Tensor:
    """A tensor that depends on the input.

    Attributes:
        slots: The slots, in the shape of the tensor.
        omitted: The name of a final operation, such as Softmax, that was omitted; no other
            operation may follow it.
    """

    slots: IntArray
    omitted: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, including the batch axis."""
        return self.slots.shape

    def image_slots(self, n_axes: int) -> IntArray:
        """Return the slots without the batch axis; the others are channels and `n_axes` axes."""
        if len(self.shape) == n_axes + 1:
            return self.slots
        if len(self.shape) != n_axes + 2 or self.shape[0] != 1:
            raise ArgumentError(
                f"its input must have channels and {n_axes} axes; got shape {self.shape}."
            )
        return np.asarray(self.slots[0])

    def restore_batch(self, slots: IntArray) -> "Tensor":
        """Return a tensor with the given slots, with a batch axis if this tensor has one."""
        return Tensor(slots[np.newaxis] if len(self.shape) == slots.ndim + 1 else slots)


def is_traced(*values: Any) -> bool:
    """Whether all values depend on the input."""
    return all(isinstance(value, Tensor) for value in values)


def read_constant(value: Any) -> FloatArray:
    """Read a constant as an array of real numbers."""
    if isinstance(value, Tensor):
        raise ArgumentError("an argument that must be constant depends on the input.")
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise ArgumentError(f"its constants must be real numbers; got dtype {array.dtype}.")
    return np.asarray(array, dtype=np.float64)


def fold_constants(build: GraphBuilder, function: Callable[..., Any], a: Any, b: Any) -> AnyArray:
    """Apply a function of numbers to two constants, entry by entry."""
    left, right = np.asarray(a), np.asarray(b)
    build.limit.take(16 * prod(np.broadcast_shapes(left.shape, right.shape)))
    return np.asarray(function(left, right))


def add(build: GraphBuilder, a: Any, b: Any, factor: float = 1.0, name: str = "sum") -> Any:
    """Return `a + factor * b`."""
    if is_traced(a, b):
        return Tensor(build.add(a.slots, b.slots, factor, name))
    if isinstance(a, Tensor):
        return Tensor(build.scale(a.slots, 1.0, factor * read_constant(b), name))
    if isinstance(b, Tensor):
        return Tensor(build.scale(b.slots, factor, read_constant(a), name))
    return fold_constants(build, lambda left, right: left + factor * right, a, b)


def multiply(build: GraphBuilder, a: Any, b: Any, name: str = "product") -> Any:
    """Return `a * b`, at least one of which must be constant."""
    if is_traced(a, b):
        raise ArgumentError("it multiplies two tensors that depend on the input.")
    if isinstance(b, Tensor):
        a, b = b, a
    if isinstance(a, Tensor):
        return Tensor(build.scale(a.slots, read_constant(b), 0.0, name))
    return fold_constants(build, np.multiply, a, b)


def divide(build: GraphBuilder, a: Any, b: Any, name: str = "quotient") -> Any:
    """Return `a / b`, with the quotient 1 / b rounded once."""
    if isinstance(b, Tensor):
        raise ArgumentError("it divides by a tensor that depends on the input.")
    if not isinstance(a, Tensor):
        return fold_constants(build, np.divide, a, b)
    divisor = read_constant(b)
    mantissas = np.abs(np.frexp(divisor)[0])
    if not divisor.all():
        raise ArgumentError("it divides by zero.")
    if (mantissas != 0.5).any():
        build.note(f"{name}: quotients of 1 are rounded to float64")
    return Tensor(build.scale(a.slots, 1.0 / divisor, 0.0, name))


def matmul(build: GraphBuilder, a: Any, b: Any, name: str = "matrix") -> Any:
    """Return the matrix product; at least one factor must be a constant with at most two axes."""
    if is_traced(a, b):
        raise ArgumentError("it multiplies two tensors that depend on the input.")
    if isinstance(a, Tensor):
        matrix = read_constant(b)
        if matrix.ndim == 1:
            return Tensor(build.multiply(a.slots, matrix[:, np.newaxis], None, name)[..., 0])
        return Tensor(build.multiply(a.slots, _as_matrix(matrix), None, name))
    if isinstance(b, Tensor):
        turned = np.swapaxes(b.slots, -1, -2)
        result = build.multiply(turned, _as_matrix(read_constant(a)).T, None, name)
        return Tensor(np.swapaxes(result, -1, -2))
    left, right = np.asarray(a), np.asarray(b)
    n_inner = left.shape[-1] if left.ndim else 1
    n_outer = left.size // max(n_inner, 1) * (right.size // max(n_inner, 1))
    # Count the multiplications too, because they take time.
    build.limit.take(8 * n_outer + n_inner * n_outer // 4)
    return left @ right


def _as_matrix(array: FloatArray) -> FloatArray:
    flat = array.reshape(array.shape[-2:]) if prod(array.shape[:-2]) == 1 else array
    if flat.ndim != 2:
        raise ArgumentError(f"a matrix must have two axes; got shape {array.shape}.")
    return flat


def apply_batch_norm(
    build: GraphBuilder,
    x: Tensor,
    scale: AnyArray | None,
    shift: AnyArray | None,
    mean: AnyArray,
    variance: AnyArray,
    epsilon: float,
    name: str,
) -> Tensor:
    """Apply a batch normalisation in evaluation mode: a factor and a shift for each channel."""
    spread = np.sqrt(read_constant(variance) + epsilon)
    factor = (1.0 if scale is None else read_constant(scale)) / spread
    offset = (0.0 if shift is None else read_constant(shift)) - read_constant(mean) * factor
    build.note(f"{name}: the factor and the shift of each channel are rounded to float64")
    shape = (1, -1, *(1,) * (len(x.shape) - 2))
    return Tensor(build.scale(x.slots, factor.reshape(shape), offset.reshape(shape), name))


def apply_activation(build: GraphBuilder, x: Tensor, activation: Activation, name: str) -> Tensor:
    """Apply an activation; slopes per channel belong to the second axis."""
    if activation.n_channels is None or x.shape[0] != 1:
        return Tensor(build.activate(x.slots, activation, name))
    return Tensor(build.activate(x.slots[0], activation, name)[np.newaxis])


def take_extremum(build: GraphBuilder, a: Any, b: Any, sign: float, name: str) -> Any:
    """Return the larger of two values entry by entry, or the smaller if `sign` is -1."""
    if not is_traced(a) and not is_traced(b):
        return fold_constants(build, np.maximum if sign > 0 else np.minimum, a, b)
    signal, bound = (a, b) if is_traced(a) else (b, a)
    if not is_traced(bound) and np.size(bound) == 1:
        number = float(read_constant(bound).ravel()[0])
        limits = (number, None) if sign > 0 else (None, number)
        return apply_activation(build, signal, clip(*limits), name)
    slots = [v.slots if isinstance(v, Tensor) else build.constant(read_constant(v)) for v in (a, b)]
    return Tensor(build.larger(slots[0], slots[1], sign, name))


def pair_pads(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """Return pads as pairs `(before, after)`."""
    return [(int(a), int(b)) for a, b in zip(before, after, strict=True)]


def extend_pads(
    sizes: Sequence[int],
    sides: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Extend pads so that a last, incomplete window counts if it begins inside the input."""
    padded = []
    for size, side, stride, (low, high) in zip(sizes, sides, strides, pads, strict=True):
        count = -(-(size + low + high - side) // stride) + 1
        if (count - 1) * stride >= size + low:
            count -= 1
        padded.append((low, max(high, (count - 1) * stride + side - size - low)))
    return padded
