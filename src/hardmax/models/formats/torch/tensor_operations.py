"""The operations of torch on tensors of any shape, as operations on the slots of a graph.

Operations have their ATen names, as in exported programs and TorchScript.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.models.formats.activations import (
    ABS,
    RELU,
    clip,
    explain_refusal,
    hard_tanh,
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
    matmul,
    multiply,
    read_constant,
    take_extremum,
)
from hardmax.models.graphs.building import GraphBuilder
from hardmax.typing import IntArray


def apply_tensor_operation(
    build: GraphBuilder,
    word: str,
    name: str,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    """Apply an operation of torch to tensors that depend on the input.

    Args:
        build: The builder of the network.
        word: The operation, such as `conv2d`.
        name: The name of the new node.
        arguments: The positional arguments: tensors, arrays and plain values.
        named: The keyword arguments.

    Returns:
        A tensor that depends on the input, or a list of such tensors.

    Raises:
        ArgumentError: If the operation is unknown or not piecewise linear, or follows an operation
            that was omitted.
    """
    traced = find_traced_tensors([*arguments, *named.values()])
    omitted = next((a.omitted for a in traced if a.omitted), "")
    if omitted and word not in _MOVING:
        raise ArgumentError(
            f"it follows {omitted}, which is not piecewise linear and can only be omitted at the "
            "end"
        )
    if word not in _OPERATIONS:
        raise ArgumentError(f"it {_explain_refusal(word)}")
    found = _OPERATIONS[word](build, name, *arguments, **named)
    return Tensor(found.slots, omitted) if omitted and isinstance(found, Tensor) else found


def _explain_refusal(word: str) -> str:
    """Return the reason why an operation is not supported."""
    known = explain_refusal(word) or _REASONS.get(word.removeprefix("native_"))
    return known or "is not piecewise linear, or not supported"


def find_traced_tensors(values: Any) -> list[Tensor]:
    """Return the tensors that depend on the input among values and nested lists of values."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += find_traced_tensors(value)
    return found


def _symmetric_pads(values: Any, n: int) -> list[tuple[int, int]]:
    listed = _read_integers(values, n)
    return [(p, p) for p in listed]


def _read_integers(values: Any, n: int) -> list[int]:
    listed = [int(v) for v in (values if isinstance(values, list | tuple) else [values])]
    return listed * n if len(listed) == 1 else listed


def _make_convolution(n: int) -> Callable[..., Tensor]:
    def convolve(
        build: GraphBuilder,
        name: str,
        x: Tensor,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        kernel = read_constant(weight)
        steps = _read_integers(dilation, n)
        if padding == "valid":
            pads = [(0, 0)] * n
        elif padding == "same":
            totals = [step * (side - 1) for step, side in zip(steps, kernel.shape[2:], strict=True)]
            pads = [(t // 2, t - t // 2) for t in totals]
        else:
            pads = _symmetric_pads(padding, n)
        found = build.convolve(
            x.image_slots(n),
            kernel,
            None if bias is None else read_constant(bias),
            strides=_read_integers(stride, n),
            pads=pads,
            dilations=steps,
            groups=groups,
            name=name,
        )
        return x.restore_batch(found)

    return convolve


def _make_max_pool(n: int) -> Callable[..., Tensor]:
    def pool(
        build: GraphBuilder,
        name: str,
        x: Tensor,
        side: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        sides, steps = _read_integers(side, n), _read_integers(dilation, n)
        strides = _read_integers(stride, n) if stride else sides
        pads = _symmetric_pads(padding, n)
        image = x.image_slots(n)
        if ceil_mode:
            wide = [d * (s - 1) + 1 for d, s in zip(steps, sides, strict=True)]
            pads = extend_pads(image.shape[1:], wide, strides, pads)
        pooled = build.max_pool(
            image, sides, strides=strides, pads=pads, dilations=steps, name=name
        )
        return x.restore_batch(pooled)

    return pool


def _make_average_pool(n: int) -> Callable[..., Tensor]:
    def pool(
        build: GraphBuilder,
        name: str,
        x: Tensor,
        side: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Tensor:
        sides = _read_integers(side, n)
        strides, pads = _read_integers(stride, n) if stride else sides, _symmetric_pads(padding, n)
        if ceil_mode or divisor_override is not None:
            raise ArgumentError("`ceil_mode` and `divisor_override` are not supported.")
        found = build.average_pool(
            x.image_slots(n),
            sides,
            strides=strides,
            pads=pads,
            counts_padding=count_include_pad,
            name=name,
        )
        return x.restore_batch(found)

    return pool


def _make_adaptive_pool(n: int, kind: str) -> Callable[..., Any]:
    def pool(build: GraphBuilder, name: str, x: Tensor, size: Any) -> Any:
        image = x.image_slots(n)
        sizes = image.shape[1:]
        wanted = [
            s if w is None else int(w)
            for s, w in zip(sizes, _repeat_for_axes(size, n), strict=True)
        ]
        if any(s % w for s, w in zip(sizes, wanted, strict=True)):
            pooled = _pool_uneven_windows(build, image, wanted, kind, name)
            return [x.restore_batch(pooled), None] if kind == "max" else x.restore_batch(pooled)
        sides = [s // w for s, w in zip(sizes, wanted, strict=True)]
        if kind == "max":
            return [x.restore_batch(build.max_pool(image, sides, name=name)), None]
        return x.restore_batch(build.average_pool(image, sides, name=name))

    return pool


def _pool_uneven_windows(
    build: GraphBuilder, image: IntArray, wanted: list[int], kind: str, name: str
) -> IntArray:
    """Pool windows of different sizes: output `i` of `w` covers `[i s / w, (i + 1) s / w)`."""
    sizes = image.shape[1:]
    longest = prod(-(-s // w) + 1 for s, w in zip(sizes, wanted, strict=True))
    build.limit.take(32 * image.shape[0] * prod(wanted) * longest)
    pixels = np.arange(prod(sizes)).reshape(sizes)
    windows = [
        pixels[tuple(slice(i * s // w, -(-(i + 1) * s // w)) for i, s, w in axes)].ravel()
        for axes in (tuple(zip(place, sizes, wanted, strict=True)) for place in np.ndindex(*wanted))
    ]
    places = np.full((len(windows), max(map(len, windows))), -1)
    for row, window in zip(places, windows, strict=True):
        row[: len(window)] = window
    flat = image.reshape(len(image), -1)
    columns = np.where(places < 0, -1, flat[:, places]).reshape(-1, places.shape[1])
    if kind == "max":
        slopes = np.where(columns < 0, 0.0, 1.0)
        found = build.maximum(columns, slopes, 0.0 * slopes, name=name, is_padded=True)
    else:
        counts = (columns >= 0).sum(axis=1, keepdims=True)
        if odd := [int(n) for n in np.unique(counts) if n & (n - 1)]:
            build.note(f"{name}: 1/{odd[0]} is rounded to a float64")
        weights = np.where(columns < 0, 0.0, 1.0 / counts)
        found = build.combine(columns, weights, name)
    return found.reshape(len(image), *wanted)


def _repeat_for_axes(values: Any, n: int) -> list[Any]:
    listed = list(values) if isinstance(values, list | tuple) else [values]
    return listed * n if len(listed) == 1 else listed


def _linear(build: GraphBuilder, name: str, x: Tensor, weight: Any, bias: Any = None) -> Tensor:
    offset = None if bias is None else read_constant(bias)
    return Tensor(build.multiply(x.slots, read_constant(weight).T, offset, name))


def _addmm(
    build: GraphBuilder, name: str, bias: Any, x: Any, matrix: Any, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    if (beta, alpha) != (1, 1):
        raise ArgumentError("`addmm` must have alpha = beta = 1.")
    return add(build, matmul(build, x, matrix, name), bias, name=name)


def _any_convolution(
    build: GraphBuilder, name: str, x: Tensor, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, transposed: Any = False, output_padding: Any = 0, groups: int = 1, *rest: Any,
) -> Tensor:  # fmt: skip
    if transposed:
        raise ArgumentError("transposed convolutions are not supported")
    convolve = _make_convolution(read_constant(weight).ndim - 2)
    return convolve(build, name, x, weight, bias, stride, padding, dilation, groups)


def _scripted_batch_norm(
    build: GraphBuilder, name: str, x: Tensor, scale: Any, shift: Any, mean: Any, variance: Any,
    training: bool, momentum: float, epsilon: float, *rest: Any,
) -> Tensor:  # fmt: skip
    if training or mean is None or variance is None:
        raise ArgumentError(
            "it normalises by batch statistics; put the module into evaluation mode "
            "(`module.eval()`) before tracing or scripting it"
        )
    return apply_batch_norm(build, x, scale, shift, mean, variance, epsilon, name)


def _cast(
    build: GraphBuilder, name: str, x: Tensor, dtype: Any = None, *rest: Any, **named: Any
) -> Tensor:
    kind = named.get("dtype", dtype)
    is_float = getattr(kind, "is_floating_point", kind is None or kind in _SCRIPTED_FLOATS)
    if not is_float:
        raise ArgumentError("it rounds to integers, which is discontinuous")
    return x


def _amax(build: GraphBuilder, name: str, x: Tensor, axes: Any, keepdim: bool = False) -> Tensor:
    along = sorted({a % len(x.shape) for a in _repeat_for_axes(axes, 1)})
    moved = np.moveaxis(x.slots, along, range(-len(along), 0))
    kept = moved.shape[: len(x.shape) - len(along)]
    columns = moved.reshape(prod(kept), -1)
    build.limit.take(64 * x.slots.size)
    found = build.maximum(columns, np.ones(columns.shape), np.zeros(columns.shape), name=name)
    slots = found.reshape(kept)
    return Tensor(np.expand_dims(slots, tuple(along)) if keepdim else slots)


def _maximum(build: GraphBuilder, name: str, x: Any, other: Any, keepdim: bool = False) -> Any:
    """Apply `torch.max` to two tensors, or along an axis, where it also returns indices."""
    if isinstance(other, int) and not isinstance(other, bool):
        return [_amax(build, name, x, other, keepdim), None]
    return take_extremum(build, x, other, 1.0, name)


def _threshold(build: GraphBuilder, name: str, x: Tensor, threshold: float, value: float) -> Tensor:
    if threshold != value:
        raise ArgumentError(f"it jumps from {value:g} to {threshold:g}")
    return apply_activation(build, x, clip(value, None, f"threshold({value:g})"), name)


def _batch_norm(
    build: GraphBuilder, name: str, x: Tensor, scale: Any, shift: Any, mean: Any, variance: Any,
    *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    numbers = [r for r in (*rest, *named.values()) if isinstance(r, float)]
    name = name.replace("_native_batch_norm_legit_no_training", "batch_norm")
    return [apply_batch_norm(build, x, scale, shift, mean, variance, numbers[-1], name), None, None]


def _view(build: GraphBuilder, name: str, x: Tensor, shape: Any) -> Tensor:
    return Tensor(x.slots.reshape([int(n) for n in shape]))


def _flatten(build: GraphBuilder, name: str, x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    start, end = start % len(x.shape), end % len(x.shape)
    return Tensor(x.slots.reshape(*x.shape[:start], -1, *x.shape[end + 1 :]))


def _mean(
    build: GraphBuilder,
    name: str,
    x: Tensor,
    axes: Any,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    return Tensor(build.mean(x.slots, _repeat_for_axes(axes, 1), name, keeps_axes=keepdim))


def _cat(build: GraphBuilder, name: str, parts: list[Any], axis: int = 0) -> Tensor:
    build.limit.take(16 * sum(np.size(p.slots if isinstance(p, Tensor) else p) for p in parts))
    slots = [p.slots if isinstance(p, Tensor) else build.constant(read_constant(p)) for p in parts]
    return Tensor(np.concatenate(slots, axis=axis))


def _split(build: GraphBuilder, name: str, x: Tensor, sizes: Any, axis: int = 0) -> list[Tensor]:
    n = x.shape[axis]
    places = np.cumsum(sizes)[:-1] if isinstance(sizes, list) else np.arange(sizes, n, int(sizes))
    return [Tensor(part) for part in np.split(x.slots, places, axis=axis)]


def _chunk(build: GraphBuilder, name: str, x: Tensor, n: int, axis: int = 0) -> list[Tensor]:
    return _split(build, name, x, -(-x.shape[axis] // n), axis)


def _stack(build: GraphBuilder, name: str, parts: list[Any], axis: int = 0) -> Tensor:
    build.limit.take(16 * sum(part.slots.size for part in parts))
    return Tensor(np.stack([part.slots for part in parts], axis=axis))


def _sum(
    build: GraphBuilder,
    name: str,
    x: Tensor,
    axes: Any,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    return Tensor(build.total(x.slots, _repeat_for_axes(axes, 1), name, keeps_axes=keepdim))


def _slice(
    build: GraphBuilder, name: str, x: Tensor, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    cut: list[Any] = [slice(None)] * len(x.shape)
    cut[axis] = slice(start, end, step)
    return Tensor(x.slots[tuple(cut)])


def _pad(
    build: GraphBuilder, name: str, x: Tensor, pads: Any, mode: Any = 0.0, value: Any = None
) -> Tensor:
    if isinstance(mode, str):
        if mode != "constant":
            raise ArgumentError(f"the padding mode {mode} is not supported.")
        value = 0.0 if value is None else value
    else:
        value = mode
    pairs = [(int(a), int(b)) for a, b in zip(pads[::2], pads[1::2], strict=True)][::-1]
    return Tensor(build.pad(x.slots, [(0, 0)] * (len(x.shape) - len(pairs)) + pairs, float(value)))


def _expand(build: GraphBuilder, name: str, x: Tensor, shape: Any, **named: Any) -> Tensor:
    old = (1,) * (len(shape) - len(x.shape)) + x.shape
    wanted = [s if n == -1 else int(n) for n, s in zip(shape, old, strict=True)]
    build.limit.take(16 * prod(wanted))
    return Tensor(np.broadcast_to(x.slots, wanted))


def _omit(word: str) -> Callable[..., Tensor]:
    def leave(build: GraphBuilder, name: str, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        return Tensor(x.slots, word)

    return leave


def _make_activation(activation: Callable[..., Any]) -> Callable[..., Tensor]:
    def act(build: GraphBuilder, name: str, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        numbers = [read_constant(r) if isinstance(r, np.ndarray) else r for r in rest]
        return apply_activation(build, x, activation(*numbers, **named), name)

    return act


def _clamp(low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return clip(low if min is None else min, high if max is None else max)


def _identity(build: GraphBuilder, name: str, x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x


def _add(build: GraphBuilder, name: str, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return add(build, a, b, float(alpha), name)


def _subtract(build: GraphBuilder, name: str, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return add(build, a, b, -float(alpha), name)


_COPYING = ("clone", "contiguous", "detach", "alias")
_MOVING = {"view", "reshape", "_unsafe_view", "flatten", *_COPYING}
_SCRIPTED_FLOATS = (5, 6, 7, 15)
"""The numbers of half, float, double and bfloat16 in scripts."""
_REASONS = {
    **dict.fromkeys(
        ("layer_norm", "rms_norm", "group_norm", "instance_norm"),
        "divides by the size of its input, so it is not piecewise linear",
    ),
    "hardsigmoid": "has the slope 1/6, which is not a float64",
    "scaled_dot_product_attention": "multiplies tensors that both depend on the input",
    "embedding": "looks up integers, and is not a function of real numbers",
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{f"conv{n}d": _make_convolution(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _make_max_pool(n) for n in (1, 2, 3)},
    **{
        f"max_pool{n}d_with_indices": lambda *a, n=n, **k: [_make_max_pool(n)(*a, **k), None]
        for n in (2, 3)
    },
    **{f"avg_pool{n}d": _make_average_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _make_adaptive_pool(n, "average") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _make_adaptive_pool(n, "max") for n in (1, 2, 3)},
    "linear": _linear,
    "addmm": _addmm,
    **dict.fromkeys(("matmul", "mm", "bmm"), lambda build, name, a, b: matmul(build, a, b, name)),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "relu": _make_activation(lambda: RELU),
    "relu6": _make_activation(lambda: clip(0.0, 6.0, "relu6")),
    "leaky_relu": _make_activation(lambda slope=0.01: leaky_relu(slope)),
    "prelu": _make_activation(prelu),
    "_prelu_kernel": _make_activation(prelu),
    "hardtanh": _make_activation(lambda low=-1.0, high=1.0: hard_tanh(low, high)),
    "clamp": _make_activation(_clamp),
    "clamp_min": _make_activation(lambda low: clip(low, None)),
    "clamp_max": _make_activation(lambda high: clip(None, high)),
    "softshrink": _make_activation(lambda threshold=0.5: soft_shrink(threshold)),
    "abs": _make_activation(lambda: ABS),
    "maximum": lambda build, name, a, b: take_extremum(build, a, b, 1.0, name),
    "minimum": lambda build, name, a, b: take_extremum(build, a, b, -1.0, name),
    "add": _add,
    "sub": _subtract,
    "rsub": lambda build, name, a, b, alpha=1: add(build, b, a, -float(alpha), name),
    "mul": lambda build, name, a, b: multiply(build, a, b, name),
    "div": lambda build, name, a, b: divide(build, a, b, name),
    "neg": lambda build, name, a: multiply(build, a, -1.0, name),
    "mean": _mean,
    "sum": _sum,
    "cat": _cat,
    "stack": _stack,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "unbind": lambda build, name, x, axis=0: [Tensor(p) for p in np.moveaxis(x.slots, axis, 0)],
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), _view),
    "flatten": _flatten,
    "unsqueeze": lambda build, name, x, axis: Tensor(np.expand_dims(x.slots, axis)),
    "squeeze": lambda build, name, x, axis=None: Tensor(
        x.slots.squeeze(
            None if axis is None else tuple(a for a in _repeat_for_axes(axis, 1) if x.shape[a] == 1)
        )
    ),
    "permute": lambda build, name, x, axes: Tensor(x.slots.transpose(axes)),
    "transpose": lambda build, name, x, a, b: Tensor(np.swapaxes(x.slots, a, b)),
    "t": lambda build, name, x: Tensor(x.slots.T),
    "slice": _slice,
    "select": lambda build, name, x, axis, index: Tensor(np.take(x.slots, index, axis)),
    "expand": _expand,
    "constant_pad_nd": _pad,
    "pad": _pad,
    "softmax": _omit("Softmax"),
    "_softmax": _omit("Softmax"),
    "log_softmax": _omit("LogSoftmax"),
    "_log_softmax": _omit("LogSoftmax"),
    **dict.fromkeys((*_COPYING, "dropout", "feature_dropout", "alpha_dropout"), _identity),
    **dict.fromkeys(("_to_copy", "to"), _cast),
    "_convolution": _any_convolution,
    "batch_norm": _scripted_batch_norm,
    "amax": _amax,
    "max": _maximum,
    "threshold": _threshold,
    "rrelu": _make_activation(
        lambda lower=1 / 8, upper=1 / 3, *rest: leaky_relu((lower + upper) / 2)
    ),
}
