"""The cells of a trained transformer as one token moves, on a path and on a plane."""

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
    """The cells that one token crosses while everything else stays fixed.

    Attributes:
        is_whole: Whether the cells belong to all layers (`models.frozen_network`), or only to the
            heads of the first layer (`models.attention_network`).
        tokens: The token that moves, and the two tokens that it moves towards.
        reach: The distance moved, as a fraction of the distance to each of the two tokens. It is 1
            for the heads of the first layer. For all layers, it is halved until the frozen norms
            change the output by at most a tenth.
        drift: The largest relative change of the output by the frozen norms, measured at the ends
            of the moves towards and away from both tokens. It is 0 for the heads of the first
            layer, where no norm is frozen.
        path: The cells on the straight path towards the first of the two tokens.
        plane: The cells on the plane spanned by the two moves, up to `reach` in both directions,
            with the token in the middle. The search stops at 60 000 cells.

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
    """Return the cells that a moving token crosses in the first heads and, for ReLU, in all layers.

    The token that moves is the last token of a causal model, which no other token sees, and the
    first token otherwise. The slice of all layers uses hard heads, the keys and values of the model
    with hard heads, and frozen norms. The other two tokens are the token farthest from the moving
    one, and the token farthest from the line through both.

    Returns:
        One or two slices. There are none if the vectors of the tokens span no plane, or if queries
        are normalized, so that walls are not planes. The slice of all layers is omitted if the
        frozen norms are inaccurate even next to the token, for example on a wall.

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
    chosen = _choose_targets(read, position)
    if chosen is None or model.layers[0].attention.query_norm is not None:
        return ()
    network = attention_network(model, activations, 0, position)
    found = [_find_cells(network, read, chosen, reach=1.0, drift=0.0, is_whole=False)]
    if any(
        layer.mlp.activation != "relu" or layer.mlp.gate or layer.is_parallel
        for layer in model.layers
    ):
        return tuple(found)
    everywhere = [
        (i, h) for i, layer in enumerate(model.layers) for h in range(layer.attention.n_heads)
    ]
    hard = run_transformer(model, vectors=activations.embedded, hard=everywhere)
    chosen = _choose_targets(hard.embedded, position)
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
            found.append(_find_cells(network, rows, chosen, reach=far, drift=drift, is_whole=True))
            break
    return tuple(found)


def _choose_targets(rows: FloatArray, position: int) -> tuple[int, int, int] | None:
    """Return a token, the token farthest from it, and the token farthest from their line."""
    moved = rows - rows[position]
    second = int((moved**2).sum(axis=1).argmax())
    length = moved[second] @ moved[second]
    if not length:
        return None
    beside = moved - np.outer(moved @ moved[second] / length, moved[second])
    third = int((beside**2).sum(axis=1).argmax())
    spans = np.linalg.matrix_rank(moved[[second, third]]) == 2
    return (position, second, third) if spans else None


def _find_cells(
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
