"""Transformers at zero temperature: blocks of hard heads with fixed memories, and ReLU units."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hardmax._ground.arguments import ArrayGroup, Sizes, join_bytes, read_only_zeros
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.argmax_models import ArgmaxModel
from hardmax.models.evaluation import read_temperatures
from hardmax.models.heads import AttentionHead
from hardmax.models.layer_words import HEADS, block_words
from hardmax.models.networks import read_affine, read_sequence, relu_layer
from hardmax.typing import ArrayLike, FloatArray

_FEED_FORWARD = ArrayGroup(
    ("w_in", ("dim", "d_ff")),
    ("b_in", ("d_ff",)),
    ("w_out", ("d_ff", "out_dim")),
    ("b_out", ("out_dim",)),
)


@dataclass(frozen=True, eq=False, repr=False)
class FeedForward:
    r"""The map $z \mapsto \mathrm{relu}(z W_1 + b_1) W_2 + b_2$.

    Attributes:
        w_in: The $W_1$, shape `(dim, d_ff)`.
        b_in: The $b_1$, shape `(d_ff,)`; None means zero.
        w_out: The $W_2$, shape `(d_ff, out_dim)`.
        b_out: The $b_2$, shape `(out_dim,)`; None means zero.

    Examples:
        >>> FeedForward([[1.0, -1.0]], None, [[1.0], [1.0]], None)
        FeedForward(1 -> 2 -> 1)
    """

    w_in: FloatArray
    b_in: FloatArray | None
    w_out: FloatArray
    b_out: FloatArray | None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        w_in, b_in, w_out, b_out = _FEED_FORWARD.read(self.w_in, self.b_in, self.w_out, self.b_out)
        self.__dict__.update(w_in=w_in, b_in=b_in, w_out=w_out, b_out=b_out)

    def __repr__(self) -> str:
        return f"FeedForward({self.dim} -> {self.d_ff} -> {self.out_dim})"

    @property
    def dim(self) -> int:
        """The dimension of the input."""
        return int(self.w_in.shape[0])

    @property
    def d_ff(self) -> int:
        """The number of units."""
        return int(self.w_in.shape[1])

    @property
    def out_dim(self) -> int:
        """The dimension of the output."""
        return int(self.w_out.shape[1])

    def layer(self, *, residual: bool) -> ArgmaxLayer:
        """Return the map as one layer whose groups have two forms each."""
        assert self.b_in is not None
        assert self.b_out is not None
        before = AffineMap.trusted(self.w_in, self.b_in)
        after = AffineMap.trusted(self.w_out, self.b_out)
        return relu_layer(before, after, residual=residual)


def read_block(block: Any, head_type: type) -> None:
    """Check the parts of a new block with heads of a given type, and normalise their types."""
    heads = read_sequence("heads", block.heads, nonempty=False)
    for i, head in enumerate(heads):
        if not isinstance(head, head_type):
            article = "an" if head_type.__name__[0] in "AEIOU" else "a"
            raise DtypeError(
                f"`heads[{i}]` must be {article} {head_type.__name__}; got {type(head).__name__}."
            )
    if block.ffn is not None and not isinstance(block.ffn, FeedForward):
        raise DtypeError(f"`ffn` must be a FeedForward or None; got {type(block.ffn).__name__}.")
    if not heads and block.ffn is None:
        raise EmptyInputError("`heads` must not be empty if `ffn` is None.")
    block.__dict__["heads"] = tuple(heads)
    for name in ("attention_residual", "ffn_residual"):
        flag = getattr(block, name)
        if flag is not True and flag is not False:
            if not isinstance(flag, np.bool_):
                raise DtypeError(f"`{name}` must be True or False; got {flag!r}.")
            block.__dict__[name] = bool(flag)


def describe_block(block: Any) -> str:
    """Describe a block by its class, heads, feed-forward part and missing residuals."""
    parts = [f"{len(block.heads)} head{'s' * (len(block.heads) != 1)}"] * bool(block.heads)
    if block.ffn is not None:
        parts.append(repr(block.ffn))
    parts += ["no attention residual"] * (bool(block.heads) and not block.attention_residual)
    parts += ["no ffn residual"] * (block.ffn is not None and not block.ffn_residual)
    return f"{type(block).__name__}({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    r"""Attention $u = [z +] \sum_h \mathrm{head}_h(z)$, then feed-forward $[u +] \mathrm{ffn}(u)$.

    Attributes:
        heads: The heads, each with its own memory. May be empty if there is an `ffn`.
        ffn: The feed-forward part, or None.
        attention_residual: Whether $z$ is added to the output of the heads. Without heads there is
            no attention step, and the flag has no effect.
        ffn_residual: Whether $u$ is added to the feed-forward output.

    Examples:
        >>> head = AttentionHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2))
        >>> Block([head, head], FeedForward(np.eye(2), None, np.eye(2), None))
        Block(2 heads, FeedForward(2 -> 2 -> 2))
    """

    heads: Sequence[AttentionHead]
    ffn: FeedForward | None = None
    attention_residual: bool = True
    ffn_residual: bool = True

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        read_block(self, AttentionHead)
        self._check_widths()

    def _check_widths(self) -> None:
        dim, out_dim = self.dim, self.out_dim
        width = self.heads[0].out_dim if self.heads else dim
        for i, head in enumerate(self.heads):
            if head.dim != dim or head.out_dim != width:
                raise ArgumentError(
                    f"`heads[{i}]` must map R^{dim} to R^{width}, as `heads[0]` does; got {head!r}."
                )
        if self.attention_residual and dim != width:
            raise ArgumentError(
                "`attention_residual` must be False because the heads change the width; got True "
                f"and {self.heads[0]!r}."
            )
        if self.ffn is None:
            return
        if self.ffn.dim != width:
            raise ArgumentError(
                f"`ffn` must take vectors of width {width}, the output width of the heads; got "
                f"{self.ffn!r}."
            )
        if self.ffn_residual and width != out_dim:
            raise ArgumentError(
                "`ffn_residual` must be False because the feed-forward part changes the width; "
                f"got True and {self.ffn!r}."
            )

    def __repr__(self) -> str:
        return describe_block(self)

    @property
    def dim(self) -> int:
        """The dimension of the input."""
        if self.heads:
            return self.heads[0].dim
        assert self.ffn is not None
        return self.ffn.dim

    @property
    def out_dim(self) -> int:
        """The dimension of the output."""
        return self.ffn.out_dim if self.ffn is not None else self.heads[0].out_dim

    def layers(self) -> list[ArgmaxLayer]:
        """Return the block as one argmax layer for the heads and one for the feed-forward part."""
        layers = []
        if self.heads:
            layers.append(attention_layer(self.heads, residual=self.attention_residual))
        if self.ffn is not None:
            layers.append(self.ffn.layer(residual=self.ffn_residual))
        return layers


@dataclass(frozen=True, eq=False, repr=False)
class HardTransformer(ArgmaxModel):
    r"""A transformer at zero temperature: every head returns the value of its best key.

    Calling the model evaluates it at zero temperature; `soft` evaluates the usual model, with
    softmax heads and the same ReLU units. A signature lists, for each block, the winning key of
    each head and then the state of each unit (1 on, 0 off). Keys are numbered among the unmasked
    keys of their head (`AttentionHead.unmasked`).

    Attributes:
        blocks: The blocks, first to last, at least one.
        embedding: The affine map before the blocks, as a pair `(W, b)` or an `AffineMap`; `b` may
            be None. None means the identity.
        readout: The affine map after the blocks, in the same form.

    References:
        [SL26].

    Examples:
        >>> head = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> model = HardTransformer([Block([head])])
        >>> model
        HardTransformer(R^1 -> R^1, 1 block, 1 head, 0 units)
        >>> model([[-3.0], [0.0], [2.0]]).tolist(), model.signature([-3.0]).tolist()
        ([[-4.0], [0.0], [3.0]], [0])
        >>> [part.tolist() for part in model.affine_map([1])]
        [[[1.0]], [1.0]]
    """

    blocks: Sequence[Block]
    embedding: AffineMap | tuple[ArrayLike, ArrayLike | None] | None = None
    readout: AffineMap | tuple[ArrayLike, ArrayLike | None] | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        blocks = read_sequence("blocks", self.blocks)
        for i, block in enumerate(blocks):
            if not isinstance(block, Block):
                raise DtypeError(f"`blocks[{i}]` must be a Block; got {type(block).__name__}.")
        for i, (before, after) in enumerate(pairwise(blocks), 1):
            if before.out_dim != after.dim:
                raise ArgumentError(
                    f"`blocks[{i}]` must take vectors of width {before.out_dim}, the output width "
                    f"of the previous block; got one that takes {after.dim}."
                )
        embedding = _read_map("embedding", self.embedding, blocks[0].dim)
        readout = _read_map("readout", self.readout, blocks[-1].out_dim)
        if embedding.dim_out != blocks[0].dim:
            raise ArgumentError(
                f"`embedding` must return vectors of width {blocks[0].dim}, the input width of the "
                f"first block; got {embedding.dim_out}."
            )
        if readout.dim_in != blocks[-1].out_dim:
            raise ArgumentError(
                f"`readout` must take vectors of width {blocks[-1].out_dim}, the output width of "
                f"the last block; got {readout.dim_in}."
            )
        self.__dict__.update(blocks=tuple(blocks), embedding=embedding, readout=readout)

    def __repr__(self) -> str:
        heads = sum(len(block.heads) for block in self.blocks)
        units = sum(block.ffn.d_ff for block in self.blocks if block.ffn is not None)
        counts = [
            f"{n} {word}{'s' * (n != 1)}"
            for n, word in ((len(self.blocks), "block"), (heads, "head"), (units, "unit"))
        ]
        return f"HardTransformer(R^{self.dim_in} -> R^{self.dim_out}, {', '.join(counts)})"

    @property
    def n_parameters(self) -> int:
        """The number of stored parameters: memories count, identity maps do not."""
        arrays: list[Any] = []
        for block in self.blocks:
            for head in block.heads:
                arrays += [head.query_weight, head.keys, head.values, head.output_weight]
                arrays += [a for a in (head.query_bias, head.logit_bias) if a is not None]
            if block.ffn is not None:
                arrays += [block.ffn.w_in, block.ffn.b_in, block.ffn.w_out, block.ffn.b_out]
        for affine in (self.network.embedding, self.network.readout):
            arrays += [] if affine.is_identity else [affine.weight, affine.bias]
        return int(sum(array.size for array in arrays))

    def soft(self, x: ArrayLike, tau: float | Sequence[float]) -> FloatArray:
        r"""Evaluate the model with $\mathrm{softmax}(s/\tau)$ in every head; ReLU units stay hard.

        Args:
            x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.
            tau: The temperature, at least 0, or a sequence with one temperature per block. The
                usual scaling of scores by $1/\sqrt{d_k}$ is `tau = sqrt(d_k)`.
        """
        taus = read_temperatures(tau, len(self.blocks), "block")
        repeated = [
            tau
            for tau, block in zip(taus, self.blocks, strict=True)
            for _ in range(bool(block.heads) + (block.ffn is not None))
        ]
        return super().soft(x, repeated)

    def _build_network(self) -> ArgmaxNetwork:
        layers = tuple(layer for block in self.blocks for layer in block.layers())
        assert isinstance(self.embedding, AffineMap)
        assert isinstance(self.readout, AffineMap)
        words = block_words((bool(block.heads), block.ffn is not None) for block in self.blocks)
        return ArgmaxNetwork(layers, self.embedding, self.readout).with_words(words)


def attention_layer(heads: Sequence[AttentionHead], *, residual: bool) -> ArgmaxLayer:
    """Return one layer with a group for each head; masked keys are omitted."""
    keys = [head.unmasked_keys for head in heads]
    values = [head.unmasked_values for head in heads]
    outputs = [head.output_weight for head in heads]
    shapes = [(*key.shape, value.shape[1]) for key, value in zip(keys, values, strict=True)]
    layout = _shared_layer_fields(tuple(shapes))
    n_read, width = layout["reads"].shape[1], len(outputs[0])
    if shapes.count(shapes[0]) < len(shapes):
        width = max(map(len, outputs))
        keys = [_pad_columns(key, n_read) for key in keys]
        values = [_pad_columns(value, width) for value in values]
        outputs = [_pad_columns(output.T, width).T for output in outputs]
    is_biased = any([head.logit_bias is not None for head in heads])
    query_weight = np.concatenate([head.query_weight for head in heads], axis=1)
    query_weight.setflags(write=False)
    return ArgmaxLayer.trusted(
        layout,
        query=AffineMap.trusted(query_weight, _concatenate([head.query_offsets for head in heads])),
        slopes=_concatenate(keys),
        offsets=_concatenate([h.unmasked_bias for h in heads]) if is_biased else layout["gains"],
        values=_concatenate(values),
        output=AffineMap.trusted(_concatenate(outputs), read_only_zeros(outputs[0].shape[1])),
        residual=residual,
        kind=HEADS,
    )


@lru_cache(maxsize=64)
def _shared_layer_fields(shapes: tuple[tuple[int, int, int], ...]) -> dict[str, Any]:
    """Return the fields that depend only on each head's `(n_keys, d_k, d_v)`."""
    ends = list(accumulate((n_keys for n_keys, _, _ in shapes), initial=0))
    columns = list(accumulate((d_k for _, d_k, _ in shapes), initial=0))
    width = max(d_v for _, _, d_v in shapes)
    reads = np.full((len(shapes), max(d_k for _, d_k, _ in shapes)), -1)
    for row, (begin, end) in zip(reads, pairwise(columns), strict=True):
        row[: end - begin] = np.arange(begin, end)
    layout: dict[str, Any] = {
        "starts": np.array(ends),
        "slots": np.arange(len(shapes)) * width,
        "gains": np.zeros(ends[-1]),
        "reads": reads,
    }
    for array in layout.values():
        array.setflags(write=False)
    return layout


def _pad_columns(rows: FloatArray, width: int) -> FloatArray:
    """Append columns of zeros."""
    n_more = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, n_more))) if n_more else rows


def _concatenate(arrays: list[FloatArray]) -> FloatArray:
    """Concatenate the rows of arrays, read-only; much faster than numpy for small arrays."""
    shape = sum(map(len, arrays)), *arrays[0].shape[1:]
    return np.ndarray(shape, np.float64, join_bytes(arrays, b""))


def _read_map(name: str, value: Any, width: int) -> AffineMap:
    if value is None:
        return AffineMap.identity(width)
    if isinstance(value, AffineMap):
        return value
    pair = read_sequence(name, value)
    if len(pair) != 2:
        raise ArgumentError(f"`{name}` must be a pair (W, b) or an AffineMap; got {len(pair)}.")
    return read_affine(f"{name}[0]", pair[0], f"{name}[1]", pair[1], Sizes())
