"""BERT, RoBERTa and ELECTRA: norms follow the residual sums, and every token sees all tokens."""

from dataclasses import replace

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import (
    EmbeddingWeights,
    LayerWeights,
    MlpWeights,
    TransformerWeights,
)

_ROBERTA = ("roberta", "xlm-roberta", "camembert")
MODEL_TYPES = ("bert", "electra", *_ROBERTA)
MARK = "encoder.layer.0.attention.self.query.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXencoder.layer.0...` and so on."""
    named = next((name for name in ("roberta", "electra") if name in prefix), "bert")
    kind = tensors.config.get("model_type", named)
    family = "roberta" if kind in _ROBERTA else str(kind)
    epsilon = tensors.read_number("layer_norm_eps", 1e-5 if family == "roberta" else 1e-12)
    # RoBERTa counts positions from the one after the padding position.
    first = tensors.read_integer("pad_token_id", 1, least=0) + 1 if family == "roberta" else 0
    embedding = read_embedding(tensors, f"{prefix}embeddings", epsilon, first)
    d = embedding.tokens.shape[1]
    if family == "electra" and f"{prefix}embeddings_project.weight" in tensors:
        projection = tensors.take_linear(f"{prefix}embeddings_project", d, None)
        embedding, d = replace(embedding, projection=projection), projection.weight.shape[1]
    n_heads = tensors.read_integer("num_attention_heads")
    activation = tensors.read_activation("hidden_act", "gelu")
    is_causal = tensors.read_flag("is_decoder", False)
    layers = []
    pattern = f"{prefix}encoder.layer.{{}}.attention.self.query.weight"
    for i in range(tensors.count_layers(pattern, "num_hidden_layers")):
        at = f"{prefix}encoder.layer.{i}"
        attention = build_attention(
            tensors.take_linear(f"{at}.attention.self.query", d, None),
            tensors.take_linear(f"{at}.attention.self.key", d, None),
            tensors.take_linear(f"{at}.attention.self.value", d, None),
            tensors.take_linear(f"{at}.attention.output.dense", None, d),
            n_heads,
            is_causal=is_causal,
        )
        up = tensors.take_linear(f"{at}.intermediate.dense", d, None)
        down = tensors.take_linear(f"{at}.output.dense", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.attention.output.LayerNorm", d, epsilon),
                tensors.take_layer_norm(f"{at}.output.LayerNorm", d, epsilon),
                norm_first=False,
            )
        )
    unused = tensors.finish(f"{prefix}encoder.")
    return TransformerWeights(
        family, tuple(layers), embedding, config=tensors.config, unused=unused
    )


def read_embedding(
    tensors: NamedTensors, at: str, epsilon: float, first_position: int = 0
) -> EmbeddingWeights:
    """Take the embedding of tokens, positions and types, as in BERT and ALBERT."""
    kind = tensors.config.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise RecordFormatError(f"`position_embedding_type` must be 'absolute'; got {kind!r:.40}")
    words = tensors.take(f"{at}.word_embeddings.weight", None, None)
    e = words.shape[1]
    return EmbeddingWeights(
        words,
        tensors.take(f"{at}.position_embeddings.weight", None, e),
        tensors.take_optional(f"{at}.token_type_embeddings.weight", None, e),
        tensors.take_layer_norm(f"{at}.LayerNorm", e, epsilon),
        first_position=first_position,
    )
