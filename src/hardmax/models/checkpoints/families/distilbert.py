"""DistilBERT: BERT without token types, and with different tensor names."""

from hardmax.models.checkpoints.families.bert import read_embedding
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import LayerWeights, MlpWeights, TransformerWeights

MODEL_TYPES = ("distilbert",)
MARK = "transformer.layer.0.attention.q_lin.weight"
_EPSILON = 1e-12


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the model whose tensors are named `PREFIXtransformer.layer.0...` and so on."""
    embedding = read_embedding(tensors, f"{prefix}embeddings", _EPSILON)
    d = embedding.tokens.shape[1]
    n_heads = tensors.read_integer("n_heads")
    activation = tensors.read_activation("activation", "gelu")
    layers = []
    pattern = f"{prefix}transformer.layer.{{}}.attention.q_lin.weight"
    for i in range(tensors.count_layers(pattern, "n_layers")):
        at = f"{prefix}transformer.layer.{i}"
        attention = build_attention(
            tensors.take_linear(f"{at}.attention.q_lin", d, None),
            tensors.take_linear(f"{at}.attention.k_lin", d, None),
            tensors.take_linear(f"{at}.attention.v_lin", d, None),
            tensors.take_linear(f"{at}.attention.out_lin", None, d),
            n_heads,
        )
        up = tensors.take_linear(f"{at}.ffn.lin1", d, None)
        down = tensors.take_linear(f"{at}.ffn.lin2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention,
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.sa_layer_norm", d, _EPSILON),
                tensors.take_layer_norm(f"{at}.output_layer_norm", d, _EPSILON),
                norm_first=False,
            )
        )
    unused = tensors.finish(f"{prefix}transformer.")
    return TransformerWeights(
        "distilbert", tuple(layers), embedding, config=tensors.config, unused=unused
    )
