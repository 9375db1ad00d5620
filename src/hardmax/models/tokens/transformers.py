r"""Transformers whose tokens attend to each other: every token is a function of the input.

`HardTransformer` sends one vector through heads with fixed memories. Here the memory is computed:
all tokens pass through every block, and a head's keys and values come from the tokens. In general
the hard model is piecewise rational, because a query times a key is a product. If it is piecewise
affine, `TokenTransformer.network` is an equal argmax network, and the engines can count its
regions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, integer, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.geometry.domain_text import read_box
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.argmax_models import ArgmaxModel
from hardmax.models.evaluation import read_temperatures
from hardmax.models.networks import read_affine, read_sequence
from hardmax.models.transformers import FeedForward, describe_block, read_block
from hardmax.typing import ArrayLike, BoolArray, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class TokenHead:
    r"""A head $X \mapsto p(X)\, X W_V W_O$ on a matrix $X$ of tokens.

    The attention weights are
    $p = \mathrm{softmax}\big((X W_Q + b_Q)(X W_K)^\top / (\tau\sqrt{d_k})\big)$, row by row. In the
    hard model they are uniform over the largest scores of each row. There is no key bias, because
    it would not change the weights.

    Attributes:
        query_weight: The $W_Q$, shape `(width, d_k)`.
        key_weight: The $W_K$, shape `(width, d_k)`.
        value_weight: The $W_V$, shape `(width, d_v)`.
        output_weight: The $W_O$, shape `(d_v, width)`.
        query_bias: The $b_Q$, shape `(d_k,)`; None means zero.

    Examples:
        >>> TokenHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2))
        TokenHead(width 2, d_k = 2, d_v = 2)
    """

    query_weight: FloatArray
    key_weight: FloatArray
    value_weight: FloatArray
    output_weight: FloatArray
    query_bias: FloatArray | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        shapes = {
            "query_weight": ("width", "d_k"),
            "key_weight": ("width", "d_k"),
            "value_weight": ("width", "d_v"),
            "output_weight": ("d_v", "width"),
        }
        for name, shape in shapes.items():
            array = sizes.floats(name, getattr(self, name), shape)
            object.__setattr__(self, name, read_only_copy(array))
        if self.query_bias is not None:
            bias = sizes.floats("query_bias", self.query_bias, ("d_k",))
            object.__setattr__(self, "query_bias", read_only_copy(bias))

    def __repr__(self) -> str:
        bias = "" if self.query_bias is None else ", query bias"
        return f"TokenHead(width {self.width}, d_k = {self.d_k}, d_v = {self.d_v}{bias})"

    @property
    def width(self) -> int:
        """The width of a token."""
        return int(self.query_weight.shape[0])

    @property
    def d_k(self) -> int:
        """The dimension of queries and keys."""
        return int(self.query_weight.shape[1])

    @property
    def d_v(self) -> int:
        """The dimension of values."""
        return int(self.value_weight.shape[1])

    @property
    def bias(self) -> FloatArray:
        """The query bias, shape `(d_k,)`; zeros if there is none."""
        return np.zeros(self.d_k) if self.query_bias is None else self.query_bias


@dataclass(frozen=True, eq=False, repr=False)
class TokenBlock:
    r"""Attention $U = [X +] \sum_h \mathrm{head}_h(X)$, then $[U +] \mathrm{ffn}(U)$ row by row.

    Attributes:
        heads: The heads. May be empty if there is an `ffn`.
        ffn: The feed-forward part, which preserves the width of a token, or None.
        attention_residual: Whether $X$ is added to the output of the heads. Without heads there is
            no attention step, and the flag has no effect.
        ffn_residual: Whether $U$ is added to the feed-forward output.

    Examples:
        >>> head = TokenHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2))
        >>> TokenBlock([head], FeedForward(np.eye(2), None, np.eye(2), None))
        TokenBlock(1 head, FeedForward(2 -> 2 -> 2))
    """

    heads: Sequence[TokenHead]
    ffn: FeedForward | None = None
    attention_residual: bool = True
    ffn_residual: bool = True

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        read_block(self, TokenHead)
        for i, head in enumerate(self.heads):
            if head.width != self.width:
                raise ArgumentError(
                    f"`heads[{i}]` must act on tokens of width {self.width}; got {head!r}."
                )
        if self.ffn is not None and (self.ffn.dim, self.ffn.out_dim) != (self.width, self.width):
            raise ArgumentError(
                f"`ffn` must map tokens of width {self.width} to the same width; got {self.ffn!r}."
            )

    def __repr__(self) -> str:
        return describe_block(self)

    @property
    def width(self) -> int:
        """The width of a token."""
        if self.heads:
            return self.heads[0].width
        assert self.ffn is not None
        return self.ffn.dim


@dataclass(frozen=True, eq=False, repr=False)
class TokenTransformer(ArgmaxModel):
    r"""A transformer on tokens $X_0[t] = x E_t + e_t$ whose output is read from one token.

    Calling the model evaluates it at zero temperature: each token receives the value of its best
    key, or the mean value if several keys tie. Winners are decided exactly, even where floats
    cannot. `soft` evaluates the usual model.

    `network`, and with it `signature`, `affine_map` and every engine, is available if each score is
    an affine function of the input; see `tokens.reduction.reduce_tokens`.

    Attributes:
        embedding_weight: The $E_t$, shape `(dim_in, n_tokens, width)`.
        embedding_bias: The $e_t$, shape `(n_tokens, width)`.
        blocks: The blocks, first to last; may be empty.
        readout: The affine map applied to the last state of a token, as a pair `(W, b)` or an
            `AffineMap`.
        readout_token: The index of the token that is read out.
        mask: Entry `[i, j]` is True if token `i` may attend to token `j`, shape
            `(n_tokens, n_tokens)`; None allows all pairs.

    Examples:
        Two tokens that hold $x$ and $-x$; the head, whose query is 1, finds the larger:

        >>> head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
        >>> absolute = TokenTransformer([[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 1.0]],
        ...                             [TokenBlock([head], attention_residual=False)],
        ...                             AffineMap([[1.0], [0.0]], [0.0]))
        >>> absolute
        TokenTransformer(R^1 -> R^1, 2 tokens of width 2, 1 block, 1 head, 0 units)
        >>> absolute([[-3.0], [0.0], [2.0]]).ravel().tolist()
        [3.0, 0.0, 2.0]
        >>> absolute.signature([-3.0]).tolist()
        [1]
    """

    embedding_weight: FloatArray
    embedding_bias: FloatArray
    blocks: Sequence[TokenBlock]
    readout: AffineMap
    readout_token: int = 0
    mask: BoolArray | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        shape = ("dim_in", "n_tokens", "width")
        weight = sizes.floats("embedding_weight", self.embedding_weight, shape)
        bias = sizes.floats("embedding_bias", self.embedding_bias, ("n_tokens", "width"))
        object.__setattr__(self, "embedding_weight", read_only_copy(weight))
        object.__setattr__(self, "embedding_bias", read_only_copy(bias))
        blocks = read_sequence("blocks", self.blocks, nonempty=False)
        for i, block in enumerate(blocks):
            if not isinstance(block, TokenBlock):
                raise DtypeError(f"`blocks[{i}]` must be a TokenBlock; got {type(block).__name__}.")
            if block.width != sizes["width"]:
                raise ArgumentError(
                    f"`blocks[{i}]` must act on tokens of width {sizes['width']}; got {block!r}."
                )
        object.__setattr__(self, "blocks", tuple(blocks))
        object.__setattr__(self, "readout", _read_readout(self.readout, sizes["width"]))
        last = sizes["n_tokens"] - 1
        token = integer("readout_token", self.readout_token, at_least=0, at_most=last)
        object.__setattr__(self, "readout_token", token)
        object.__setattr__(self, "mask", _read_mask(self.mask, sizes["n_tokens"]))

    def __repr__(self) -> str:
        heads = sum(len(block.heads) for block in self.blocks)
        units = sum(block.ffn.d_ff for block in self.blocks if block.ffn is not None)
        words = [
            f"{n} {word}{'s' * (n != 1)}"
            for n, word in ((len(self.blocks), "block"), (heads, "head"), (units, "unit"))
        ]
        tokens = f"{self.n_tokens} token{'s' * (self.n_tokens != 1)} of width {self.width}"
        return (
            f"TokenTransformer(R^{self.dim_in} -> R^{self.dim_out}, {tokens}, {', '.join(words)})"
        )

    @property
    def dim_in(self) -> int:
        """The dimension of the input space."""
        return int(self.embedding_weight.shape[0])

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.readout.dim_out

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return int(self.embedding_bias.shape[0])

    @property
    def width(self) -> int:
        """The width of a token."""
        return int(self.embedding_bias.shape[1])

    @property
    def n_parameters(self) -> int:
        """The number of stored parameters, without the mask."""
        return int(sum(array.size for array in self.arrays))

    @property
    def n_nonzero(self) -> int:
        """The number of stored parameters that are not zero."""
        return int(sum(np.count_nonzero(array) for array in self.arrays))

    @property
    def arrays(self) -> list[FloatArray]:
        """All arrays of weights and biases that the model stores."""
        arrays: list[Any] = [self.embedding_weight, self.embedding_bias]
        for block in self.blocks:
            for head in block.heads:
                arrays += [head.query_weight, head.key_weight]
                arrays += [head.value_weight, head.output_weight]
                arrays += [] if head.query_bias is None else [head.query_bias]
            if block.ffn is not None:
                arrays += [block.ffn.w_in, block.ffn.b_in, block.ffn.w_out, block.ffn.b_out]
        return [*arrays, self.readout.weight, self.readout.bias]

    @cached_property
    def allowed(self) -> BoolArray:
        """The mask, with None replaced by True everywhere, shape `(n_tokens, n_tokens)`."""
        if self.mask is None:
            return np.ones((self.n_tokens, self.n_tokens), dtype=bool)
        return self.mask

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the hard model with exact winners.

        The arithmetic between the decisions is rounded. At points where floats leave a decision
        open, the output is the exact output, rounded once.

        Args:
            x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.
        """
        from hardmax.models.tokens.passes import evaluate_hard

        return evaluate_hard(self, x)

    def soft(self, x: ArrayLike, tau: float | Sequence[float] = 1.0) -> FloatArray:
        r"""Evaluate the soft model, with scores divided by $\tau\sqrt{d_k}$, in float64.

        Args:
            x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.
            tau: The temperature, or a sequence with one temperature per block. All must be above 0,
                or all 0, which gives the hard model.

        Raises:
            NonFiniteError: If a number exceeds the range of float64.
        """
        from hardmax.models.tokens.passes import evaluate_soft

        taus = read_temperatures(tau, len(self.blocks), "block")
        if not any(taus):
            return self(x)
        if 0.0 in taus:
            raise ArgumentError(
                "`tau` must be above 0 for every block, or 0 for every block; got both."
            )
        return evaluate_soft(self, x, taus)

    def network_on(self, box: Box | str) -> ArgmaxNetwork:
        r"""Return an argmax network that equals the hard model on a box.

        `network` keeps every decision that can reach the output. This method also drops decisions
        that cannot change on the box, or that cancel, as in $\mathrm{relu}(e) - \mathrm{relu}(-e)$.
        The result has fewer cells and the same regions. For a compiled transformer, the network
        that it was compiled from remains.

        Raises:
            ArgumentError: If the model is not piecewise affine on the box.

        Examples:
            >>> head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
            >>> absolute = TokenTransformer([[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 1.0]],
            ...                             [TokenBlock([head], attention_residual=False)],
            ...                             AffineMap([[1.0], [0.0]], [0.0]))
            >>> absolute.network_on(Box([-1.0], [1.0])).n_groups
            1
            >>> absolute.network_on(Box([1.0], [2.0])).n_groups
            0
        """
        from hardmax.models.tokens.networks import build_network_on_box

        where = read_box(box)
        if where.dim != self.dim_in:
            raise ShapeMismatchError(
                f"`box` must have the model's {self.dim_in} input dimensions; got {where.dim}."
            )
        return build_network_on_box(self, where)

    def _build_network(self) -> ArgmaxNetwork:
        from hardmax.models.tokens.reduction import reduce_tokens

        return reduce_tokens(self)


def _read_readout(value: Any, width: int) -> AffineMap:
    if not isinstance(value, AffineMap):
        pair = read_sequence("readout", value)
        if len(pair) != 2:
            raise ArgumentError(
                f"`readout` must be a pair (W, b) or an AffineMap; got {len(pair)} entries."
            )
        value = read_affine("readout[0]", pair[0], "readout[1]", pair[1], Sizes())
    readout: AffineMap = value
    if readout.dim_in != width:
        raise ArgumentError(f"`readout` must take vectors of width {width}; got {readout.dim_in}.")
    return readout


def _read_mask(value: Any, n_tokens: int) -> BoolArray | None:
    if value is None:
        return None
    mask = np.array(value)
    if mask.dtype != np.bool_:
        raise DtypeError(f"`mask` must be a boolean array; got dtype {mask.dtype}.")
    if mask.shape != (n_tokens, n_tokens):
        raise ShapeMismatchError(
            f"`mask` must have shape (n_tokens, n_tokens) with n_tokens = {n_tokens}; "
            f"got {mask.shape}."
        )
    empty = np.flatnonzero(~mask.any(axis=1))
    if empty.size:
        raise ArgumentError(
            f"`mask` must allow every token to attend to at least one token; row {empty[0]} allows "
            "none."
        )
    mask.setflags(write=False)
    return mask
