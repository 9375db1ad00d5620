"""GPT-2: norms first, causal heads, and one matrix `(d, 3 d)` for queries, keys and values."""

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import (
    AttentionWeights,
    EmbeddingWeights,
    LayerWeights,
    Linear,
    MlpWeights,
    TransformerWeights,
)
from hardmax.typing import FloatArray

MODEL_TYPES = ("gpt2",)
MARK = "h.0.attn.c_attn.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXh.0.attn.c_attn.weight` and so on."""
    if tensors.read_flag("add_cross_attention", False) or not tensors.read_flag(
        "scale_attn_weights", True
    ):
        raise RecordFormatError("cross attention and unscaled scores are not supported")
    words = tensors.take(f"{prefix}wte.weight", None, None)
    d = words.shape[1]
    n_heads = tensors.read_integer("n_head")
    epsilon = tensors.read_number("layer_norm_epsilon", 1e-5)
    activation = tensors.read_activation("activation_function", "gelu_new")
    by_depth = tensors.read_flag("scale_attn_by_inverse_layer_idx", False)

    def conv(name: str, n_in: int | None, n_out: int | None) -> Linear:
        # The weight is stored as (n_in, n_out), unlike in all other layers of torch.
        weight = tensors.take(f"{name}.weight", n_in, n_out)
        return Linear(weight, tensors.take_optional(f"{name}.bias", weight.shape[1]))

    layers = []
    for i in range(tensors.count_layers(f"{prefix}h.{{}}.attn.c_attn.weight", "n_layer")):
        at = f"{prefix}h.{i}"
        joint = conv(f"{at}.attn.c_attn", d, 3 * d)
        biases = [None] * 3 if joint.bias is None else np.split(joint.bias, 3)
        query, key, value = map(Linear, np.split(joint.weight, 3, axis=1), biases)
        if d % n_heads:
            raise RecordFormatError(f"{d} columns cannot be split into {n_heads} heads")
        attention = build_attention(
            query,
            key,
            value,
            conv(f"{at}.attn.c_proj", d, d),
            n_heads,
            is_causal=True,
            temperature=float(np.sqrt(d // n_heads)) * (i + 1 if by_depth else 1),
        )
        up = conv(f"{at}.mlp.c_fc", d, None)
        down = conv(f"{at}.mlp.c_proj", up.weight.shape[1], d)
        mlp = MlpWeights(up, down, None, activation)
        layers.append(build_layer(tensors, at, attention, mlp, epsilon))
    passed_over = "attn.bias", "attn.masked_bias"
    return build_model(tensors, "gpt2", prefix, words, layers, epsilon, passed_over)


def build_layer(
    tensors: NamedTensors, at: str, attention: AttentionWeights, mlp: MlpWeights, epsilon: float
) -> LayerWeights:
    """Build a layer whose norms come first and are named `ln_1` and `ln_2`."""
    d = mlp.up.weight.shape[0]
    before, between = (tensors.take_layer_norm(f"{at}.ln_{k}", d, epsilon) for k in (1, 2))
    return LayerWeights(attention, mlp, before, between, norm_first=True)


def build_model(
    tensors: NamedTensors,
    family: str,
    prefix: str,
    words: FloatArray,
    layers: list[LayerWeights],
    epsilon: float,
    passed_over: tuple[str, ...],
) -> TransformerWeights:
    """Build a model with learned positions, a final norm and, optionally, an output head."""
    n_words, d = words.shape
    positions = tensors.take(f"{prefix}wpe.weight", None, d)
    head = tensors.take_optional("lm_head.weight", n_words, d)
    return TransformerWeights(
        family,
        tuple(layers),
        EmbeddingWeights(words, positions),
        tensors.take_layer_norm(f"{prefix}ln_f", d, epsilon),
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}h.", passed_over=passed_over),
    )
