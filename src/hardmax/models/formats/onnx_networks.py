"""Networks from ONNX files: the graph says what stands between the layers, and is read for it.

A graph of matrices and of activations that are maxima, one after another, is a network of maxima.
Reading runs nothing. Weights of float32 and narrower convert to float64 exactly.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.extras import load_extra
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.models.formats.activations import (
    ABS,
    RELU,
    clip,
    hard_sigmoid,
    leaky_relu,
    prelu,
    refusal,
    soft_shrink,
)
from hardmax.models.formats.layered_networks import Step, network_of
from hardmax.models.formats.torch_operations import Signal, affine_of, scaled_by, shifted_by
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import AnyArray


def from_onnx(path: str | os.PathLike[str]) -> ReluNetwork | MaxoutNetwork:
    """Read a network from an ONNX file.

    The graph must lead from one input of shape `(n, dim_in)` to one output through `Gemm`,
    `MatMul`, `Add`, `Sub`, `Mul`, `Neg` with constants, and `Relu`, `LeakyRelu`, `PRelu`, `Clip`,
    `Abs`, `HardSigmoid`, `Shrink`, `Max`, `Min`; `Identity`, `Dropout` and `Flatten` change
    nothing. The result computes the same function, unrounded.

    Raises:
        MissingExtraError: If onnx is not installed.
        RecordFormatError: If the file is damaged, or the graph does something else: the message
            names the node and the reason, for instance that it is not piecewise linear.

    Examples:
        >>> import tempfile
        >>> from onnx import TensorProto, helper, save
        >>> x, y = (helper.make_tensor_value_info(n, TensorProto.DOUBLE, ["n", 2]) for n in "xy")
        >>> weight = helper.make_tensor("w", TensorProto.DOUBLE, [2, 2], [1.0, 0.0, 1.0, -1.0])
        >>> product = helper.make_node("MatMul", ["x", "w"], ["z"])
        >>> relu = helper.make_node("Relu", ["z"], ["y"])
        >>> graph = helper.make_graph([product, relu], "net", [x], [y], [weight])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(helper.make_model(graph), f"{folder}/net.onnx")
        ...     net = from_onnx(f"{folder}/net.onnx")
        >>> net, net([1.0, 2.0]).tolist()
        (ReluNetwork(2 -> [2] -> 2), [3.0, 0.0])
    """
    try:
        return network_of(onnx_steps(path))
    except RecordFormatError:
        raise
    except HardmaxError as error:
        if isinstance(error, ImportError):
            raise
        raise RecordFormatError(f"`path` must hold a network of maxima; {path}: {error}") from None


def onnx_steps(path: str | os.PathLike[str]) -> list[Step]:
    """Return the affine maps and activations of an ONNX file, in order (see `from_onnx`)."""
    onnx = load_extra("onnx", extra="onnx", purpose="ONNX files")
    with Path(path).open("rb"):
        pass  # A missing or unreadable file is reported as such, before its content is judged.
    try:
        graph = onnx.load(os.fspath(path)).graph
        constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    except Exception as error:  # protobuf and onnx raise types of their own on damaged data.
        raise RecordFormatError(
            f"`path` must be an ONNX file; reading {path} failed: "
            f"{type(error).__name__}: {error!s:.200}."
        ) from None
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise RecordFormatError(
            f"`path` must hold a graph with one input and one output; {path} has {len(inputs)} and "
            f"{len(graph.output)}."
        )
    values: dict[str, Any] = {**constants, inputs[0].name: Signal()}
    rank = len(inputs[0].type.tensor_type.shape.dim)
    if inputs[0].type.tensor_type.HasField("shape") and rank not in (1, 2):
        raise RecordFormatError(
            f"`path` must hold a graph whose input has shape (n, dim_in); {path}: {rank} axes."
        )
    for node in graph.node:
        try:
            results = _results(onnx, node, values)
        except (HardmaxError, ValueError, TypeError, IndexError) as error:
            named = f"the node `{node.name}` ({node.op_type})" if node.name else node.op_type
            raise RecordFormatError(
                f"`path` must hold a network of maxima; in {path}, {named}: {error}"
            ) from None
        values.update(zip(node.output, results, strict=False))
    found = values.get(graph.output[0].name)
    if not isinstance(found, Signal):
        raise RecordFormatError(
            f"`path` must hold a graph whose output depends on its input; {path}."
        )
    return list(found.steps)


@dataclass(frozen=True, eq=False)
class _Call:
    """What a node is given: values (None where left out), and attributes by name."""

    values: list[Any]
    attributes: dict[str, Any]

    @property
    def signal(self) -> Signal:
        signals = [value for value in self.values if isinstance(value, Signal)]
        if len(signals) != 1:
            raise ArgumentError(
                "it must act on one signal; skip connections and sums of layers are not read."
            )
        return signals[0]

    @property
    def first(self) -> Signal:
        if not isinstance(self.values[0], Signal):
            raise ArgumentError("its first argument must be the signal.")
        return self.signal

    @property
    def constant(self) -> AnyArray:
        """The other of two arguments."""
        others = [value for value in self.values if not isinstance(value, Signal)]
        if len(self.values) != 2 or len(others) != 1 or others[0] is None:
            raise ArgumentError("it must act on the signal and one constant.")
        return _real(others[0])

    def number(self, index: int, name: str) -> float | None:
        """An optional number: an argument in new files, an attribute in old ones."""
        value = self.values[index] if index < len(self.values) else None
        if value is None:
            return self.attributes.get(name)
        array = _real(value)
        if array.size != 1:
            raise ArgumentError(f"`{name}` must be one number; got shape {array.shape}.")
        return float(array.ravel()[0])


def _results(onnx: Any, node: Any, values: dict[str, Any]) -> list[Any]:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Constant":
        return [_constant(onnx, attributes)]
    if node.domain not in ("", "ai.onnx"):
        raise ArgumentError(f"its domain {node.domain:.40} is not that of ONNX.")
    missing = next((name for name in node.input if name and name not in values), None)
    if missing is not None:
        raise ArgumentError(f"its argument `{missing:.60}` is unknown.")
    call = _Call([values[name] if name else None for name in node.input], attributes)
    if not any(isinstance(value, Signal) for value in call.values):
        return [_folded(node.op_type, call)]
    if node.op_type not in _NODES:
        because = refusal(node.op_type) or "is neither affine nor an activation that is read"
        raise ArgumentError(f"it {because}.")
    return [_NODES[node.op_type](call)]


def _constant(onnx: Any, attributes: dict[str, Any]) -> AnyArray:
    if "value" in attributes:
        return np.asarray(onnx.numpy_helper.to_array(attributes["value"]))
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        if name in attributes:
            return np.asarray(attributes[name])
    raise ArgumentError("it must be a constant of numbers.")


def _folded(kind: str, call: _Call) -> AnyArray:
    """An operation on constants that rounds nothing."""
    array = np.asarray(call.values[0])
    if kind == "Identity":
        return array
    if kind == "Transpose":
        return array.transpose(call.attributes.get("perm"))
    if kind in ("Cast", "CastLike") and array.dtype.kind == "f":
        return array
    if kind == "Unsqueeze" and array.ndim <= 1:
        return array.reshape(1, -1)
    raise ArgumentError("an operation on constants that is not read.")


def _real(value: Any) -> AnyArray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise ArgumentError(f"its constants must be real numbers; got dtype {array.dtype}.")
    return np.asarray(array, dtype=np.float64)


def _gemm(call: _Call) -> Signal:
    _, weight, *rest = call.values
    if call.attributes.get("transA", 0):
        raise ArgumentError("`transA` must be 0.")
    matrix = _real(weight)
    if matrix.ndim != 2:
        raise ArgumentError(f"its matrix must have two axes; got shape {matrix.shape}.")
    # ONNX stores (n_in, n_out); the map reads (n_out, n_in).
    signal = call.first.then(affine_of(matrix if call.attributes.get("transB", 0) else matrix.T))
    if call.attributes.get("alpha", 1.0) != 1.0:
        signal = scaled_by(signal, call.attributes["alpha"])
    if rest and rest[0] is not None:
        beta = call.attributes.get("beta", 1.0)
        if beta != 1.0:
            raise ArgumentError(f"`beta` must be 1; got {beta}.")
        signal = shifted_by(signal, _real(rest[0]))
    return signal


def _matmul(call: _Call) -> Signal:
    return call.first.then(affine_of(call.constant.T))


def _sub(call: _Call) -> Signal:
    if isinstance(call.values[0], Signal):
        return shifted_by(call.signal, -call.constant)
    return shifted_by(scaled_by(call.signal, -1.0), call.constant)


def _prelu(call: _Call) -> Signal:
    slopes = call.constant
    if slopes.shape[:-1] != (1,) * (slopes.ndim - 1):
        raise ArgumentError(f"its slopes must have one axis; got shape {slopes.shape}.")
    return call.first.then(prelu(slopes.ravel()))


def _clip(call: _Call) -> Signal:
    low, high = call.number(1, "min"), call.number(2, "max")
    return call.first.then(clip(low, high))


def _extreme(call: _Call, *, largest: bool) -> Signal:
    if len(call.values) == 1:
        return call.signal
    bound = call.constant
    if bound.size != 1:
        raise ArgumentError(f"its constant must be one number; got shape {bound.shape}.")
    number = float(bound.ravel()[0])
    return call.signal.then(clip(number, None) if largest else clip(None, number))


def _hard_sigmoid(call: _Call) -> Signal:
    # The defaults of the standard are float32 numbers.
    alpha = call.attributes.get("alpha", float(np.float32(0.2)))
    return call.first.then(hard_sigmoid(alpha, call.attributes.get("beta", 0.5)))


def _shrink(call: _Call) -> Signal:
    threshold, bias = call.attributes.get("lambd", 0.5), call.attributes.get("bias", 0.0)
    if threshold != bias:
        raise ArgumentError("it jumps unless `lambd` and `bias` agree.")
    return call.first.then(soft_shrink(threshold))


def _flatten(call: _Call) -> Signal:
    if call.attributes.get("axis", 1) not in (1, -1):
        raise ArgumentError("`axis` must be 1: the batch stays.")
    return call.first


def _cast(call: _Call) -> Signal:
    raise ArgumentError("a change of type in the middle rounds; export the network in one type.")


def _unchanged(call: _Call) -> Signal:
    return call.first


_LEAKY = float(np.float32(0.01))
_NODES: dict[str, Callable[[_Call], Signal]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": lambda call: shifted_by(call.signal, call.constant),
    "Sub": _sub,
    "Mul": lambda call: scaled_by(call.signal, call.constant),
    "Neg": lambda call: scaled_by(call.signal, -1.0),
    "Relu": lambda call: call.signal.then(RELU),
    "LeakyRelu": lambda call: call.signal.then(leaky_relu(call.attributes.get("alpha", _LEAKY))),
    "PRelu": _prelu,
    "Clip": _clip,
    "Abs": lambda call: call.signal.then(ABS),
    "Max": lambda call: _extreme(call, largest=True),
    "Min": lambda call: _extreme(call, largest=False),
    "HardSigmoid": _hard_sigmoid,
    "Shrink": _shrink,
    "Flatten": _flatten,
    "Cast": _cast,
    "Identity": _unchanged,
    "Dropout": _unchanged,
}
