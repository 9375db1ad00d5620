"""GPT-NeoX, such as Pythia: parallel heads and units, and rotary positions in part of each head."""

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import (
    EmbeddingWeights,
    LayerWeights,
    Linear,
    MlpWeights,
    Rotary,
    TransformerWeights,
)
from hardmax.typing import AnyArray

MODEL_TYPES = ("gpt_neox",)
MARK = "layers.0.attention.query_key_value.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXlayers.0.attention.query_key_value.weight`."""
    words = tensors.take(f"{prefix}embed_in.weight", None, None)
    d = words.shape[1]
    n_heads = tensors.read_integer("num_attention_heads")
    if d % (2 * n_heads):
        raise RecordFormatError(f"{d} columns cannot be split into {n_heads} heads of even size")
    d_k = d // n_heads
    epsilon = tensors.read_number("layer_norm_eps", 1e-5)
    activation = tensors.read_activation("hidden_act", "gelu")
    is_parallel = tensors.read_flag("use_parallel_residual", True)
    frequencies, order = _rotary_layout(tensors, d_k)
    columns = (np.arange(n_heads)[:, None] * d_k + order).ravel()
    layers = []
    pattern = f"{prefix}layers.{{}}.attention.query_key_value.weight"
    for i in range(tensors.count_layers(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        joint = tensors.take_linear(f"{at}.attention.query_key_value", d, 3 * d)
        # The query, key and value of each head are adjacent.
        weights = joint.weight.reshape(d, n_heads, 3, d_k)
        parts = [weights[:, :, c].reshape(d, d) for c in range(3)]
        bias = None if joint.bias is None else joint.bias.reshape(n_heads, 3, d_k)
        biases = [None if bias is None else bias[:, c].ravel() for c in range(3)]
        query, key, value = map(Linear, parts, biases)
        attention = build_attention(
            _reorder_columns(query, columns),
            _reorder_columns(key, columns),
            value,
            tensors.take_linear(f"{at}.attention.dense", d, d),
            n_heads,
            rotary=Rotary(frequencies, "interleaved"),
            is_causal=True,
        )
        up = tensors.take_linear(f"{at}.mlp.dense_h_to_4h", d, None)
        down = tensors.take_linear(f"{at}.mlp.dense_4h_to_h", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.input_layernorm", d, epsilon),
                tensors.take_layer_norm(f"{at}.post_attention_layernorm", d, epsilon),
                norm_first=True,
                is_parallel=is_parallel,
            )
        )
    head = tensors.take_optional("embed_out.weight", len(words), d)
    head = words if head is None and tensors.read_flag("tie_word_embeddings", False) else head
    left = ("attention.bias", "attention.masked_bias", "rotary_emb.inv_freq")
    return TransformerWeights(
        "gpt_neox",
        tuple(layers),
        EmbeddingWeights(words),
        tensors.take_layer_norm(f"{prefix}final_layer_norm", d, epsilon),
        None if head is None else head.T,
        tensors.config,
        tensors.finish(f"{prefix}layers.", passed_over=left),
    )


def _rotary_layout(tensors: NamedTensors, d_k: int) -> tuple[AnyArray, AnyArray]:
    """Return the frequencies of coordinate pairs, and the order that makes pairs adjacent.

    Only the first coordinates of a head are rotated, paired by halves; the other frequencies are 0.
    Scores do not change if queries and keys are permuted in the same way.
    """
    nested = tensors.config.get("rope_parameters") or {}
    if not isinstance(nested, dict) or nested.get("rope_type", "default") != "default":
        raise RecordFormatError(
            f"`rope_parameters` must have the rope_type 'default'; got {nested!r:.60}"
        )
    said = NamedTensors({}, {**tensors.config, **nested})
    base = said.read_number("rope_theta", said.read_number("rotary_emb_base", 10_000.0))
    share = said.read_number("partial_rotary_factor", said.read_number("rotary_pct", 0.25))
    n = int(d_k * share)
    if base <= 0.0 or n % 2 or n > d_k:
        raise RecordFormatError(
            f"rotary positions with base {base:g} and share {share} are not supported"
        )
    frequencies = np.zeros(d_k // 2)
    frequencies[: n // 2] = base ** (-np.arange(0, n, 2) / max(n, 1))
    pairs = np.arange(n).reshape(2, n // 2).T.ravel()
    return frequencies, np.concatenate([pairs, np.arange(n, d_k)])


def _reorder_columns(layer: Linear, columns: AnyArray) -> Linear:
    bias = None if layer.bias is None else layer.bias[columns]
    return Linear(layer.weight[:, columns], bias)
