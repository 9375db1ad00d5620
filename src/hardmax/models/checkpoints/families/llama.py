"""Llama and similar models, including Gemma: rotary positions, RMS norms first, gated layers."""

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
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
    n_heads = tensors.read_integer("num_attention_heads")
    n_kv_heads = tensors.read_integer("num_key_value_heads", n_heads)
    epsilon = tensors.read_number("rms_norm_eps", 1e-6)
    is_gemma = tensors.config.get("model_type") == "gemma"
    key = "hidden_activation" if tensors.config.get("hidden_activation") else "hidden_act"
    activation = tensors.read_activation(key, "gelu_pytorch_tanh" if is_gemma else "silu")
    if is_gemma and activation == "gelu":  # Early Gemma configurations say gelu by mistake.
        activation = "gelu_tanh"
    head_dim = tensors.read_integer("head_dim", d // n_heads)
    shape = tensors.shape(f"{prefix}{MARK}")
    if shape[:1] != (n_heads * head_dim,):
        raise RecordFormatError(
            f"{n_heads} heads of size {head_dim} do not fit a query weight of shape {shape}"
        )
    # Rotated pairs are halves in Hugging Face files, and neighbours in GGUF files of Llama.
    pairing = tensors.config.get("rope_pairing", "halves")
    if pairing not in ("halves", "interleaved"):
        raise RecordFormatError(
            f"`rope_pairing` must be halves or interleaved; got {pairing!r:.40}"
        )
    rotary = Rotary(_rotary_frequencies(tensors, head_dim), pairing)
    window = tensors.config.get("sliding_window")
    if window is not None and tensors.config.get("model_type") in ("qwen2", "qwen3"):
        window = None if not tensors.read_flag("use_sliding_window", False) else window
        if window is not None and tensors.read_integer("max_window_layers", 0, least=0):
            raise RecordFormatError(
                "a model with and without `sliding_window` in different layers is not supported"
            )
    window = None if window is None else tensors.read_integer("sliding_window")
    layers = []
    pattern = f"{prefix}layers.{{}}.self_attn.q_proj.weight"
    for i in range(tensors.count_layers(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        attention = build_attention(
            tensors.take_linear(f"{at}.self_attn.q_proj", d, n_heads * head_dim),
            tensors.take_linear(f"{at}.self_attn.k_proj", d, n_kv_heads * head_dim),
            tensors.take_linear(f"{at}.self_attn.v_proj", d, n_kv_heads * head_dim),
            tensors.take_linear(f"{at}.self_attn.o_proj", n_heads * head_dim, d),
            n_heads,
            n_kv_heads,
            rotary=rotary,
            is_causal=True,
            window=window,
            query_norm=_read_head_norm(tensors, f"{at}.self_attn.q_norm", head_dim, epsilon),
            key_norm=_read_head_norm(tensors, f"{at}.self_attn.k_norm", head_dim, epsilon),
        )
        up = tensors.take_linear(f"{at}.mlp.up_proj", d, None)
        gate = tensors.take_linear(f"{at}.mlp.gate_proj", d, up.weight.shape[1])
        down = tensors.take_linear(f"{at}.mlp.down_proj", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, gate, activation),
                _read_norm(tensors, f"{at}.input_layernorm", d, epsilon),
                _read_norm(tensors, f"{at}.post_attention_layernorm", d, epsilon),
                norm_first=True,
            )
        )
    head = tensors.take_optional("lm_head.weight", len(words), d)
    # Gemma multiplies token vectors by the square root of the width, and adds 1 to stored norms.
    embedded = words * np.sqrt(d).astype(words.dtype) if is_gemma else words
    return TransformerWeights(
        "gemma" if is_gemma else "llama",
        tuple(layers),
        EmbeddingWeights(embedded),
        _read_norm(tensors, f"{prefix}norm", d, epsilon),
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}layers.", passed_over=("rotary_emb.inv_freq",)),
    )


def _read_norm(tensors: NamedTensors, name: str, d: int, epsilon: float) -> Norm:
    scale = tensors.take(f"{name}.weight", d)
    is_gemma = tensors.config.get("model_type") == "gemma"
    return Norm("rms", scale + scale.dtype.type(1) if is_gemma else scale, None, epsilon)


def _read_head_norm(tensors: NamedTensors, name: str, d_k: int, epsilon: float) -> Norm | None:
    """Return the norm that Qwen3 applies to each query or key; None for other models."""
    is_qwen3 = tensors.config.get("model_type") == "qwen3"
    return _read_norm(tensors, name, d_k, epsilon) if is_qwen3 else None


def _rotary_frequencies(tensors: NamedTensors, head_dim: int) -> FloatArray:
    """Return the angles per position: powers of a base, rescaled as the configuration requires."""
    if head_dim % 2:
        raise RecordFormatError(f"rotary positions require an even d_k; got {head_dim}")
    nested = tensors.config.get("rope_parameters") or tensors.config.get("rope_scaling") or {}
    if not isinstance(nested, dict):
        raise RecordFormatError(f"`rope_scaling` must be an object; got {nested!r:.40}")
    said = NamedTensors({}, {"rope_theta": tensors.config.get("rope_theta"), **nested})
    base = said.read_number("rope_theta", 10_000.0)
    share = tensors.read_number(
        "partial_rotary_factor", said.read_number("partial_rotary_factor", 1.0)
    )
    if share != 1.0:
        raise RecordFormatError(f"`partial_rotary_factor` must be 1 for this family; got {share}")
    factors = tensors.take_optional("rope_freqs.weight", head_dim // 2)
    kind = nested.get("rope_type", nested.get("type", "default"))
    with np.errstate(all="ignore"):
        theta = np.asarray(base ** (-np.arange(0, head_dim, 2) / head_dim))
        if factors is not None:
            theta = theta / factors
        elif kind == "linear":
            theta = theta / said.read_number("factor")
        elif kind == "llama3":
            low, high = said.read_number("low_freq_factor"), said.read_number("high_freq_factor")
            turns = said.read_number("original_max_position_embeddings") * theta / (2 * np.pi)
            # Frequencies with more than `high` turns in the original context are kept; those with
            # fewer than `low` turns are divided by the factor.
            kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
            theta = theta * (kept + (1 - kept) / said.read_number("factor"))
        elif kind != "default":
            raise RecordFormatError(
                f"`rope_type` must be default, linear or llama3; got {kind!r:.40}"
            )
    if not np.isfinite(theta).all():
        raise RecordFormatError(
            f"rotary positions with base {base:g} and {nested} have angles that are not finite"
        )
    return np.asarray(theta)
