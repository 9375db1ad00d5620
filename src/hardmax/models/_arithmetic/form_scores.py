"""The scores of a layer in floats, computed without expanding its slopes to one large matrix."""

import numpy as np

from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models.argmax import ArgmaxLayer
from hardmax.typing import FloatArray, IntArray


def plain_scores(layer: ArgmaxLayer, query: FloatArray) -> FloatArray:
    """Return the scores of all forms, rounded.

    Args:
        layer: The layer.
        query: Shape `(n_points, p)`.

    Returns:
        Shape `(n_points, n_forms)`.

    Examples:
        >>> from hardmax.models import AffineMap
        >>> from hardmax.models.networks import relu_layer
        >>> layer = relu_layer(AffineMap.identity(2), AffineMap.identity(2))
        >>> plain_scores(layer, np.array([[3.0, -2.0]])).tolist()
        [[0.0, 3.0, 0.0, -2.0]]
    """
    if layer.copies is not None:
        return _copy_columns(query, layer.copies)
    scores = np.empty((len(query), len(layer.offsets)))
    for block in layer.form_blocks:
        scores[:, block.forms] = query[:, block.columns] @ block.slopes.T + block.offsets
    return scores


def enclosed_scores(layer: ArgmaxLayer, query: Enclosed, *, n_linear: int = 0) -> Enclosed:
    """Return the scores of all forms with radii.

    Args:
        layer: The layer.
        query: Arrays of shape `(n, p)`.
        n_linear: The number of leading rows for which the offsets are omitted.
    """
    if layer.copies is not None:
        return Enclosed(*(_copy_columns(part, layer.copies) for part in query))
    if layer.reads is None:
        return layer.form_blocks[0].enclosed(query, n_linear=n_linear)
    shape = len(query.values), len(layer.offsets)
    scores = Enclosed(np.empty(shape), np.empty(shape))
    for block in layer.form_blocks:
        read = Enclosed(*(part[:, block.columns] for part in query))
        found = block.enclosed(read, n_linear=n_linear)
        scores.values[:, block.forms], scores.radii[:, block.forms] = found
    return scores


def _copy_columns(part: FloatArray, columns: IntArray) -> FloatArray:
    copied = part[:, columns]
    copied[:, columns < 0] = 0.0
    return copied
