"""What the operations of torch do to tensors of any shape, as operations on the slots of a graph.

The names are those of ATen, as exported programs and TorchScript write them.
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
    hard_tanh,
    leaky_relu,
    prelu,
    refusal,
    soft_shrink,
)
from hardmax.models.formats.graph_operations import (
    Traced,
    activated,
    added,
    divided,
    extreme,
    multiplied,
    normalised,
    product,
    real,
    with_ceiling,
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
        build: The network so far.
        word: The operation, such as `conv2d`.
        name: What to call its node.
        arguments: Its arguments: traced tensors, arrays and plain values.
        named: Its keyword arguments.

    Returns:
        A traced tensor, or a list of them.

    Raises:
        ArgumentError: If the operation is unknown or not piecewise linear, or follows one that was
            left off.
    """
    traced = traced_tensors([*arguments, *named.values()])
    left_off = next((a.left_off for a in traced if a.left_off), "")
    if left_off and word not in _MOVING:
        raise ArgumentError(
            f"it follows {left_off}, which is not piecewise linear and can be left off only at "
            "the end"
        )
    if word not in _OPERATIONS:
        raise ArgumentError(f"it {_reason(word)}")
    found = _OPERATIONS[word](build, name, *arguments, **named)
    return Traced(found.slots, left_off) if left_off and isinstance(found, Traced) else found


def _reason(word: str) -> str:
    """Say why an operation is not read."""
    known = refusal(word) or _REASONS.get(word.removeprefix("native_"))
    return known or "is not piecewise linear, or not known here"


def traced_tensors(values: Any) -> list[Traced]:
    """Return the tensors among values, and in lists of them, that depend on the input."""
    found: list[Traced] = []
    for value in values:
        if isinstance(value, Traced):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += traced_tensors(value)
    return found


def _pairs(values: Any, n: int) -> list[tuple[int, int]]:
    listed = _list(values, n)
    return [(p, p) for p in listed]


def _list(values: Any, n: int) -> list[int]:
    listed = [int(v) for v in (values if isinstance(values, list | tuple) else [values])]
    return listed * n if len(listed) == 1 else listed


def _convolution(n: int) -> Callable[..., Traced]:
    def convolve(
        build: GraphBuilder,
        name: str,
        x: Traced,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Traced:
        kernel = real(weight)
        steps = _list(dilation, n)
        if padding == "valid":
            pads = [(0, 0)] * n
        elif padding == "same":
            totals = [step * (side - 1) for step, side in zip(steps, kernel.shape[2:], strict=True)]
            pads = [(t // 2, t - t // 2) for t in totals]
        else:
            pads = _pairs(padding, n)
        found = build.convolve(
            x.image(n),
            kernel,
            None if bias is None else real(bias),
            strides=_list(stride, n),
            pads=pads,
            dilations=steps,
            groups=groups,
            name=name,
        )
        return x.like(found)

    return convolve


def _max_pool(n: int) -> Callable[..., Traced]:
    def pool(
        build: GraphBuilder,
        name: str,
        x: Traced,
        side: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Traced:
        sides, steps = _list(side, n), _list(dilation, n)
        strides = _list(stride, n) if stride else sides
        pads = _pairs(padding, n)
        image = x.image(n)
        if ceil_mode:
            wide = [d * (s - 1) + 1 for d, s in zip(steps, sides, strict=True)]
            pads = with_ceiling(image.shape[1:], wide, strides, pads)
        pooled = build.max_pool(
            image, sides, strides=strides, pads=pads, dilations=steps, name=name
        )
        return x.like(pooled)

    return pool


def _average_pool(n: int) -> Callable[..., Traced]:
    def pool(
        build: GraphBuilder,
        name: str,
        x: Traced,
        side: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Traced:
        sides = _list(side, n)
        strides, pads = _list(stride, n) if stride else sides, _pairs(padding, n)
        if ceil_mode or divisor_override is not None:
            raise ArgumentError("`ceil_mode` and `divisor_override` are not read.")
        found = build.average_pool(
            x.image(n),
            sides,
            strides=strides,
            pads=pads,
            counts_padding=count_include_pad,
            name=name,
        )
        return x.like(found)

    return pool


def _adaptive(n: int, kind: str) -> Callable[..., Any]:
    def pool(build: GraphBuilder, name: str, x: Traced, size: Any) -> Any:
        image = x.image(n)
        sizes = image.shape[1:]
        wanted = [s if w is None else int(w) for s, w in zip(sizes, _given(size, n), strict=True)]
        if any(s % w for s, w in zip(sizes, wanted, strict=True)):
            pooled = _uneven_pool(build, image, wanted, kind, name)
            return [x.like(pooled), None] if kind == "max" else x.like(pooled)
        sides = [s // w for s, w in zip(sizes, wanted, strict=True)]
        if kind == "max":
            return [x.like(build.max_pool(image, sides, name=name)), None]
        return x.like(build.average_pool(image, sides, name=name))

    return pool


def _uneven_pool(
    build: GraphBuilder, image: IntArray, wanted: list[int], kind: str, name: str
) -> IntArray:
    """Pool windows that differ in size: output `i` of `w` covers `[i s / w, (i + 1) s / w)`."""
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


def _given(values: Any, n: int) -> list[Any]:
    listed = list(values) if isinstance(values, list | tuple) else [values]
    return listed * n if len(listed) == 1 else listed


def _linear(build: GraphBuilder, name: str, x: Traced, weight: Any, bias: Any = None) -> Traced:
    offset = None if bias is None else real(bias)
    return Traced(build.multiply(x.slots, real(weight).T, offset, name))


def _addmm(
    build: GraphBuilder, name: str, bias: Any, x: Any, matrix: Any, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    if (beta, alpha) != (1, 1):
        raise ArgumentError("`addmm` must have the factors 1 and 1.")
    return added(build, product(build, x, matrix, name), bias, name=name)


def _any_convolution(
    build: GraphBuilder, name: str, x: Traced, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, transposed: Any = False, output_padding: Any = 0, groups: int = 1, *rest: Any,
) -> Traced:  # fmt: skip
    if transposed:
        raise ArgumentError("transposed convolutions are not read")
    convolve = _convolution(real(weight).ndim - 2)
    return convolve(build, name, x, weight, bias, stride, padding, dilation, groups)


def _scripted_batch_norm(
    build: GraphBuilder, name: str, x: Traced, scale: Any, shift: Any, mean: Any, variance: Any,
    training: bool, momentum: float, epsilon: float, *rest: Any,
) -> Traced:  # fmt: skip
    if training or mean is None or variance is None:
        raise ArgumentError(
            "it normalises by the statistics of its batch; put the module into evaluation mode "
            "(`module.eval()`) before it is traced or scripted"
        )
    return normalised(build, x, scale, shift, mean, variance, epsilon, name)


def _cast(
    build: GraphBuilder, name: str, x: Traced, dtype: Any = None, *rest: Any, **named: Any
) -> Traced:
    kind = named.get("dtype", dtype)
    is_float = getattr(kind, "is_floating_point", kind is None or kind in _SCRIPTED_FLOATS)
    if not is_float:
        raise ArgumentError("it rounds to integers, which jumps")
    return x


def _largest(build: GraphBuilder, name: str, x: Traced, axes: Any, keepdim: bool = False) -> Traced:
    along = sorted({a % len(x.shape) for a in _given(axes, 1)})
    moved = np.moveaxis(x.slots, along, range(-len(along), 0))
    kept = moved.shape[: len(x.shape) - len(along)]
    columns = moved.reshape(prod(kept), -1)
    build.limit.take(64 * x.slots.size)
    found = build.maximum(columns, np.ones(columns.shape), np.zeros(columns.shape), name=name)
    slots = found.reshape(kept)
    return Traced(np.expand_dims(slots, tuple(along)) if keepdim else slots)


def _maximum(build: GraphBuilder, name: str, x: Any, other: Any, keepdim: bool = False) -> Any:
    """`torch.max`: of two tensors, or along an axis, where it also returns places."""
    if isinstance(other, int) and not isinstance(other, bool):
        return [_largest(build, name, x, other, keepdim), None]
    return extreme(build, x, other, 1.0, name)


def _threshold(build: GraphBuilder, name: str, x: Traced, threshold: float, value: float) -> Traced:
    if threshold != value:
        raise ArgumentError(f"it jumps from {value:g} to {threshold:g}")
    return activated(build, x, clip(value, None, f"threshold({value:g})"), name)


def _batch_norm(
    build: GraphBuilder, name: str, x: Traced, scale: Any, shift: Any, mean: Any, variance: Any,
    *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    numbers = [r for r in (*rest, *named.values()) if isinstance(r, float)]
    name = name.replace("_native_batch_norm_legit_no_training", "batch_norm")
    return [normalised(build, x, scale, shift, mean, variance, numbers[-1], name), None, None]


def _view(build: GraphBuilder, name: str, x: Traced, shape: Any) -> Traced:
    return Traced(x.slots.reshape([int(n) for n in shape]))


def _flatten(build: GraphBuilder, name: str, x: Traced, start: int = 0, end: int = -1) -> Traced:
    start, end = start % len(x.shape), end % len(x.shape)
    return Traced(x.slots.reshape(*x.shape[:start], -1, *x.shape[end + 1 :]))


def _mean(
    build: GraphBuilder,
    name: str,
    x: Traced,
    axes: Any,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Traced:
    return Traced(build.mean(x.slots, _given(axes, 1), name, keeps_axes=keepdim))


def _cat(build: GraphBuilder, name: str, parts: list[Any], axis: int = 0) -> Traced:
    build.limit.take(16 * sum(np.size(p.slots if isinstance(p, Traced) else p) for p in parts))
    slots = [p.slots if isinstance(p, Traced) else build.constant(real(p)) for p in parts]
    return Traced(np.concatenate(slots, axis=axis))


def _split(build: GraphBuilder, name: str, x: Traced, sizes: Any, axis: int = 0) -> list[Traced]:
    n = x.shape[axis]
    places = np.cumsum(sizes)[:-1] if isinstance(sizes, list) else np.arange(sizes, n, int(sizes))
    return [Traced(part) for part in np.split(x.slots, places, axis=axis)]


def _chunk(build: GraphBuilder, name: str, x: Traced, n: int, axis: int = 0) -> list[Traced]:
    return _split(build, name, x, -(-x.shape[axis] // n), axis)


def _stack(build: GraphBuilder, name: str, parts: list[Any], axis: int = 0) -> Traced:
    build.limit.take(16 * sum(part.slots.size for part in parts))
    return Traced(np.stack([part.slots for part in parts], axis=axis))


def _sum(
    build: GraphBuilder,
    name: str,
    x: Traced,
    axes: Any,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Traced:
    return Traced(build.total(x.slots, _given(axes, 1), name, keeps_axes=keepdim))


def _slice(
    build: GraphBuilder, name: str, x: Traced, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Traced:  # fmt: skip
    cut: list[Any] = [slice(None)] * len(x.shape)
    cut[axis] = slice(start, end, step)
    return Traced(x.slots[tuple(cut)])


def _pad(
    build: GraphBuilder, name: str, x: Traced, pads: Any, mode: Any = 0.0, value: Any = None
) -> Traced:
    if isinstance(mode, str):
        if mode != "constant":
            raise ArgumentError(f"padding of the kind {mode} is not read.")
        value = 0.0 if value is None else value
    else:
        value = mode
    pairs = [(int(a), int(b)) for a, b in zip(pads[::2], pads[1::2], strict=True)][::-1]
    return Traced(build.pad(x.slots, [(0, 0)] * (len(x.shape) - len(pairs)) + pairs, float(value)))


def _expand(build: GraphBuilder, name: str, x: Traced, shape: Any, **named: Any) -> Traced:
    old = (1,) * (len(shape) - len(x.shape)) + x.shape
    wanted = [s if n == -1 else int(n) for n, s in zip(shape, old, strict=True)]
    build.limit.take(16 * prod(wanted))
    return Traced(np.broadcast_to(x.slots, wanted))


def _left_off(word: str) -> Callable[..., Traced]:
    def leave(build: GraphBuilder, name: str, x: Traced, *rest: Any, **named: Any) -> Traced:
        return Traced(x.slots, word)

    return leave


def _acting(activation: Callable[..., Any]) -> Callable[..., Traced]:
    def act(build: GraphBuilder, name: str, x: Traced, *rest: Any, **named: Any) -> Traced:
        numbers = [real(r) if isinstance(r, np.ndarray) else r for r in rest]
        return activated(build, x, activation(*numbers, **named), name)

    return act


def _clamp(low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return clip(low if min is None else min, high if max is None else max)


def _unchanged(build: GraphBuilder, name: str, x: Traced, *rest: Any, **named: Any) -> Traced:
    return x


def _plus(build: GraphBuilder, name: str, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return added(build, a, b, float(alpha), name)


def _minus(build: GraphBuilder, name: str, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return added(build, a, b, -float(alpha), name)


_COPYING = ("clone", "contiguous", "detach", "alias")
_MOVING = {"view", "reshape", "_unsafe_view", "flatten", *_COPYING}
_SCRIPTED_FLOATS = (5, 6, 7, 15)
"""Half, float, double and bfloat16, as scripts number them."""
_REASONS = {
    **dict.fromkeys(
        ("layer_norm", "rms_norm", "group_norm", "instance_norm"),
        "divides by the size of its input, so it is not piecewise linear",
    ),
    "hardsigmoid": "has the slope 1/6, which is no float64",
    "scaled_dot_product_attention": "multiplies tensors that both depend on the input",
    "embedding": "looks up integers, and is not a function of real numbers",
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{f"conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{
        f"max_pool{n}d_with_indices": lambda *a, n=n, **k: [_max_pool(n)(*a, **k), None]
        for n in (2, 3)
    },
    **{f"avg_pool{n}d": _average_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive(n, "average") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive(n, "max") for n in (1, 2, 3)},
    "linear": _linear,
    "addmm": _addmm,
    **dict.fromkeys(("matmul", "mm", "bmm"), lambda build, name, a, b: product(build, a, b, name)),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "relu": _acting(lambda: RELU),
    "relu6": _acting(lambda: clip(0.0, 6.0, "relu6")),
    "leaky_relu": _acting(lambda slope=0.01: leaky_relu(slope)),
    "prelu": _acting(prelu),
    "_prelu_kernel": _acting(prelu),
    "hardtanh": _acting(lambda low=-1.0, high=1.0: hard_tanh(low, high)),
    "clamp": _acting(_clamp),
    "clamp_min": _acting(lambda low: clip(low, None)),
    "clamp_max": _acting(lambda high: clip(None, high)),
    "softshrink": _acting(lambda threshold=0.5: soft_shrink(threshold)),
    "abs": _acting(lambda: ABS),
    "maximum": lambda build, name, a, b: extreme(build, a, b, 1.0, name),
    "minimum": lambda build, name, a, b: extreme(build, a, b, -1.0, name),
    "add": _plus,
    "sub": _minus,
    "rsub": lambda build, name, a, b, alpha=1: added(build, b, a, -float(alpha), name),
    "mul": lambda build, name, a, b: multiplied(build, a, b, name),
    "div": lambda build, name, a, b: divided(build, a, b, name),
    "neg": lambda build, name, a: multiplied(build, a, -1.0, name),
    "mean": _mean,
    "sum": _sum,
    "cat": _cat,
    "stack": _stack,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "unbind": lambda build, name, x, axis=0: [Traced(p) for p in np.moveaxis(x.slots, axis, 0)],
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), _view),
    "flatten": _flatten,
    "unsqueeze": lambda build, name, x, axis: Traced(np.expand_dims(x.slots, axis)),
    "squeeze": lambda build, name, x, axis=None: Traced(
        x.slots.squeeze(
            None if axis is None else tuple(a for a in _given(axis, 1) if x.shape[a] == 1)
        )
    ),
    "permute": lambda build, name, x, axes: Traced(x.slots.transpose(axes)),
    "transpose": lambda build, name, x, a, b: Traced(np.swapaxes(x.slots, a, b)),
    "t": lambda build, name, x: Traced(x.slots.T),
    "slice": _slice,
    "select": lambda build, name, x, axis, index: Traced(np.take(x.slots, index, axis)),
    "expand": _expand,
    "constant_pad_nd": _pad,
    "pad": _pad,
    "softmax": _left_off("Softmax"),
    "_softmax": _left_off("Softmax"),
    "log_softmax": _left_off("LogSoftmax"),
    "_log_softmax": _left_off("LogSoftmax"),
    **dict.fromkeys((*_COPYING, "dropout", "feature_dropout", "alpha_dropout"), _unchanged),
    **dict.fromkeys(("_to_copy", "to"), _cast),
    "_convolution": _any_convolution,
    "batch_norm": _scripted_batch_norm,
    "amax": _largest,
    "max": _maximum,
    "threshold": _threshold,
    "rrelu": _acting(lambda lower=1 / 8, upper=1 / 3, *rest: leaky_relu((lower + upper) / 2)),
}
