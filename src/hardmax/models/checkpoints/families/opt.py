"""OPT: ReLU, causal heads, positions that are learnt, norms first (or last, as the 350M one)."""

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, attention_of
from hardmax.models.checkpoints.weights import (
    EmbeddingWeights,
    LayerWeights,
    MlpWeights,
    TransformerWeights,
)

MODEL_TYPES = ("opt",)
MARK = "decoder.layers.0.self_attn.q_proj.weight"
_FIRST_POSITION = 2
_EPSILON = 1e-5


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXdecoder.layers.0.self_attn...` and so on."""
    prefix = f"{prefix}decoder."
    words = tensors.take(f"{prefix}embed_tokens.weight", None, None)
    d = words.shape[1]
    if f"{prefix}project_in.weight" in tensors:
        raise RecordFormatError("embeddings of another width than the layers are not read")
    positions = tensors.take(f"{prefix}embed_positions.weight", None, d)
    n_heads = tensors.integer("num_attention_heads")
    activation = tensors.activation("activation_function", "relu")
    norm_first = tensors.flag("do_layer_norm_before", True)
    layers = []
    pattern = f"{prefix}layers.{{}}.self_attn.q_proj.weight"
    for i in range(tensors.count(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        query, key, value = (tensors.linear(f"{at}.self_attn.{c}_proj", d, d) for c in "qkv")
        output = tensors.linear(f"{at}.self_attn.out_proj", d, d)
        up = tensors.linear(f"{at}.fc1", d, None)
        down = tensors.linear(f"{at}.fc2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention_of(query, key, value, output, n_heads, is_causal=True),
                MlpWeights(up, down, None, activation),
                tensors.layer_norm(f"{at}.self_attn_layer_norm", d, _EPSILON),
                tensors.layer_norm(f"{at}.final_layer_norm", d, _EPSILON),
                norm_first,
            )
        )
    has_last = norm_first and not tensors.flag("_remove_final_layer_norm", False)
    head = tensors.optional("lm_head.weight", len(words), d)
    return TransformerWeights(
        "opt",
        tuple(layers),
        EmbeddingWeights(words, positions, first_position=_FIRST_POSITION),
        tensors.layer_norm(f"{prefix}final_layer_norm", d, _EPSILON) if has_last else None,
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}layers."),
    )
