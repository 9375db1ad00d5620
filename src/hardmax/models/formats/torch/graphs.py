"""Modules of torch as networks of any shape, through `torch.export`.

The module is exported once for one input, which runs its program with stand-ins, and the operations
that come out are read one by one. torch itself is handed in.
"""

import copy
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
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
from hardmax.models.formats.torch.layers import tensor_array
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork


def torch_graph(
    torch: Any,
    module: Any,
    input_shape: Sequence[int],
    output: str | None = None,
    state: Mapping[str, Any] | None = None,
) -> GraphNetwork:
    """Read any module that `torch.export` can export, as it is evaluated.

    Args:
        torch: The torch package.
        module: The module.
        input_shape: The shape of one input, without the batch.
        output: The name of an operation to stop at; None for all of the module.
        state: Weights to be read in place of those of the module.

    Raises:
        DtypeError: If it cannot be exported, or does something that is not piecewise linear; the
            message names the operation and where it stands.
    """
    if not isinstance(module, torch.nn.Module):
        raise DtypeError(f"`module` must be a torch.nn.Module; got {type(module).__name__}.")
    shape = tuple(int(n) for n in input_shape)
    program = _exported(torch, module, shape, state)
    tensors = {**program.state_dict, **program.constants}
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    build = GraphBuilder()
    values: dict[str, Any] = {}
    reached: Any = None
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in names:
                values[node.name] = _constant(tensors[names[node.name]])
            else:
                values[node.name] = Traced(build.input(shape)[np.newaxis])
            continue
        if node.op == "output":
            results = [values.get(getattr(a, "name", "")) for a in node.args[0]]
            if output is not None:
                raise DtypeError(f"`output` must name an operation of the module; got {output!r}.")
            if len(results) != 1 or not isinstance(results[0], Traced):
                raise DtypeError("`module` must return one tensor that depends on its input.")
            reached = results[0]
            break
        values[node.name] = _value(torch, build, node, values)
        if node.name == output:
            reached = values[node.name]
            break
    if not isinstance(reached, Traced):
        raise DtypeError(f"`output` must name a tensor that depends on the input; got {output!r}.")
    if reached.left_off:
        build.note(f"{reached.left_off} at the end is left off")
    slots = reached.slots
    return build.finish(slots[0] if slots.ndim > 1 and slots.shape[0] == 1 else slots)


def _exported(
    torch: Any, module: Any, shape: tuple[int, ...], state: Mapping[str, Any] | None
) -> Any:
    evaluated = copy.deepcopy(module).eval()
    if state is not None:
        try:
            evaluated.load_state_dict({k: torch.as_tensor(v) for k, v in state.items()})
        except (RuntimeError, TypeError, ValueError) as error:
            raise DtypeError(f"`state` must fit the module: {error!s:.300}") from None
    tensors = [*evaluated.parameters(), *evaluated.buffers()]
    kind = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    example = torch.zeros((1, *shape), dtype=kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(evaluated, (example,)).run_decompositions({})
    except Exception as error:  # Whatever the caller's own program raises on a stand-in.
        first = str(error).strip().splitlines()
        raise DtypeError(
            f"`module` must be one that torch.export can follow for an input of shape {shape}: "
            f"{type(error).__name__}: {first[0] if first else '':.200}"
        ) from error


def _constant(tensor: Any) -> Any:
    if tensor.is_floating_point():
        return tensor_array(tensor)
    return tensor.detach().cpu().numpy()


def _value(torch: Any, build: GraphBuilder, node: Any, values: dict[str, Any]) -> Any:
    def read(argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return values[argument.name]
        if isinstance(argument, list | tuple):
            return [read(item) for item in argument]
        return argument

    arguments = [read(a) for a in node.args]
    named = {key: read(a) for key, a in node.kwargs.items()}
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    word = str(getattr(node.target, "_schema", node.target)).partition("(")[0]
    word = word.removeprefix("aten::").partition(".")[0]
    at = f"`module`: the operation `{word}` at `{node.name}`{_layer(node)}"
    traced = [a for a in _flat([*arguments, *named.values()]) if isinstance(a, Traced)]
    left_off = next((a.left_off for a in traced if a.left_off), "")
    try:
        if not traced:
            return _folded(torch, node, arguments, named)
        if left_off and word not in _MOVING:
            raise ArgumentError(
                f"it follows {left_off}, which is not piecewise linear and can be left off only "
                "at the end"
            )
        if word not in _OPERATIONS:
            raise ArgumentError(refusal(word) or "is not piecewise linear, or not known here")
        found = _OPERATIONS[word](build, node.name, *arguments, **named)
    except (HardmaxError, TypeError, ValueError, IndexError, AttributeError) as error:
        before = next(
            (a.name for a in node.all_input_nodes if isinstance(values[a.name], Traced)), ""
        )
        raise DtypeError(
            f"{at}: {str(error).rstrip('.')}. What comes before can be read: output={before!r}."
        ) from None
    return Traced(found.slots, left_off) if left_off and isinstance(found, Traced) else found


def _layer(node: Any) -> str:
    """The innermost module an operation was called in."""
    stack = node.meta.get("nn_module_stack") or {}
    names = [str(place[0]) for place in stack.values() if place[0]]
    return f" (layer {names[-1].removeprefix('L__self___')})" if names else ""


def _flat(values: Any) -> list[Any]:
    return [
        item
        for value in values
        for item in (_flat(value) if isinstance(value, list | tuple) else [value])
    ]


def _folded(torch: Any, node: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """An operation on constants, done by torch itself."""

    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(value))
        return [tensor(item) for item in value] if isinstance(value, list) else value

    result = node.target(*map(tensor, arguments), **{k: tensor(v) for k, v in named.items()})
    return _constant(result) if isinstance(result, torch.Tensor) else result


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
            raise ArgumentError(f"windows of unequal size: {sizes} to {tuple(wanted)}.")
        sides = [s // w for s, w in zip(sizes, wanted, strict=True)]
        if kind == "max":
            return [x.like(build.max_pool(image, sides, name=name)), None]
        return x.like(build.average_pool(image, sides, name=name))

    return pool


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


def _batch_norm(
    build: GraphBuilder, name: str, x: Traced, scale: Any, shift: Any, mean: Any, variance: Any,
    *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    numbers = [r for r in (*rest, *named.values()) if isinstance(r, float)]
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
    slots = [p.slots if isinstance(p, Traced) else build.constant(real(p)) for p in parts]
    return Traced(np.concatenate(slots, axis=axis))


def _split(build: GraphBuilder, name: str, x: Traced, sizes: Any, axis: int = 0) -> list[Traced]:
    n = x.shape[axis]
    places = np.cumsum(sizes)[:-1] if isinstance(sizes, list) else np.arange(sizes, n, int(sizes))
    return [Traced(part) for part in np.split(x.slots, places, axis=axis)]


def _chunk(build: GraphBuilder, name: str, x: Traced, n: int, axis: int = 0) -> list[Traced]:
    return _split(build, name, x, -(-x.shape[axis] // n), axis)


def _stack(build: GraphBuilder, name: str, parts: list[Any], axis: int = 0) -> Traced:
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


_MOVING = {"view", "reshape", "_unsafe_view", "flatten", "clone", "contiguous", "detach", "alias"}
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
        x.slots.squeeze(None if axis is None else tuple(_given(axis, 1)))
    ),
    "permute": lambda build, name, x, axes: Traced(x.slots.transpose(axes)),
    "transpose": lambda build, name, x, a, b: Traced(np.swapaxes(x.slots, a, b)),
    "t": lambda build, name, x: Traced(x.slots.T),
    "slice": _slice,
    "select": lambda build, name, x, axis, index: Traced(np.take(x.slots, index, axis)),
    "expand": lambda build, name, x, shape: Traced(
        np.broadcast_to(x.slots, [s if n == -1 else n for n, s in zip(shape, x.shape, strict=True)])
    ),
    "constant_pad_nd": _pad,
    "pad": _pad,
    "softmax": _left_off("Softmax"),
    "_softmax": _left_off("Softmax"),
    "log_softmax": _left_off("LogSoftmax"),
    "_log_softmax": _left_off("LogSoftmax"),
    **dict.fromkeys(("clone", "contiguous", "detach", "alias", "dropout"), _unchanged),
}
