"""Random `ArgmaxNetwork`s that no model class makes, for example with gains and shared columns."""

from typing import Any

import numpy as np

from hardmax.models import AffineMap, ArgmaxLayer, ArgmaxNetwork
from tests.core.degenerate_models import numbers


def random_network(rng: np.random.Generator, style: str, dim: int) -> ArgmaxNetwork:
    """Draw one to three layers of groups, after an embedding and before a readout."""
    width = dim if rng.random() < 0.5 else int(rng.integers(1, 4))
    embedding = AffineMap.identity(dim)
    if width != dim:
        embedding = _affine_map(rng, style, dim, width)
    layers = []
    for _ in range(rng.integers(1, 4)):
        layers.append(_layer(rng, style, width))
        width = layers[-1].dim_out
    return ArgmaxNetwork(tuple(layers), embedding, _affine_map(rng, style, width, 2))


def _affine_map(rng: np.random.Generator, style: str, dim_in: int, dim_out: int) -> AffineMap:
    return AffineMap(numbers(rng, style, dim_in, dim_out), numbers(rng, style, dim_out))


def _layer(rng: np.random.Generator, style: str, dim_in: int) -> ArgmaxLayer:
    """Draw a layer whose groups may share columns, repeat forms and scale their maxima."""
    n_query, n_values, n_output = (int(n) for n in rng.integers([2, 1, 2], [4, 3, 4]))
    ranks = rng.integers(1, 4, size=rng.integers(1, 4))
    n_forms = int(ranks.sum())
    slopes, offsets = numbers(rng, style, n_forms, n_query), numbers(rng, style, n_forms)
    if rng.random() < 0.4:
        slopes[-1], offsets[-1] = slopes[0], offsets[0]
    is_residual = bool(rng.random() < 0.4)
    starts = np.concatenate([[0], np.cumsum(ranks)])
    return ArgmaxLayer(
        _affine_map(rng, style, dim_in, n_query),
        slopes,
        offsets,
        starts,
        rng.integers(0, n_output - n_values + 1, size=len(ranks)),
        rng.choice([0.0, 1.0, 1.0, -2.0], size=n_forms),
        numbers(rng, style, n_forms, n_values) * (rng.random() < 0.6),
        _affine_map(rng, style, n_output, dim_in if is_residual else int(rng.integers(1, 4))),
        is_residual,
        _reads(rng, slopes, starts) if rng.random() < 0.3 else None,
    )


def _reads(rng: np.random.Generator, slopes: Any, starts: Any) -> Any:
    """Draw the entries that each group reads, in any order, some of them absent."""
    n_query = slopes.shape[1]
    rows = [rng.permutation(n_query) for _ in starts[1:]]
    if rng.random() < 0.5:
        rows[0][0] = -1
        slopes[: starts[1], 0] = 0.0
    return np.stack(rows)
