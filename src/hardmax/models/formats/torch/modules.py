r"""Conversion of models from and to `torch.nn` modules. torch is only imported by a call.

Weights of float32 and narrower types convert to float64 exactly, so a network read from torch has
exactly the weights that torch stores; only the rounding of its arithmetic differs.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax._ground.extras import load_extra
from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.models.evaluation import read_temperatures
from hardmax.models.formats.layered_networks import build_network
from hardmax.models.formats.state_dicts import read_state_dict
from hardmax.models.formats.torch.graphs import read_torch_graph
from hardmax.models.formats.torch.input_shapes import find_input_shape
from hardmax.models.formats.torch.layers import (
    copy_for_evaluation,
    is_plain_torch,
    iter_layers,
    read_linear,
    read_module_steps,
    to_float64_array,
)
from hardmax.models.formats.torch.network_files import load_torch_file, read_script_network
from hardmax.models.formats.torch.transformers import build_linear, build_soft_transformer
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.typing import ArrayLike, FloatArray


def from_torch(
    module: Any,
    memory: ArrayLike | None = None,
    *,
    attention_residual: bool = True,
    ffn_residual: bool = True,
    input_shape: Sequence[int] | None = None,
    output: str | None = None,
    state: Mapping[str, Any] | str | os.PathLike[str] | None = None,
) -> "ReluNetwork | MaxoutNetwork | HardTransformer | GraphNetwork":
    r"""Read a model from `torch.nn` modules.

    A `Sequential` of `Linear` and `ReLU` becomes a `ReluNetwork`; it may be nested, contain
    `Identity` and `Dropout`, and end with a `ReLU`. With other activations that are maxima
    (`LeakyReLU`, `PReLU`, `RReLU`, `Hardtanh`, `ReLU6`, `Softshrink`, `abs`, `clamp`) it becomes a
    `MaxoutNetwork` that computes the same function, without rounding. Layers that are not piecewise
    linear are refused by name. A module with its own `forward` is traced from its input to its
    output; a scripted module is parsed without being executed.

    A container (a list, `ModuleList` or `Sequential`) with a `MultiheadAttention` becomes a
    `HardTransformer`. Every attention starts a block with the tokens of `memory` as its memory, and
    a `Linear`, `ReLU`, `Linear` after it is the block's feed-forward part. Keys and values are the
    projected tokens in float64. torch divides scores by $\sqrt{d_k}$, so its output is
    `model.soft(x, model.blocks[0].heads[0].standard_temperature)`. Modules are read in evaluation
    mode, without Dropout.

    Any other module that `torch.export` can trace becomes a `GraphNetwork`, in evaluation mode:
    convolutions, batch normalisation, residual connections and pooling. This requires the shape of
    one input. The shape is inferred if the module determines it, by a first `Linear`, or by
    convolutions if a later layer fits square images of only one size. Otherwise the message ends
    with the line to write.

    Args:
        module: The module, or a list of modules; or the path of a file from `torch.jit.save` or
            `torch.save`, which is read without torch and without executing it (see `load_model`).
        memory: The tokens that every attention attends to, shape `(n_tokens, d)`; required if there
            is an attention.
        attention_residual: Whether the blocks add their input to the attention output.
        ffn_residual: Whether the blocks add the input of the feed-forward part to its output.
        input_shape: The shape of one input without the batch axis. If given, the module is read as
            a `GraphNetwork` even if it is a sequence of layers.
        output: The name of an operation to stop at.
        state: A state dict of the module, or its path, to read instead of the module's own weights.

    Raises:
        MissingExtraError: If torch is not installed.
        DtypeError: If a module is of none of these kinds; the message names the layer and the
            reason.
        ArgumentError: If the modules come in another order, or if `memory` is missing or
            superfluous.

    Examples:
        >>> import torch  # doctest: +SKIP
        >>> layers = torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)  # doctest: +SKIP
        >>> from_torch(torch.nn.Sequential(*layers))  # doctest: +SKIP
        ReluNetwork(2 -> [3] -> 1)
    """
    if isinstance(module, str | os.PathLike):
        _refuse_beside_path(memory=memory, output=output, state=state)
        return load_torch_file(module, input_shape=input_shape)
    torch = load_torch()
    module = _unwrap(module)
    _refuse_unreadable(torch, module)
    _refuse_without_weights(torch, module)
    if state is not None:
        module = _load_state(torch, module, state)
    if memory is not None:
        if input_shape is not None or output is not None:
            raise ArgumentError("`memory` must be None with `input_shape` or `output`.")
        return _read_transformer(torch, module, memory, attention_residual, ffn_residual)
    if isinstance(module, torch.jit.ScriptModule):
        if output is not None:
            raise ArgumentError("`output` must be None for a scripted module.")
        content = io.BytesIO(module.save_to_buffer())
        return read_script_network(content, input_shape, _LINE, max_bytes=_NO_LIMIT)
    if input_shape is not None:
        return read_torch_graph(torch, module, input_shape, output)
    if output is not None:
        return _read_graph_with_found_shape(torch, module, output, None)
    _refuse_attention(torch, module)
    try:
        return _read_layers(torch, module)
    except HardmaxError as error:
        if not isinstance(module, torch.nn.Module):
            raise
        reason = error
    return _read_graph_with_found_shape(torch, module, None, reason)


_NO_LIMIT = 1 << 62
"""The size limit for modules in memory, which the caller trusts."""
_LINE = "hm.from_torch(module, input_shape={shape})"


def _read_layers(torch: Any, module: Any) -> ReluNetwork | MaxoutNetwork:
    """Read a sequence of layers."""
    steps = [
        step
        for place, part in iter_layers(torch, module)
        if not isinstance(part, _inactive_types(torch))
        for step in read_module_steps(torch, part, place)
    ]
    try:
        return build_network(steps)
    except HardmaxError as error:
        raise type(error)(f"`module`: {error}") from None


def _read_graph_with_found_shape(
    torch: Any, module: Any, output: str | None, reason: HardmaxError | None
) -> GraphNetwork:
    """Read a module as a network of any shape, if it determines its input shape."""
    if not isinstance(module, torch.nn.Module):
        raise DtypeError("`module` must be a torch.nn module if `output` is given; got a list.")
    found = find_input_shape(torch, module)
    if found.shape is not None:
        notes = [f"input shape {found.shape}: {found.reason}"] if len(found.shape) > 1 else []
        return read_torch_graph(torch, module, found.shape, output, notes)
    if found.example is None and reason is not None and not _has_convolution(torch, module):
        raise reason
    shape: Any = found.example or "(...)"
    if found.example is not None:
        # If the module is not supported, raise that error instead of asking for a shape.
        read_torch_graph(torch, module, found.example, output)
    rest = "" if output is None else f", output={output!r}"
    line = f"hm.from_torch(module, input_shape={shape}{rest})"
    raise ArgumentError(
        f"`input_shape` is required for this {type(module).__name__}, which does not determine it "
        f"({found.reason}); write {line}"
    )


def _has_convolution(torch: Any, module: Any) -> bool:
    kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    return any(isinstance(part, kinds) for part in module.modules())


def _read_transformer(
    torch: Any,
    module: Any,
    memory: ArrayLike,
    attention_residual: bool,
    ffn_residual: bool,
) -> HardTransformer:
    """Read attentions over fixed tokens, each with its feed-forward part."""
    parts = [part for _, part in iter_layers(torch, module)]
    parts = [part for part in parts if not isinstance(part, _inactive_types(torch))]
    if not any(isinstance(part, torch.nn.MultiheadAttention) for part in parts):
        raise ArgumentError("`memory` must be None for a module without MultiheadAttention.")
    tokens = Sizes().floats("memory", memory, ("n_tokens", "d"))
    blocks = []
    for attention, rest in _split_blocks(torch, parts):
        if not is_plain_torch(attention):
            raise DtypeError(
                "`module` must have a MultiheadAttention with torch's own `forward`; got "
                f"{type(attention).__name__}."
            )
        ffn = _read_feed_forward(torch, rest) if rest else None
        heads = _read_heads(attention, tokens)
        blocks.append(Block(heads, ffn, attention_residual, ffn_residual))
    return HardTransformer(tuple(blocks))


def to_torch(
    model: ReluNetwork | HardTransformer | Block | str | os.PathLike[str],
    tau: float | Sequence[float] | None = None,
) -> Any:
    r"""Return a model as a `torch.nn` module in float64.

    A `ReluNetwork` becomes a `Sequential` of `Linear` and `ReLU`. A `HardTransformer` becomes a
    module that computes `model.soft(x, tau)`; its weights and memories are trainable parameters.

    Args:
        model: The model, or the path of its file. A `Block` is a transformer with one block.
        tau: For a `HardTransformer`, the temperature, above 0, or a sequence with one temperature
            per block. None means the usual $\sqrt{d_k}$ for each head.

    Raises:
        MissingExtraError: If torch is not installed.
        DtypeError: If `model` has another type.

    Examples:
        >>> to_torch(ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]]))  # doctest: +SKIP
        Sequential(
          (0): Linear(in_features=1, out_features=2, bias=True)
          (1): ReLU()
          (2): Linear(in_features=2, out_features=1, bias=True)
        )
    """
    model = read_model(model)
    model = HardTransformer([model]) if isinstance(model, Block) else model
    if isinstance(model, HardTransformer):
        taus: list[float | None] = [None] * len(model.blocks)
        if tau is not None:
            taus = [*read_temperatures(tau, len(model.blocks), "block")]
            if 0.0 in taus:
                raise ArgumentError("`tau` must be above 0 for a torch module; got 0.0.")
        return build_soft_transformer(load_torch(), model, taus)
    if not isinstance(model, ReluNetwork):
        raise DtypeError(
            f"`model` must be a ReluNetwork or a HardTransformer; got {type(model).__name__}."
        )
    if tau is not None:
        raise ArgumentError(f"`tau` must be None for a ReluNetwork, which has no heads; got {tau}.")
    torch = load_torch()
    layers: list[Any] = []
    for weight, bias in zip(model.weights, model.biases or (), strict=True):
        layers += [build_linear(torch, weight, bias), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def load_torch() -> Any:
    """Import torch.

    Raises:
        MissingExtraError: If it is not installed.
    """
    return load_extra("torch", extra="torch", purpose="Models from and to torch")


def _refuse_beside_path(**given: Any) -> None:
    """Raise if an argument is given that does not apply to a file."""
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"`{name}` must be None if `module` is a path.")


def _unwrap(module: Any) -> Any:
    """Return the module inside wrappers such as `torch.compile` and `DataParallel`."""
    wrappers = {"OptimizedModule": "_orig_mod", "DataParallel": "module"}
    wrappers |= dict.fromkeys(("DistributedDataParallel", "AveragedModel"), "module")
    while type(module).__module__.startswith("torch.") and type(module).__name__ in wrappers:
        module = getattr(module, wrappers[type(module).__name__])
    return module


def _refuse_unreadable(torch: Any, module: Any) -> None:
    """Raise for objects that are not modules; the message contains the line to write."""
    if isinstance(module, Mapping):
        raise DtypeError(
            "`module` must be a torch.nn module; got a state dict, which does not contain the "
            "connections of its layers. Build the module and write hm.from_torch(net, "
            "state=state_dict)."
        )
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        raise DtypeError(
            f"`module` must be a torch.nn module; got the class {module.__name__}. Create an "
            f"instance: hm.from_torch({module.__name__}(...))."
        )
    if type(module).__name__ == "ExportedProgram":
        raise DtypeError(
            "`module` must be a torch.nn module; got an ExportedProgram. Pass the module that it "
            "was exported from."
        )
    if isinstance(module, list | tuple | torch.nn.Module):
        return
    raise DtypeError(
        "`module` must be a torch.nn module, a list of them, or the path of a file; got "
        f"{type(module).__name__}."
    )


def _refuse_without_weights(torch: Any, module: Any) -> None:
    """Raise for modules whose weights are missing, or differ from the numbers used to compute."""
    if not isinstance(module, torch.nn.Module):
        return
    for place, part in module.named_modules():
        at = f"`module`: {f'`{place}`, ' if place else ''}{type(part).__name__}"
        if ".quantized" in type(part).__module__ or ".qat" in type(part).__module__:
            raise DtypeError(
                f"{at} is quantised: it rounds its input to integers, so it is discontinuous. Use "
                "the module from before the quantisation."
            )
        lazy = torch.nn.parameter.UninitializedParameter
        own = list(part.parameters(recurse=False))
        if any(isinstance(parameter, lazy) for parameter in own):
            raise DtypeError(
                f"{at} has no weights yet. Run the module once on an input before reading it."
            )
        if any(parameter.is_meta for parameter in own):
            raise DtypeError(f"{at} is on the device meta, without weights. Load them first.")


def _refuse_attention(torch: Any, module: Any) -> None:
    """Raise for attention layers without a memory; the message contains the line to write."""
    nn = torch.nn
    layers = [part for _, part in iter_layers(torch, module)]
    direct = [part for part in layers if isinstance(part, nn.MultiheadAttention)]
    if direct:
        raise ArgumentError(
            "`memory` is required for a MultiheadAttention; write hm.from_torch(module, "
            f"memory=tokens) with the tokens it attends to, shape (n_tokens, {direct[0].kdim})."
        )
    if not isinstance(module, nn.Module):
        return
    for place, part in module.named_modules():
        if not isinstance(part, nn.TransformerEncoderLayer | nn.MultiheadAttention):
            continue
        at = f"`module`: {f'`{place}`, ' if place else ''}{type(part).__name__}"
        if isinstance(part, nn.MultiheadAttention):
            step = (
                "For attention over given tokens, use hm.from_torch([attention, feed_forward], "
                "memory=tokens)"
            )
        else:
            stack = "module" if place else "torch.nn.TransformerEncoder(module, 1)"
            n_heads = part.self_attn.num_heads
            line = f"hm.load_checkpoint({stack}, config={{'nhead': {n_heads}}})"
            step = f"To read its heads, write {line}"
        raise DtypeError(
            f"{at} multiplies tensors that both depend on the input, so it is not piecewise "
            f"linear. {step}."
        )


def _load_state(torch: Any, module: Any, state: Any) -> Any:
    """Return a copy of a module with other weights."""
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise DtypeError(
            f"`module` must be a torch.nn.Module if `state` is given; got {type(module).__name__}."
        )
    tensors = read_state_dict(state) if isinstance(state, str | os.PathLike) else state
    copied = copy_for_evaluation(torch, module)
    try:
        # Copy the tensors, because those from files are read-only.
        arrays = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in tensors.items()}
        copied.load_state_dict({k: torch.as_tensor(v) for k, v in arrays.items()})
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise DtypeError(f"`state` must fit the module: {error!s:.300}") from None
    return copied


def _inactive_types(torch: Any) -> tuple[Any, ...]:
    """Return the types of layers that do nothing in evaluation mode."""
    return (torch.nn.Identity, torch.nn.Dropout)


def _split_blocks(torch: Any, parts: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Split the layers into attentions, each with the layers after it."""
    starts = [i for i, p in enumerate(parts) if isinstance(p, torch.nn.MultiheadAttention)]
    if starts[0] != 0:
        raise ArgumentError(
            f"`module` must begin with its first MultiheadAttention; got {type(parts[0]).__name__}."
        )
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        yield parts[start], parts[start + 1 : end]


def _read_feed_forward(torch: Any, parts: list[Any]) -> FeedForward:
    kinds = [torch.nn.Linear, torch.nn.ReLU, torch.nn.Linear]
    fitting = len(parts) == 3 and all(map(isinstance, parts, kinds))
    if not fitting or not all(map(is_plain_torch, parts)):
        raise ArgumentError(
            "`module` must have Linear, ReLU, Linear or nothing after a MultiheadAttention; got "
            f"{', '.join(type(part).__name__ for part in parts)}."
        )
    first, last = read_linear(parts[0]), read_linear(parts[2])
    return FeedForward(first.weight, first.bias, last.weight, last.bias)


def _read_heads(attention: Any, tokens: FloatArray) -> list[AttentionHead]:
    """Read the heads of a MultiheadAttention over fixed tokens."""
    d, n_heads = int(attention.embed_dim), int(attention.num_heads)
    sizes = {"keys": attention.kdim, "values": attention.vdim}
    for name, size in sizes.items():
        if tokens.shape[1] != size:
            raise ArgumentError(
                f"`memory` must have shape (n_tokens, {size}), as required by the {name} of the "
                f"MultiheadAttention; got {tokens.shape}."
            )
    if attention.in_proj_weight is not None:
        projections = np.split(to_float64_array(attention.in_proj_weight), 3)
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        projections = [to_float64_array(getattr(attention, name)) for name in names]
    biases = np.zeros((3, d))
    if attention.in_proj_bias is not None:
        biases = to_float64_array(attention.in_proj_bias).reshape(3, d)
    keys, values = (tokens @ projections[i].T + biases[i] for i in (1, 2))
    if attention.bias_k is not None:
        keys = np.vstack([keys, to_float64_array(attention.bias_k).reshape(1, d)])
        values = np.vstack([values, to_float64_array(attention.bias_v).reshape(1, d)])
    if attention.add_zero_attn:
        keys, values = (np.vstack([array, np.zeros((1, d))]) for array in (keys, values))
    output = read_linear(attention.out_proj)
    width = d // n_heads
    heads = []
    for h in range(n_heads):
        part = slice(h * width, (h + 1) * width)
        value, weight = values[:, part], output.weight[part]
        if h == 0:
            # Weights sum to 1, so a constant value carries the bias of the output projection.
            value = np.column_stack([value, np.ones(len(value))])
            weight = np.vstack([weight, output.bias])
        query = np.ascontiguousarray(projections[0][part].T)
        heads.append(AttentionHead(query, keys[:, part], value, weight, biases[0, part]))
    return heads
