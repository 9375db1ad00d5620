"""Phi-3: Llama with one matrix for queries, keys and values, and one for gates and units."""

import numpy as np

from hardmax.models.checkpoints.families import llama
from hardmax.models.checkpoints.named_tensors import NamedTensors
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.typing import AnyArray

MODEL_TYPES = ("phi3",)
MARK = "layers.0.self_attn.qkv_proj.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXlayers.0.self_attn.qkv_proj.weight`."""
    n_heads = tensors.read_integer("num_attention_heads")
    n_kv_heads = tensors.read_integer("num_key_value_heads", n_heads)
    pattern = f"{prefix}layers.{{}}.self_attn.qkv_proj.weight"
    parts: dict[str, AnyArray] = {}
    for i in range(tensors.count_layers(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        joint = tensors.take(f"{at}.self_attn.qkv_proj.weight", None, None)
        head_dim = len(joint) // (n_heads + 2 * n_kv_heads)
        ends = np.cumsum([n_heads * head_dim, n_kv_heads * head_dim])
        for name, part in zip("qkv", np.split(joint, ends), strict=True):
            parts[f"{at}.self_attn.{name}_proj.weight"] = part
        gated = tensors.take(f"{at}.mlp.gate_up_proj.weight", None, None)
        halves = np.split(gated, [len(gated) // 2])
        for name, part in zip(("gate", "up"), halves, strict=True):
            parts[f"{at}.mlp.{name}_proj.weight"] = part
    return llama.read(tensors.replace_rest(parts), prefix)
