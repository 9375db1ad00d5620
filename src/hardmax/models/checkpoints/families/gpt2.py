"""GPT-2: norms first, causal heads, queries, keys and values in one matrix `(d, 3 d)`."""

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, attention_of
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
    if tensors.flag("add_cross_attention", False) or not tensors.flag("scale_attn_weights", True):
        raise RecordFormatError("cross attention and scores that are not scaled are not read")
    words = tensors.take(f"{prefix}wte.weight", None, None)
    d = words.shape[1]
    n_heads = tensors.integer("n_head")
    epsilon = tensors.number("layer_norm_epsilon", 1e-5)
    activation = tensors.activation("activation_function", "gelu_new")
    by_depth = tensors.flag("scale_attn_by_inverse_layer_idx", False)

    def conv(name: str, n_in: int | None, n_out: int | None) -> Linear:
        # Stored as (n_in, n_out), unlike every other layer of torch.
        weight = tensors.take(f"{name}.weight", n_in, n_out)
        return Linear(weight, tensors.optional(f"{name}.bias", weight.shape[1]))

    layers = []
    for i in range(tensors.count(f"{prefix}h.{{}}.attn.c_attn.weight", "n_layer")):
        at = f"{prefix}h.{i}"
        joint = conv(f"{at}.attn.c_attn", d, 3 * d)
        biases = [None] * 3 if joint.bias is None else np.split(joint.bias, 3)
        query, key, value = map(Linear, np.split(joint.weight, 3, axis=1), biases)
        if d % n_heads:
            raise RecordFormatError(f"{d} columns do not make {n_heads} heads")
        attention = attention_of(
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
        layers.append(layer_of(tensors, at, attention, mlp, epsilon))
    passed_over = "attn.bias", "attn.masked_bias"
    return model_of(tensors, "gpt2", prefix, words, layers, epsilon, passed_over)


def layer_of(
    tensors: NamedTensors, at: str, attention: AttentionWeights, mlp: MlpWeights, epsilon: float
) -> LayerWeights:
    """Put a layer together whose norms are named `ln_1` and `ln_2`, and come first."""
    d = mlp.up.weight.shape[0]
    before, between = (tensors.layer_norm(f"{at}.ln_{k}", d, epsilon) for k in (1, 2))
    return LayerWeights(attention, mlp, before, between, norm_first=True)


def model_of(
    tensors: NamedTensors,
    family: str,
    prefix: str,
    words: FloatArray,
    layers: list[LayerWeights],
    epsilon: float,
    passed_over: tuple[str, ...],
) -> TransformerWeights:
    """Put a model together that has learnt positions, a last norm, perhaps a head."""
    n_words, d = words.shape
    positions = tensors.take(f"{prefix}wpe.weight", None, d)
    head = tensors.optional("lm_head.weight", n_words, d)
    return TransformerWeights(
        family,
        tuple(layers),
        EmbeddingWeights(words, positions),
        tensors.layer_norm(f"{prefix}ln_f", d, epsilon),
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}h.", passed_over=passed_over),
    )
