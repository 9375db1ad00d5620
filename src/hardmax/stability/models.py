"""What the functions of this package accept as a model, and where its heads are."""

from typing import Any

from hardmax.errors import ArgumentError
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.argmax_models import ArgmaxModel
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model, read_network
from hardmax.models.transformers import Block, HardTransformer


def read_soft_model(model: Any) -> ArgmaxNetwork:
    """Return the network of a model that softens as its network does.

    Raises:
        ArgumentError: If it softens otherwise, as a `TokenTransformer` or a compiled one, whose
            network leaves out heads that never change their winner and takes heads that pass on
            their score for units.
    """
    model = read_model(model)
    known = isinstance(model, AttentionHead | Block | HardTransformer | ArgmaxNetwork)
    known = known or getattr(type(model), "soft", None) is ArgmaxModel.soft
    if hasattr(type(model), "network") and not known:
        raise ArgumentError(
            f"`model` must soften as its network does; a {type(model).__name__} at a temperature "
            "is another model. Pass a head, a Block, a HardTransformer, or an ArgmaxNetwork."
        )
    return read_network(model)


def head_names(network: ArgmaxNetwork) -> tuple[tuple[int, int], ...]:
    """List the `(layer, group)` of every group that contributes constants, as heads do."""
    return tuple(
        (index, group)
        for index, layer in enumerate(network.layers)
        for group in range(layer.n_groups)
        if layer.is_table[group]
    )


def has_one_attention_layer(network: ArgmaxNetwork) -> bool:
    """Say whether no head sees the output of another, so that all see what they see when hard."""
    return len({index for index, _ in head_names(network)}) <= 1
