"""DistilBERT: BERT without types of tokens, under names of its own."""

from hardmax.models.checkpoints.families.bert import read_embedding
from hardmax.models.checkpoints.named_tensors import NamedTensors, attention_of
from hardmax.models.checkpoints.weights import LayerWeights, MlpWeights, TransformerWeights

MODEL_TYPES = ("distilbert",)
MARK = "transformer.layer.0.attention.q_lin.weight"
_EPSILON = 1e-12


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXtransformer.layer.0...` and so on."""
    embedding = read_embedding(tensors, f"{prefix}embeddings", _EPSILON)
    d = embedding.tokens.shape[1]
    n_heads = tensors.integer("n_heads")
    activation = tensors.activation("activation", "gelu")
    layers = []
    pattern = f"{prefix}transformer.layer.{{}}.attention.q_lin.weight"
    for i in range(tensors.count(pattern, "n_layers")):
        at = f"{prefix}transformer.layer.{i}"
        attention = attention_of(
            tensors.linear(f"{at}.attention.q_lin", d, None),
            tensors.linear(f"{at}.attention.k_lin", d, None),
            tensors.linear(f"{at}.attention.v_lin", d, None),
            tensors.linear(f"{at}.attention.out_lin", None, d),
            n_heads,
        )
        up = tensors.linear(f"{at}.ffn.lin1", d, None)
        down = tensors.linear(f"{at}.ffn.lin2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, None, activation),
                tensors.layer_norm(f"{at}.sa_layer_norm", d, _EPSILON),
                tensors.layer_norm(f"{at}.output_layer_norm", d, _EPSILON),
                norm_first=False,
            )
        )
    unused = tensors.finish(f"{prefix}transformer.")
    return TransformerWeights(
        "distilbert", tuple(layers), embedding, config=tensors.config, unused=unused
    )
