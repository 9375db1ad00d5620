"""ONNX files as networks of any shape: every node becomes a few operations on slots."""

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
    hard_sigmoid,
    leaky_relu,
    prelu,
    refusal,
    soft_shrink,
)
from hardmax.models.formats.graph_operations import (
    Traced,
    activated,
    added,
    both_pads,
    divided,
    extreme,
    fold,
    is_traced,
    multiplied,
    normalised,
    product,
    real,
    with_ceiling,
)
from hardmax.models.formats.layered_networks import Step, network_of
from hardmax.models.formats.onnx.files import OnnxGraph, OnnxNode, read_onnx
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import AnyArray, IntArray

_MOST_INPUTS = 1 << 22
_NODE_BYTES = 1 << 14
# What the arguments of a node raise that do not fit it, besides errors of this library.
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
        input_shape: The shape of one input without the batch axis, if the file leaves it open.
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
    with _naming(path):
        build, last = _built(path, input_shape, output, max_bytes)
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
    with _naming(path):
        build, last = _built(path, None, None, max_bytes)
        network = None if build.notes else _dense_network(build, last)
        return build.finish(last) if network is None else network


def _dense_network(build: GraphBuilder, last: IntArray) -> ReluNetwork | MaxoutNetwork | None:
    """Return a chain of layers as dense matrices; None if it is no chain, or they are too large."""
    try:
        steps = build.chain(last)
        is_layered = steps is not None and any(isinstance(step, AffineMap) for step in steps)
        return network_of(steps, build.limit) if steps is not None and is_layered else None
    except SizeLimitError:
        return None


def onnx_steps(path: str | os.PathLike[str]) -> list[Step]:
    """Return the affine maps and activations of an ONNX file, in order.

    Raises:
        RecordFormatError: As in `from_onnx`, or if they do not come one after another.
    """
    with _naming(path):
        build, last = _built(path, None, None, None)
        steps = build.chain(last)
    if build.notes:
        raise RecordFormatError(
            f"`path` must hold a network that is read as it is; {path}: {'; '.join(build.notes)}."
        )
    if steps is None:
        raise RecordFormatError(
            f"`path` must hold layers of matrices one after another; {path} has convolutions, "
            "pools or skip connections. `load_onnx` reads them."
        )
    return steps


def _built(
    path: str | os.PathLike[str],
    input_shape: Sequence[int] | None,
    output: str | None,
    max_bytes: int | None,
) -> tuple[GraphBuilder, IntArray]:
    """Read a file; return its nodes, and the slots of its output."""
    if max_bytes is not None:
        max_bytes = integer("max_bytes", max_bytes, at_least=1)
    graph = read_onnx(path)
    return _network(graph, input_shape, output, SizeLimit(graph.n_bytes, max_bytes))


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in what is refused."""
    try:
        yield
    except SizeLimitError as error:
        raise RecordFormatError(
            f"`path` must hold a network of moderate size; {path}: {error} If you trust the file, "
            "raise `max_bytes` of `load_onnx`."
        ) from None
    except HardmaxError as error:
        if str(error).startswith(("`path`", "`max_bytes`")):
            raise
        raise RecordFormatError(
            f"`path` must hold a piecewise linear network; {path}: {error}"
        ) from None


def _network(
    graph: OnnxGraph,
    input_shape: Sequence[int] | None,
    output: str | None,
    limit: SizeLimit,
) -> tuple[GraphBuilder, IntArray]:
    if len(graph.inputs) != 1 or not graph.outputs:
        raise RecordFormatError(
            f"it must have one input and an output; it has {len(graph.inputs)} and "
            f"{len(graph.outputs)}."
        )
    if output is None and len(graph.outputs) > 1:
        raise RecordFormatError(
            f"it has {len(graph.outputs)} outputs; name one of them as `output`: "
            f"{', '.join(graph.outputs):.200}."
        )
    name, stored = graph.inputs[0]
    shape, has_batch = _input_shape(stored, input_shape)
    build = GraphBuilder()
    build.limit = limit
    slots = build.input(shape)
    values: dict[str, Any] = dict(graph.constants)
    values[name] = Traced(slots[np.newaxis] if has_batch else slots)
    wanted = graph.outputs[0] if output is None else output
    names = [wanted]
    for node in graph.nodes:
        results = _results(build, graph, node, values)
        for out in node.outputs:
            if out and out in values:
                raise RecordFormatError(f"`{out:.60}` is computed twice.")
        values.update(zip(node.outputs, results, strict=False))
        if output is not None and output == node.name and node.outputs:
            names = [node.outputs[0]]
        if output is not None and (output == node.name or output in node.outputs):
            break
    found = values.get(names[0])
    if not isinstance(found, Traced):
        raise RecordFormatError(f"`{names[0]:.60}` must be computed from the input; it is not.")
    if found.left_off:
        build.note(f"{found.left_off} at the end is left off")
    last = found.slots
    return build, last[0] if has_batch and last.ndim > 1 and len(last) == 1 else last


def _input_shape(
    stored: tuple[int, ...] | None, given: Sequence[int] | None
) -> tuple[tuple[int, ...], bool]:
    """The shape of one input, and whether a batch comes before it."""
    if given is not None:
        shape = tuple(int(n) for n in given)
        has_batch = stored is None or len(stored) != len(shape)
    elif stored is None:
        raise RecordFormatError("its input has no shape; give one as `input_shape`.")
    elif len(stored) > 1:
        shape, has_batch = stored[1:], True
    else:
        shape, has_batch = stored, False
    if not shape or 0 in shape or prod(shape) > _MOST_INPUTS:
        raise RecordFormatError(
            f"its input must have a fixed shape of at most {_MOST_INPUTS:,} numbers; got {shape} "
            "(0 is open). Give one as `input_shape`."
        )
    return shape, has_batch


def _results(
    build: GraphBuilder, graph: OnnxGraph, node: OnnxNode, values: dict[str, Any]
) -> list[Any]:
    named = f"the node `{node.name:.80}` ({node.kind:.40})" if node.name else f"{node.kind:.40}"
    build.limit.take(sum(8 * _size(values.get(n)) for n in node.inputs) + _NODE_BYTES)
    try:
        if node.domain not in ("", "ai.onnx"):
            raise ArgumentError(f"its domain {node.domain:.40} is not that of ONNX")
        missing = next((n for n in node.inputs if n and n not in values), None)
        if missing is not None:
            raise ArgumentError(f"its argument `{missing:.60}` is computed nowhere before it")
        inputs = [values[n] if n else None for n in node.inputs]
        call = _Call(build, node, inputs, graph.version)
        traced = [v for v in inputs if isinstance(v, Traced)]
        left_off = next((v.left_off for v in traced if v.left_off), "")
        if left_off and node.kind not in _MOVING:
            raise ArgumentError(
                f"it follows {left_off}, which is not piecewise linear and can be left off only "
                "at the end"
            )
        with np.errstate(all="ignore"):  # Weights that are not finite are refused by their user.
            if not traced and node.kind in _FOLDED:
                results = [_FOLDED[node.kind](call)]
            elif node.kind in _NODES:
                found = _NODES[node.kind](call)
                results = found if isinstance(found, list) else [found]
            else:
                raise ArgumentError(
                    f"it {refusal(node.kind) or 'is not piecewise linear, or not known here'}"
                )
    except SizeLimitError as error:
        raise SizeLimitError(f"{named}: {error}") from None
    except KeyError as error:
        raise RecordFormatError(f"{named}: its attribute {error} is missing or not read.") from None
    except _UNFIT as error:
        why = (
            f"{error}" if isinstance(error, HardmaxError) else f"its arguments do not fit: {error}"
        )
        before = next((n for n in node.inputs if isinstance(values.get(n), Traced)), "")
        hint = f" Up to there it can be read: output={before!r:.80}." if before else ""
        raise RecordFormatError(f"{named}: {why[:500].rstrip('.')}.{hint}") from None
    if any(isinstance(result, Traced) and not result.slots.size for result in results):
        raise RecordFormatError(f"{named}: its result has no entries.")
    if left_off:
        results = [Traced(r.slots, left_off) if isinstance(r, Traced) else r for r in results]
    return results


def _size(value: Any) -> int:
    """The number of entries of a tensor."""
    return value.slots.size if isinstance(value, Traced) else np.size(value)


class _Call:
    """What a node is given."""

    def __init__(
        self, build: GraphBuilder, node: OnnxNode, inputs: list[Any], version: int
    ) -> None:
        self.build, self.inputs, self.version = build, inputs, version
        self.name = node.name or node.kind
        self.attributes = node.attributes
        self.n_outputs = len(node.outputs)

    @property
    def x(self) -> Traced:
        """The first argument, which must depend on the input."""
        if not self.inputs or not isinstance(self.inputs[0], Traced):
            raise ArgumentError("its first argument must depend on the input")
        return self.inputs[0]

    def given(self, index: int) -> Any:
        """An argument, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def integers(self, index: int, name: str) -> list[int] | None:
        """Integers that are an argument in new files, an attribute in old ones."""
        value = self.given(index)
        if value is None:
            listed = self.attributes.get(name)
            if listed is None:
                return None
            value = listed
        real(value)
        array = np.asarray(value)
        if array.size > MOST_AXES or array.dtype.kind not in "iu":
            raise ArgumentError(f"`{name}` must have one integer for each axis")
        return [int(n) for n in array.ravel()]

    def number(self, index: int, name: str) -> float | None:
        """A number that is an argument in new files, an attribute in old ones."""
        value = self.given(index)
        if value is None:
            found = self.attributes.get(name)
            return None if found is None else float(found)
        array = real(value)
        if array.size != 1:
            raise ArgumentError(f"`{name}` must be one number; got shape {array.shape}")
        return float(array.ravel()[0])

    def windows(self, sides: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
        """The strides, pads and dilations of windows."""
        n = len(sides)
        strides = self.attributes.get("strides") or [1] * n
        dilations = self.attributes.get("dilations") or [1] * n
        pads = self.attributes.get("pads") or [0] * (2 * n)
        pairs = both_pads(pads[:n], pads[n:])
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
            raise ArgumentError(f"`auto_pad` {mode:.20} is not known")
        if self.attributes.get("ceil_mode", 0):
            pairs = with_ceiling(sizes, wide, strides, pairs)
        return {"strides": strides, "pads": pairs, "dilations": dilations}


def _gemm(call: _Call) -> Any:
    a, b, *rest = call.inputs
    if call.attributes.get("transA", 0) or not is_traced(a):
        raise ArgumentError("its first argument must be the signal, not transposed")
    matrix = real(b)
    matrix = matrix.T if call.attributes.get("transB", 0) else matrix
    alpha, beta = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0)
    bias = rest[0] if rest and rest[0] is not None else None
    if alpha == 1.0 and beta == 1.0 and bias is not None and real(bias).size == matrix.shape[-1]:
        return Traced(call.build.multiply(a.slots, matrix, real(bias).ravel(), call.name))
    found = product(call.build, a, matrix, call.name)
    if alpha != 1.0:
        found = multiplied(call.build, found, alpha, call.name)
    return found if bias is None else added(call.build, found, real(bias), beta, call.name)


def _conv(call: _Call) -> Traced:
    kernel = real(call.given(1))
    n = kernel.ndim - 2
    image, bias = call.x.image(n), call.given(2)
    found = call.build.convolve(
        image,
        kernel,
        None if bias is None else real(bias),
        groups=int(call.attributes.get("group", 1)),
        name=call.name,
        **call.windows(kernel.shape[2:], image.shape[1:]),
    )
    return call.x.like(found)


def _max_pool(call: _Call) -> Traced:
    sides = call.attributes["kernel_shape"]
    image = call.x.image(len(sides))
    if call.n_outputs > 1:
        raise ArgumentError("its second output, which entry was largest, is not read")
    return call.x.like(
        call.build.max_pool(image, sides, name=call.name, **call.windows(sides, image.shape[1:]))
    )


def _average_pool(call: _Call) -> Traced:
    sides = call.attributes["kernel_shape"]
    image = call.x.image(len(sides))
    given = call.windows(sides, image.shape[1:])
    if set(given.pop("dilations")) != {1} or call.attributes.get("ceil_mode", 0):
        raise ArgumentError("averages with dilations or `ceil_mode` are not read")
    counts = bool(call.attributes.get("count_include_pad", 0))
    found = call.build.average_pool(image, sides, counts_padding=counts, name=call.name, **given)
    return call.x.like(found)


def _global_pool(call: _Call) -> Traced:
    x = call.x
    return Traced(call.build.mean(x.slots, range(2, len(x.shape)), call.name))


def _global_max_pool(call: _Call) -> Traced:
    x = call.x
    image = x.image(len(x.shape) - 2)
    return x.like(call.build.max_pool(image, image.shape[1:], name=call.name))


def _along(reduce: Callable[..., Any]) -> Callable[[_Call], Traced]:
    """A mean or a sum over some axes."""

    def apply(call: _Call) -> Traced:
        x, axes = call.x, call.integers(1, "axes")
        listed = list(range(len(x.shape))) if axes is None else axes
        keeps = bool(call.attributes.get("keepdims", 1))
        return Traced(reduce(call.build, x.slots, listed, call.name, keeps_axes=keeps))

    return apply


def _batch_norm(call: _Call) -> Traced:
    if call.attributes.get("training_mode", 0):
        raise ArgumentError("it is in training mode")
    scale, shift, mean, variance = (real(v) for v in call.inputs[1:5])
    epsilon = call.attributes.get("epsilon", float(np.float32(1e-5)))
    return normalised(call.build, call.x, scale, shift, mean, variance, epsilon, call.name)


def _prelu(call: _Call) -> Traced:
    slopes, x = real(call.given(1)), call.x
    if slopes.size == 1:
        return activated(call.build, x, prelu(slopes.ravel()), call.name)
    if slopes.ndim == len(x.shape) and len(slopes) == 1:
        slopes = slopes[0]
    if slopes.size != slopes.shape[0] or len(x.shape) - slopes.ndim != 1:
        raise ArgumentError(f"its slopes must be one for each channel; got shape {slopes.shape}")
    return activated(call.build, x, prelu(slopes.ravel()), call.name)


def _shrink(call: _Call) -> Traced:
    threshold, bias = call.attributes.get("lambd", 0.5), call.attributes.get("bias", 0.0)
    if threshold != bias:
        raise ArgumentError("it jumps unless `lambd` and `bias` agree")
    return activated(call.build, call.x, soft_shrink(threshold), call.name)


def _extreme(sign: float) -> Callable[[_Call], Any]:
    def largest(call: _Call) -> Any:
        found = call.inputs[0]
        for other in call.inputs[1:]:
            found = extreme(call.build, found, other, sign, call.name)
        return found

    return largest


def _sum(call: _Call) -> Any:
    found = call.inputs[0]
    for other in call.inputs[1:]:
        found = added(call.build, found, other, 1.0, call.name)
    return found


def _moved(move: Callable[[_Call, AnyArray], AnyArray]) -> Callable[[_Call], Any]:
    """An operation that only moves entries, of traced tensors and of constants."""

    def apply(call: _Call) -> Any:
        x = call.inputs[0]
        if isinstance(x, Traced):
            return Traced(np.asarray(move(call, x.slots)))
        return np.asarray(move(call, np.asarray(x)))

    return apply


def _reshape(call: _Call, array: AnyArray) -> AnyArray:
    shape = call.integers(1, "shape") or []
    if not call.attributes.get("allowzero", 0):
        shape = [array.shape[k] if n == 0 else n for k, n in enumerate(shape)]
    return array.reshape(shape)


def _flatten(call: _Call, array: AnyArray) -> AnyArray:
    axis = call.attributes.get("axis", 1)
    axis += array.ndim if axis < 0 else 0
    return array.reshape(prod(array.shape[:axis]), -1)


def _squeeze(call: _Call, array: AnyArray) -> AnyArray:
    axes = call.integers(1, "axes")
    return np.asarray(array.squeeze(None if axes is None else tuple(axes)))


def _unsqueeze(call: _Call, array: AnyArray) -> AnyArray:
    return np.expand_dims(array, tuple(call.integers(1, "axes") or ()))


def _slice(call: _Call, array: AnyArray) -> AnyArray:
    starts, ends = call.integers(1, "starts") or [], call.integers(2, "ends") or []
    axes = call.integers(3, "axes") or list(range(len(starts)))
    steps = call.integers(4, "steps") or [1] * len(starts)
    cut: list[Any] = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Ends far beyond mean all of it, backwards too.
        size = array.shape[axis]
        stop = None if step < 0 and end < -size else end
        cut[axis] = slice(start, stop, step)
    return np.asarray(array[tuple(cut)])


def _gather(call: _Call, array: AnyArray) -> AnyArray:
    indices = np.asarray(call.given(1))
    if indices.dtype.kind not in "iu":
        raise ArgumentError(f"its indices must be integers; got dtype {indices.dtype}")
    axis = normalize_axis_index(call.attributes.get("axis", 0), array.ndim)
    n_rest = array.size // array.shape[axis] if array.size else 0
    call.build.limit.take(16 * n_rest * indices.size)
    return np.asarray(np.take(array, indices, axis=axis))


def _split(call: _Call) -> list[Any]:
    x = call.x
    axis = normalize_axis_index(call.attributes.get("axis", 0), len(x.shape))
    call.build.limit.take(_NODE_BYTES * call.n_outputs)
    sizes = call.integers(1, "split")
    if sizes is None:
        each = -(-x.shape[axis] // call.n_outputs)
        sizes = [each] * (call.n_outputs - 1)
        sizes.append(x.shape[axis] - sum(sizes))
    if min(sizes) < 1 or sum(sizes) != x.shape[axis] or len(sizes) != call.n_outputs:
        raise ArgumentError(f"parts of {sizes!s:.100} do not make an axis of {x.shape[axis]}")
    places = np.cumsum(sizes)[:-1]
    return [Traced(part) for part in np.split(x.slots, places, axis=axis)]


def _concat(call: _Call) -> Any:
    axis = call.attributes["axis"]
    if not any(isinstance(v, Traced) for v in call.inputs):
        return np.concatenate([np.asarray(v) for v in call.inputs], axis=axis)
    parts = [
        v.slots if isinstance(v, Traced) else call.build.constant(real(v)) for v in call.inputs
    ]
    return Traced(np.concatenate(parts, axis=axis))


def _pad(call: _Call) -> Traced:
    x, mode = call.x, call.attributes.get("mode", "constant")
    pads = call.integers(1, "pads") or []
    axes = call.integers(3, "axes") or list(range(len(pads) // 2))
    pairs = [(0, 0)] * len(x.shape)
    for k, axis in enumerate(axes):
        pairs[axis] = pads[k], pads[k + len(axes)]
    if mode == "constant":
        return Traced(call.build.pad(x.slots, pairs, call.number(2, "value") or 0.0))
    if mode not in ("reflect", "edge", "wrap"):
        raise ArgumentError(f"padding of the kind {mode:.20} is not read")
    n_padded = prod(n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True))
    call.build.limit.take(16 * n_padded)
    return Traced(np.pad(x.slots, pairs, mode=mode))


def _expand(call: _Call, array: AnyArray) -> AnyArray:
    shape = np.broadcast_shapes(array.shape, tuple(call.integers(1, "shape") or ()))
    call.build.limit.take(8 * prod(shape))
    return np.broadcast_to(array, shape)


def _constant(call: _Call) -> AnyArray:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if name in call.attributes:
            real(call.attributes[name])
            return np.asarray(call.attributes[name])
    raise ArgumentError("it must be a constant of numbers")


def _constant_of_shape(call: _Call) -> AnyArray:
    shape = call.integers(0, "shape") or []
    call.build.limit.take(8 * prod(shape))
    value = np.asarray(call.attributes.get("value", np.zeros(1, dtype=np.float32)))
    real(value)
    return np.full(shape, value.ravel()[0])


def _cast(call: _Call) -> Any:
    if isinstance(call.inputs[0], Traced):
        raise ArgumentError("a change of type in the middle rounds; export the network in one type")
    kinds = {1: np.float32, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64, 9: np.bool_}
    return np.asarray(call.inputs[0]).astype(kinds[call.attributes["to"]])


def _shape_of(call: _Call) -> AnyArray:
    return np.array(call.inputs[0].shape, dtype=np.int64)


def _acting(activation: Callable[[_Call], Any]) -> Callable[[_Call], Traced]:
    return lambda call: activated(call.build, call.x, activation(call), call.name)


def _folding(function: Callable[..., Any]) -> Callable[[_Call], Any]:
    return lambda call: fold(call.build, function, call.inputs[0], call.inputs[1])


def _left_off(word: str) -> Callable[[_Call], Traced]:
    return lambda call: Traced(call.x.slots, word)


_LEAKY, _FIFTH = float(np.float32(0.01)), float(np.float32(0.2))
_MOVES: dict[str, Callable[[_Call], Any]] = {
    "Reshape": _moved(_reshape),
    "Flatten": _moved(_flatten),
    "Squeeze": _moved(_squeeze),
    "Unsqueeze": _moved(_unsqueeze),
    "Transpose": _moved(lambda call, a: a.transpose(call.attributes.get("perm"))),
    "Slice": _moved(_slice),
    "Gather": _moved(_gather),
    "Expand": _moved(_expand),
    "Identity": _moved(lambda call, a: a),
    "Dropout": _moved(lambda call, a: a),
}
_MOVING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
_NODES: dict[str, Callable[[_Call], Any]] = {
    **_MOVES,
    "Gemm": _gemm,
    "MatMul": lambda call: product(call.build, call.inputs[0], call.inputs[1], call.name),
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "Relu": _acting(lambda call: RELU),
    "LeakyRelu": _acting(lambda call: leaky_relu(call.attributes.get("alpha", _LEAKY))),
    "PRelu": _prelu,
    "Clip": _acting(lambda call: clip(call.number(1, "min"), call.number(2, "max"))),
    "Abs": _acting(lambda call: ABS),
    "HardSigmoid": _acting(
        lambda call: hard_sigmoid(
            call.attributes.get("alpha", _FIFTH), call.attributes.get("beta", 0.5)
        )
    ),
    "Shrink": _shrink,
    "Max": _extreme(1.0),
    "Min": _extreme(-1.0),
    "MaxPool": _max_pool,
    "GlobalMaxPool": _global_max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_pool,
    "ReduceMean": _along(GraphBuilder.mean),
    "ReduceSum": _along(GraphBuilder.total),
    "Add": _sum,
    "Sum": _sum,
    "Sub": lambda call: added(call.build, call.inputs[0], call.inputs[1], -1.0, call.name),
    "Mul": lambda call: multiplied(call.build, call.inputs[0], call.inputs[1], call.name),
    "Div": lambda call: divided(call.build, call.inputs[0], call.inputs[1], call.name),
    "Neg": lambda call: multiplied(call.build, call.inputs[0], -1.0, call.name),
    "Concat": _concat,
    "Split": _split,
    "Pad": _pad,
    "Shape": _shape_of,
    "Cast": _cast,
    "Softmax": _left_off("Softmax"),
    "LogSoftmax": _left_off("LogSoftmax"),
}
_FOLDED: dict[str, Callable[[_Call], Any]] = {
    **_MOVES,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Cast": _cast,
    "Shape": _shape_of,
    "Concat": _concat,
    "Add": _folding(np.add),
    "Sub": _folding(np.subtract),
    "Mul": _folding(np.multiply),
    "Div": _folding(
        lambda a, b: np.floor_divide(a, b) if a.dtype.kind in "iu" else np.divide(a, b)
    ),
    "Neg": lambda call: -np.asarray(call.inputs[0]),
    "Sqrt": lambda call: np.sqrt(real(call.inputs[0])),
}
