"""A reader of torch modules as networks of any shape, through `torch.export`.

The module is exported once for one input, which runs its code on placeholder tensors, and the
exported operations are read one by one. The torch package is passed as an argument.
"""

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax.errors import DtypeError, HardmaxError
from hardmax.models.formats.activations import explain_refusal
from hardmax.models.formats.graph_operations import Tensor
from hardmax.models.formats.torch.layers import copy_for_evaluation, to_float64_array
from hardmax.models.formats.torch.tensor_operations import (
    apply_tensor_operation,
    find_traced_tensors,
)
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork

_EXACT = frozenset([
    "_to_copy", "alias", "cat", "clone", "detach", "detach_", "expand", "full", "lift_fresh_copy",
    "neg", "ones", "permute", "reshape", "select", "slice", "t", "transpose", "unsqueeze", "view",
    "zeros",
])  # fmt: skip
"""Operations on constants that do not round."""


def read_torch_graph(
    torch: Any,
    module: Any,
    input_shape: Sequence[int],
    output: str | None = None,
    notes: Sequence[str] = (),
) -> GraphNetwork:
    """Read any module that `torch.export` can export, in evaluation mode.

    Args:
        torch: The torch package.
        module: The module.
        input_shape: The shape of one input, without the batch axis.
        output: The name of an operation to stop at; None for the whole module.
        notes: Messages to put before the notes of the network.

    Raises:
        DtypeError: If the module cannot be exported or has an operation that is not piecewise
            linear; the message names the operation and its layer.
    """
    if not isinstance(module, torch.nn.Module):
        raise DtypeError(f"`module` must be a torch.nn.Module; got {type(module).__name__}.")
    shape = tuple(int(n) for n in input_shape)
    program = _export(torch, module, shape)
    tensors = {**program.state_dict, **program.constants}
    signature = program.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    build = GraphBuilder()
    build.notes += notes
    values: dict[str, Any] = {}
    reached: Any = None
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name in names:
                values[node.name] = _to_constant(tensors[names[node.name]])
            else:
                values[node.name] = Tensor(build.input(shape)[np.newaxis])
            continue
        if node.op == "output":
            results = [values.get(getattr(a, "name", "")) for a in node.args[0]]
            if output is not None:
                raise DtypeError(f"`output` must name an operation of the module; got {output!r}.")
            if len(results) != 1 or not isinstance(results[0], Tensor):
                raise DtypeError("`module` must return one tensor that depends on its input.")
            reached = results[0]
            break
        values[node.name] = _evaluate_node(torch, build, node, values, shape)
        if node.name == output:
            reached = values[node.name]
            break
    if not isinstance(reached, Tensor):
        raise DtypeError(f"`output` must name a tensor that depends on the input; got {output!r}.")
    if reached.omitted:
        build.note(f"the final {reached.omitted} is omitted")
    slots = reached.slots
    return build.finish(slots[0] if slots.ndim > 1 and slots.shape[0] == 1 else slots)


def _export(torch: Any, module: Any, shape: tuple[int, ...]) -> Any:
    evaluated = copy_for_evaluation(torch, module)
    tensors = [*evaluated.parameters(), *evaluated.buffers()]
    kind = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    example = torch.zeros((1, *shape), dtype=kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(evaluated, (example,)).run_decompositions({})
    except Exception as error:  # The caller's code may raise any type on a placeholder tensor.
        first = str(error).strip().splitlines()
        raise DtypeError(
            f"`module` must be a module that torch.export can trace; tracing an input of shape "
            f"{shape} failed: {type(error).__name__}: {first[0] if first else '':.200}"
        ) from error


def _to_constant(tensor: Any) -> Any:
    if tensor.is_floating_point():
        return to_float64_array(tensor)
    return tensor.detach().cpu().numpy()


def _evaluate_node(
    torch: Any,
    build: GraphBuilder,
    node: Any,
    values: dict[str, Any],
    shape: tuple[int, ...],
) -> Any:
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
    if word.startswith("_assert"):
        return None
    try:
        if not find_traced_tensors([*arguments, *named.values()]):
            folded = _fold(torch, node, arguments, named)
            if word not in _EXACT and isinstance(folded, np.ndarray) and folded.dtype.kind == "f":
                build.note(f"{node.name}: computed from weights, rounded to float64")
            return folded
        return apply_tensor_operation(build, word, node.name, arguments, named)
    except (
        HardmaxError, TypeError, ValueError, IndexError, AttributeError, RuntimeError
    ) as error:  # fmt: skip
        reason = str(error).rstrip(".")
    place, kind = _find_layer(node)
    if because := explain_refusal(kind):  # torch decomposes some activations into comparisons.
        reason = f"it {because}"
    at = f"`{word}` at `{node.name}`{f' (layer {place}, {kind})' if place else ''}"
    before = next((a.name for a in node.all_input_nodes if _is_computed(a, values)), "")
    instead = ""
    if before:
        line = f"hm.from_torch(module, input_shape={shape}, output={before!r})"
        instead = f" To read the part before it, write {line}."
    raise DtypeError(f"`module`: the operation {at}: {reason}.{instead}")


def _is_computed(node: Any, values: dict[str, Any]) -> bool:
    """Whether a node is a tensor that depends on the input, other than the input itself."""
    return node.op != "placeholder" and isinstance(values[node.name], Tensor)


def _find_layer(node: Any) -> tuple[str, str]:
    """Return the path and the type of the innermost module that called an operation."""
    stack = node.meta.get("nn_module_stack") or {}
    places = [(str(name), kind) for name, kind in stack.values() if name]
    if not places:
        return "", ""
    name, kind = places[-1]
    word = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return name.removeprefix("L__self___"), word.rpartition(".")[2]


def _fold(torch: Any, node: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Apply an operation to constants with torch itself."""

    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(value))
        return [tensor(item) for item in value] if isinstance(value, list) else value

    result = node.target(*map(tensor, arguments), **{k: tensor(v) for k, v in named.items()})
    return _to_constant(result) if isinstance(result, torch.Tensor) else result
