"""The forward pass of a trained transformer in float64, with the intermediate results of heads."""

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
    apply_norm,
    multiply,
    visible_keys,
)
from hardmax.typing import ArrayLike, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class LayerActivations:
    """The intermediate results of one layer on one sequence of `n` tokens.

    Attributes:
        inputs: The input of the heads, after the norm if the norm comes first, shape `(n, d)`.
        queries: The queries, shape `(n_heads, n, d_k)`, rotated if positions are rotary.
        keys: The keys, shape `(n_kv_heads, n, d_k)`, rotated if positions are rotary.
        values: The values, shape `(n_kv_heads, n, d_v)`.
        weights: The attention weights, shape `(n_heads, n, n)`; row `i` belongs to the query of
            token `i`.
        outputs: The output of the layer, shape `(n, d)`.

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
    """The intermediate results and outputs of a forward pass on one sequence of `n` tokens.

    Attributes:
        embedded: The input of the first layer, shape `(n, d)`.
        layers: The intermediate results of each layer.
        hidden: The output of the last layer, after the final norm if there is one, shape `(n, d)`.
        logits: The scores of the next tokens, shape `(n, n_tokens)`; None if the model has none.

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
    """Run the forward pass on one sequence without padding.

    Args:
        weights: The model.
        tokens: The token ids, shape `(n,)`.
        vectors: The input of the first layer, shape `(n, d)`, instead of `tokens`.
        token_types: The token type ids, shape `(n,)`, for a model that has token types; None means
            all 0.
        hard: The heads, as pairs `(layer, head)`, in which argmax replaces softmax. The best key is
            decided by the rounded scores; keys with equal rounded scores share the attention
            equally.

    Raises:
        ArgumentError: If neither or both of `tokens` and `vectors` are given, an id is out of
            range, the sequence has more tokens than the model has positions, or a head in `hard`
            does not exist.
        NonFiniteError: If a number exceeds the range of float64.

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
        raise ArgumentError("Pass exactly one of `tokens` and `vectors`.")
    if vectors is not None:
        embedded = Sizes(d=weights.dim).floats("vectors", vectors, ("n", "d"))
    elif weights.embedding is None:
        raise ArgumentError("Pass `vectors`: the model has no token embedding.")
    else:
        embedded = _embed(weights.embedding, tokens, token_types)
    heads_of: dict[int, set[int]] = {}
    for layer, head in hard:
        layer = integer("hard", layer, at_least=0, at_most=len(weights.layers) - 1)
        most = weights.layers[layer].attention.n_heads - 1
        heads_of.setdefault(layer, set()).add(integer("hard", head, at_least=0, at_most=most))
    hidden, layers = embedded, []
    with np.errstate(all="ignore"):
        for number, layer_weights in enumerate(weights.layers):
            layers.append(_run_layer(layer_weights, hidden, heads_of.get(number, ())))
            hidden = layers[-1].outputs
        hidden = apply_norm(weights.final_norm, hidden)
        logits = None if weights.unembedding is None else multiply(hidden, weights.unembedding)
    _refuse_overflow(hidden if logits is None else logits)
    return Activations(embedded, tuple(layers), hidden, logits)


def run_from_layer(
    weights: TransformerWeights,
    activations: Activations,
    layer: int,
    given: Mapping[int, FloatArray],
) -> FloatArray:
    """Return the output of a model if some heads of one layer have other attention weights.

    Args:
        weights: The model.
        activations: The result of `run_transformer` for the model.
        layer: The index of the layer; earlier layers are not computed again.
        given: The attention weights, shape `(n, n)`, for some heads of that layer.

    Returns:
        The output, shape `(n, d)`, like `Activations.hidden`.

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
        hidden = _layer_output(weights.layers[layer], x, before.values, rows)
        for after in weights.layers[layer + 1 :]:
            hidden = _run_layer(after, hidden).outputs
        hidden = apply_norm(weights.final_norm, hidden)
    _refuse_overflow(hidden)
    return hidden


def _refuse_overflow(outputs: FloatArray) -> None:
    """Raise if the outputs contain a NaN or infinity, which every earlier overflow leads to."""
    if not np.isfinite(outputs).all():
        raise NonFiniteError("The forward pass of `weights` exceeds the range of float64.")


def _embed(embedding: EmbeddingWeights, tokens: Any, token_types: Any) -> FloatArray:
    sizes = Sizes()
    numbers = sizes.ints("tokens", tokens, ("n",))
    _check_ids("tokens", numbers, embedding.tokens)
    found = embedding.tokens[numbers].astype(np.float64)
    if embedding.positions is not None:
        places = embedding.first_position + np.arange(len(numbers))
        if len(places) and places[-1] >= len(embedding.positions):
            most = len(embedding.positions) - embedding.first_position
            raise ArgumentError(f"`tokens` must have at most {most} entries; got {len(numbers)}.")
        found += embedding.positions[places]
    if token_types is not None and embedding.types is None:
        raise ArgumentError("`token_types` must be None: the model has no token types.")
    if embedding.types is not None:
        types = np.zeros_like(numbers)
        if token_types is not None:
            types = sizes.ints("token_types", token_types, ("n",))
        _check_ids("token_types", types, embedding.types)
        found += embedding.types[types]
    if embedding.norm is not None:
        found = embedding.norm(found)
    return found if embedding.projection is None else embedding.projection(found)


def _check_ids(name: str, numbers: Any, table: Any) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(table):
        raise ArgumentError(
            f"`{name}` must be numbers from 0 to {len(table) - 1}; got {numbers.min()} to "
            f"{numbers.max()}."
        )


def _run_layer(layer: LayerWeights, x: FloatArray, hard: Collection[int] = ()) -> LayerActivations:
    inputs = apply_norm(layer.attention_norm, x) if layer.norm_first else x
    queries, keys, values = _project(layer.attention, inputs)
    scores = _attention_scores(layer.attention, queries, keys)
    weights = softmax_rows(scores)
    for head in hard:
        weights[head] = hardmax_rows(scores[head])
    outputs = _layer_output(layer, x, values, weights)
    return LayerActivations(inputs, queries, keys, values, weights, outputs)


def _layer_output(
    layer: LayerWeights, x: FloatArray, values: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return the output of a layer from its input, the values of its heads and their weights."""
    group = layer.attention.n_heads // layer.attention.n_kv_heads
    mixed = weights @ values.repeat(group, axis=0)
    z = x + multiply(mixed, layer.attention.output).sum(axis=0)
    if layer.attention.output_bias is not None:
        z = z + layer.attention.output_bias
    if layer.norm_first:
        read = x if layer.is_parallel else z
        return np.asarray(z + _apply_mlp(layer.mlp, apply_norm(layer.mlp_norm, read)))
    z = apply_norm(layer.attention_norm, z)
    return apply_norm(layer.mlp_norm, z + _apply_mlp(layer.mlp, z))


def _project(heads: AttentionWeights, x: FloatArray) -> tuple[FloatArray, ...]:
    """Return queries, keys and values, one row per token."""
    found = []
    for weight, bias, norm in (
        (heads.query, heads.query_bias, heads.query_norm),
        (heads.key, heads.key_bias, heads.key_norm),
        (heads.value, heads.value_bias, None),
    ):
        rows = multiply(x, weight)
        found.append(apply_norm(norm, rows if bias is None else rows + bias[:, None, :]))
    if heads.rotary is not None:
        positions = np.arange(len(x))
        found[:2] = [heads.rotary(rows, positions) for rows in found[:2]]
    return tuple(found)


def _attention_scores(heads: AttentionWeights, queries: FloatArray, keys: FloatArray) -> FloatArray:
    group = heads.n_heads // heads.n_kv_heads
    scores = queries @ keys.repeat(group, axis=0).transpose(0, 2, 1) / heads.temperature
    seen = visible_keys(queries.shape[1], heads.is_causal, heads.window)
    return np.where(seen, scores, -np.inf)


def softmax_rows(scores: FloatArray) -> FloatArray:
    r"""Return the softmax of each row; entries may be $-\infty$, but not all entries of a row."""
    with np.errstate(under="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def hardmax_rows(scores: FloatArray) -> FloatArray:
    """Return rows with 1 at the largest score, shared equally if several are the largest."""
    is_best = scores == scores.max(axis=-1, keepdims=True)
    return np.asarray(is_best / is_best.sum(axis=-1, keepdims=True))


def _apply_mlp(mlp: MlpWeights, x: FloatArray) -> FloatArray:
    if mlp.gate is None:
        return mlp.down(_activate(mlp.activation, mlp.up(x)))
    return mlp.down(_activate(mlp.activation, mlp.gate(x)) * mlp.up(x))


def _activate(name: str, x: FloatArray) -> FloatArray:
    from scipy.special import erf, expit

    if name == "relu":
        return np.maximum(x, 0.0)
    if name == "silu":
        return np.asarray(x * expit(x))
    if name == "gelu":
        return np.asarray(x * (1 + erf(x / np.sqrt(2))) / 2)
    # gelu_tanh is the approximation that GPT-2 uses.
    return np.asarray(x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2)
