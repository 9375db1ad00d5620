"""The cells of one token's way through a trained transformer, on a path and a plane."""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.geometry.domains import Box, Segment, Slice
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.checkpoints.forward import Activations, run_transformer
from hardmax.models.checkpoints.frozen_networks import (
    attention_network,
    frozen_network,
    moved_token,
)
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.models.evaluation import forward
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray

_MOST_CELLS = 60_000
_MOST_DRIFT = 0.1
_MOST_HALVINGS = 24
_WINDOW = Box(np.full(2, -1.0), np.full(2, 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class TokenSlice:
    """One token moves, everything else stays.

    Attributes:
        is_whole: Whether all layers are counted (`models.frozen_network`), or the heads of the
            first one (`models.attention_network`).
        tokens: The token that moves, and the two it moves towards.
        reach: How far, as a share of the way to each of the two. It is 1 for the heads of the first
            layer; for all layers it is halved until the frozen norms change the output by at most
            a tenth.
        drift: By how much they do, relative, at most, measured at the four ends of the two ways,
            forth and back; 0 for the heads of the first layer, where no norm is frozen.
        path: The cells on the straight path towards the first of the two.
        plane: The cells on the plane, the token in the middle, as far as its reach to both sides;
            the search stops at 60 000.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> first, whole = token_slices(model, run_transformer(model, [2, 0, 1, 26]))
        >>> first.reach, first.drift, whole.reach <= 1.0
        (1.0, 0.0, True)
    """

    is_whole: bool
    tokens: tuple[int, int, int]
    reach: float
    drift: float
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
        One or two slices; none if the vectors of the tokens span no plane, or queries have norms of
        their own, and so walls are no planes. All layers are left out
        if frozen norms do not hold even beside the token, as on a wall.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> first, whole = token_slices(model, run_transformer(model, [2, 0, 1, 26]))
        >>> first.is_whole, whole.is_whole, first.tokens[0], whole.plane.n_cells > 1
        (False, True, 3, True)
    """
    is_causal = model.layers[0].attention.is_causal
    position = len(activations.embedded) - 1 if is_causal else 0
    read = activations.layers[0].inputs
    chosen = _towards(read, position)
    if chosen is None or model.layers[0].attention.query_norm is not None:
        return ()
    network = attention_network(model, activations, 0, position)
    found = [_slice(network, read, chosen, reach=1.0, drift=0.0, is_whole=False)]
    if any(
        layer.mlp.activation != "relu" or layer.mlp.gate or layer.is_parallel
        for layer in model.layers
    ):
        return tuple(found)
    everywhere = [
        (i, h) for i, layer in enumerate(model.layers) for h in range(layer.attention.n_heads)
    ]
    hard = run_transformer(model, vectors=activations.embedded, hard=everywhere)
    chosen = _towards(hard.embedded, position)
    if chosen is None:
        return tuple(found)
    network = frozen_network(model, hard, position)
    ways = hard.embedded[list(chosen[1:])] - hard.embedded[position]
    for reach in 0.5 ** np.arange(_MOST_HALVINGS):
        ends = hard.embedded[position] + reach * np.vstack([ways, -ways])
        true = np.array([moved_token(model, hard, end, position) for end in ends])
        gaps = np.linalg.norm(forward(network, ends) - true, axis=1)
        drift = float((gaps / np.linalg.norm(true, axis=1)).max())
        if drift <= _MOST_DRIFT:
            rows, far = hard.embedded, float(reach)
            found.append(_slice(network, rows, chosen, reach=far, drift=drift, is_whole=True))
            break
    return tuple(found)


def _towards(rows: FloatArray, position: int) -> tuple[int, int, int] | None:
    """A token, the one farthest from it, and the one farthest from the line through both."""
    moved = rows - rows[position]
    second = int((moved**2).sum(axis=1).argmax())
    length = moved[second] @ moved[second]
    if not length:
        return None
    beside = moved - np.outer(moved @ moved[second] / length, moved[second])
    third = int((beside**2).sum(axis=1).argmax())
    spans = np.linalg.matrix_rank(moved[[second, third]]) == 2
    return (position, second, third) if spans else None


def _slice(
    network: ArgmaxNetwork,
    rows: FloatArray,
    tokens: tuple[int, int, int],
    *,
    reach: float,
    drift: float,
    is_whole: bool,
) -> TokenSlice:
    start = rows[tokens[0]]
    ways = reach * (rows[list(tokens[1:])] - start)
    return TokenSlice(
        is_whole,
        tokens,
        reach,
        drift,
        enumerate_regions(network, Segment(start, start + ways[0])),
        enumerate_regions(network, Slice(start, ways, _WINDOW), max_cells=_MOST_CELLS),
    )
