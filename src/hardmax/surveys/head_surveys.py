"""Survey every head of a trained transformer on one sequence: margins, certificates, effects."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.forward import run_transformer, softmax_rows
from hardmax.models.checkpoints.hardening import (
    HeadEffect,
    JointEffect,
    head_effects,
    joint_effects,
)
from hardmax.models.checkpoints.head_summaries import HeadSummary, analyze_heads, null_queries
from hardmax.models.checkpoints.heads import HeadArrays, head_arrays
from hardmax.models.checkpoints.loading import read_checkpoint
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.surveys.token_slices import TokenSlice, token_slices
from hardmax.typing import ArrayLike, FloatArray, TorchModule

_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, eq=False, repr=False)
class HeadSurvey:
    """The properties of the heads of a transformer on one sequence.

    Attributes:
        model: A one-line description of the model.
        words: The text of each token.
        layers: The queries, keys and values of the layers.
        summaries: A summary of each head, layer by layer.
        effects: The effect of making each head hard on its own, in the same order; empty if the
            effects were not computed.
        together: The effects of making increasing numbers of the sharpest heads hard together;
            empty if the effects were not computed.
        slices: The cells along the path of one token.
        pooled: Medians over all rows of all heads: `margin` and `mass`, and the same names with
            the suffix `_null` for Gaussian queries.
        assumed: The settings assumed because the model files lack them.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> survey_heads(load_checkpoint("hardmax"), [2, 0, 1, 26], words="cab|")
        HeadSurvey(TransformerWeights(gpt2, 2 layers x 16 heads, d = 32, d_k = 2), 4 tokens,
        32 heads)
    """

    model: str
    words: tuple[str, ...]
    layers: tuple[HeadArrays, ...]
    summaries: tuple[HeadSummary, ...]
    effects: tuple[HeadEffect, ...]
    together: tuple[JointEffect, ...]
    slices: tuple[TokenSlice, ...]
    pooled: dict[str, float]
    assumed: tuple[str, ...] = ()

    _repr_html_ = html_card

    def __repr__(self) -> str:
        return f"HeadSurvey({self.model}, {len(self.words)} tokens, {len(self.summaries)} heads)"

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per head, with the fields of `HeadSummary` and, if computed, of `HeadEffect`."""
        rows = [asdict(summary) for summary in self.summaries]
        for row, effect in zip(rows, self.effects, strict=False):
            row.update(asdict(effect))
        return rows

    @property
    def sharpest(self) -> list[tuple[int, int]]:
        """The heads as `(layer, head)` in decreasing order of the median weight."""
        order = sorted(self.summaries, key=lambda found: -found.mass)
        return [(found.layer, found.head) for found in order]


def survey_heads(
    model: TransformerWeights | str | os.PathLike[str] | TorchModule,
    tokens: ArrayLike | None = None,
    *,
    vectors: ArrayLike | None = None,
    token_types: ArrayLike | None = None,
    words: Sequence[str] | None = None,
    with_effects: bool = True,
    seed: int = 0,
) -> HeadSurvey:
    """Survey every head of every layer on one sequence.

    Args:
        model: A checkpoint, or any argument of `load_checkpoint`.
        tokens: The token ids.
        vectors: The input of the first layer, instead of tokens.
        token_types: The types of the tokens.
        words: The text of each token. The default is the token id.
        with_effects: Whether to measure the effects of making heads hard, which takes three runs of
            the model per head.
        seed: The seed of the Gaussian queries and keys, and of the random heads.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> found = survey_heads(load_checkpoint("hardmax"), [2, 0, 1, 26], words="cab|")
        >>> len(found.table) == len(found.summaries) == len(found.effects)
        True
    """
    weights = read_checkpoint(model)
    ran = run_transformer(weights, tokens, vectors=vectors, token_types=token_types)
    n = len(ran.embedded)
    shown = tuple(str(i) for i in range(n)) if words is None else tuple(words)
    if words is None and tokens is not None:
        shown = tuple(str(number) for number in np.asarray(tokens).tolist())
    if len(shown) != n:
        raise ArgumentError(
            f"`words` must have one entry for each of the {n} tokens; got {len(shown)}."
        )
    layers = head_arrays(weights, ran)
    summaries = analyze_heads(layers, seed=seed)
    slices, pooled = token_slices(weights, ran), _pool_medians(layers, seed)
    found = HeadSurvey(
        repr(weights), shown, layers, summaries, (), (), slices, pooled, weights.assumed
    )
    if not with_effects:
        return found
    total = len(summaries)
    counts = [*(count for count in _COUNTS if count < total), total]
    effects = head_effects(weights, ran, seed=seed)
    together = joint_effects(weights, ran, found.sharpest, counts, seed=seed)
    return replace(found, effects=effects, together=together)


def _pool_medians(layers: Sequence[HeadArrays], seed: int) -> dict[str, float]:
    margins: dict[str, list[FloatArray]] = {"": [], "_null": []}
    masses: dict[str, list[FloatArray]] = {"": [], "_null": []}
    for number, layer in enumerate(layers):
        has_rival = layer.seen.sum(axis=1) > 1
        for head in range(layer.n_heads):
            asked = {"": None, "_null": null_queries(layer, number, head, seed)}
            for kind, queries in asked.items():
                scores = layer.scores(head, queries)[has_rival]
                second, first = np.partition(scores, -2, axis=1)[:, -2:].T
                margins[kind].append(first - second)
                masses[kind].append(softmax_rows(scores).max(axis=1))
    return {
        f"{name}{kind}": float(np.median(np.concatenate(parts)))
        for name, kinds in (("margin", margins), ("mass", masses))
        for kind, parts in kinds.items()
    }
