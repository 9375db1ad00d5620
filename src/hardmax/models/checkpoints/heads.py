r"""The heads of a trained transformer on a sequence: queries over a memory of keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.arguments import ArrayGroup, integer, number
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models.checkpoints.forward import Activations, softmax_rows
from hardmax.models.checkpoints.weights import AttentionWeights, TransformerWeights, visible_keys
from hardmax.models.heads import AttentionHead
from hardmax.typing import BoolArray, FloatArray

_ARRAYS = ArrayGroup(
    ("queries", ("n_heads", "n", "d_k")),
    ("keys", ("n_kv_heads", "n", "d_k")),
    ("values", ("n_kv_heads", "n", "d_v")),
)


@dataclass(frozen=True, eq=False, repr=False)
class HeadArrays:
    r"""The queries, keys and values of the heads of one layer, for one sequence.

    Query head $h$ uses key head $\lfloor h\,n_{kv}/n_{heads}\rfloor$. The score of key $j$ for
    token $i$ is $\langle q_i, k_j\rangle$, which softmax divides by the temperature.

    Attributes:
        queries: The queries, shape `(n_heads, n, d_k)`.
        keys: The keys, shape `(n_kv_heads, n, d_k)`.
        values: The values, shape `(n_kv_heads, n, d_v)`.
        is_causal: Whether token `i` sees only keys up to `i`.
        window: The maximum number of keys that a token sees, including its own; None means no
            limit.
        temperature: The divisor of the scores; None means $\sqrt{d_k}$.

    Examples:
        >>> arrays = HeadArrays(np.ones((2, 3, 1)), np.ones((1, 3, 1)), np.ones((1, 3, 1)), True)
        >>> arrays.weights(0).round(2).tolist()
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """

    queries: FloatArray
    keys: FloatArray
    values: FloatArray
    is_causal: bool
    window: int | None = None
    temperature: float | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        queries, keys, values = _ARRAYS.read(self.queries, self.keys, self.values)
        self.__dict__.update(queries=queries, keys=keys, values=values)
        if len(queries) % len(keys):
            raise ShapeMismatchError(
                f"The number of heads in `keys` must divide the {len(queries)} heads of `queries`; "
                f"got `keys` of shape {keys.shape}."
            )
        if self.window is not None:
            integer("window", self.window, at_least=1)
        tau = np.sqrt(queries.shape[2]) if self.temperature is None else self.temperature
        self.__dict__["temperature"] = number("temperature", tau, above=0.0)

    @property
    def n_heads(self) -> int:
        """The number of query heads."""
        return len(self.queries)

    def key_head(self, head: int) -> int:
        """Return the index of the key head that a query head uses."""
        head = integer("head", head, at_least=0, at_most=self.n_heads - 1)
        return head * len(self.keys) // self.n_heads

    @property
    def seen(self) -> BoolArray:
        """The mask of the keys (columns) that each token (row) sees, shape `(n, n)`."""
        return visible_keys(self.queries.shape[1], self.is_causal, self.window)

    def scores(self, head: int, queries: FloatArray | None = None) -> FloatArray:
        r"""Return $\langle q_i, k_j\rangle/\tau$, or $-\infty$ if token $i$ does not see key $j$.

        Args:
            head: The index of the head.
            queries: Other queries to use instead of the head's own, shape `(n, d_k)`.
        """
        asked = self.queries[head] if queries is None else queries
        scores = asked @ self.keys[self.key_head(head)].T / self.temperature
        return np.where(self.seen, scores, -np.inf)

    def weights(self, head: int) -> FloatArray:
        """Return the attention weights of a head, shape `(n, n)`."""
        return softmax_rows(self.scores(head))

    def head(self, head: int, position: int = -1) -> AttentionHead:
        """Return the head that a token sees, as a function of the query.

        Its memory is the keys and values of the sequence; keys that the token does not see are
        masked. The model's own temperature is `temperature`.

        Args:
            head: The index of the head.
            position: The position of the token; negative positions count from the end.
        """
        kv, n = self.key_head(head), self.queries.shape[1]
        position = integer("position", position, at_least=-n, at_most=n - 1) % n
        values = self.values[kv]
        return AttentionHead(
            np.eye(self.keys.shape[2]),
            self.keys[kv],
            values,
            np.eye(values.shape[1]),
            logit_bias=_mask_bias(self.seen[position]),
        )


def head_arrays(weights: TransformerWeights, activations: Activations) -> tuple[HeadArrays, ...]:
    """Return the queries, keys and values of every layer from a forward pass.

    Examples:
        One layer on two tokens:

        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> state = {
        ...     "layers.0.self_attn.in_proj_weight": np.eye(6, 2),
        ...     "layers.0.self_attn.out_proj.weight": np.eye(2),
        ...     "layers.0.linear1.weight": np.ones((1, 2)),
        ...     "layers.0.linear2.weight": np.ones((2, 1)),
        ...     "layers.0.norm1.weight": np.ones(2),
        ...     "layers.0.norm2.weight": np.ones(2),
        ... }
        >>> model = load_checkpoint(state, config={"nhead": 1})
        >>> found = run_transformer(model, vectors=np.eye(2))
        >>> [arrays.queries.shape for arrays in head_arrays(model, found)]
        [(1, 2, 2)]
    """
    return tuple(
        HeadArrays(
            found.queries,
            found.keys,
            found.values,
            layer.attention.is_causal,
            layer.attention.window,
            layer.attention.temperature,
        )
        for layer, found in zip(weights.layers, activations.layers, strict=True)
    )


def heads_from_cache(
    cache: Mapping[str, Any],
    *,
    is_causal: bool,
    batch: int = 0,
    temperature: float | None = None,
) -> tuple[HeadArrays, ...]:
    """Return the queries, keys and values of every layer from a TransformerLens cache.

    Args:
        cache: Arrays or torch tensors named `blocks.{layer}.attn.hook_q`, `hook_k` and `hook_v`, of
            shape `(batch, n, n_heads, d)`, or without the first axis. If `hook_rot_q` and
            `hook_rot_k`, the rotated queries and keys, are present, they are used.
        is_causal: Whether a token sees only tokens up to itself; a cache does not contain this.
        batch: The index of the sequence in the batch.
        temperature: The divisor of the scores; None means the square root of `d_k`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> names = [f"blocks.{i}.attn.hook_{c}" for i in range(2) for c in "qkv"]
        >>> cache = {name: rng.normal(size=(1, 5, 4, 3)) for name in names}
        >>> layers = heads_from_cache(cache, is_causal=True)
        >>> len(layers), layers[0].queries.shape, layers[0].head(2, 3)
        (2, (4, 5, 3), AttentionHead(R^3 -> R^3, 5 keys in R^3, 1 masked))
    """
    layers: list[HeadArrays] = []
    while f"blocks.{len(layers)}.attn.hook_k" in cache:
        at = f"blocks.{len(layers)}.attn.hook_"
        queries, keys, values = (
            _read_cache_entry(
                cache, f"{at}rot_{c}" if f"{at}rot_{c}" in cache else f"{at}{c}", batch
            )
            for c in "qkv"
        )
        layers.append(HeadArrays(queries, keys, values, is_causal, None, temperature))
    if not layers:
        some = ", ".join(sorted(map(str, cache))[:3])
        raise ArgumentError(
            f"`cache` must have `blocks.0.attn.hook_q`, `hook_k` and `hook_v`; it has {len(cache)} "
            f"entries: {some:.200}."
        )
    return tuple(layers)


def _read_cache_entry(cache: Mapping[str, Any], name: str, batch: int) -> FloatArray:
    """Return one entry of a cache, shape `(n_heads, n, d)`."""
    if name not in cache:
        raise ArgumentError(f"`cache` must have the entry `{name}`; it is missing.")
    value = cache[name]
    if hasattr(value, "detach"):  # This is a torch tensor, of any type and on any device.
        value = value.detach().cpu().double().numpy()
    array = np.asarray(value)
    if array.ndim == 4:
        array = array[integer("batch", batch, at_least=0, at_most=len(array) - 1)]
    if array.ndim != 3:
        raise ShapeMismatchError(
            f"`cache` must have entries of shape (batch, n, n_heads, d); `{name}` has "
            f"{np.shape(value)}."
        )
    return array.transpose(1, 0, 2)


def checkpoint_head(
    weights: TransformerWeights,
    activations: Activations,
    layer: int,
    head: int,
    position: int = -1,
) -> AttentionHead:
    r"""Return a head as a token sees it, with the memory of a forward pass.

    Its input $x$ is the input of the layer's heads (`LayerActivations.inputs`: after the norm if
    the norm comes first). Its output is the head's contribution to the stream, without the layer's
    `output_bias`. With rotary positions the query of token $m$ is $R_m(x W_Q + b_Q)$, so $R_m$ is
    multiplied into $W_Q$ and $b_Q$ and rounded; the keys are the rotated keys, also rounded. The
    model computes `head.soft(x, tau)` with `tau = weights.layers[layer].attention.temperature`.

    Args:
        weights: The model.
        activations: The result of `run_transformer` for the model.
        layer: The index of the layer.
        head: The index of the head.
        position: The position of the token; negative positions count from the end.

    Returns:
        The head; keys that the token does not see are masked.

    Raises:
        ArgumentError: If the queries are normalised, as in Qwen3.

    Examples:
        One layer on two tokens:

        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> state = {
        ...     "layers.0.self_attn.in_proj_weight": np.eye(6, 2),
        ...     "layers.0.self_attn.out_proj.weight": np.eye(2),
        ...     "layers.0.linear1.weight": np.ones((1, 2)),
        ...     "layers.0.linear2.weight": np.ones((2, 1)),
        ...     "layers.0.norm1.weight": np.ones(2),
        ...     "layers.0.norm2.weight": np.ones(2),
        ... }
        >>> model = load_checkpoint(state, config={"nhead": 1})
        >>> found = run_transformer(model, vectors=np.eye(2))
        >>> checkpoint_head(model, found, layer=0, head=0)
        AttentionHead(R^2 -> R^2, 2 keys in R^2)
    """
    layer = integer("layer", layer, at_least=0, at_most=len(weights.layers) - 1)
    heads, found = weights.layers[layer].attention, activations.layers[layer]
    refuse_query_norms(heads)
    head = integer("head", head, at_least=0, at_most=heads.n_heads - 1)
    n = len(found.inputs)
    position = integer("position", position, at_least=-n, at_most=n - 1) % n
    kv = head * heads.n_kv_heads // heads.n_heads
    query = np.asarray(heads.query[head], dtype=np.float64)
    bias = None if heads.query_bias is None else np.asarray(heads.query_bias[head], np.float64)
    if heads.rotary is not None:
        query = heads.rotary(query, np.full(len(query), position))
        bias = None if bias is None else heads.rotary(bias[None], np.array([position]))[0]
    return AttentionHead(
        query,
        found.keys[kv],
        found.values[kv],
        np.asarray(heads.output[head], dtype=np.float64),
        query_bias=bias,
        logit_bias=_mask_bias(visible_keys(n, heads.is_causal, heads.window)[position]),
    )


def refuse_query_norms(heads: AttentionWeights) -> None:
    """Raise if the queries of a layer are not affine functions of the heads' input."""
    if heads.query_norm is not None:
        raise ArgumentError(
            "`weights` must have queries that are affine functions of the heads' input; these "
            "queries are normalised. Use `head_arrays`, which returns the queries and keys of any "
            "model."
        )


def _mask_bias(seen: BoolArray) -> FloatArray | None:
    return None if seen.all() else np.where(seen, 0.0, -np.inf)
