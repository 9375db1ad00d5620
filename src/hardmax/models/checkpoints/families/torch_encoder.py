"""A stack of `torch.nn.TransformerEncoderLayer`, norms first or last, anywhere in a state dict."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.named_tensors import NamedTensors, attention_of
from hardmax.models.checkpoints.weights import LayerWeights, Linear, MlpWeights, TransformerWeights

MODEL_TYPES = ()
MARK = "layers.0.self_attn.in_proj_weight"


def read(tensors: NamedTensors, prefix: str) -> TransformerWeights:
    """Read the layers named `PREFIXlayers.0.self_attn.in_proj_weight` and so on.

    A state dict says neither how many heads there are nor where the norms stand. The configuration
    does, in the words of torch: `nhead`, which is also looked for inside it, and `norm_first`,
    `activation`, `layer_norm_eps`; where it does not say these, torch's defaults are assumed.
    """
    epsilon = tensors.number("layer_norm_eps", 1e-5)
    activation = tensors.activation("activation", "relu")
    norm_first = tensors.flag("norm_first", False)
    n_heads = _n_heads(tensors)
    d = tensors.take(f"{prefix}{MARK}", None, None).shape[1]
    layers = []
    for i in range(tensors.count(f"{prefix}layers.{{}}.self_attn.in_proj_weight", "num_layers")):
        at = f"{prefix}layers.{i}"
        weight = tensors.take(f"{at}.self_attn.in_proj_weight", 3 * d, d)
        bias = tensors.optional(f"{at}.self_attn.in_proj_bias", 3 * d)
        biases = [None] * 3 if bias is None else np.split(bias, 3)
        weights = [part.T for part in np.split(weight, 3)]
        query, key, value = map(Linear, weights, biases)
        output = tensors.linear(f"{at}.self_attn.out_proj", d, d)
        up = tensors.linear(f"{at}.linear1", d, None)
        down = tensors.linear(f"{at}.linear2", up.weight.shape[1], d)
        layers.append(
            LayerWeights(
                attention_of(query, key, value, output, n_heads),
                MlpWeights(up, down, None, activation),
                tensors.layer_norm(f"{at}.norm1", d, epsilon),
                tensors.layer_norm(f"{at}.norm2", d, epsilon),
                norm_first,
            )
        )
    said = {"norm_first": norm_first, "activation": activation, "layer_norm_eps": epsilon}
    has_norm = f"{prefix}norm.weight" in tensors
    final = tensors.layer_norm(f"{prefix}norm", d, epsilon) if has_norm else None
    return TransformerWeights(
        "torch",
        tuple(layers),
        final_norm=final,
        config=tensors.config,
        unused=tensors.finish(f"{prefix}layers."),
        assumed=tuple(f"{name} = {v}" for name, v in said.items() if name not in tensors.config),
    )


def _n_heads(tensors: NamedTensors) -> int:
    if "nhead" in tensors.config:
        return tensors.integer("nhead")
    stated = set(_stated(tensors.config))
    if len(stated) > 1:
        raise RecordFormatError(f"the configuration has several values of `nhead`: {stated}")
    return tensors.integer("nhead", stated.pop() if stated else None)


def _stated(config: Mapping[str, Any]) -> Iterator[int]:
    """The values of `nhead` inside a configuration."""
    for name, value in config.items():
        if name == "nhead" and type(value) is int:
            yield value
        elif isinstance(value, dict):
            yield from _stated(value)
