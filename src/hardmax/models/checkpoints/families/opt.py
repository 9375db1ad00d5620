"""OPT: ReLU, causal heads, learned positions, and norms first (last in the 350M model)."""

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
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
        raise RecordFormatError("an embedding whose width differs from the layers is not supported")
    positions = tensors.take(f"{prefix}embed_positions.weight", None, d)
    n_heads = tensors.read_integer("num_attention_heads")
    activation = tensors.read_activation("activation_function", "relu")
    norm_first = tensors.read_flag("do_layer_norm_before", True)
    layers = []
    pattern = f"{prefix}layers.{{}}.self_attn.q_proj.weight"
    for i in range(tensors.count_layers(pattern, "num_hidden_layers")):
        at = f"{prefix}layers.{i}"
        query, key, value = (tensors.take_linear(f"{at}.self_attn.{c}_proj", d, d) for c in "qkv")
        output = tensors.take_linear(f"{at}.self_attn.out_proj", d, d)
        up = tensors.take_linear(f"{at}.fc1", d, None)
        down = tensors.take_linear(f"{at}.fc2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                build_attention(query, key, value, output, n_heads, is_causal=True),
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.self_attn_layer_norm", d, _EPSILON),
                tensors.take_layer_norm(f"{at}.final_layer_norm", d, _EPSILON),
                norm_first,
            )
        )
    has_last = norm_first and not tensors.read_flag("_remove_final_layer_norm", False)
    head = tensors.take_optional("lm_head.weight", len(words), d)
    return TransformerWeights(
        "opt",
        tuple(layers),
        EmbeddingWeights(words, positions, first_position=_FIRST_POSITION),
        tensors.take_layer_norm(f"{prefix}final_layer_norm", d, _EPSILON) if has_last else None,
        (words if head is None else head).T,
        tensors.config,
        tensors.finish(f"{prefix}layers."),
    )
