"""Modules of torch as affine maps and activations, read for what they do and not by their names.

A layer counts as a `Linear` or a `ReLU` only if its `forward` is that of torch and no hook changes
it. A module with a `forward` of its own is traced with `torch.fx`, which calls it once with a
stand-in for the input (it is the caller's own program). torch itself is handed in.
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
    hard_tanh,
    leaky_relu,
    prelu,
    refusal,
    soft_shrink,
)
from hardmax.models.formats.layered_networks import Step
from hardmax.models.formats.torch.operations import Signal, apply_operation
from hardmax.models.formats.torch.script_programs import script_steps
from hardmax.typing import FloatArray


def flat_modules(torch: Any, module: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """List the layers of containers in order, each with its place, such as `layer 2.0`."""
    if isinstance(module, torch.nn.ModuleList | list | tuple) or (
        isinstance(module, torch.nn.Sequential) and runs_as_torch(module)
    ):
        for i, part in enumerate(module):
            yield from flat_modules(torch, part, f"{place}.{i}" if place else f"layer {i}")
    else:
        yield place, module


def module_steps(torch: Any, module: Any, place: str) -> list[Step]:
    """Return what one layer, or a module with a `forward` of its own, does to its input.

    Args:
        torch: The torch package.
        module: The module.
        place: Where it stands, for messages; empty if it is all there is.

    Raises:
        DtypeError: If it is no module, or one that cannot be read as maxima; the message names it
            and the reason.
    """
    if not isinstance(module, torch.nn.Module):
        raise DtypeError(f"{_named(module, place)} must be a torch.nn module.")
    if isinstance(module, torch.jit.ScriptModule):
        return script_steps(io.BytesIO(module.save_to_buffer()))
    kinds = _kinds(torch)
    kind = next((kind for kind in kinds if isinstance(module, kind)), None)
    if kind is not None and runs_as_torch(module):
        try:
            return kinds[kind](module)
        except ArgumentError as error:
            raise ArgumentError(f"{_named(module, place)}: {error}") from None
    if type(module).__module__.startswith("torch.nn."):
        because = refusal(type(module).__name__) or _REASONS.get(type(module).__name__)
        because = because or "is neither affine nor an activation that this library reads"
        raise DtypeError(
            f"{_named(module, place)} {because}; Linear layers, convolutions, pools, batch "
            "normalisation and piecewise linear activations are read."
        )
    return _traced_steps(torch, module, place)


def affine_map(linear: Any) -> AffineMap:
    """Return the map of a `torch.nn.Linear`, exactly."""
    weight = tensor_array(linear.weight).T
    bias = np.zeros(weight.shape[1]) if linear.bias is None else tensor_array(linear.bias)
    return AffineMap(weight, bias)


def tensor_array(tensor: Any) -> FloatArray:
    """Read a tensor as float64, exactly."""
    if not tensor.is_floating_point():
        raise DtypeError(f"`module` must have real weights; got {tensor.dtype}.")
    return np.asarray(tensor.detach().cpu().double().numpy(), dtype=np.float64)


_REASONS = {
    "Hardsigmoid": "has the slope 1/6, which is no float64",
    "BatchNorm1d": "divides by a square root; fold it into the Linear layer before it",
    "LayerNorm": "divides by the size of its input",
    "RMSNorm": "divides by the size of its input",
    "Embedding": "looks up integers, and is not a function of real numbers",
    "GRU": "multiplies its state by gates, so it is not piecewise linear",
    "LSTM": "multiplies its state by gates, so it is not piecewise linear",
}


def _kinds(torch: Any) -> dict[Any, Callable[[Any], list[Step]]]:
    """The layers that are read, narrower types first."""
    nn = torch.nn
    return {
        nn.Linear: lambda m: [affine_map(m)],
        nn.ReLU6: lambda m: [clip(0.0, 6.0, "relu6")],
        nn.ReLU: lambda m: [RELU],
        nn.LeakyReLU: lambda m: [leaky_relu(m.negative_slope)],
        nn.PReLU: lambda m: [prelu(tensor_array(m.weight))],
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


def runs_as_torch(module: Any) -> bool:
    """Whether a module runs the program of torch, unchanged."""
    forward = getattr(type(module), "forward", None)
    refuse_hooks(module)
    return "forward" not in vars(module) and str(getattr(forward, "__module__", "")).startswith(
        "torch.nn."
    )


def evaluated_copy(torch: Any, module: Any) -> Any:
    """Return a copy of a module in evaluation mode, on the CPU."""
    # What a hook has computed from weights, as pruning does, cannot be copied as it is.
    computed = [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    ]
    memo = {id(value): value.detach().clone() for value in computed}
    return copy.deepcopy(module, memo).eval().cpu()


def refuse_hooks(module: Any) -> None:
    """Raise if a module has hooks: they may change what it computes."""
    if any(getattr(module, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")):
        raise DtypeError(
            f"`module` must have no hooks, which may change what it computes; "
            f"{type(module).__name__} has."
        )


def _named(module: Any, place: str) -> str:
    return f"`module`: {place + ', ' if place else ''}{type(module).__name__}"


def _traced_steps(torch: Any, module: Any, place: str) -> list[Step]:
    """Follow the `forward` of a module, as it is evaluated, traced by `torch.fx`."""
    refuse_hooks(module)
    if module.training:
        module = evaluated_copy(torch, module)
    # `import torch` alone brings `torch.fx`.
    try:
        graph = torch.fx.symbolic_trace(module).graph
    except Exception as error:  # Whatever the caller's own program raises on a stand-in.
        raise DtypeError(
            f"{_named(module, place)} cannot be followed from its input to its output: "
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
            values[node] = _node_value(torch, module, node, values, place)
        except HardmaxError as error:
            raise type(error)(f"{_named(module, place)}, at `{node.name}`: {error}") from None
    raise DtypeError(
        f"{_named(module, place)} must return one tensor made from its input; wrap it in a "
        "module that does."
    )


def _node_value(torch: Any, module: Any, node: Any, values: dict[Any, Any], place: str) -> Any:
    """What a node of a traced graph stands for: a signal, an array, or a plain value."""
    arguments = [values[a] if isinstance(a, torch.fx.Node) else a for a in node.args]
    named = {k: values[a] if isinstance(a, torch.fx.Node) else a for k, a in node.kwargs.items()}
    if node.op == "placeholder":
        if any(isinstance(value, Signal) for value in values.values()):
            raise DtypeError("it must have one input; wrap it in a module that has.")
        return Signal()
    if node.op == "get_attr":
        found = module
        for name in node.target.split("."):
            found = getattr(found, name)
        return tensor_array(found)
    if node.op == "call_module":
        signals = [value for value in arguments if isinstance(value, Signal)]
        if len(signals) != 1 or len(arguments) != 1:
            raise DtypeError("a layer must take one signal.")
        part = module.get_submodule(node.target)
        result = signals[0].then(*module_steps(torch, part, f"`{node.target}`"))
        signals[0].is_overwritten = any(getattr(m, "inplace", False) for m in part.modules())
        return result
    if isinstance(node.target, str):
        return apply_operation(node.target, arguments, named)
    home = str(getattr(node.target, "__module__", None))
    if home not in ("torch", "_operator") and not home.startswith("torch."):
        raise DtypeError(f"`{home}.{node.target.__name__}` is not an operation of torch.")
    # `torch.nn.functional.threshold` calls itself `_threshold`.
    return apply_operation(node.target.__name__.removeprefix("_"), arguments, named)
