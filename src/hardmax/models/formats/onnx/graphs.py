"""ONNX files as networks of any shape: each node becomes a few operations on slots."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from hardmax._ground.arguments import integer
from hardmax._ground.size_limits import MOST_AXES, SizeLimit
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import (
    ABS,
    RELU,
    clip,
    explain_refusal,
    hard_sigmoid,
    leaky_relu,
    prelu,
    soft_shrink,
)
from hardmax.models.formats.graph_operations import (
    Tensor,
    add,
    apply_activation,
    apply_batch_norm,
    divide,
    extend_pads,
    fold_constants,
    is_traced,
    matmul,
    multiply,
    pair_pads,
    read_constant,
    take_extremum,
)
from hardmax.models.formats.layered_networks import Step, build_network
from hardmax.models.formats.onnx.files import OnnxGraph, OnnxNode, read_onnx
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import AnyArray, IntArray

_MOST_INPUTS = 1 << 22
_NODE_BYTES = 1 << 14
# The exceptions that invalid arguments of a node can raise, besides errors of this library.
_UNFIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def load_onnx(
    path: str | os.PathLike[str],
    *,
    input_shape: Sequence[int] | None = None,
    output: str | None = None,
    max_bytes: int | None = None,
) -> GraphNetwork:
    """Read a piecewise linear network of any shape from an ONNX file.

    Supported: `Gemm`, `MatMul`, `Conv`, `BatchNormalization`, the activations that are maxima
        (`Relu`, `LeakyRelu`, `PRelu`, `Clip`, `Abs`, `HardSigmoid`, `Shrink`), `Max`, `Min`,
        `MaxPool`, averages, sums of any tensors (residual connections), sums, products and
        quotients with constants, and operations that only move numbers. A final `Softmax` is
        omitted, and `notes` says so. Nothing is executed, and no other package is needed.

    Args:
        path: The file.
        input_shape: The shape of one input without the batch axis, if the file does not fix it.
        output: The name of a tensor or node to stop at; None means the output of the graph.
        max_bytes: The maximum memory for reading, estimated before anything is allocated. None
            means 256 MiB plus 128 bytes for each byte of the file.

    Returns:
        The network, with its weights as stored. Its `notes` list the numbers that had to be rounded
        (such as the factor of a batch normalisation, or an average over nine).

    Raises:
        RecordFormatError: If the file is damaged, or a node is not piecewise linear; the message
            names the node and the last tensor that can be read.

    Examples:
        >>> import tempfile
        >>> from onnx import TensorProto, helper, save
        >>> x, y = (helper.make_tensor_value_info(n, TensorProto.DOUBLE, [1, 2]) for n in "xy")
        >>> relu = helper.make_node("Relu", ["x"], ["h"])
        >>> residual = helper.make_node("Add", ["x", "h"], ["y"])
        >>> graph = helper.make_graph([relu, residual], "net", [x], [y])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(helper.make_model(graph), f"{folder}/net.onnx")
        ...     net = load_onnx(f"{folder}/net.onnx")
        >>> net, net([-1.0, 2.0]).tolist()
        (GraphNetwork(2 -> 2, 2 maxima of 4 entries), [-1.0, 4.0])
    """
    with _name_file_in_errors(path):
        build, last = _read_graph(path, input_shape, output, max_bytes)
        return build.finish(last)


def from_onnx(
    path: str | os.PathLike[str], *, max_bytes: int | None = None
) -> ReluNetwork | MaxoutNetwork | GraphNetwork:
    """Read a network from an ONNX file, as a network of dense layers if it is a chain of them.

    Args:
        path: The file.
        max_bytes: The maximum memory for reading (see `load_onnx`).

    Returns:
        A `ReluNetwork` or `MaxoutNetwork` that computes the same function, if the graph is a chain
        of matrices, sums and products with constants, and activations that are maxima, nothing was
        omitted or rounded, and the dense matrices stay within `max_bytes`. Otherwise the result of
        `load_onnx`.

    Raises:
        RecordFormatError: If the file is damaged, or a node is not piecewise linear; the message
            names the node.

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
    with _name_file_in_errors(path):
        build, last = _read_graph(path, None, None, max_bytes)
        network = None if build.notes else _dense_network(build, last)
        return build.finish(last) if network is None else network


def _dense_network(build: GraphBuilder, last: IntArray) -> ReluNetwork | MaxoutNetwork | None:
    """Return a chain of layers as dense matrices; None if it is not a chain or is too large."""
    try:
        steps = build.chain(last)
        is_layered = steps is not None and any(isinstance(step, AffineMap) for step in steps)
        return build_network(steps, build.limit) if steps is not None and is_layered else None
    except SizeLimitError:
        return None


def read_onnx_steps(path: str | os.PathLike[str]) -> list[Step]:
    """Return the affine maps and activations of an ONNX file, in order.

    Raises:
        RecordFormatError: As in `from_onnx`, or if the layers do not form a chain.
    """
    with _name_file_in_errors(path):
        build, last = _read_graph(path, None, None, None)
        steps = build.chain(last)
    if build.notes:
        raise RecordFormatError(
            "`path` must contain a network that can be read without rounding or omissions; "
            f"{path}: {'; '.join(build.notes)}."
        )
    if steps is None:
        raise RecordFormatError(
            f"`path` must contain a chain of matrix layers; {path} has convolutions, pooling or "
            "skip connections. Use `load_onnx`, which supports them."
        )
    return steps


def _read_graph(
    path: str | os.PathLike[str],
    input_shape: Sequence[int] | None,
    output: str | None,
    max_bytes: int | None,
) -> tuple[GraphBuilder, IntArray]:
    """Read a file; return a builder with its nodes, and the slots of its output."""
    if max_bytes is not None:
        max_bytes = integer("max_bytes", max_bytes, at_least=1)
    graph = read_onnx(path)
    return _build_graph(graph, input_shape, output, SizeLimit(graph.n_bytes, max_bytes))


@contextmanager
def _name_file_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to error messages."""
    try:
        yield
    except SizeLimitError as error:
        raise RecordFormatError(
            f"`path` must contain a network within the memory limit; {path}: {error} If you trust "
            "the file, raise `max_bytes` of `load_onnx`."
        ) from None
    except HardmaxError as error:
        if str(error).startswith(("`path`", "`max_bytes`")):
            raise
        raise RecordFormatError(
            f"`path` must contain a piecewise linear network; reading {path} failed: {error}"
        ) from None


def _build_graph(
    graph: OnnxGraph,
    input_shape: Sequence[int] | None,
    output: str | None,
    limit: SizeLimit,
) -> tuple[GraphBuilder, IntArray]:
    if len(graph.inputs) != 1 or not graph.outputs:
        raise RecordFormatError(
            f"it must have one input and at least one output; got {len(graph.inputs)} and "
            f"{len(graph.outputs)}."
        )
    if output is None and len(graph.outputs) > 1:
        raise RecordFormatError(
            f"it has {len(graph.outputs)} outputs; choose one of them with `output`: "
            f"{', '.join(graph.outputs):.200}."
        )
    name, stored = graph.inputs[0]
    shape, has_batch = _resolve_input_shape(stored, input_shape)
    build = GraphBuilder()
    build.limit = limit
    slots = build.input(shape)
    values: dict[str, Any] = dict(graph.constants)
    values[name] = Tensor(slots[np.newaxis] if has_batch else slots)
    wanted = graph.outputs[0] if output is None else output
    names = [wanted]
    for node in graph.nodes:
        results = _apply_node(build, graph, node, values)
        for out in node.outputs:
            if out and out in values:
                raise RecordFormatError(f"`{out:.60}` is computed twice.")
        values.update(zip(node.outputs, results, strict=False))
        if output is not None and output == node.name and node.outputs:
            names = [node.outputs[0]]
        if output is not None and (output == node.name or output in node.outputs):
            break
    found = values.get(names[0])
    if not isinstance(found, Tensor):
        raise RecordFormatError(f"`{names[0]:.60}` must be computed from the input; it is not.")
    if found.omitted:
        build.note(f"the final {found.omitted} is omitted")
    last = found.slots
    return build, last[0] if has_batch and last.ndim > 1 and len(last) == 1 else last


def _resolve_input_shape(
    stored: tuple[int, ...] | None, given: Sequence[int] | None
) -> tuple[tuple[int, ...], bool]:
    """Return the shape of one input, and whether a batch axis precedes it."""
    if given is not None:
        shape = tuple(int(n) for n in given)
        has_batch = stored is None or len(stored) != len(shape)
    elif stored is None:
        raise RecordFormatError("its input has no shape; pass one as `input_shape`.")
    elif len(stored) > 1:
        shape, has_batch = stored[1:], True
    else:
        shape, has_batch = stored, False
    if not shape or 0 in shape or prod(shape) > _MOST_INPUTS:
        raise RecordFormatError(
            f"its input must have a fixed shape of at most {_MOST_INPUTS:,} numbers; got {shape} "
            "(0 means not fixed). Pass one as `input_shape`."
        )
    return shape, has_batch


def _apply_node(
    build: GraphBuilder, graph: OnnxGraph, node: OnnxNode, values: dict[str, Any]
) -> list[Any]:
    named = f"the node `{node.name:.80}` ({node.kind:.40})" if node.name else f"{node.kind:.40}"
    build.limit.take(sum(8 * _count_entries(values.get(n)) for n in node.inputs) + _NODE_BYTES)
    try:
        if node.domain not in ("", "ai.onnx"):
            raise ArgumentError(f"its domain {node.domain:.40} is not supported")
        missing = next((n for n in node.inputs if n and n not in values), None)
        if missing is not None:
            raise ArgumentError(f"its argument `{missing:.60}` is not computed by an earlier node")
        inputs = [values[n] if n else None for n in node.inputs]
        call = _NodeCall(build, node, inputs, graph.version)
        traced = [v for v in inputs if isinstance(v, Tensor)]
        omitted = next((v.omitted for v in traced if v.omitted), "")
        if omitted and node.kind not in _MOVING:
            raise ArgumentError(
                f"it follows {omitted}, which is not piecewise linear and can only be omitted at "
                "the end"
            )
        with np.errstate(all="ignore"):  # Weights that are not finite are detected when used.
            if not traced and node.kind in _FOLDED:
                results = [_FOLDED[node.kind](call)]
            elif node.kind in _NODES:
                found = _NODES[node.kind](call)
                results = found if isinstance(found, list) else [found]
            else:
                reason = explain_refusal(node.kind) or "is not piecewise linear, or not supported"
                raise ArgumentError(f"it {reason}")
    except SizeLimitError as error:
        raise SizeLimitError(f"{named}: {error}") from None
    except KeyError as error:
        raise RecordFormatError(
            f"{named}: its attribute {error} is missing or has an unsupported value."
        ) from None
    except _UNFIT as error:
        why = (
            f"{error}" if isinstance(error, HardmaxError) else f"its arguments are invalid: {error}"
        )
        before = next((n for n in node.inputs if isinstance(values.get(n), Tensor)), "")
        hint = f" To read the part before it, pass output={before!r:.80}." if before else ""
        raise RecordFormatError(f"{named}: {why[:500].rstrip('.')}.{hint}") from None
    if any(isinstance(result, Tensor) and not result.slots.size for result in results):
        raise RecordFormatError(f"{named}: its result has no entries.")
    if omitted:
        results = [Tensor(r.slots, omitted) if isinstance(r, Tensor) else r for r in results]
    return results


def _count_entries(value: Any) -> int:
    """Return the number of entries of a tensor."""
    return value.slots.size if isinstance(value, Tensor) else np.size(value)


class _NodeCall:
    """The arguments and attributes of a node."""

    def __init__(
        self, build: GraphBuilder, node: OnnxNode, inputs: list[Any], version: int
    ) -> None:
        self.build, self.inputs, self.version = build, inputs, version
        self.name = node.name or node.kind
        self.attributes = node.attributes
        self.n_outputs = len(node.outputs)

    @property
    def x(self) -> Tensor:
        """The first argument, which must depend on the input."""
        if not self.inputs or not isinstance(self.inputs[0], Tensor):
            raise ArgumentError("its first argument must depend on the input")
        return self.inputs[0]

    def argument(self, index: int) -> Any:
        """Return an argument, or None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def read_integers(self, index: int, name: str) -> list[int] | None:
        """Return integers that are an argument in newer files and an attribute in older ones."""
        value = self.argument(index)
        if value is None:
            listed = self.attributes.get(name)
            if listed is None:
                return None
            value = listed
        read_constant(value)
        array = np.asarray(value)
        if array.size > MOST_AXES or array.dtype.kind not in "iu":
            raise ArgumentError(f"`{name}` must have one integer for each axis")
        return [int(n) for n in array.ravel()]

    def read_number(self, index: int, name: str) -> float | None:
        """Return a number that is an argument in newer files and an attribute in older ones."""
        value = self.argument(index)
        if value is None:
            found = self.attributes.get(name)
            return None if found is None else float(found)
        array = read_constant(value)
        if array.size != 1:
            raise ArgumentError(f"`{name}` must be one number; got shape {array.shape}")
        return float(array.ravel()[0])

    def read_windows(self, sides: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
        """Return the strides, pads and dilations of windows."""
        n = len(sides)
        strides = self.attributes.get("strides") or [1] * n
        dilations = self.attributes.get("dilations") or [1] * n
        pads = self.attributes.get("pads") or [0] * (2 * n)
        pairs = pair_pads(pads[:n], pads[n:])
        mode = self.attributes.get("auto_pad", "NOTSET")
        wide = [d * (s - 1) + 1 for d, s in zip(dilations, sides, strict=True)]
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            totals = [
                max(0, (-(-size // step) - 1) * step + side - size)
                for size, step, side in zip(sizes, strides, wide, strict=True)
            ]
            low = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in totals]
            pairs = [(a, t - a) for a, t in zip(low, totals, strict=True)]
        elif mode not in ("NOTSET", "VALID"):
            raise ArgumentError(f"`auto_pad` {mode:.20} is not supported")
        if self.attributes.get("ceil_mode", 0):
            pairs = extend_pads(sizes, wide, strides, pairs)
        return {"strides": strides, "pads": pairs, "dilations": dilations}


def _gemm(call: _NodeCall) -> Any:
    a, b, *rest = call.inputs
    if call.attributes.get("transA", 0) or not is_traced(a):
        raise ArgumentError("its first argument must depend on the input, and not be transposed")
    matrix = read_constant(b)
    matrix = matrix.T if call.attributes.get("transB", 0) else matrix
    alpha, beta = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0)
    bias = rest[0] if rest and rest[0] is not None else None
    if (
        alpha == 1.0
        and beta == 1.0
        and bias is not None
        and read_constant(bias).size == matrix.shape[-1]
    ):
        return Tensor(call.build.multiply(a.slots, matrix, read_constant(bias).ravel(), call.name))
    found = matmul(call.build, a, matrix, call.name)
    if alpha != 1.0:
        found = multiply(call.build, found, alpha, call.name)
    return found if bias is None else add(call.build, found, read_constant(bias), beta, call.name)


def _conv(call: _NodeCall) -> Tensor:
    kernel = read_constant(call.argument(1))
    n = kernel.ndim - 2
    image, bias = call.x.image_slots(n), call.argument(2)
    found = call.build.convolve(
        image,
        kernel,
        None if bias is None else read_constant(bias),
        groups=int(call.attributes.get("group", 1)),
        name=call.name,
        **call.read_windows(kernel.shape[2:], image.shape[1:]),
    )
    return call.x.restore_batch(found)


def _max_pool(call: _NodeCall) -> Tensor:
    sides = call.attributes["kernel_shape"]
    image = call.x.image_slots(len(sides))
    if call.n_outputs > 1:
        raise ArgumentError("its second output, the indices of the maxima, is not supported")
    return call.x.restore_batch(
        call.build.max_pool(
            image, sides, name=call.name, **call.read_windows(sides, image.shape[1:])
        )
    )


def _average_pool(call: _NodeCall) -> Tensor:
    sides = call.attributes["kernel_shape"]
    image = call.x.image_slots(len(sides))
    given = call.read_windows(sides, image.shape[1:])
    if set(given.pop("dilations")) != {1} or call.attributes.get("ceil_mode", 0):
        raise ArgumentError("average pooling with dilations or `ceil_mode` is not supported")
    counts = bool(call.attributes.get("count_include_pad", 0))
    found = call.build.average_pool(image, sides, counts_padding=counts, name=call.name, **given)
    return call.x.restore_batch(found)


def _global_pool(call: _NodeCall) -> Tensor:
    x = call.x
    return Tensor(call.build.mean(x.slots, range(2, len(x.shape)), call.name))


def _global_max_pool(call: _NodeCall) -> Tensor:
    x = call.x
    image = x.image_slots(len(x.shape) - 2)
    return x.restore_batch(call.build.max_pool(image, image.shape[1:], name=call.name))


def _reduce_axes(reduce: Callable[..., Any]) -> Callable[[_NodeCall], Tensor]:
    """Return the operation that applies a mean or a sum over some axes."""

    def apply(call: _NodeCall) -> Tensor:
        x, axes = call.x, call.read_integers(1, "axes")
        listed = list(range(len(x.shape))) if axes is None else axes
        keeps = bool(call.attributes.get("keepdims", 1))
        return Tensor(reduce(call.build, x.slots, listed, call.name, keeps_axes=keeps))

    return apply


def _batch_norm(call: _NodeCall) -> Tensor:
    if call.attributes.get("training_mode", 0):
        raise ArgumentError("it is in training mode")
    scale, shift, mean, variance = (read_constant(v) for v in call.inputs[1:5])
    epsilon = call.attributes.get("epsilon", float(np.float32(1e-5)))
    return apply_batch_norm(call.build, call.x, scale, shift, mean, variance, epsilon, call.name)


def _prelu(call: _NodeCall) -> Tensor:
    slopes, x = read_constant(call.argument(1)), call.x
    if slopes.size == 1:
        return apply_activation(call.build, x, prelu(slopes.ravel()), call.name)
    if slopes.ndim == len(x.shape) and len(slopes) == 1:
        slopes = slopes[0]
    if slopes.size != slopes.shape[0] or len(x.shape) - slopes.ndim != 1:
        raise ArgumentError(f"its slopes must be one for each channel; got shape {slopes.shape}")
    return apply_activation(call.build, x, prelu(slopes.ravel()), call.name)


def _shrink(call: _NodeCall) -> Tensor:
    threshold, bias = call.attributes.get("lambd", 0.5), call.attributes.get("bias", 0.0)
    if threshold != bias:
        raise ArgumentError("it is discontinuous unless `lambd` equals `bias`")
    return apply_activation(call.build, call.x, soft_shrink(threshold), call.name)


def _fold_extrema(sign: float) -> Callable[[_NodeCall], Any]:
    def largest(call: _NodeCall) -> Any:
        found = call.inputs[0]
        for other in call.inputs[1:]:
            found = take_extremum(call.build, found, other, sign, call.name)
        return found

    return largest


def _sum(call: _NodeCall) -> Any:
    found = call.inputs[0]
    for other in call.inputs[1:]:
        found = add(call.build, found, other, 1.0, call.name)
    return found


def _move_entries(move: Callable[[_NodeCall, AnyArray], AnyArray]) -> Callable[[_NodeCall], Any]:
    """Return an operation that only moves entries, for tensors and constants."""

    def apply(call: _NodeCall) -> Any:
        x = call.inputs[0]
        if isinstance(x, Tensor):
            return Tensor(np.asarray(move(call, x.slots)))
        return np.asarray(move(call, np.asarray(x)))

    return apply


def _reshape(call: _NodeCall, array: AnyArray) -> AnyArray:
    shape = call.read_integers(1, "shape") or []
    if not call.attributes.get("allowzero", 0):
        shape = [array.shape[k] if n == 0 else n for k, n in enumerate(shape)]
    return array.reshape(shape)


def _flatten(call: _NodeCall, array: AnyArray) -> AnyArray:
    axis = call.attributes.get("axis", 1)
    axis += array.ndim if axis < 0 else 0
    return array.reshape(prod(array.shape[:axis]), -1)


def _squeeze(call: _NodeCall, array: AnyArray) -> AnyArray:
    axes = call.read_integers(1, "axes")
    return np.asarray(array.squeeze(None if axes is None else tuple(axes)))


def _unsqueeze(call: _NodeCall, array: AnyArray) -> AnyArray:
    return np.expand_dims(array, tuple(call.read_integers(1, "axes") or ()))


def _slice(call: _NodeCall, array: AnyArray) -> AnyArray:
    starts, ends = call.read_integers(1, "starts") or [], call.read_integers(2, "ends") or []
    axes = call.read_integers(3, "axes") or list(range(len(starts)))
    steps = call.read_integers(4, "steps") or [1] * len(starts)
    cut: list[Any] = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # An end beyond the axis means the whole axis, also for negative steps.
        size = array.shape[axis]
        stop = None if step < 0 and end < -size else end
        cut[axis] = slice(start, stop, step)
    return np.asarray(array[tuple(cut)])


def _gather(call: _NodeCall, array: AnyArray) -> AnyArray:
    indices = np.asarray(call.argument(1))
    if indices.dtype.kind not in "iu":
        raise ArgumentError(f"its indices must be integers; got dtype {indices.dtype}")
    axis = normalize_axis_index(call.attributes.get("axis", 0), array.ndim)
    n_rest = array.size // array.shape[axis] if array.size else 0
    call.build.limit.take(16 * n_rest * indices.size)
    return np.asarray(np.take(array, indices, axis=axis))


def _split(call: _NodeCall) -> list[Any]:
    x = call.x
    axis = normalize_axis_index(call.attributes.get("axis", 0), len(x.shape))
    call.build.limit.take(_NODE_BYTES * call.n_outputs)
    sizes = call.read_integers(1, "split")
    if sizes is None:
        each = -(-x.shape[axis] // call.n_outputs)
        sizes = [each] * (call.n_outputs - 1)
        sizes.append(x.shape[axis] - sum(sizes))
    if min(sizes) < 1 or sum(sizes) != x.shape[axis] or len(sizes) != call.n_outputs:
        raise ArgumentError(
            f"parts of sizes {sizes!s:.100} do not add up to an axis of size {x.shape[axis]}"
        )
    places = np.cumsum(sizes)[:-1]
    return [Tensor(part) for part in np.split(x.slots, places, axis=axis)]


def _concat(call: _NodeCall) -> Any:
    axis = call.attributes["axis"]
    if not any(isinstance(v, Tensor) for v in call.inputs):
        return np.concatenate([np.asarray(v) for v in call.inputs], axis=axis)
    parts = [
        v.slots if isinstance(v, Tensor) else call.build.constant(read_constant(v))
        for v in call.inputs
    ]
    return Tensor(np.concatenate(parts, axis=axis))


def _pad(call: _NodeCall) -> Tensor:
    x, mode = call.x, call.attributes.get("mode", "constant")
    pads = call.read_integers(1, "pads") or []
    axes = call.read_integers(3, "axes") or list(range(len(pads) // 2))
    pairs = [(0, 0)] * len(x.shape)
    for k, axis in enumerate(axes):
        pairs[axis] = pads[k], pads[k + len(axes)]
    if mode == "constant":
        return Tensor(call.build.pad(x.slots, pairs, call.read_number(2, "value") or 0.0))
    if mode not in ("reflect", "edge", "wrap"):
        raise ArgumentError(f"the padding mode {mode:.20} is not supported")
    n_padded = prod(n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True))
    call.build.limit.take(16 * n_padded)
    return Tensor(np.pad(x.slots, pairs, mode=mode))


def _expand(call: _NodeCall, array: AnyArray) -> AnyArray:
    shape = np.broadcast_shapes(array.shape, tuple(call.read_integers(1, "shape") or ()))
    call.build.limit.take(8 * prod(shape))
    return np.broadcast_to(array, shape)


def _constant(call: _NodeCall) -> AnyArray:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if name in call.attributes:
            read_constant(call.attributes[name])
            return np.asarray(call.attributes[name])
    raise ArgumentError("it must be a numeric constant")


def _constant_of_shape(call: _NodeCall) -> AnyArray:
    shape = call.read_integers(0, "shape") or []
    call.build.limit.take(8 * prod(shape))
    value = np.asarray(call.attributes.get("value", np.zeros(1, dtype=np.float32)))
    read_constant(value)
    return np.full(shape, value.ravel()[0])


def _cast(call: _NodeCall) -> Any:
    if isinstance(call.inputs[0], Tensor):
        raise ArgumentError(
            "a type conversion inside the network rounds; export the network in one type"
        )
    kinds = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64, 9: np.bool_}
    return np.asarray(call.inputs[0]).astype(kinds[call.attributes["to"]])


def _shape_of(call: _NodeCall) -> AnyArray:
    return np.array(call.inputs[0].shape, dtype=np.int64)


def _make_activation(activation: Callable[[_NodeCall], Any]) -> Callable[[_NodeCall], Tensor]:
    return lambda call: apply_activation(call.build, call.x, activation(call), call.name)


def _make_fold(function: Callable[..., Any]) -> Callable[[_NodeCall], Any]:
    return lambda call: fold_constants(call.build, function, call.inputs[0], call.inputs[1])


def _omit(word: str) -> Callable[[_NodeCall], Tensor]:
    return lambda call: Tensor(call.x.slots, word)


_LEAKY, _FIFTH = float(np.float32(0.01)), float(np.float32(0.2))
_MOVES: dict[str, Callable[[_NodeCall], Any]] = {
    "Reshape": _move_entries(_reshape),
    "Flatten": _move_entries(_flatten),
    "Squeeze": _move_entries(_squeeze),
    "Unsqueeze": _move_entries(_unsqueeze),
    "Transpose": _move_entries(lambda call, a: a.transpose(call.attributes.get("perm"))),
    "Slice": _move_entries(_slice),
    "Gather": _move_entries(_gather),
    "Expand": _move_entries(_expand),
    "Identity": _move_entries(lambda call, a: a),
    "Dropout": _move_entries(lambda call, a: a),
}
_MOVING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
_NODES: dict[str, Callable[[_NodeCall], Any]] = {
    **_MOVES,
    "Gemm": _gemm,
    "MatMul": lambda call: matmul(call.build, call.inputs[0], call.inputs[1], call.name),
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "Relu": _make_activation(lambda call: RELU),
    "LeakyRelu": _make_activation(lambda call: leaky_relu(call.attributes.get("alpha", _LEAKY))),
    "PRelu": _prelu,
    "Clip": _make_activation(
        lambda call: clip(call.read_number(1, "min"), call.read_number(2, "max"))
    ),
    "Abs": _make_activation(lambda call: ABS),
    "HardSigmoid": _make_activation(
        lambda call: hard_sigmoid(
            call.attributes.get("alpha", _FIFTH), call.attributes.get("beta", 0.5)
        )
    ),
    "Shrink": _shrink,
    "Max": _fold_extrema(1.0),
    "Min": _fold_extrema(-1.0),
    "MaxPool": _max_pool,
    "GlobalMaxPool": _global_max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_pool,
    "ReduceMean": _reduce_axes(GraphBuilder.mean),
    "ReduceSum": _reduce_axes(GraphBuilder.total),
    "Add": _sum,
    "Sum": _sum,
    "Sub": lambda call: add(call.build, call.inputs[0], call.inputs[1], -1.0, call.name),
    "Mul": lambda call: multiply(call.build, call.inputs[0], call.inputs[1], call.name),
    "Div": lambda call: divide(call.build, call.inputs[0], call.inputs[1], call.name),
    "Neg": lambda call: multiply(call.build, call.inputs[0], -1.0, call.name),
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "Shape": _shape_of,
    "Cast": _cast,
    "Softmax": _omit("Softmax"),
    "LogSoftmax": _omit("LogSoftmax"),
}
_FOLDED: dict[str, Callable[[_NodeCall], Any]] = {
    **_MOVES,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Cast": _cast,
    "Shape": _shape_of,
    "Concat": _concat,
    "Add": _make_fold(np.add),
    "Sub": _make_fold(np.subtract),
    "Mul": _make_fold(np.multiply),
    "Div": _make_fold(
        lambda a, b: np.floor_divide(a, b) if a.dtype.kind in "iu" else np.divide(a, b)
    ),
    "Neg": lambda call: -np.asarray(call.inputs[0]),
    "Sqrt": lambda call: np.sqrt(read_constant(call.inputs[0])),
}
