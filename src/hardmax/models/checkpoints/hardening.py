r"""The change in the output of a trained transformer when heads attend to their best key only.

All numbers are computed in floats. The change of the output $y$ (whose rows are tokens) is
$\|y' - y\|_F / \|y\|_F$. The cosine compares the means over tokens, which is how sentence
embeddings are formed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.progress import Progress, track
from hardmax.models.checkpoints.forward import (
    Activations,
    hardmax_rows,
    run_from_layer,
    run_transformer,
    softmax_rows,
)
from hardmax.models.checkpoints.head_summaries import null_queries
from hardmax.models.checkpoints.heads import head_arrays
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.typing import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class HeadEffect:
    """The effect of making one head hard, with all others unchanged.

    Attributes:
        layer: The index of the layer.
        head: The index of the head.
        change: The relative change of the output.
        change_null: The relative change if the head has Gaussian queries, both before and after.
        cosine: The cosine of the mean outputs before and after.
        cosine_null: The cosine if the head has Gaussian queries.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> one = head_effects(model, run_transformer(model, [1, 2, 3, 4]))[0]
        >>> one.layer, one.head, one.cosine <= 1.0
        (0, 0, True)
    """

    layer: int
    head: int
    change: float
    change_null: float
    cosine: float
    cosine_null: float

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class JointEffect:
    """The effect of making several heads hard at once.

    Attributes:
        n_heads: The number of heads.
        change: The relative change of the output for the first heads of an order.
        change_random: The relative change for the same number of random heads.
        cosine: The cosine of the mean outputs before and after.
        cosine_random: The cosine for the random heads.
        agreement: The share of tokens whose most likely next token is unchanged; None if the model
            has no scores of next tokens.
        agreement_random: The agreement for the random heads.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> ran = run_transformer(model, [1, 2, 3, 4])
        >>> (both,) = joint_effects(model, ran, [(0, 0), (0, 1)], [2])
        >>> both.n_heads, both.cosine <= 1.0
        (2, True)
    """

    n_heads: int
    change: float
    change_random: float
    cosine: float
    cosine_random: float
    agreement: float | None
    agreement_random: float | None

    __repr__ = short_repr
    _repr_html_ = html_card


def head_effects(
    model: TransformerWeights, activations: Activations, *, seed: int = 0
) -> tuple[HeadEffect, ...]:
    """Return the effect of making each head hard, one at a time.

    Args:
        model: The model.
        activations: The result of `run_transformer` for the model.
        seed: The seed of the Gaussian queries, which are the same as in `analyze_heads`.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> found = head_effects(model, run_transformer(model, [1, 2, 3, 4]))
        >>> len(found) == sum(layer.attention.n_heads for layer in model.layers)
        True
    """
    seed = integer("seed", seed, at_least=0)
    found: list[HeadEffect] = []
    layers = head_arrays(model, activations)
    progress: Progress[object]
    with track(sum(layer.n_heads for layer in layers), "heads made hard") as progress:
        for number, layer in enumerate(layers):
            for head in range(layer.n_heads):
                hard = run_from_layer(
                    model, activations, number, {head: hardmax_rows(layer.scores(head))}
                )
                scores = layer.scores(head, null_queries(layer, number, head, seed))
                null = run_from_layer(model, activations, number, {head: softmax_rows(scores)})
                hard_null = run_from_layer(model, activations, number, {head: hardmax_rows(scores)})
                found.append(
                    HeadEffect(
                        number,
                        head,
                        _relative_change(activations.hidden, hard),
                        _relative_change(null, hard_null),
                        _mean_cosine(activations.hidden, hard),
                        _mean_cosine(null, hard_null),
                    )
                )
                progress.advance()
    return tuple(found)


def joint_effects(
    model: TransformerWeights,
    activations: Activations,
    order: Sequence[tuple[int, int]],
    counts: Sequence[int],
    *,
    seed: int = 0,
) -> tuple[JointEffect, ...]:
    """Return the effect of making the first heads of an order hard, all at once.

    Args:
        model: The model.
        activations: The result of `run_transformer` for the model.
        order: The heads, as pairs `(layer, head)`.
        counts: The numbers of heads to make hard, each at most the length of `order`.
        seed: The seed of the random choice of heads from `order`.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> ran = run_transformer(model, [1, 2, 3, 4])
        >>> none, one = joint_effects(model, ran, [(0, 0), (0, 1)], [0, 1])
        >>> none.change, none.agreement, one.n_heads
        (0.0, 1.0, 1)
    """
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    shuffled = [order[i] for i in rng.permutation(len(order))]
    found = []
    for count in track(counts, "sets of heads made hard"):
        n = integer("counts", count, at_least=0, at_most=len(order))
        first, drawn = (
            run_transformer(model, vectors=activations.embedded, hard=heads[:n])
            for heads in (order, shuffled)
        )
        found.append(
            JointEffect(
                n,
                _relative_change(activations.hidden, first.hidden),
                _relative_change(activations.hidden, drawn.hidden),
                _mean_cosine(activations.hidden, first.hidden),
                _mean_cosine(activations.hidden, drawn.hidden),
                _agreement(activations, first),
                _agreement(activations, drawn),
            )
        )
    return tuple(found)


def _relative_change(before: FloatArray, after: FloatArray) -> float:
    size = float(np.linalg.norm(before))
    return float(np.linalg.norm(after - before)) / size if size else 0.0


def _mean_cosine(before: FloatArray, after: FloatArray) -> float:
    one, other = before.mean(axis=0), after.mean(axis=0)
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size else 1.0


def _agreement(before: Activations, after: Activations) -> float | None:
    if before.logits is None or after.logits is None:
        return None
    return float((before.logits.argmax(axis=1) == after.logits.argmax(axis=1)).mean())
