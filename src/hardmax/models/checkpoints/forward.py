"""The forward pass of a trained transformer, in float64, with what every head sees."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, integer
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError, NonFiniteError
from hardmax.models.checkpoints.weights import (
    AttentionWeights,
    EmbeddingWeights,
    LayerWeights,
    MlpWeights,
    TransformerWeights,
    normed,
    product,
    seen_keys,
)
from hardmax.typing import ArrayLike, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class LayerActivations:
    """What happens in one layer for one sequence of `n` tokens.

    Attributes:
        inputs: What the heads read, behind the norm if that stands first, shape `(n, d)`.
        queries: Shape `(n_heads, n, d_k)`, turned by their positions where positions are rotary.
        keys: Shape `(n_kv_heads, n, d_k)`, likewise.
        values: Shape `(n_kv_heads, n, d_v)`.
        weights: The attention weights, shape `(n_heads, n, n)`; row `i` is token `i` asking.
        outputs: What the layer returns, shape `(n, d)`.

    Examples:
        >>> one, two = np.zeros((3, 2)), np.zeros((2, 3, 1))
        >>> found = LayerActivations(one, two, two, two, np.full((2, 3, 3), 1 / 3), one)
        >>> found.queries.shape, found.weights[0, 0].round(3).tolist()
        ((2, 3, 1), [0.333, 0.333, 0.333])
    """

    inputs: FloatArray
    queries: FloatArray
    keys: FloatArray
    values: FloatArray
    weights: FloatArray
    outputs: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class Activations:
    """What a forward pass computed for one sequence of `n` tokens.

    Attributes:
        embedded: What enters the first layer, shape `(n, d)`.
        layers: What happens in each layer.
        hidden: What leaves the model, behind the final norm if there is one, shape `(n, d)`.
        logits: Scores of the next tokens, shape `(n, n_tokens)`; None if the model has none.

    Examples:
        >>> d = 4
        >>> state = {
        ...     "layers.0.self_attn.in_proj_weight": np.ones((3 * d, d)),
        ...     "layers.0.self_attn.out_proj.weight": np.eye(d),
        ...     "layers.0.linear1.weight": np.ones((1, d)),
        ...     "layers.0.linear2.weight": np.ones((d, 1)),
        ...     "layers.0.norm1.weight": np.ones(d),
        ...     "layers.0.norm2.weight": np.ones(d),
        ... }
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint(state, config={"nhead": 2})
        >>> found = run_transformer(model, vectors=np.eye(3, d))
        >>> len(found.layers), found.hidden.shape, found.logits
        (1, (3, 4), None)
    """

    embedded: FloatArray
    layers: tuple[LayerActivations, ...]
    hidden: FloatArray
    logits: FloatArray | None

    __repr__ = short_repr
    _repr_html_ = html_card


def run_transformer(
    weights: TransformerWeights,
    tokens: ArrayLike | None = None,
    *,
    vectors: ArrayLike | None = None,
    token_types: ArrayLike | None = None,
    hard: Iterable[tuple[int, int]] = (),
) -> Activations:
    """Compute the forward pass for one sequence without padding.

    Args:
        weights: The model.
        tokens: The numbers of the tokens, shape `(n,)`.
        vectors: In place of tokens what enters the first layer, shape `(n, d)`.
        token_types: The numbers of their types where the model has such, shape `(n,)`; all 0 if
            None.
        hard: Heads, as `(layer, head)`, that attend to their best key alone, in place of softmax.
            The best is that of the rounded scores; keys whose rounded scores are equal share.

    Raises:
        ArgumentError: If neither or both are given, or a number is none of the vocabulary's, or
            there are more tokens than positions, or there is no such head.
        NonFiniteError: If something overflows.

    Examples:
        >>> d, rng = 4, np.random.default_rng(0)
        >>> state = {
        ...     "layers.0.self_attn.in_proj_weight": rng.normal(size=(3 * d, d)),
        ...     "layers.0.self_attn.out_proj.weight": np.eye(d),
        ...     "layers.0.linear1.weight": np.ones((1, d)),
        ...     "layers.0.linear2.weight": np.ones((d, 1)),
        ...     "layers.0.norm1.weight": np.ones(d),
        ...     "layers.0.norm2.weight": np.ones(d),
        ... }
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint(state, config={"nhead": 2})
        >>> model
        TransformerWeights(torch, 1 layers x 2 heads, d = 4, d_k = 2)
        >>> found = run_transformer(model, vectors=rng.normal(size=(3, d)))
        >>> found.layers[0].weights.sum(axis=2).round(12).tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
        >>> made_hard = run_transformer(model, vectors=found.embedded, hard=[(0, 1)])
        >>> made_hard.layers[0].weights[1].max(axis=1).tolist()
        [1.0, 1.0, 1.0]
    """
    if (tokens is None) == (vectors is None):
        raise ArgumentError("`tokens` or `vectors` must be given, and not both.")
    if vectors is not None:
        embedded = Sizes(d=weights.dim).floats("vectors", vectors, ("n", "d"))
    elif weights.embedding is None:
        raise ArgumentError("`vectors` must be given: the model has no embedding of tokens.")
    else:
        embedded = _embedded(weights.embedding, tokens, token_types)
    heads_of: dict[int, set[int]] = {}
    for layer, head in hard:
        layer = integer("hard", layer, at_least=0, at_most=len(weights.layers) - 1)
        most = weights.layers[layer].attention.n_heads - 1
        heads_of.setdefault(layer, set()).add(integer("hard", head, at_least=0, at_most=most))
    hidden, layers = embedded, []
    with np.errstate(all="ignore"):
        for number, layer_weights in enumerate(weights.layers):
            layers.append(_layer(layer_weights, hidden, heads_of.get(number, ())))
            hidden = layers[-1].outputs
        hidden = normed(weights.final_norm, hidden)
        logits = None if weights.unembedding is None else product(hidden, weights.unembedding)
    _refuse_overflow(hidden if logits is None else logits)
    return Activations(embedded, tuple(layers), hidden, logits)


def run_from_layer(
    weights: TransformerWeights,
    activations: Activations,
    layer: int,
    given: Mapping[int, FloatArray],
) -> FloatArray:
    """Return what leaves the model if heads of one layer have other attention weights.

    Args:
        weights: The model.
        activations: What it computed.
        layer: The layer; what comes before it is not computed again.
        given: For heads of that layer the weights, shape `(n, n)`.

    Returns:
        The output, shape `(n, d)`, as `Activations.hidden` is.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> model = load_checkpoint("hardmax")
        >>> found = run_transformer(model, [1, 2, 3])
        >>> same = run_from_layer(model, found, 1, {0: found.layers[1].weights[0]})
        >>> bool(abs(same - found.hidden).max() < 1e-12)
        True
    """
    x = activations.layers[layer - 1].outputs if layer else activations.embedded
    before = activations.layers[layer]
    rows = before.weights.copy()
    for head, replaced in given.items():
        rows[head] = replaced
    with np.errstate(all="ignore"):
        hidden = _outputs(weights.layers[layer], x, before.values, rows)
        for after in weights.layers[layer + 1 :]:
            hidden = _layer(after, hidden).outputs
        hidden = normed(weights.final_norm, hidden)
    _refuse_overflow(hidden)
    return hidden


def _refuse_overflow(outputs: FloatArray) -> None:
    """Refuse what overflowed on the way: scores and sums that did leave a NaN to the end."""
    if not np.isfinite(outputs).all():
        raise NonFiniteError("`weights` must keep the forward pass within float64; it overflows.")


def _embedded(embedding: EmbeddingWeights, tokens: Any, token_types: Any) -> FloatArray:
    sizes = Sizes()
    numbers = sizes.ints("tokens", tokens, ("n",))
    _refuse_unknown("tokens", numbers, embedding.tokens)
    found = embedding.tokens[numbers].astype(np.float64)
    if embedding.positions is not None:
        places = embedding.first_position + np.arange(len(numbers))
        if len(places) and places[-1] >= len(embedding.positions):
            most = len(embedding.positions) - embedding.first_position
            raise ArgumentError(f"`tokens` must be at most {most}; got {len(numbers)}.")
        found += embedding.positions[places]
    if token_types is not None and embedding.types is None:
        raise ArgumentError("`token_types` must be None: the model has none.")
    if embedding.types is not None:
        types = np.zeros_like(numbers)
        if token_types is not None:
            types = sizes.ints("token_types", token_types, ("n",))
        _refuse_unknown("token_types", types, embedding.types)
        found += embedding.types[types]
    if embedding.norm is not None:
        found = embedding.norm(found)
    return found if embedding.projection is None else embedding.projection(found)


def _refuse_unknown(name: str, numbers: Any, table: Any) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(table):
        raise ArgumentError(
            f"`{name}` must be numbers from 0 to {len(table) - 1}; got {numbers.min()} to "
            f"{numbers.max()}."
        )


def _layer(layer: LayerWeights, x: FloatArray, hard: Collection[int] = ()) -> LayerActivations:
    inputs = normed(layer.attention_norm, x) if layer.norm_first else x
    queries, keys, values = _projected(layer.attention, inputs)
    scores = _scores(layer.attention, queries, keys)
    weights = soft_rows(scores)
    for head in hard:
        weights[head] = hard_rows(scores[head])
    outputs = _outputs(layer, x, values, weights)
    return LayerActivations(inputs, queries, keys, values, weights, outputs)


def _outputs(
    layer: LayerWeights, x: FloatArray, values: FloatArray, weights: FloatArray
) -> FloatArray:
    """What a layer returns for its input, the values of its heads and their weights."""
    group = layer.attention.n_heads // layer.attention.n_kv_heads
    mixed = weights @ values.repeat(group, axis=0)
    z = x + product(mixed, layer.attention.output).sum(axis=0)
    if layer.attention.output_bias is not None:
        z = z + layer.attention.output_bias
    if layer.norm_first:
        read = x if layer.is_parallel else z
        return np.asarray(z + _mlp(layer.mlp, normed(layer.mlp_norm, read)))
    z = normed(layer.attention_norm, z)
    return normed(layer.mlp_norm, z + _mlp(layer.mlp, z))


def _projected(heads: AttentionWeights, x: FloatArray) -> tuple[FloatArray, ...]:
    """Queries, keys and values, one row for each token."""
    found = []
    for weight, bias, norm in (
        (heads.query, heads.query_bias, heads.query_norm),
        (heads.key, heads.key_bias, heads.key_norm),
        (heads.value, heads.value_bias, None),
    ):
        rows = product(x, weight)
        found.append(normed(norm, rows if bias is None else rows + bias[:, None, :]))
    if heads.rotary is not None:
        positions = np.arange(len(x))
        found[:2] = [heads.rotary(rows, positions) for rows in found[:2]]
    return tuple(found)


def _scores(heads: AttentionWeights, queries: FloatArray, keys: FloatArray) -> FloatArray:
    group = heads.n_heads // heads.n_kv_heads
    scores = queries @ keys.repeat(group, axis=0).transpose(0, 2, 1) / heads.temperature
    seen = seen_keys(queries.shape[1], heads.is_causal, heads.window)
    return np.where(seen, scores, -np.inf)


def soft_rows(scores: FloatArray) -> FloatArray:
    r"""Return the softmax of each row; entries may be $-\infty$, but not all of a row."""
    with np.errstate(under="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def hard_rows(scores: FloatArray) -> FloatArray:
    """Return rows with 1 at the largest score, shared equally by scores that are equal to it."""
    is_best = scores == scores.max(axis=-1, keepdims=True)
    return np.asarray(is_best / is_best.sum(axis=-1, keepdims=True))


def _mlp(mlp: MlpWeights, x: FloatArray) -> FloatArray:
    if mlp.gate is None:
        return mlp.down(_activated(mlp.activation, mlp.up(x)))
    return mlp.down(_activated(mlp.activation, mlp.gate(x)) * mlp.up(x))


def _activated(name: str, x: FloatArray) -> FloatArray:
    from scipy.special import erf, expit

    if name == "relu":
        return np.maximum(x, 0.0)
    if name == "silu":
        return np.asarray(x * expit(x))
    if name == "gelu":
        return np.asarray(x * (1 + erf(x / np.sqrt(2))) / 2)
    # gelu_tanh, the approximation of GPT-2.
    return np.asarray(x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2)
