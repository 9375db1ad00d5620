"""Validation of models for this package, and the heads of a network."""

from typing import Any

from hardmax.errors import ArgumentError
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.argmax_models import ArgmaxModel
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model, read_network
from hardmax.models.transformers import Block, HardTransformer


def read_soft_model(model: Any) -> ArgmaxNetwork:
    """Return the network of a model whose soft form is the soft form of its network.

    Raises:
        ArgumentError: If the two soft forms differ, as for a `TokenTransformer` or a compiled
            transformer. The network of such a model omits heads that never change their winner,
            and represents heads that output their score as units.
    """
    model = read_model(model)
    known = isinstance(model, AttentionHead | Block | HardTransformer | ArgmaxNetwork)
    known = known or getattr(type(model), "soft", None) is ArgmaxModel.soft
    if hasattr(type(model), "network") and not known:
        raise ArgumentError(
            f"`model` is a {type(model).__name__}, whose output at a positive temperature is not "
            "the softmax of its network's heads. Pass an AttentionHead, a Block, a "
            "HardTransformer or an ArgmaxNetwork."
        )
    return read_network(model)


def head_names(network: ArgmaxNetwork) -> tuple[tuple[int, int], ...]:
    """Return the `(layer, group)` of every head: groups whose contributions are constants."""
    return tuple(
        (index, group)
        for index, layer in enumerate(network.layers)
        for group in range(layer.n_groups)
        if layer.is_table[group]
    )


def has_one_attention_layer(network: ArgmaxNetwork) -> bool:
    """Return whether all heads are in one layer, so that no head depends on another's output."""
    return len({index for index, _ in head_names(network)}) <= 1
