"""Transformers compiled by this library: no norms, heads of size 1, ReLU.

The first block has no heads. Together with the embedding it maps an input to vectors:
`compute_input_vectors` applies both, and `TransformerWeights` contains the blocks after them.
"""

from collections.abc import Mapping

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import LayerWeights, Linear, MlpWeights, TransformerWeights
from hardmax.typing import AnyArray, FloatArray

MODEL_TYPES = ()
MARK = "transformer.blocks.1.query_weight"
EMBEDDING = "transformer.embedding_weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the blocks named `transformer.blocks.1.query_weight` and so on."""
    d = len(tensors.take(f"{prefix}{MARK}", None, None))
    layers: list[LayerWeights] = []
    while f"{prefix}transformer.blocks.{len(layers) + 1}.query_weight" in tensors:
        at = f"{prefix}transformer.blocks.{len(layers) + 1}"
        query = tensors.take(f"{at}.query_weight", d, None)
        n_heads = query.shape[1]
        key, value = (tensors.take(f"{at}.{c}_weight", d, n_heads) for c in ("key", "value"))
        output = tensors.take(f"{at}.output_weight", n_heads, d)
        linear = (Linear(query), Linear(key), Linear(value), Linear(output))
        attention = build_attention(*linear, n_heads)
        layers.append(
            LayerWeights(attention, _read_units(tensors, at, d), None, None, norm_first=True)
        )
    unused = tensors.finish(f"{prefix}transformer.blocks.", passed_over=_FIRST)
    return TransformerWeights("compiled", tuple(layers), config=tensors.config, unused=unused)


_UNITS = ("w_in", "b_in", "w_out", "b_out")
_FIRST = tuple(f"transformer.blocks.0.{name}" for name in _UNITS)


def _read_units(tensors: NamedTensors, at: str, d: int) -> MlpWeights:
    if f"{at}.w_in" not in tensors:
        return MlpWeights(Linear(np.zeros((d, 0))), Linear(np.zeros((0, d))), None, "relu")
    w_in = tensors.take(f"{at}.w_in", d, None)
    n_units = w_in.shape[1]
    up = Linear(w_in, tensors.take(f"{at}.b_in", n_units))
    down = Linear(tensors.take(f"{at}.w_out", n_units, d), tensors.take(f"{at}.b_out", d))
    return MlpWeights(up, down, None, "relu")


def compute_input_vectors(tensors: Mapping[str, AnyArray], x: FloatArray) -> FloatArray:
    """Return the input of the first layer with heads, shape `(n_tokens, d)`.

    Args:
        tensors: The tensors of the file.
        x: The input, shape `(dim_in,)`.
    """
    named = NamedTensors(tensors, {})
    weight = named.take(EMBEDDING, len(x), None, None)
    n_tokens, d = weight.shape[1:]
    state = np.tensordot(x, weight, 1) + named.take("transformer.embedding_bias", n_tokens, d)
    if "transformer.blocks.0.query_weight" in tensors:
        raise RecordFormatError("The first block of `source` must have no heads; it has some.")
    first = _read_units(named, "transformer.blocks.0", d)
    return np.asarray(state + first.down(np.maximum(first.up(state), 0.0)))
