"""Every head of a trained transformer on one sequence: counts, margins, certificates, effects."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.forward import run_transformer, soft_rows
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
    """What was found about the heads of a transformer on one sequence.

    Attributes:
        model: The model, in a line.
        words: What each token stands for.
        layers: The queries, keys and values of the layers.
        summaries: Each head as it is, layer by layer.
        effects: Each head made hard alone, in the same order; empty if that was not asked for.
        together: The sharpest heads made hard together, more and more of them; empty likewise.
        slices: The cells of one token's way through the model.
        pooled: Medians over all rows of all heads: `margin`, `mass`, and the same with `_null`.
        assumed: What the files of the model do not say.

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
        """One row for each head: what `HeadSummary` and, where there is one, `HeadEffect` say."""
        rows = [asdict(summary) for summary in self.summaries]
        for row, effect in zip(rows, self.effects, strict=False):
            row.update(asdict(effect))
        return rows

    @property
    def sharpest(self) -> list[tuple[int, int]]:
        """The heads as `(layer, head)`, those with the largest median weight first."""
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
    """Look at every head of every layer on one sequence.

    Args:
        model: A checkpoint, or what `load_checkpoint` loads as one.
        tokens: The tokens.
        vectors: In place of tokens what enters the first layer.
        token_types: Their types.
        words: What each token stands for; its number if None.
        with_effects: Whether heads are made hard, which runs the model three times for each.
        seed: Of the Gaussian queries and keys, and of heads drawn at random.

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
        raise ArgumentError(f"`words` must be one for each of the {n} tokens; got {len(shown)}.")
    layers = head_arrays(weights, ran)
    summaries = analyze_heads(layers, seed=seed)
    slices, pooled = token_slices(weights, ran), _pooled(layers, seed)
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


def _pooled(layers: Sequence[HeadArrays], seed: int) -> dict[str, float]:
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
                masses[kind].append(soft_rows(scores).max(axis=1))
    return {
        f"{name}{kind}": float(np.median(np.concatenate(parts)))
        for name, kinds in (("margin", margins), ("mass", masses))
        for kind, parts in kinds.items()
    }
