"""Reading of the tensors of a checkpoint from files of any supported kind, with torch names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.files import read_text
from hardmax._ground.json_text import parse_json
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models.checkpoints.finding import INDEX, SUFFIXES
from hardmax.models.formats.gguf_files import MAGIC, read_gguf
from hardmax.models.formats.onnx.files import read_onnx
from hardmax.models.formats.torch.files import is_torch_file, read_torch_tensors
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import AnyArray

TensorsAndConfig = tuple[dict[str, AnyArray], dict[str, Any]]


def read_weights(path: Path) -> TensorsAndConfig:
    """Read the tensors of a file, and the configuration that it contains.

    Args:
        path: A file in the format safetensors, `torch.save`, GGUF or ONNX, or the index of several
            files.

    Raises:
        RecordFormatError: If the file is damaged or has another format; the message describes it.
    """
    if path.name.endswith(INDEX):
        return _read_shards(path), {}
    with path.open("rb") as file:
        start = file.read(4)
    if start == MAGIC:
        return _read_gguf_weights(path)
    if path.suffix.lower() == ".onnx":
        return _read_onnx_weights(path), {}
    if is_torch_file(path):
        return read_torch_tensors(path), {}
    if path.suffix.lower() != ".safetensors":
        raise RecordFormatError(
            "`source` must be a safetensors file, a state dict from torch.save, a GGUF file or an "
            f"ONNX file; {path} begins with {start!r}."
        )
    return read_tensors(path)[1], {}


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration file; return an empty dictionary if it does not exist."""
    if not path.is_file():
        return {}
    try:
        config = parse_json(read_text(path))
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`source` must have a valid {path.name}; reading {path} failed: {error}"
        ) from None
    if not isinstance(config, dict):
        raise RecordFormatError(
            f"`source` must have a valid {path.name}; {path} does not contain a JSON object."
        )
    return config


def convert_state_dict(source: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Convert a state dict of NumPy arrays or torch tensors to NumPy arrays."""
    tensors = {}
    for name, value in source.items():
        try:
            if hasattr(value, "detach"):  # This is a torch tensor, of any type and on any device.
                value = value.detach().cpu()
                narrow = value.is_floating_point() and value.element_size() < 4
                value = value.float() if narrow else value
            tensors[str(name)] = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ArgumentError(
                f"`source` must contain arrays; reading `{name!s:.60}` failed: {error!s:.100}."
            ) from None
    return tensors


def _read_shards(path: Path) -> dict[str, AnyArray]:
    """Read the files that an index lists, all of which must be in its folder."""
    index = parse_json(read_text(path))
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(f, str) for f in shards.values()):
        raise RecordFormatError(f"`source` must have a valid index; {path} has no `weight_map`.")
    tensors: dict[str, AnyArray] = {}
    for file in sorted(set(shards.values())):
        if Path(file).name != file or not file.endswith(SUFFIXES):
            raise RecordFormatError(
                f"An index must list weight files in its own folder; {path} lists {file!r:.60}."
            )
        if not (path.parent / file).is_file():
            raise RecordFormatError(
                f"`source` must have every file that its index lists; {file!r:.60} is missing from "
                f"{path.parent}. Complete the download."
            )
        tensors.update(read_weights(path.parent / file)[0])
    missing = next((name for name in shards if name not in tensors), None)
    if missing is not None:
        raise RecordFormatError(
            f"`source` must contain every tensor that its index lists; `{missing:.60}` is missing "
            f"from the files of {path}."
        )
    return tensors


_GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GGUF_FIELDS = {
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
}
# In files of the architecture `llama`, queries and keys are permuted, so that neighbouring
# coordinates form the rotated pairs.
_GGUF_PAIRINGS = {"llama": "interleaved", "qwen2": "halves", "qwen3": "halves"}


def _read_gguf_weights(path: Path) -> TensorsAndConfig:
    """Read a GGUF file of a model like Llama, with Hugging Face names and configuration."""
    found = read_gguf(path)
    kind = found.fields.get("general.architecture")
    if kind not in _GGUF_PAIRINGS:
        raise RecordFormatError(
            f"A GGUF file must have one of the architectures {', '.join(_GGUF_PAIRINGS)}; {path} "
            f"has {kind!r:.40}."
        )
    config: dict[str, Any] = {"model_type": kind, "rope_pairing": _GGUF_PAIRINGS[kind]}
    for name, value in found.fields.items():
        known = _GGUF_FIELDS.get(name.removeprefix(f"{kind}."))
        if known is not None:
            config[known] = value
    if found.fields.get(f"{kind}.rope.scaling.type", "none") != "none":
        factor = found.fields.get(f"{kind}.rope.scaling.factor")
        scaling = found.fields[f"{kind}.rope.scaling.type"]
        config["rope_scaling"] = {"rope_type": scaling, "factor": factor}
    tensors = {}
    for name, array in found.tensors.items():
        at = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
        if at is not None and at[2] in _GGUF_NAMES:
            layer = "" if at[1] is None else f"model.layers.{at[1]}."
            name = f"{layer}{_GGUF_NAMES[at[2]]}.{at[3]}"
        elif at is not None and at[1] is not None:
            name = f"model.layers.{at[1]}.{at[2]}.{at[3]}"
        tensors[name] = array
    return tensors, config


def _read_onnx_weights(path: Path) -> dict[str, AnyArray]:
    """Read the constants of an ONNX file.

    Exporters rename a matrix that they transpose. The node that multiplies by the matrix still
    contains the name of the layer, either in its own name,
    `/encoder/layer.0/attention/self/query/MatMul`, or in a note,
    `['', 'encoder', ..., 'encoder.layer.0.attention.self.query', 'linear']`.
    """
    graph = read_onnx(path)
    tensors = dict(graph.constants)
    for node in graph.nodes:
        if node.kind == "Constant" and isinstance(node.attributes.get("value"), np.ndarray):
            tensors.update(dict.fromkeys(node.outputs[:1], node.attributes["value"]))
    for node in graph.nodes:
        matrix = tensors.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.kind == "MatMul" and matrix is not None and matrix.ndim == 2:
            scopes = re.findall(r"'([^']*)'", node.notes.get("pkg.torch.onnx.name_scopes", ""))
            named = ".".join(node.name.strip("/").split("/")[:-1])
            layer = scopes[-2] if len(scopes) > 1 else named
            if layer:
                tensors.setdefault(f"{layer}.weight", matrix.T)
    return tensors
