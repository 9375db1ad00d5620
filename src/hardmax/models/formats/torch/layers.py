"""A reader of torch modules as affine maps and activations.

A layer counts as a `Linear` or a `ReLU` only if it uses torch's own `forward` and has no hooks. A
module with its own `forward` is traced with `torch.fx`, which calls it once with a placeholder for
the input (the code belongs to the caller). The torch package is passed as an argument.
"""

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import (
    RELU,
    clip,
    explain_refusal,
    hard_tanh,
    leaky_relu,
    prelu,
    soft_shrink,
)
from hardmax.models.formats.layered_networks import Step
from hardmax.models.formats.torch.operations import Signal, apply_operation
from hardmax.models.formats.torch.script_programs import read_script_steps
from hardmax.typing import FloatArray


def iter_layers(torch: Any, module: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the layers of nested containers in order, each with its path, such as `layer 2.0`."""
    if isinstance(module, torch.nn.ModuleList | list | tuple) or (
        isinstance(module, torch.nn.Sequential) and is_plain_torch(module)
    ):
        for i, part in enumerate(module):
            yield from iter_layers(torch, part, f"{place}.{i}" if place else f"layer {i}")
    else:
        yield place, module


def read_module_steps(torch: Any, module: Any, place: str) -> list[Step]:
    """Return the steps of one layer, or of a module with its own `forward`.

    Args:
        torch: The torch package.
        module: The module.
        place: The path of the module, for messages; empty for the outermost module.

    Raises:
        DtypeError: If it is not a module, or cannot be expressed by maxima; the message names the
            module and the reason.
    """
    if not isinstance(module, torch.nn.Module):
        raise DtypeError(f"{_describe_module(module, place)} must be a torch.nn module.")
    if isinstance(module, torch.jit.ScriptModule):
        return read_script_steps(io.BytesIO(module.save_to_buffer()))
    kinds = _layer_readers(torch)
    kind = next((kind for kind in kinds if isinstance(module, kind)), None)
    if kind is not None and is_plain_torch(module):
        try:
            return kinds[kind](module)
        except ArgumentError as error:
            raise ArgumentError(f"{_describe_module(module, place)}: {error}") from None
    if type(module).__module__.startswith("torch.nn."):
        because = explain_refusal(type(module).__name__) or _REASONS.get(type(module).__name__)
        because = because or "is neither affine nor a supported activation"
        raise DtypeError(
            f"{_describe_module(module, place)} {because}. Supported: Linear layers, convolutions, "
            "pooling, batch normalisation and piecewise linear activations."
        )
    return _trace_steps(torch, module, place)


def read_linear(linear: Any) -> AffineMap:
    """Return the map of a `torch.nn.Linear`, exactly."""
    weight = to_float64_array(linear.weight).T
    bias = np.zeros(weight.shape[1]) if linear.bias is None else to_float64_array(linear.bias)
    return AffineMap(weight, bias)


def to_float64_array(tensor: Any) -> FloatArray:
    """Read a tensor as float64, exactly."""
    if not tensor.is_floating_point():
        raise DtypeError(f"`module` must have real weights; got {tensor.dtype}.")
    return np.asarray(tensor.detach().cpu().double().numpy(), dtype=np.float64)


_REASONS = {
    "Hardsigmoid": "has the slope 1/6, which is not a float64",
    "BatchNorm1d": "divides by a square root; fold it into the Linear layer before it",
    "LayerNorm": "divides by the size of its input",
    "RMSNorm": "divides by the size of its input",
    "Embedding": "looks up integers, and is not a function of real numbers",
    "GRU": "multiplies its state by gates, so it is not piecewise linear",
    "LSTM": "multiplies its state by gates, so it is not piecewise linear",
}


def _layer_readers(torch: Any) -> dict[Any, Callable[[Any], list[Step]]]:
    """Return the readers of the supported layers, subclasses first."""
    nn = torch.nn
    return {
        nn.Linear: lambda m: [read_linear(m)],
        nn.ReLU6: lambda m: [clip(0.0, 6.0, "relu6")],
        nn.ReLU: lambda m: [RELU],
        nn.LeakyReLU: lambda m: [leaky_relu(m.negative_slope)],
        nn.PReLU: lambda m: [prelu(to_float64_array(m.weight))],
        nn.RReLU: lambda m: [leaky_relu((m.lower + m.upper) / 2)],
        nn.Hardtanh: lambda m: [hard_tanh(m.min_val, m.max_val)],
        nn.Softshrink: lambda m: [soft_shrink(m.lambd)],
        nn.Threshold: lambda m: [
            *apply_operation("threshold", [Signal(), m.threshold, m.value], {}).steps
        ],
        nn.Flatten: lambda m: [
            *apply_operation("flatten", [Signal(), m.start_dim, m.end_dim], {}).steps
        ],
        nn.Identity: lambda m: [],
        nn.Dropout: lambda m: [],
        nn.AlphaDropout: lambda m: [],
    }


def is_plain_torch(module: Any) -> bool:
    """Whether a module uses torch's own `forward`, unchanged."""
    forward = getattr(type(module), "forward", None)
    refuse_hooks(module)
    return "forward" not in vars(module) and str(getattr(forward, "__module__", "")).startswith(
        "torch.nn."
    )


def copy_for_evaluation(torch: Any, module: Any) -> Any:
    """Return a copy of a module in evaluation mode, on the CPU."""
    # Tensors that a hook computed from weights, as in pruning, cannot be deep-copied directly.
    computed = [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    ]
    memo = {id(value): value.detach().clone() for value in computed}
    return copy.deepcopy(module, memo).eval().cpu()


def refuse_hooks(module: Any) -> None:
    """Raise if a module has hooks, which may change its result."""
    if any(getattr(module, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")):
        raise DtypeError(
            f"`module` must not have hooks, because they may change its result; "
            f"{type(module).__name__} has some. Remove them."
        )


def _describe_module(module: Any, place: str) -> str:
    return f"`module`: {place + ', ' if place else ''}{type(module).__name__}"


def _trace_steps(torch: Any, module: Any, place: str) -> list[Step]:
    """Trace the `forward` of a module with `torch.fx`, in evaluation mode, and read the graph."""
    refuse_hooks(module)
    if module.training:
        module = copy_for_evaluation(torch, module)
    # `import torch` also imports `torch.fx`.
    try:
        graph = torch.fx.symbolic_trace(module).graph
    except Exception as error:  # The caller's code may raise any type on a placeholder.
        raise DtypeError(
            f"{_describe_module(module, place)} cannot be traced from its input to its output: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__:.120}"
        ) from error
    values: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "output":
            result = values.get(node.args[0]) if isinstance(node.args[0], torch.fx.Node) else None
            if isinstance(result, Signal):
                return list(result.steps)
            break
        try:
            values[node] = _evaluate_node(torch, module, node, values, place)
        except HardmaxError as error:
            raise type(error)(
                f"{_describe_module(module, place)}, at `{node.name}`: {error}"
            ) from None
    raise DtypeError(
        f"{_describe_module(module, place)} must return one tensor that depends on its input; wrap "
        "it in a module that does."
    )


def _evaluate_node(torch: Any, module: Any, node: Any, values: dict[Any, Any], place: str) -> Any:
    """Return the value of a node of a traced graph: a signal, an array, or a plain value."""
    arguments = [values[a] if isinstance(a, torch.fx.Node) else a for a in node.args]
    named = {k: values[a] if isinstance(a, torch.fx.Node) else a for k, a in node.kwargs.items()}
    if node.op == "placeholder":
        if any(isinstance(value, Signal) for value in values.values()):
            raise DtypeError("it must have one input; wrap it in a module with one input.")
        return Signal()
    if node.op == "get_attr":
        found = module
        for name in node.target.split("."):
            found = getattr(found, name)
        return to_float64_array(found)
    if node.op == "call_module":
        signals = [value for value in arguments if isinstance(value, Signal)]
        if len(signals) != 1 or len(arguments) != 1:
            raise DtypeError("a layer must take one signal.")
        part = module.get_submodule(node.target)
        result = signals[0].then(*read_module_steps(torch, part, f"`{node.target}`"))
        signals[0].is_overwritten = any(getattr(m, "inplace", False) for m in part.modules())
        return result
    if isinstance(node.target, str):
        return apply_operation(node.target, arguments, named)
    home = str(getattr(node.target, "__module__", None))
    if home not in ("torch", "_operator") and not home.startswith("torch."):
        raise DtypeError(f"`{home}.{node.target.__name__}` is not an operation of torch.")
    # `torch.nn.functional.threshold` calls itself `_threshold`.
    return apply_operation(node.target.__name__.removeprefix("_"), arguments, named)
