"""Heads of a checkpoint at work as the plain data that the page reads: layers, queries and keys."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.forward import run_transformer
from hardmax.models.checkpoints.heads import HeadArrays, head_arrays
from hardmax.models.checkpoints.loading import load_checkpoint
from hardmax.models.checkpoints.weights import TransformerWeights

FORMAT = "hardmax.heads/1"
MOST_TOKENS = 256
"""A sequence has at most so many tokens."""
MOST_NUMBERS = 2_000_000
"""Queries and keys have at most so many numbers."""
_N_DRAWN = 16


def heads_data(
    layers: Sequence[HeadArrays],
    labels: Sequence[str] | None = None,
    *,
    name: str = "heads",
    about: str = "",
) -> dict[str, Any]:
    """Return the queries and keys of layers as lists of numbers.

    Args:
        layers: The layers, for one sequence.
        labels: What its tokens are called; their numbers if None.
        name: What the model is called.
        about: A sentence on where it comes from.

    Raises:
        ArgumentError: If there are no layers, they are of different sequences or too large, or the
            labels are not as many as the tokens.

    Examples:
        >>> one = HeadArrays(np.ones((1, 2, 1)), np.ones((1, 2, 1)), np.ones((1, 2, 1)), True)
        >>> heads_data([one], ["a", "b"])["layers"][0]["keys"]
        [[[1.0], [1.0]]]
    """
    given = list(layers)
    if not given or not all(isinstance(layer, HeadArrays) for layer in given):
        raise ArgumentError("`layers` must be a list of `HeadArrays`, at least one.")
    lengths = {layer.queries.shape[1] for layer in given}
    n = max(lengths)
    if len(lengths) > 1 or not 2 <= n <= MOST_TOKENS:
        raise ArgumentError(
            f"`layers` must be of one sequence of 2 to {MOST_TOKENS} tokens; got {sorted(lengths)}."
        )
    if sum(layer.queries.size + layer.keys.size for layer in given) > MOST_NUMBERS:
        raise ArgumentError(f"`layers` must have at most {MOST_NUMBERS} numbers; they have more.")
    words = [str(i) for i in range(n)] if labels is None else [str(label) for label in labels]
    if len(words) != n:
        raise ArgumentError(f"`labels` must be {n}, one for each token; got {len(words)}.")
    return {
        "format": FORMAT,
        "name": name,
        "about": about,
        "labels": words,
        "layers": [
            {
                "queries": layer.queries.tolist(),
                "keys": layer.keys.tolist(),
                "is_causal": layer.is_causal,
                "window": layer.window,
                "temperature": layer.temperature,
            }
            for layer in given
        ],
    }


def checkpoint_data(name: str, tokens: Sequence[int] | None = None) -> dict[str, Any]:
    """Run a checkpoint on tokens, and return its heads at work.

    Args:
        name: A file, a folder or an installed package (see `load_checkpoint`); where it has several
            checkpoints, followed by `@` and which one.
        tokens: The numbers of the tokens. If None, some are drawn from the vocabulary with a fixed
            seed, or vectors where the model has no embedding, and `about` says so.

    Raises:
        HardmaxError: If it cannot be read, or has no such tokens.
    """
    weights, rng = _loaded(name), np.random.default_rng(0)
    if tokens is None and weights.embedding is None:
        about, labels = "vectors drawn at random, as the model has no embedding", None
        run = run_transformer(weights, vectors=rng.normal(size=(_N_DRAWN, weights.dim)))
    else:
        about = "tokens by their numbers" if tokens else "tokens drawn at random, by their numbers"
        if tokens is None:
            assert weights.embedding is not None
            tokens = rng.integers(len(weights.embedding.tokens), size=_N_DRAWN).tolist()
        if not 2 <= len(tokens) <= MOST_TOKENS:
            raise ArgumentError(f"`tokens` must be 2 to {MOST_TOKENS}; got {len(tokens)}.")
        labels = [str(integer("tokens", token, at_least=0)) for token in tokens]
        run = run_transformer(weights, tokens)
    heads = weights.layers[0].attention
    kind = f"{weights.family}, {len(weights.layers)} layers of {heads.n_heads} heads"
    sizes = f"d = {weights.dim}, d_k = {heads.head_dim}"
    layers = head_arrays(weights, run)
    return heads_data(layers, labels, name=name, about=f"{kind}, {sizes}; {about}")


@cache
def _loaded(name: str) -> TransformerWeights:
    source, _, select = (name, "", "") if Path(name).exists() else name.partition("@")
    return load_checkpoint(source, select or None)


@cache
def sample_heads() -> dict[str, Any]:
    """Return the heads of a small transformer with random weights, which the page has at hand.

    Examples:
        >>> sample_heads()["name"]
        'random weights'
    """
    dim, n_layers, n_tokens = 8, 3, 20
    rng = np.random.default_rng(3)
    state: dict[str, Any] = {}
    for i in range(n_layers):
        state |= {
            f"layers.{i}.self_attn.in_proj_weight": rng.normal(size=(3 * dim, dim)),
            f"layers.{i}.self_attn.out_proj.weight": rng.normal(size=(dim, dim)),
            f"layers.{i}.linear1.weight": rng.normal(size=(2 * dim, dim)),
            f"layers.{i}.linear2.weight": rng.normal(size=(dim, 2 * dim)),
            f"layers.{i}.norm1.weight": np.ones(dim),
            f"layers.{i}.norm2.weight": np.ones(dim),
        }
    weights = load_checkpoint(state, config={"nhead": dim // 2})
    run = run_transformer(weights, vectors=rng.normal(size=(n_tokens, dim)))
    # Few digits, so that the page is short.
    layers = [
        HeadArrays(
            np.round(64 * one.queries) / 64,
            np.round(64 * one.keys) / 64,
            one.values,
            is_causal=False,
        )
        for one in head_arrays(weights, run)
    ]
    return heads_data(
        layers,
        name="random weights",
        about=f"{n_layers} layers of {dim // 2} heads and {n_tokens} vectors, drawn at random; "
        "`hardmax explore --checkpoint` shows a trained model",
    )
