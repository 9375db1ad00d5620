"""Llama and its like, Gemma among them: rotary positions, RMS norms first, gated layers."""

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, attention_of
from hardmax.models.checkpoints.weights import (
    EmbeddingWeights,
    LayerWeights,
    MlpWeights,
    Norm,
    Rotary,
    TransformerWeights,
)
from hardmax.typing import FloatArray

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3", "gemma")
MARK = "layers.0.self_attn.q_proj.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXlayers.0.self_attn.q_proj.weight`."""
    words = tensors.take(f"{prefix}embed_tokens.weight", None, None)
    d = words.shape[1]
    n_heads = tensors.integer("num_attention_heads")
    n_kv_heads = tensors.integer("num_key_value_heads", n_heads)
    epsilon = tensors.number("rms_norm_eps", 1e-6)
    is_gemma = tensors.config.get("model_type") == "gemma"
    said = "hidden_activation" if tensors.config.get("hidden_activation") else "hidden_act"
    activation = tensors.activation(said, "gelu_pytorch_tanh" if is_gemma else "silu")
    if is_gemma and activation == "gelu":  # Its first configurations say so and mean the other.
        activation = "gelu_tanh"
    head_dim = tensors.integer("head_dim", d // n_heads)
    asked = tensors.shape(f"{prefix}{MARK}")
    if asked[:1] != (n_heads * head_dim,):
        raise RecordFormatError(f"{n_heads} heads of {head_dim} numbers do not fit to {asked}")
    # Of Hugging Face the halves of a head turn together; of GGUF files of Llama, neighbours.
    pairing = tensors.config.get("rope_pairing", "halves")
    if pairing not in ("halves", "interleaved"):
        raise RecordFormatError(f"`rope_pairing` is {pairing!r:.40}, not halves or interleaved")
    rotary = Rotary(_frequencies(tensors, head_dim), pairing)
    window = tensors.config.get("sliding_window")
    if window is not None and tensors.config.get("model_type") in ("qwen2", "qwen3"):
        window = None if not tensors.flag("use_sliding_window", False) else window
        if window is not None and tensors.integer("max_window_layers", 0, least=0):
            raise RecordFormatError("layers with and without `sliding_window` are not read")
    window = None if window is None else tensors.integer("sliding_window")
    layers = []
    pattern = f"{prefix}layers.{{}}.self_attn.q_proj.weight"
    for i in range(tensors.count(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        attention = attention_of(
            tensors.linear(f"{at}.self_attn.q_proj", d, n_heads * head_dim),
            tensors.linear(f"{at}.self_attn.k_proj", d, n_kv_heads * head_dim),
            tensors.linear(f"{at}.self_attn.v_proj", d, n_kv_heads * head_dim),
            tensors.linear(f"{at}.self_attn.o_proj", n_heads * head_dim, d),
            n_heads,
            n_kv_heads,
            rotary=rotary,
            is_causal=True,
            window=window,
            query_norm=_head_norm(tensors, f"{at}.self_attn.q_norm", head_dim, epsilon),
            key_norm=_head_norm(tensors, f"{at}.self_attn.k_norm", head_dim, epsilon),
        )
        up = tensors.linear(f"{at}.mlp.up_proj", d, None)
        gate = tensors.linear(f"{at}.mlp.gate_proj", d, up.weight.shape[1])
        down = tensors.linear(f"{at}.mlp.down_proj", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, gate, activation),
                _norm(tensors, f"{at}.input_layernorm", d, epsilon),
                _norm(tensors, f"{at}.post_attention_layernorm", d, epsilon),
                norm_first=True,
            )
        )
    head = tensors.optional("lm_head.weight", len(words), d)
    # Gemma's tokens are multiplied by the root of the width, its norms by 1 more than is stored.
    embedded = words * np.sqrt(d).astype(words.dtype) if is_gemma else words
    return TransformerWeights(
        "gemma" if is_gemma else "llama",
        tuple(layers),
        EmbeddingWeights(embedded),
        _norm(tensors, f"{prefix}norm", d, epsilon),
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}layers.", passed_over=("rotary_emb.inv_freq",)),
    )


def _norm(tensors: NamedTensors, name: str, d: int, epsilon: float) -> Norm:
    scale = tensors.take(f"{name}.weight", d)
    is_gemma = tensors.config.get("model_type") == "gemma"
    return Norm("rms", scale + scale.dtype.type(1) if is_gemma else scale, None, epsilon)


def _head_norm(tensors: NamedTensors, name: str, d_k: int, epsilon: float) -> Norm | None:
    """The norm that Qwen3 has for each query and each key."""
    is_qwen3 = tensors.config.get("model_type") == "qwen3"
    return _norm(tensors, name, d_k, epsilon) if is_qwen3 else None


def _frequencies(tensors: NamedTensors, head_dim: int) -> FloatArray:
    """The angles per position: powers of a base, with long periods stretched where that is said."""
    if head_dim % 2:
        raise RecordFormatError(f"rotary positions need an even d_k; it is {head_dim}")
    nested = tensors.config.get("rope_parameters") or tensors.config.get("rope_scaling") or {}
    if not isinstance(nested, dict):
        raise RecordFormatError(f"`rope_scaling` must be an object; it is {nested!r:.40}")
    said = NamedTensors({}, {"rope_theta": tensors.config.get("rope_theta"), **nested})
    base = said.number("rope_theta", 10_000.0)
    share = tensors.number("partial_rotary_factor", said.number("partial_rotary_factor", 1.0))
    if share != 1.0:
        raise RecordFormatError(f"rotary positions of a share {share} of a head are not read")
    factors = tensors.optional("rope_freqs.weight", head_dim // 2)
    kind = nested.get("rope_type", nested.get("type", "default"))
    with np.errstate(all="ignore"):
        theta = np.asarray(base ** (-np.arange(0, head_dim, 2) / head_dim))
        if factors is not None:
            theta = theta / factors
        elif kind == "linear":
            theta = theta / said.number("factor")
        elif kind == "llama3":
            low, high = said.number("low_freq_factor"), said.number("high_freq_factor")
            turns = said.number("original_max_position_embeddings") * theta / (2 * np.pi)
            # As it is above `high` turns in the original context, stretched below `low`.
            kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
            theta = theta * (kept + (1 - kept) / said.number("factor"))
        elif kind != "default":
            raise RecordFormatError(
                f"`rope_type` is {kind!r:.40}; computed are default, linear, llama3"
            )
    if not np.isfinite(theta).all():
        raise RecordFormatError(f"rotary positions of base {base:g} and {nested} have no angles")
    return np.asarray(theta)
