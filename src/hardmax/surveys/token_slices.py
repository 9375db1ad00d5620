"""The cells of one token's way through a trained transformer, on a path and a plane."""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.geometry.domains import Box, Segment, Slice
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.checkpoints.forward import Activations, run_transformer
from hardmax.models.checkpoints.frozen_networks import attention_network, frozen_network
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray

_MOST_CELLS = 60_000
_WINDOW = Box(np.full(2, -0.25), np.full(2, 1.25))


@dataclass(frozen=True, eq=False, repr=False)
class TokenSlice:
    """One token moves, everything else stays.

    Attributes:
        is_whole: Whether all layers are counted (`models.frozen_network`), or the heads of the
            first one (`models.attention_network`).
        tokens: The token that moves, the one its path leads to, and the third of the plane.
        path: The cells on the straight path between the vectors of the first two.
        plane: The cells on the plane through all three, the first at 0, the others at the unit
            vectors; the search stops at 60 000.
    """

    is_whole: bool
    tokens: tuple[int, int, int]
    path: Partition
    plane: Partition

    __repr__ = short_repr
    _repr_html_ = html_card


def token_slices(model: TransformerWeights, activations: Activations) -> tuple[TokenSlice, ...]:
    """Count the cells of a token's way: through the first heads, and if it is ReLU through all.

    The token is the last one of a causal model, which no other sees, and else the first. All layers
    are counted with hard heads, keys and values of the model with hard heads, and frozen norms. The
    other two tokens are the one farthest from it, and the one farthest from the line through both.

    Returns:
        One or two slices; none if the vectors of the tokens span no plane.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> first, whole = token_slices(model, run_transformer(model, [2, 0, 1, 26]))
        >>> first.is_whole, whole.is_whole, first.tokens[0], whole.plane.n_cells > 1
        (False, True, 3, True)
    """
    is_causal = model.layers[0].attention.is_causal
    position = len(activations.embedded) - 1 if is_causal else 0
    found = []
    network = attention_network(model, activations, 0, position)
    found.append(_slice(network, activations.layers[0].inputs, position, is_whole=False))
    if all(layer.mlp.activation == "relu" and layer.mlp.gate is None for layer in model.layers):
        everywhere = [
            (i, h) for i, layer in enumerate(model.layers) for h in range(layer.attention.n_heads)
        ]
        hard = run_transformer(model, vectors=activations.embedded, hard=everywhere)
        network = frozen_network(model, hard, position)
        found.append(_slice(network, hard.embedded, position, is_whole=True))
    return tuple(one for one in found if one is not None)


def _slice(
    network: ArgmaxNetwork, rows: FloatArray, position: int, *, is_whole: bool
) -> TokenSlice | None:
    start = rows[position]
    moved = rows - start
    second = int((moved**2).sum(axis=1).argmax())
    length = moved[second] @ moved[second]
    if not length:
        return None
    beside = moved - np.outer(moved @ moved[second] / length, moved[second])
    third = int((beside**2).sum(axis=1).argmax())
    if np.linalg.matrix_rank(moved[[second, third]]) < 2:
        return None
    plane = Slice(start, moved[[second, third]], _WINDOW)
    return TokenSlice(
        is_whole,
        (position, second, third),
        enumerate_regions(network, Segment(start, rows[second])),
        enumerate_regions(network, plane, max_cells=_MOST_CELLS),
    )
