"""GPT-Neo: like GPT-2, but with unscaled scores and a window in every other layer."""

from collections.abc import Iterator
from typing import Any

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.families.gpt2 import build_layer, build_model
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import MlpWeights, TransformerWeights

MODEL_TYPES = ("gpt_neo",)
MARK = "h.0.attn.attention.q_proj.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXh.0.attn.attention...` and so on."""
    words = tensors.take(f"{prefix}wte.weight", None, None)
    d = words.shape[1]
    n_heads = tensors.read_integer("num_heads")
    epsilon = tensors.read_number("layer_norm_epsilon", 1e-5)
    activation = tensors.read_activation("activation_function", "gelu_new")
    n_layers = tensors.count_layers(f"{prefix}h.{{}}.attn.attention.q_proj.weight", "num_layers")
    kinds = list(_iter_kinds(tensors.config.get("attention_types"), n_layers))
    if len(kinds) != n_layers or not set(kinds) <= {"global", "local"}:
        raise RecordFormatError(
            f"`attention_types` must specify global or local for each of the {n_layers} layers"
        )
    window = tensors.read_integer("window_size", 256)
    layers = []
    for i, kind in enumerate(kinds):
        at = f"{prefix}h.{i}"
        query, key, value = (
            tensors.take_linear(f"{at}.attn.attention.{c}_proj", d, d) for c in "qkv"
        )
        attention = build_attention(
            query,
            key,
            value,
            tensors.take_linear(f"{at}.attn.attention.out_proj", d, d),
            n_heads,
            is_causal=True,
            window=window if kind == "local" else None,
            temperature=1.0,
        )
        up = tensors.take_linear(f"{at}.mlp.c_fc", d, None)
        down = tensors.take_linear(f"{at}.mlp.c_proj", up.weight.shape[1], d)
        mlp = MlpWeights(up, down, None, activation)
        layers.append(build_layer(tensors, at, attention, mlp, epsilon))
    passed_over = "attention.bias", "attention.masked_bias"
    return build_model(tensors, "gpt_neo", prefix, words, layers, epsilon, passed_over)


def _iter_kinds(stated: Any, n_layers: int) -> Iterator[str]:
    """Yield the kinds of the layers from entries such as `[["global", "local"], 6]`."""
    entries = [[["global", "local"], n_layers // 2]] if stated is None else stated
    if not isinstance(entries, list):
        return
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], list):
            return
        for _ in range(min(entry[1], n_layers) if type(entry[1]) is int else 0):
            yield from map(str, entry[0])
