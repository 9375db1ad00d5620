"""Plain data for the page from the heads of a checkpoint at work: layers, queries and keys."""

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.finding import BUNDLED
from hardmax.models.checkpoints.forward import run_transformer
from hardmax.models.checkpoints.heads import HeadArrays, head_arrays
from hardmax.models.checkpoints.loading import load_checkpoint
from hardmax.models.checkpoints.texts import tokenise
from hardmax.models.checkpoints.weights import TransformerWeights

FORMAT = "hardmax.heads/1"
MOST_TOKENS = 256
"""The maximum number of tokens of a sequence."""
MOST_NUMBERS = 2_000_000
"""The maximum number of entries of all queries and keys together."""
_N_DRAWN = 16


def heads_to_data(
    layers: Sequence[HeadArrays],
    labels: Sequence[str] | None = None,
    *,
    name: str = "heads",
    about: str = "",
) -> dict[str, Any]:
    """Return the queries and keys of layers as lists of numbers.

    Args:
        layers: The layers, run on one sequence.
        labels: The labels of the tokens. The default is their positions.
        name: The name of the model.
        about: A description of the model and its input.

    Raises:
        ArgumentError: If there are no layers, if they belong to different sequences or are too
            large, or if the number of labels is not the number of tokens.

    Examples:
        >>> one = HeadArrays(np.ones((1, 2, 1)), np.ones((1, 2, 1)), np.ones((1, 2, 1)), True)
        >>> heads_to_data([one], ["a", "b"])["layers"][0]["keys"]
        [[[1.0], [1.0]]]
    """
    given = list(layers)
    if not given or not all(isinstance(layer, HeadArrays) for layer in given):
        raise ArgumentError("`layers` must be a nonempty list of `HeadArrays`.")
    lengths = {layer.queries.shape[1] for layer in given}
    n = max(lengths)
    if len(lengths) > 1 or not 2 <= n <= MOST_TOKENS:
        raise ArgumentError(
            f"`layers` must belong to one sequence of 2 to {MOST_TOKENS} tokens; got sequences of "
            f"lengths {sorted(lengths)}."
        )
    if sum(layer.queries.size + layer.keys.size for layer in given) > MOST_NUMBERS:
        raise ArgumentError(f"`layers` must have at most {MOST_NUMBERS} numbers; got more.")
    words = [str(i) for i in range(n)] if labels is None else [str(label) for label in labels]
    if len(words) != n:
        raise ArgumentError(f"`labels` must have {n} entries, one per token; got {len(words)}.")
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


def checkpoint_to_data(
    name: str, tokens: Sequence[int] | None = None, text: str | None = None
) -> dict[str, Any]:
    """Run a checkpoint on tokens or a text, and return its heads at work.

    Without tokens and text, random tokens are drawn from the vocabulary with a fixed seed, or
    random vectors if the model has no embedding; the field `about` of the result says so.

    Args:
        name: A file, a folder, an installed package or a cached model (see `load_checkpoint`). If
            it has several checkpoints, append `@` and the one to select.
        tokens: The token ids.
        text: A text instead of token ids, for a checkpoint with a tokenizer (see `tokenise`).

    Raises:
        HardmaxError: If the checkpoint cannot be read, or does not have these tokens.

    Examples:
        >>> checkpoint_to_data("hardmax", text="cab|")["labels"]
        ['c', 'a', 'b', '|']
    """
    source, select = _split_name(name)
    weights, rng = _load_checkpoint(source, select), np.random.default_rng(0)
    labels: Sequence[str] | None = None
    vectors = None
    if text is not None:
        found = tokenise(source, text, select)
        labels, vectors = found.words, found.vectors
        tokens = None if found.tokens is None else found.tokens.tolist()
        about = "a text"
    elif tokens is not None:
        about = "given token ids"
    elif weights.embedding is not None:
        tokens = rng.integers(len(weights.embedding.tokens), size=_N_DRAWN).tolist()
        about = "token ids drawn at random"
    else:
        vectors = rng.normal(size=(_N_DRAWN, weights.dim))
        about = "vectors drawn at random, because the model has no embedding"
    if tokens is not None:
        if not 2 <= len(tokens) <= MOST_TOKENS:
            raise ArgumentError(
                f"`tokens` must have 2 to {MOST_TOKENS} entries; got {len(tokens)}."
            )
        labels = labels or [str(integer("tokens", token, at_least=0)) for token in tokens]
    run = run_transformer(weights, tokens, vectors=vectors)
    heads = weights.layers[0].attention
    kind = f"{weights.family}, {len(weights.layers)} layers of {heads.n_heads} heads"
    sizes = f"d = {weights.dim}, d_k = {heads.head_dim}"
    layers = head_arrays(weights, run)
    return heads_to_data(layers, labels, name=name, about=f"{kind}, {sizes}; {about}")


def _split_name(name: str) -> tuple[str, str | None]:
    """Split a name into the source and the checkpoint to select, or None."""
    source, _, select = (name, "", "") if Path(name).exists() else name.partition("@")
    return source, select or None


@lru_cache(maxsize=2)
def _load_checkpoint(source: str, select: str | None) -> TransformerWeights:
    return load_checkpoint(source, select)


@cache
def bundled_heads() -> dict[str, Any]:
    """Return the heads of the small transformer of the package, which every page contains.

    Examples:
        >>> bundled_heads()["name"], "".join(bundled_heads()["labels"])
        ('hardmax', 'transformer|aefmnorrrst')
    """
    data = checkpoint_to_data(BUNDLED, text="transformer|aefmnorrrst")
    about = "the small trained transformer of the package, which sorts letters"
    return {**data, "about": f"{about}: {data['about']}"}
