"""ALBERT: BERT with narrow embeddings and layers that share their weights in groups."""

from dataclasses import replace

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.families.bert import read_embedding
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import LayerWeights, MlpWeights, TransformerWeights

MODEL_TYPES = ("albert",)
_MOST_LAYERS = 1000
MARK = "encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXencoder.albert_layer_groups.0...`."""
    epsilon = tensors.read_number("layer_norm_eps", 1e-12)
    n_layers = tensors.read_integer("num_hidden_layers")
    pattern = f"{prefix}encoder.albert_layer_groups.{{}}.albert_layers.0.attention.query.weight"
    n_groups = tensors.count_layers(pattern, "num_hidden_groups")
    embedding = read_embedding(tensors, f"{prefix}embeddings", epsilon)
    e = embedding.tokens.shape[1]
    projection = tensors.take_linear(f"{prefix}encoder.embedding_hidden_mapping_in", e, None)
    if not n_groups <= n_layers <= _MOST_LAYERS:
        raise RecordFormatError(
            f"`num_hidden_layers` must be from {n_groups}, the number of groups, to "
            f"{_MOST_LAYERS}; got {n_layers}"
        )
    groups = [
        _read_group(tensors, f"{prefix}encoder.albert_layer_groups.{g}") for g in range(n_groups)
    ]
    # Layer i belongs to group i n_groups / n_layers, rounded down; a group may have several layers.
    layers = [layer for i in range(n_layers) for layer in groups[i * n_groups // n_layers]]
    return TransformerWeights(
        "albert",
        tuple(layers),
        replace(embedding, projection=projection),
        config=tensors.config,
        unused=tensors.finish(f"{prefix}encoder."),
    )


def _read_group(tensors: NamedTensors, group: str) -> list[LayerWeights]:
    epsilon = tensors.read_number("layer_norm_eps", 1e-12)
    d = tensors.take(f"{group}.albert_layers.0.attention.query.weight", None, None).shape[1]
    n_heads = tensors.read_integer("num_attention_heads")
    activation = tensors.read_activation("hidden_act", "gelu_new")
    pattern = f"{group}.albert_layers.{{}}.attention.query.weight"
    layers = []
    for i in range(tensors.count_layers(pattern, "inner_group_num")):
        at = f"{group}.albert_layers.{i}"
        attention = build_attention(
            tensors.take_linear(f"{at}.attention.query", d, None),
            tensors.take_linear(f"{at}.attention.key", d, None),
            tensors.take_linear(f"{at}.attention.value", d, None),
            tensors.take_linear(f"{at}.attention.dense", None, d),
            n_heads,
        )
        up = tensors.take_linear(f"{at}.ffn", d, None)
        down = tensors.take_linear(f"{at}.ffn_output", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.attention.LayerNorm", d, epsilon),
                tensors.take_layer_norm(f"{at}.full_layer_layer_norm", d, epsilon),
                norm_first=False,
            )
        )
    return layers
