"""A stack of `torch.nn.TransformerEncoderLayer`, norms first or last, anywhere in a state dict."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, build_attention
from hardmax.models.checkpoints.weights import LayerWeights, Linear, MlpWeights, TransformerWeights

MODEL_TYPES = ()
MARK = "layers.0.self_attn.in_proj_weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the layers named `PREFIXlayers.0.self_attn.in_proj_weight` and so on.

    A state dict does not contain the number of heads or the position of the norms. The
    configuration does, under the names that torch uses: `nhead`, which may be nested, and
    `norm_first`, `activation` and `layer_norm_eps`, which default to torch's own defaults.
    """
    epsilon = tensors.read_number("layer_norm_eps", 1e-5)
    activation = tensors.read_activation("activation", "relu")
    norm_first = tensors.read_flag("norm_first", False)
    n_heads = _read_n_heads(tensors)
    d = tensors.take(f"{prefix}{MARK}", None, None).shape[1]
    layers = []
    for i in range(
        tensors.count_layers(f"{prefix}layers.{{}}.self_attn.in_proj_weight", "num_layers")
    ):
        at = f"{prefix}layers.{i}"
        weight = tensors.take(f"{at}.self_attn.in_proj_weight", 3 * d, d)
        bias = tensors.take_optional(f"{at}.self_attn.in_proj_bias", 3 * d)
        biases = [None] * 3 if bias is None else np.split(bias, 3)
        weights = [part.T for part in np.split(weight, 3)]
        query, key, value = map(Linear, weights, biases)
        output = tensors.take_linear(f"{at}.self_attn.out_proj", d, d)
        up = tensors.take_linear(f"{at}.linear1", d, None)
        down = tensors.take_linear(f"{at}.linear2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                build_attention(query, key, value, output, n_heads),
                MlpWeights(up, down, None, activation),
                tensors.take_layer_norm(f"{at}.norm1", d, epsilon),
                tensors.take_layer_norm(f"{at}.norm2", d, epsilon),
                norm_first,
            )
        )
    said = {"norm_first": norm_first, "activation": activation, "layer_norm_eps": epsilon}
    has_norm = f"{prefix}norm.weight" in tensors
    final = tensors.take_layer_norm(f"{prefix}norm", d, epsilon) if has_norm else None
    return TransformerWeights(
        "torch",
        tuple(layers),
        final_norm=final,
        config=tensors.config,
        unused=tensors.finish(f"{prefix}layers."),
        assumed=tuple(f"{name} = {v}" for name, v in said.items() if name not in tensors.config),
    )


def _read_n_heads(tensors: NamedTensors) -> int:
    if "nhead" in tensors.config:
        return tensors.read_integer("nhead")
    stated = set(_read_option(tensors.config))
    if len(stated) > 1:
        raise RecordFormatError(f"the configuration has several values of `nhead`: {stated}")
    return tensors.read_integer("nhead", stated.pop() if stated else None)


def _read_option(config: Mapping[str, Any]) -> Iterator[int]:
    """Yield all values of `nhead` in a nested configuration."""
    for name, value in config.items():
        if name == "nhead" and type(value) is int:
            yield value
        elif isinstance(value, dict):
            yield from _read_option(value)
