"""Model files: one safetensors file; JSON in its metadata describes the structure of the model.

Weights are stored as float64, bit for bit. The structure is plain data, and reading a file never
executes code. A file must contain exactly the tensors that its structure names, and their arrays
pass the same checks as arrays from a caller. `MODEL_FORMAT` describes the format.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.formats.onnx.graphs import load_onnx
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tensor_files import (
    TensorSource,
    check_tensors,
    read_tensors,
    refuse_rest,
    split_tensor_bytes,
    take_field,
    tensor_bytes,
    write_tensor_file,
)
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.typing import AnyArray, ModelLike

MODEL_FORMAT = "hardmax.model/2"
r"""The value of `format` in the metadata entry `hardmax`, a JSON object. The other fields:

- `content`: a hash of the other fields and the tensors (`tensor_files.content_hash`).
- `kind`: `ReluNetwork`, `MaxoutNetwork`, `HardTransformer`, `AttentionHead` or `ArgmaxNetwork`.
- `ReluNetwork`: `n_layers`. Tensors `weights.i`, `biases.i`.
- `MaxoutNetwork`: `widths` of the hidden layers. Tensors `weights.i.j`, `biases.i.j` for unit
  `j` of hidden layer `i`, and `weights.last`, `biases.last`.
- `AttentionHead`: `query_bias` and `logit_bias` (whether the head has them). Tensors are named like
  the attributes.
- `HardTransformer`: `blocks`, at least one, each with `heads` (as for `AttentionHead`), `ffn`
  (whether the block has one), `attention_residual` and `ffn_residual`. Tensors
  `blocks.i.heads.j.keys` and so on, `blocks.i.ffn.w_in` and so on, `embedding.weight`,
  `embedding.bias`, `readout.weight` and `readout.bias`.
- `ArgmaxNetwork`: `residuals`, one for each layer; `identities`, the prefixes (`layers.0.output.`)
  of the affine maps that are identities, which have a zero bias and no weight. Tensors
  `layers.i.slopes` and so on, and `layers.i.reads` if the layer has them.

There are no other fields and no other tensors. When the heads of a block become one layer, they are
padded to the longest keys and values. All padded heads together may have at most `MOST_PADDING`
times as many entries as the file.

Tensors are F64, except for `starts`, `slots` and `reads`, which are I64. Files of format
`hardmax.model/1` have no `content`. They are still read, but their integrity is not verified.
"""
_FORMATS = (MODEL_FORMAT, "hardmax.model/1")
MOST_PADDING = 64
"""The maximum ratio of entries of padded heads to entries of the file."""

Model = ReluNetwork | MaxoutNetwork | HardTransformer | AttentionHead | ArgmaxNetwork
_HEAD_ARRAYS = ("query_weight", "keys", "values", "output_weight")
_HEAD_OPTIONS = ("query_bias", "logit_bias")
_LAYER_ARRAYS = ("slopes", "offsets", "starts", "slots", "gains", "values")
_FFN_ARRAYS = ("w_in", "b_in", "w_out", "b_out")


def save_model(model: ModelLike, path: str | os.PathLike[str]) -> None:
    """Write a model to a safetensors file, atomically: a failure leaves an existing file unchanged.

    Args:
        model: A `ReluNetwork`, `MaxoutNetwork`, `HardTransformer`, `AttentionHead` or
            `ArgmaxNetwork`; a `Block`, which is stored as a transformer; or a torch module or the
            path of another file, which is first read as one of these.
        path: The file to write; its suffix is `.safetensors`, or it has none.

    Raises:
        DtypeError: If `model` has another type.
        ArgumentError: If `path` has another suffix.
        ArgumentError: If the heads of a block differ in size so much that padding would take more
            than `MOST_PADDING` times the space.

    Examples:
        >>> import tempfile
        >>> net = ReluNetwork([[[0.1, -0.0]], [[1.0], [1 / 3]]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(net, f"{folder}/net.safetensors")
        ...     again = load_model(f"{folder}/net.safetensors")
        >>> again, again.weights[0].tolist()
        (ReluNetwork(1 -> [2] -> 1), [[0.1, -0.0]])
    """
    given = read_model(model)
    given = HardTransformer([given]) if isinstance(given, Block) else given
    write_tensor_file(path, *_collect_parts(given))


def load_model(
    path: str | os.PathLike[str] | Any,
    *,
    input_shape: Sequence[int] | None = None,
    activations: Any = None,
    last_activation: Any = None,
    max_bytes: int | None = None,
) -> Model | GraphNetwork:
    """Read a model from a file or from a torch module.

    Args:
        path: One of: a file written by `save_model`; an ONNX file, recognized by its suffix `.onnx`
            (see `load_onnx`); a scripted or traced module saved by `torch.jit.save`; the state dict
            of Linear layers, saved by `torch.save` or as safetensors; or a torch module in memory
            (see `from_torch`). No code in a file is executed, and files can be read without torch.
        input_shape: The shape of one input without the batch axis, for an ONNX file or a module
            that does not determine it.
        activations: For a state dict: the activation between its layers, in the vocabulary of
            `read_activation`, such as `"relu"`; either one for all layers or one for each.
        last_activation: For a state dict: the activation after its last layer.
        max_bytes: The maximum memory for reading an ONNX or torch file (see `load_onnx`). Other
            files need no more than a small multiple of their size.

    Raises:
        RecordFormatError: If the file does not contain a model or is corrupted: damaged metadata,
            or a tensor that is missing, superfluous, not finite, or of a wrong type or shape. The
            message describes the problem.
        ArgumentError: If a required argument is missing, or an argument does not apply to this kind
            of file.

    Examples:
        >>> import tempfile
        >>> head = AttentionHead([[1.0]], [[-1.0], [1.0]], [[2.0], [3.0]], [[1.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(head, f"{folder}/head.safetensors")
        ...     load_model(f"{folder}/head.safetensors")([0.5]).tolist()
        [3.0]
    """
    if not isinstance(path, str | os.PathLike):
        return _read_module(path, input_shape, activations, last_activation)
    stated = {"activations": activations, "last_activation": last_activation}
    if Path(path).suffix.lower() == ".onnx":
        _refuse_arguments("an ONNX file", stated)
        return load_onnx(path, input_shape=input_shape, max_bytes=max_bytes)
    header, tensors = None, None
    if not _is_likely_torch_file(path):
        header, tensors = read_tensors(path)
    if tensors is None or (header is None and tensors):
        # Imported lazily: this halves the time to read files of this library.
        from hardmax.models.formats.torch.network_files import load_torch_file

        return load_torch_file(path, input_shape=input_shape, max_bytes=max_bytes, **stated)
    _refuse_arguments(
        "a file that describes its own contents", {"input_shape": input_shape, **stated}
    )
    try:
        return _build_model(*check_tensors(header, tensors, path), path)
    except RecordFormatError as error:
        raise RecordFormatError(f"{error}{_name_reader(header)}") from None


def _name_reader(header: str | None) -> str:
    """Return a sentence that names the reader of a compiled transformer, after a space."""
    for kind, name in (("-function", "load_function"), ("", "load_compiled")):
        if header is not None and f'"hardmax.compiled{kind}/' in header:
            return f" `hm.constructions.{name}` reads it."
    return ""


def _is_likely_torch_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file starts like an archive or a torch pickle, and is not a safetensors file."""
    with Path(path).open("rb") as file:
        start = file.read(8)
    return start.startswith(b"PK") or (start.startswith(b"\x80\x02") and start[2:] != bytes(6))


def _read_module(
    module: Any, input_shape: Sequence[int] | None, activations: Any, last_activation: Any
) -> Model | GraphNetwork:
    """Read a torch module; if torch has not been imported, `module` cannot be one."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise DtypeError(
            f"`path` must be a file name or a torch.nn module; got {type(module).__name__}."
        )
    stated = {"activations": activations, "last_activation": last_activation}
    _refuse_arguments("a torch module, which defines its own activations", stated)
    from hardmax.models.formats.torch.modules import from_torch

    return from_torch(module, input_shape=input_shape)


def _refuse_arguments(what: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"`{name}` must be None for {what}; got {value!r:.60}.")


def model_bytes(model: Model) -> bytes:
    """Return the bytes that `save_model` would write."""
    return tensor_bytes(*_collect_parts(model))


def model_from_bytes(content: bytes, path: str | os.PathLike[str]) -> Model:
    """Read the bytes that `model_bytes` returned; `path` is only used in messages."""
    return _build_model(*check_tensors(*split_tensor_bytes(content, path), path), path)


def _collect_parts(model: Model) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    tensors: dict[str, AnyArray] = {}
    return {"format": MODEL_FORMAT, **write_parts(model, tensors)}, tensors


def _build_model(
    fields: dict[str, Any], tensors: dict[str, AnyArray], path: str | os.PathLike[str]
) -> Model:
    try:
        found = fields.pop("format", None)
        if found not in _FORMATS:
            raise RecordFormatError(
                f"its metadata must state the format {MODEL_FORMAT!r}; got {found!r:.60}."
            )
        source = TensorSource(fields, tensors)
        model: Model = read_parts(source)
        source.finish()
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must hold a model; reading {path} failed: {error}"
        ) from None
    return model


def write_parts(model: Model, tensors: dict[str, AnyArray]) -> dict[str, Any]:
    """Add the tensors of a model to `tensors`, and return the fields that describe them.

    Raises:
        DtypeError: If `model` is of a type that cannot be stored in a file.
    """
    kind = next((name for name, cls in _KINDS.items() if type(model) is cls), None)
    if kind is None:
        raise DtypeError(f"`model` must be one of {', '.join(_KINDS)}; got {type(model).__name__}.")
    return {"kind": kind, **_WRITERS[kind](model, tensors)}


def read_parts(source: TensorSource, kinds: Sequence[str] | None = None) -> Any:
    """Build a model from the fields and tensors of a file.

    Args:
        source: The fields and tensors of the file.
        kinds: The accepted kinds of model; None accepts all.
    """
    allowed = tuple(_READERS) if kinds is None else kinds
    kind = source.fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in allowed:
        raise RecordFormatError(f"`kind` must be one of {', '.join(allowed)}.")
    return _READERS[kind](source)


def _write_relu(model: ReluNetwork, tensors: dict[str, AnyArray]) -> dict[str, Any]:
    for i, (weight, bias) in enumerate(zip(model.weights, model.biases or (), strict=True)):
        tensors |= {f"weights.{i}": weight, f"biases.{i}": bias}
    return {"n_layers": len(model.weights)}


def _read_relu(source: TensorSource) -> ReluNetwork:
    n_layers = take_field(source.fields, "n_layers", int)
    # A file cannot have more layers than tensors, so a hostile count allocates nothing.
    layers = range(min(n_layers, source.n_tensors + 1))
    return ReluNetwork(
        tuple(source.take_tensor(f"weights.{i}") for i in layers),
        tuple(source.take_tensor(f"biases.{i}") for i in layers),
    )


def _write_maxout(model: MaxoutNetwork, tensors: dict[str, AnyArray]) -> dict[str, Any]:
    biases = model.biases or ()
    tensors |= {"weights.last": model.weights[-1], "biases.last": biases[-1]}
    for i, (units, offsets) in enumerate(zip(model.weights[:-1], biases[:-1], strict=True)):
        for j, (unit, offset) in enumerate(zip(units, offsets, strict=True)):
            tensors |= {f"weights.{i}.{j}": unit, f"biases.{i}.{j}": offset}
    return {"widths": [len(units) for units in model.weights[:-1]]}


def _read_maxout(source: TensorSource) -> MaxoutNetwork:
    widths = take_field(source.fields, "widths", list)
    weights: list[Any] = []
    biases: list[Any] = []
    for i, width in enumerate(widths):
        if type(width) is not int:
            raise RecordFormatError(f"`widths` must hold integers; got {width!r:.60}.")
        units = range(min(width, source.n_tensors + 1))
        weights.append([source.take_tensor(f"weights.{i}.{j}") for j in units])
        biases.append([source.take_tensor(f"biases.{i}.{j}") for j in units])
    weights.append(source.take_tensor("weights.last"))
    biases.append(source.take_tensor("biases.last"))
    return MaxoutNetwork(tuple(weights), tuple(biases))


def _write_head(
    head: AttentionHead, tensors: dict[str, AnyArray], prefix: str = ""
) -> dict[str, Any]:
    given = {name: getattr(head, name) for name in (*_HEAD_ARRAYS, *_HEAD_OPTIONS)}
    tensors |= {prefix + name: array for name, array in given.items() if array is not None}
    return {name: given[name] is not None for name in _HEAD_OPTIONS}


def _read_head(source: TensorSource) -> AttentionHead:
    head = _build_head(source, source.fields, "")
    _check_padding([head], source.n_numbers)
    return head


def _build_head(source: TensorSource, fields: dict[str, Any], prefix: str) -> AttentionHead:
    options = tuple(name for name in _HEAD_OPTIONS if take_field(fields, name, bool))
    if fields is not source.fields:
        refuse_rest(fields)
    return AttentionHead(**source.take_arrays(prefix, _HEAD_ARRAYS + options))


def _write_transformer(model: HardTransformer, tensors: dict[str, AnyArray]) -> dict[str, Any]:
    blocks = []
    for i, block in enumerate(model.blocks):
        heads = [
            _write_head(head, tensors, f"blocks.{i}.heads.{j}.")
            for j, head in enumerate(block.heads)
        ]
        if block.ffn is not None:
            tensors |= {f"blocks.{i}.ffn.{name}": getattr(block.ffn, name) for name in _FFN_ARRAYS}
        flags = {name: getattr(block, name) for name in ("attention_residual", "ffn_residual")}
        blocks.append({"heads": heads, "ffn": block.ffn is not None, **flags})
    for block in model.blocks:
        _check_padding(block.heads, sum(array.size for array in tensors.values()))
    _write_affine(model.network.embedding, tensors, "embedding.")
    _write_affine(model.network.readout, tensors, "readout.")
    return {"blocks": blocks}


def _read_transformer(source: TensorSource) -> HardTransformer:
    n_numbers = source.n_numbers
    blocks = [
        _build_block(source, fields, f"blocks.{i}.")
        for i, fields in enumerate(take_field(source.fields, "blocks", list))
    ]
    for block in blocks:
        _check_padding(block.heads, n_numbers)
    embedding, readout = source.take_affine("embedding."), source.take_affine("readout.")
    return HardTransformer(tuple(blocks), embedding, readout)


def _check_padding(heads: Sequence[AttentionHead], n_numbers: int) -> None:
    """Refuse heads whose sizes differ so much that padding them would waste too much memory."""
    if not heads:
        return
    n_keys, n_heads = sum(len(head.unmasked) for head in heads), len(heads)
    d_k, d_v = (max(sizes) for sizes in zip(*map(_head_sizes, heads), strict=True))
    n_padded = (n_keys + n_heads) * (d_k + d_v) + n_heads * d_v * heads[0].out_dim
    if n_padded > MOST_PADDING * n_numbers:
        raise ArgumentError(
            "`heads` must be of similar sizes: padded to the longest keys and values, the heads "
            f"of a block have {n_padded} entries, more than {MOST_PADDING} times the {n_numbers} "
            "of the file. To save them padded, use `save_model(model.network, path)`."
        )


def _head_sizes(head: AttentionHead) -> tuple[int, int]:
    return head.head_dim, int(head.values.shape[1])


def _build_block(source: TensorSource, fields: Any, prefix: str) -> Block:
    if not isinstance(fields, dict):
        raise RecordFormatError(f"`blocks` must hold objects; got {fields!r:.60}.")
    heads = []
    for j, head in enumerate(take_field(fields, "heads", list)):
        if not isinstance(head, dict):
            raise RecordFormatError(f"`heads` must hold objects; got {head!r:.60}.")
        heads.append(_build_head(source, head, f"{prefix}heads.{j}."))
    ffn = None
    if take_field(fields, "ffn", bool):
        ffn = FeedForward(**source.take_arrays(f"{prefix}ffn.", _FFN_ARRAYS))
    flags = [take_field(fields, name, bool) for name in ("attention_residual", "ffn_residual")]
    refuse_rest(fields)
    return Block(tuple(heads), ffn, *flags)


def _write_network(network: ArgmaxNetwork, tensors: dict[str, AnyArray]) -> dict[str, Any]:
    maps = {"embedding.": network.embedding, "readout.": network.readout}
    for i, layer in enumerate(network.layers):
        tensors |= {f"layers.{i}.{name}": getattr(layer, name) for name in _LAYER_ARRAYS}
        if layer.reads is not None:
            tensors[f"layers.{i}.reads"] = layer.reads
        maps |= {f"layers.{i}.query.": layer.query, f"layers.{i}.output.": layer.output}
    identities = [prefix for prefix, affine in maps.items() if affine.is_identity]
    for prefix, affine in maps.items():
        _write_affine(affine, tensors, prefix)
    for prefix in identities:
        del tensors[f"{prefix}weight"]
    return {
        "residuals": [layer.residual for layer in network.layers],
        "identities": identities,
    }


def _read_network(source: TensorSource) -> ArgmaxNetwork:
    identities = source.fields.pop("identities", [])
    if not (isinstance(identities, list) and all(isinstance(name, str) for name in identities)):
        raise RecordFormatError(f"`identities` must be a list of names; got {identities!r:.60}.")
    rest = set(identities)
    if len(rest) < len(identities):
        raise RecordFormatError("`identities` must not repeat a name.")

    def affine(prefix: str) -> AffineMap:
        if prefix not in rest:
            return source.take_affine(prefix)
        rest.remove(prefix)
        return source.take_identity(prefix)

    layers = []
    for i, residual in enumerate(take_field(source.fields, "residuals", list)):
        if type(residual) is not bool:
            raise RecordFormatError(f"`residuals` must hold true or false; got {residual!r:.60}.")
        optional = ("reads",) if f"layers.{i}.reads" in source else ()
        arrays: dict[str, Any] = source.take_arrays(f"layers.{i}.", _LAYER_ARRAYS + optional)
        query, output = affine(f"layers.{i}.query."), affine(f"layers.{i}.output.")
        layers.append(ArgmaxLayer(query=query, output=output, residual=residual, **arrays))
    embedding, readout = affine("embedding."), affine("readout.")
    refuse_rest(dict.fromkeys(rest))
    return ArgmaxNetwork(tuple(layers), embedding, readout)


def _write_affine(affine: AffineMap, tensors: dict[str, AnyArray], prefix: str) -> None:
    tensors |= {f"{prefix}weight": affine.weight, f"{prefix}bias": affine.bias}


_KINDS: dict[str, type] = {
    "ReluNetwork": ReluNetwork,
    "MaxoutNetwork": MaxoutNetwork,
    "HardTransformer": HardTransformer,
    "AttentionHead": AttentionHead,
    "ArgmaxNetwork": ArgmaxNetwork,
}
_WRITERS: dict[str, Callable[[Any, dict[str, AnyArray]], dict[str, Any]]] = {
    "ReluNetwork": _write_relu,
    "MaxoutNetwork": _write_maxout,
    "HardTransformer": _write_transformer,
    "AttentionHead": _write_head,
    "ArgmaxNetwork": _write_network,
}
_READERS: dict[str, Callable[[TensorSource], Model]] = {
    "ReluNetwork": _read_relu,
    "MaxoutNetwork": _read_maxout,
    "HardTransformer": _read_transformer,
    "AttentionHead": _read_head,
    "ArgmaxNetwork": _read_network,
}
