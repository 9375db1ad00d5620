r"""How close the heads of a trained transformer are to hard routing, on one sequence.

Counts of keys are exact for the stored numbers: the rank of the keys, and the number of keys that
are vertices of their convex hull and so win for some query. In the usual dimensions nearly all
points of any cloud are vertices, so the same count for Gaussian keys is reported too. The winner of
each row is exact, and the distance of the head from hard attention is certified. Margins and masses
are computed in floats, in units of the model's own temperature. Each number comes with the same
number for Gaussian queries with the mean and covariance of the real ones.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.progress import Progress, track
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.face_lattices import rank
from hardmax.models.checkpoints.forward import run_transformer, softmax_rows
from hardmax.models.checkpoints.heads import HeadArrays, head_arrays
from hardmax.models.checkpoints.loading import read_checkpoint
from hardmax.models.checkpoints.row_certificates import certify_rows
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.typing import ArrayLike, FloatArray, TorchModule

_SHARP = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class HeadSummary:
    """The summary of one head on one sequence; rows are the tokens that see at least two keys.

    Attributes:
        layer: The index of the layer.
        head: The index of the head.
        n_keys: The number of keys.
        key_rank: The rank of the keys, exact.
        n_extreme: The number of keys that win for some query, exact.
        n_extreme_null: The number for Gaussian keys with the same mean and covariance.
        margin: The median over rows of the largest score minus the next, in units of the
            temperature.
        margin_null: The margin for Gaussian queries with the mean and covariance of the real ones.
        mass: The median over rows of the largest attention weight.
        mass_null: The mass for Gaussian queries.
        distance: The median over rows of a certified bound on the distance of the head's output
            from the winner's value, relative to the largest distance of a value from it.
        distance_null: The distance for Gaussian queries.
        sharp_share: The share of rows whose winner is certified to have more than 0.9 of the
            weight.
        sharp_share_null: The share for Gaussian queries.
        sink_share: The share of rows that the first key wins, exact.
        sink_share_null: The share for Gaussian queries.
        margin_without_sink: The median margin over the other rows; None if there are no others.
        margin_without_sink_null: The margin without the sink for Gaussian queries.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> q, k, v = rng.normal(size=(3, 1, 20, 2))
        >>> one = analyze_heads([HeadArrays(q, k, v, is_causal=False)])[0]
        >>> one.layer, one.head, one.n_keys, one.key_rank
        (0, 0, 20, 2)
    """

    layer: int
    head: int
    n_keys: int
    key_rank: int
    n_extreme: int
    n_extreme_null: int
    margin: float
    margin_null: float
    mass: float
    mass_null: float
    distance: float
    distance_null: float
    sharp_share: float
    sharp_share_null: float
    sink_share: float
    sink_share_null: float
    margin_without_sink: float | None
    margin_without_sink_null: float | None

    __repr__ = short_repr
    _repr_html_ = html_card


def analyze_heads(
    model: TransformerWeights | Sequence[HeadArrays] | str | os.PathLike[str] | TorchModule,
    tokens: ArrayLike | None = None,
    *,
    vectors: ArrayLike | None = None,
    token_types: ArrayLike | None = None,
    seed: int = 0,
) -> tuple[HeadSummary, ...]:
    """Summarise every head of every layer on one sequence.

    Args:
        model: A checkpoint, or a source that `load_checkpoint` accepts, which is run on `tokens` or
            `vectors` (see `models.run_transformer`); or the queries, keys and values of each layer
            (see `models.HeadArrays` and `heads_from_cache`), which already belong to a sequence.
        tokens: The token ids.
        vectors: The input of the first layer, instead of `tokens`.
        token_types: The token type ids.
        seed: The seed of the Gaussian queries and keys.

    Returns:
        A summary of each head, layer by layer.

    Raises:
        ArgumentError: If the sequence has fewer than two tokens.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> q, k, v = rng.normal(size=(3, 1, 50, 2))
        >>> found = analyze_heads([HeadArrays(3 * q, k, v, is_causal=False)])[0]
        >>> found.n_keys, found.key_rank, found.n_extreme < 15
        (50, 2, True)
    """
    given: Any = read_checkpoint(model)
    if isinstance(given, TransformerWeights):
        ran = run_transformer(given, tokens, vectors=vectors, token_types=token_types)
        layers: Sequence[HeadArrays] = head_arrays(given, ran)
    else:
        layers = list(given)
        if any(given is not None for given in (tokens, vectors, token_types)):
            raise ArgumentError("`tokens` requires `model` to be a checkpoint.")
        if not all(isinstance(layer, HeadArrays) for layer in layers):
            raise ArgumentError("`model` must be a checkpoint, or a list of `HeadArrays`.")
    if any(layer.queries.shape[1] < 2 for layer in layers):
        raise ArgumentError("`tokens` must have at least two entries: one key has no rival.")
    seed = integer("seed", seed, at_least=0)
    found: list[HeadSummary] = []
    progress: Progress[object]
    with track(sum(len(layer.keys) for layer in layers), "heads") as progress:
        for number, layer in enumerate(layers):
            group = layer.n_heads // len(layer.keys)
            for kv, keys in enumerate(layer.keys):
                counts = _count_keys(keys, np.random.default_rng([seed, number, kv]))
                for head in range(kv * group, (kv + 1) * group):
                    found.append(_summarise_head(layer, number, head, counts, seed))
                progress.advance()
    return tuple(found)


def null_queries(layer: HeadArrays, number: int, head: int, seed: int) -> FloatArray:
    """Return Gaussian queries with the mean and covariance of a head's real queries.

    Args:
        layer: The arrays of the layer.
        number: The index of the layer.
        head: The index of the head.
        seed: The seed, which is combined with `number` and `head`.
    """
    return _sample_gaussian(layer.queries[head], np.random.default_rng([seed, number, head, 1]))


def _count_keys(keys: FloatArray, rng: np.random.Generator) -> tuple[int, int, int]:
    """Return the rank of the keys, and the numbers of extreme real and Gaussian keys."""
    exact = rank(scaled_integers(keys).integers.tolist())
    null = _sample_gaussian(keys, rng)
    return exact, int(extreme_points(keys).sum()), int(extreme_points(null).sum())


def _sample_gaussian(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return Gaussian rows with the shape, mean and covariance of the given rows."""
    centre, n = rows.mean(axis=0), len(rows)
    return np.asarray(centre + rng.standard_normal((n, n)) @ (rows - centre) / np.sqrt(n))


def _summarise_head(
    layer: HeadArrays, number: int, head: int, counts: tuple[int, int, int], seed: int
) -> HeadSummary:
    real = _row_statistics(layer, head, layer.queries[head])
    null = _row_statistics(layer, head, null_queries(layer, number, head, seed))
    beside = {f"{name}_null": value for name, value in null.items()}
    rank_, extreme, extreme_null = counts
    return HeadSummary(
        number, head, layer.keys.shape[1], rank_, extreme, extreme_null, **real, **beside
    )


def _row_statistics(layer: HeadArrays, head: int, queries: FloatArray) -> dict[str, Any]:
    """Return the numbers of a summary that depend on the queries."""
    has_rival = layer.seen.sum(axis=1) > 1
    scores = layer.scores(head, queries)[has_rival]
    certified = certify_rows(layer, head, queries)
    is_sink = certified.winners[has_rival] == 0
    margins = _margins(scores)
    others = margins[~is_sink]
    return {
        "margin": float(np.median(margins)),
        "mass": float(np.median(softmax_rows(scores).max(axis=1))),
        "distance": float(np.median(certified.distances[has_rival])),
        "sharp_share": float((certified.masses[has_rival] > _SHARP).mean()),
        "sink_share": float(is_sink.mean()),
        "margin_without_sink": float(np.median(others)) if len(others) else None,
    }


def _margins(scores: FloatArray) -> FloatArray:
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return np.asarray(first - second)
