r"""The weights of a transformer in a form that is common to all families.

Vectors are rows: a layer computes $x W + b$. Heads have their own axis. Arrays keep their stored
type (float32 or float64) and are views of the data read; computations use float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import NonFiniteError
from hardmax.models.variants.rotary import Pairing
from hardmax.typing import AnyArray, BoolArray, FloatArray


def multiply(x: FloatArray, weight: AnyArray) -> FloatArray:
    """Multiply in float64; converting a weight of another type first is faster."""
    return np.asarray(np.matmul(x, weight.astype(np.float64, copy=False)))


@dataclass(frozen=True, eq=False, repr=False)
class Linear:
    """An affine layer.

    Attributes:
        weight: The matrix, shape `(n_in, n_out)`.
        bias: The bias, shape `(n_out,)`, or None.

    Examples:
        >>> Linear(np.ones((2, 3)))(np.array([[1.0, 2.0]])).tolist()
        [[3.0, 3.0, 3.0]]
    """

    weight: AnyArray
    bias: AnyArray | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    def __call__(self, x: FloatArray) -> FloatArray:
        """Apply the layer to rows, shape `(..., n_in)`."""
        y = multiply(x, self.weight)
        return np.asarray(y if self.bias is None else y + self.bias)


@dataclass(frozen=True, eq=False, repr=False)
class Norm:
    r"""A normalisation of each row.

    `"layer"`: $\gamma (x - \bar x)/\sqrt{\mathrm{var}(x) + \epsilon} + \beta$; `"rms"`:
    $\gamma x / \sqrt{\overline{x^2} + \epsilon}$.

    Attributes:
        kind: `"layer"` or `"rms"`.
        scale: The $\gamma$, shape `(d,)`.
        shift: The $\beta$, shape `(d,)`, or None.
        epsilon: The $\epsilon$.

    Examples:
        >>> Norm("rms", np.ones(2), None, 0.0)(np.array([[3.0, 3.0]])).tolist()
        [[1.0, 1.0]]
    """

    kind: Literal["layer", "rms"]
    scale: AnyArray
    shift: AnyArray | None
    epsilon: float

    __repr__ = short_repr
    _repr_html_ = html_card

    def __call__(self, x: FloatArray) -> FloatArray:
        """Normalise rows, shape `(..., d)`."""
        with np.errstate(over="ignore", invalid="ignore"):
            centred = x - x.mean(axis=-1, keepdims=True) if self.kind == "layer" else x
            size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.epsilon)
        if not (size > 0.0).all() or np.isinf(size).any():
            raise NonFiniteError("`x` must have rows whose size is above 0 and does not overflow.")
        y = centred / size * self.scale
        return np.asarray(y if self.shift is None else y + self.shift)


def apply_norm(norm: Norm | None, x: FloatArray) -> FloatArray:
    """Apply a norm, if there is one."""
    return x if norm is None else norm(x)


@dataclass(frozen=True, eq=False, repr=False)
class Rotary:
    r"""Rotary positions: pair $i$ is rotated by $n \theta_i$ at position $n$ (see `models.rotate`).

    Attributes:
        frequencies: The $\theta_i$, shape `(d_k / 2,)`.
        pairing: The convention for coordinate pairs, `"interleaved"` or `"halves"`.

    Examples:
        >>> Rotary(np.array([1.0]), "halves").frequencies.tolist()
        [1.0]
    """

    frequencies: FloatArray
    pairing: Pairing

    __repr__ = short_repr
    _repr_html_ = html_card

    def __call__(self, vectors: FloatArray, positions: AnyArray) -> FloatArray:
        """Rotate vectors of shape `(..., n, d_k)`, row $n$ by its position."""
        angles = np.asarray(positions)[:, None] * self.frequencies
        half = len(self.frequencies)
        is_halves = self.pairing == "halves"
        first = np.s_[..., :half] if is_halves else np.s_[..., 0::2]
        second = np.s_[..., half:] if is_halves else np.s_[..., 1::2]
        a, b = vectors[first], vectors[second]
        turned = np.empty(vectors.shape)
        turned[first] = a * np.cos(angles) - b * np.sin(angles)
        turned[second] = a * np.sin(angles) + b * np.cos(angles)
        return turned


@dataclass(frozen=True, eq=False, repr=False)
class AttentionWeights:
    r"""The heads of a layer; query head $h$ uses key head $\lfloor h\,n_{kv}/n_{heads}\rfloor$.

    Attributes:
        query: The query weights, shape `(n_heads, d, d_k)`.
        key: The key weights, shape `(n_kv_heads, d, d_k)`.
        value: The value weights, shape `(n_kv_heads, d, d_v)`.
        output: The output weights, shape `(n_heads, d_v, d)`.
        query_bias: The query biases, shape `(n_heads, d_k)`, or None.
        key_bias: The key biases, shape `(n_kv_heads, d_k)`, or None.
        value_bias: The value biases, shape `(n_kv_heads, d_v)`, or None.
        output_bias: The output bias of the layer, shape `(d,)`, or None.
        rotary: The rotary positions of queries and keys, or None.
        is_causal: Whether a token sees only tokens up to itself.
        window: The maximum number of tokens that a token sees, including itself; None means no
            limit.
        temperature: The divisor of the scores.
        query_norm: The norm of each query, applied before the rotation, or None.
        key_norm: The norm of each key, applied before the rotation, or None.

    Examples:
        >>> eye = np.eye(2)[np.newaxis]
        >>> heads = AttentionWeights(eye, eye, eye, eye, *[None] * 5, True, None, 1.0)
        >>> heads.n_heads, heads.n_kv_heads, heads.head_dim, heads.is_causal
        (1, 1, 2, True)
    """

    query: AnyArray
    key: AnyArray
    value: AnyArray
    output: AnyArray
    query_bias: AnyArray | None
    key_bias: AnyArray | None
    value_bias: AnyArray | None
    output_bias: AnyArray | None
    rotary: Rotary | None
    is_causal: bool
    window: int | None
    temperature: float
    query_norm: Norm | None = None
    key_norm: Norm | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_heads(self) -> int:
        """The number of query heads."""
        return len(self.query)

    @property
    def n_kv_heads(self) -> int:
        """The number of heads of keys and values."""
        return len(self.key)

    @property
    def head_dim(self) -> int:
        """The dimension $d_k$ of queries and keys."""
        return int(self.query.shape[2])


def visible_keys(n: int, is_causal: bool, window: int | None) -> BoolArray:
    """Return the mask of the tokens (columns) that each token (row) sees, shape `(n, n)`.

    Examples:
        >>> visible_keys(3, True, 2).astype(int).tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    back = np.arange(n)[:, None] - np.arange(n)
    seen = back >= 0 if is_causal else np.ones((n, n), dtype=bool)
    return np.asarray(seen if window is None else seen & (back < window))


@dataclass(frozen=True, eq=False, repr=False)
class MlpWeights:
    r"""The feed-forward part: $\sigma(x U) D$, or $(\sigma(x G) \odot x U) D$ with a gate.

    Attributes:
        up: The $U$, with its bias.
        down: The $D$, with its bias.
        gate: The $G$, or None.
        activation: The $\sigma$: `"relu"`, `"gelu"`, `"gelu_tanh"` or `"silu"`.

    Examples:
        >>> mlp = MlpWeights(Linear(np.ones((2, 3))), Linear(np.ones((3, 2))), None, "relu")
        >>> mlp.up.weight.shape, mlp.gate, mlp.activation
        ((2, 3), None, 'relu')
    """

    up: Linear
    down: Linear
    gate: Linear | None
    activation: str

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class LayerWeights:
    """One layer: heads and a feed-forward part, with norms before them or after their sums.

    Attributes:
        attention: The heads.
        mlp: The feed-forward part.
        attention_norm: The norm of the heads, or None.
        mlp_norm: The norm of the feed-forward part, or None.
        norm_first: Whether each norm comes before its part, not after its residual sum.
        is_parallel: Whether the feed-forward part reads the input of the heads instead of their
            output; norms then come first.

    Examples:
        >>> eye = np.eye(2)[np.newaxis]
        >>> heads = AttentionWeights(eye, eye, eye, eye, *[None] * 5, True, None, 1.0)
        >>> mlp = MlpWeights(Linear(np.ones((2, 3))), Linear(np.ones((3, 2))), None, "relu")
        >>> norm = Norm("rms", np.ones(2), None, 1e-6)
        >>> layer = LayerWeights(heads, mlp, norm, norm, norm_first=True)
        >>> layer.norm_first, layer.attention.n_heads
        (True, 1)
    """

    attention: AttentionWeights
    mlp: MlpWeights
    attention_norm: Norm | None
    mlp_norm: Norm | None
    norm_first: bool
    is_parallel: bool = False

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingWeights:
    """The embedding: token, position and type vectors are added, then normalised and projected.

    Attributes:
        tokens: The token vectors, shape `(n_tokens, e)`.
        positions: The position vectors, shape `(n_positions, e)`, or None.
        types: The vectors of token types, shape `(n_types, e)`, or None.
        norm: The norm applied to the sum, or None.
        projection: The map to the width of the layers, applied last, or None.
        first_position: The row of `positions` that belongs to the first token.

    Examples:
        >>> EmbeddingWeights(np.eye(3), positions=np.zeros((8, 3))).first_position
        0
    """

    tokens: AnyArray
    positions: AnyArray | None = None
    types: AnyArray | None = None
    norm: Norm | None = None
    projection: Linear | None = None
    first_position: int = 0

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class TransformerWeights:
    """A trained transformer, as returned by `load_checkpoint`.

    Attributes:
        family: `"gpt2"`, `"gpt_neo"`, `"gpt_neox"`, `"opt"`, `"bert"`, `"roberta"`, `"electra"`,
            `"distilbert"`, `"albert"`, `"llama"`, `"gemma"`, `"torch"` or `"compiled"`.
        layers: The layers, in order; layers with shared weights share arrays.
        embedding: The embedding of tokens; None if the file has none.
        final_norm: The norm after the last layer, or None.
        unembedding: The map from vectors to token scores, shape `(d, n_tokens)`, or None.
        config: The configuration, with the names used in the files.
        unused: The names of tensors that belong to no part of the model, such as pooler weights.
        assumed: Settings that are assumed because neither tensors nor configuration specify them,
            such as `norm_first = False`.

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
        >>> model
        TransformerWeights(torch, 1 layers x 2 heads, d = 4, d_k = 2)
        >>> model.dim, len(model.layers), model.embedding is None
        (4, 1, True)
    """

    family: str
    layers: tuple[LayerWeights, ...]
    embedding: EmbeddingWeights | None = None
    final_norm: Norm | None = None
    unembedding: AnyArray | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    _repr_html_ = html_card

    def __repr__(self) -> str:
        heads = self.layers[0].attention
        shared = f" ({heads.n_kv_heads} of keys)" if heads.n_kv_heads != heads.n_heads else ""
        counts = sorted({layer.attention.n_heads for layer in self.layers})
        return (
            f"TransformerWeights({self.family}, {len(self.layers)} layers x "
            f"{' to '.join(map(str, counts[:: max(len(counts) - 1, 1)]))} heads{shared}, "
            f"d = {self.dim}, d_k = {heads.head_dim})"
        )

    @property
    def dim(self) -> int:
        """The width $d$ of the layers."""
        return int(self.layers[0].attention.query.shape[1])
