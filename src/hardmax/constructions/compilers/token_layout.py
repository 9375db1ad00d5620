r"""The layout of the standard transformer that computes a network of maxima.

There are $T$ tokens, one for each piece of the unit with the most pieces. A token has four slots:
the **state** $S$ holds the values of the last layer (the same in every token), the **work** slot
$Z$ holds one number for each unit, the **code** $p$ distinguishes the tokens, and the last
coordinate is 1. Token $c$ starts as $(x, 0, p^c, 1)$, and nothing ever writes to the last two
slots. (If the tokens have origins $o^c$, the state starts as $x - o^c$; see `token_origins`. If the
units have origins $o_1, \dots, o_m$, it starts as all differences $x - o_i$; see `unit_origins`.)

For each token there is a row $g^c \ge 0$ with $\langle g^c, p^c\rangle = 0$ and
$\langle g^c, p^{c'}\rangle \ge 1$ for all other tokens $c'$. The feed-forward part before a layer
writes piece $c$ of unit $i$ into $Z_i$ of token $c$, with the pair

$$\pm\mathrm{relu}\big(\pm(\langle a_{i,c}, S\rangle + b_{i,c}) - M \langle g^c, p\rangle\big).$$

On token $c$ the sum of the pair is the piece; on the other tokens both units are 0, because $M$
exceeds the piece. The units $\mathrm{relu}(1 - \langle g^c, p\rangle)$ write constants: pieces
without slope, and the floors of tokens that have no piece of a unit. A unit with a single piece has
this piece on every token and needs no gate. Further pairs $\mp\mathrm{relu}(\pm S_j)$ and
$\mp\mathrm{relu}(\pm Z_j)$ clear the state and the work slot of the previous layer. Odd and even
layers have separate work slots, so that pieces are added to 0, and neither writing nor clearing
rounds.

Head $i$ of the attention that follows has $d_k = d_v = 1$. Its query is $1/\tau$ on every token,
its key and value are $Z_i$, and its output is added to $S_i$. Every token therefore receives the
soft mean of the pieces; in the hard transformer, their maximum. Without origins no weight is
computed from other weights, so in exact arithmetic the hard transformer *is* the network.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.constructions.families.model_sizes import MOST_NUMBERS, OBJECT_NUMBERS
from hardmax.errors import SizeLimitError
from hardmax.models.argmax import AffineMap
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.typing import FloatArray


def token_codes(n_tokens: int) -> tuple[FloatArray, FloatArray]:
    r"""Return codes $p^c$ and gates $g^c$ of zeros and ones that distinguish the tokens.

    $\langle g^c, p^{c'}\rangle$ is 0 for $c = c'$ and at least 1 otherwise. If there are few
    tokens, the code of token $c$ is 0 at place $c$ and 1 elsewhere. Otherwise it consists of the
    binary digits of $c$, each followed by its complement.

    Returns:
        Two arrays of shape `(n_tokens, n_code)`, where `n_code` is the smaller of `n_tokens` and
        twice the number of binary digits; 0 for a single token.

    Examples:
        >>> codes, gates = token_codes(3)
        >>> codes.tolist(), (gates @ codes.T).tolist()
        ([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]], [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0],
        [1.0, 1.0, 0.0]])
        >>> token_codes(1000)[0].shape, token_codes(1)[0].shape
        ((1000, 20), (1, 0))
    """
    n_digits = (n_tokens - 1).bit_length()
    if n_tokens == 1:
        return np.zeros((1, 0)), np.zeros((1, 0))
    if n_tokens <= 2 * n_digits:
        own = np.eye(n_tokens)
        return 1.0 - own, own
    digits = (np.arange(n_tokens)[:, None] >> np.arange(n_digits)) & 1
    codes = np.stack([digits, 1 - digits], axis=2).reshape(n_tokens, 2 * n_digits).astype(float)
    # The complement of a code counts the digits in which another code differs.
    return codes, 1.0 - codes


@dataclass(frozen=True, eq=False)
class Slots:
    """The positions of the slots of a token.

    Attributes:
        n_state: The size of the state slot, which comes first.
        work_sizes: The sizes of the two work slots that follow, one for the layers with index
            0, 2, ... and one for the layers with index 1, 3, ...
        codes: The codes of the tokens, in the slot after the work slots, shape
            `(n_tokens, n_code)`.
        gates: The rows that close a gate on all tokens but one, same shape.
    """

    n_state: int
    work_sizes: tuple[int, int]
    codes: FloatArray
    gates: FloatArray

    @classmethod
    def of(cls, layers: list[PieceLayer], last: AffineMap) -> "Slots":
        """Return the slots that a network needs."""
        widths = [layer.n_units for layer in layers]
        n_in = layers[0].n_state if layers else last.dim_in
        n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
        work = (max(widths[::2], default=0), max(widths[1::2], default=0))
        return cls(max([n_in, *widths]), work, *token_codes(n_tokens))

    @property
    def n_work(self) -> int:
        """The total size of both work slots."""
        return sum(self.work_sizes)

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """The width of a token."""
        return self.one + 1

    @property
    def code(self) -> slice:
        """The coordinates of the code."""
        return slice(self.n_state + self.n_work, self.one)

    @property
    def one(self) -> int:
        """The coordinate that is 1 on every token."""
        return self.n_state + self.n_work + int(self.codes.shape[1])

    def numbers(self, layers: list[PieceLayer]) -> int:
        """Estimate from above the number of weights that the transformer of the layers stores."""
        n_numbers = self.n_tokens * self.width * (self.n_state + 1)
        for layer in layers:
            heads = layer.n_units * (4 * self.width + OBJECT_NUMBERS)
            d_ff = 2 * len(layer.offsets) + 2 * (self.n_state + max(self.work_sizes))
            n_numbers += heads + 2 * (self.width + 1) * (d_ff + self.n_tokens)
        return n_numbers

    def work(self, index: int, n_units: int) -> slice:
        """Return the coordinates of the work slot of hidden layer `index`."""
        first = self.n_state + (index % 2) * self.work_sizes[0]
        return slice(first, first + n_units)


def token_transformer(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...]
) -> TokenTransformer:
    """Build the transformer of a network from the plans of its layers."""
    slots = Slots.of(layers, last)
    _refuse_size(slots, layers)
    n_in = layers[0].slopes.shape[1] if layers else last.dim_in
    n_state = layers[0].n_state if layers else n_in
    embedding = np.zeros((n_in, slots.n_tokens, slots.width))
    positions = np.zeros((slots.n_tokens, slots.width))
    embedding[np.arange(n_state) % n_in, :, np.arange(n_state)] = 1.0
    origins = layers[0].origins if layers else None
    if isinstance(origins, UnitOrigins):
        positions[:, :n_state] = -origins.points.ravel()
    elif origins is not None:
        positions[: len(origins.points), :n_in] = -origins.points
    positions[:, slots.code] = slots.codes
    positions[:, slots.one] = 1.0
    blocks = []
    heads: list[TokenHead] = []
    stale = list(range(n_state))
    for index, (layer, plan) in enumerate(zip(layers, plans, strict=True)):
        work = slots.work(index, layer.n_units)
        blocks.append(TokenBlock(heads, _make_feed_forward(slots, layer, plan, work, stale)))
        heads = [
            _make_maximum_head(slots, unit, work.start, plan.rate) for unit in range(layer.n_units)
        ]
        stale = [*range(layer.n_units), *range(work.start, work.stop)]
    if heads:
        blocks.append(TokenBlock(heads))
    weight = np.zeros((slots.width, last.dim_out))
    weight[: last.dim_in] = last.weight
    return TokenTransformer(embedding, positions, blocks, AffineMap(weight, last.bias))


def _refuse_size(slots: Slots, layers: list[PieceLayer]) -> None:
    """Raise an error, before anything is built, if the transformer of a network is too large."""
    n_numbers = slots.numbers(layers)
    if n_numbers > MOST_NUMBERS:
        raise SizeLimitError(
            f"`net` is too large: its transformer, with {slots.n_tokens} tokens of width "
            f"{slots.width}, would store about 2^{(n_numbers - 1).bit_length()} numbers; the limit "
            f"is 2^{MOST_NUMBERS.bit_length() - 1}."
        )


def _make_maximum_head(slots: Slots, unit: int, first: int, rate: float) -> TokenHead:
    """Return the head that writes the soft maximum of a unit's pieces into the state."""
    query, work = np.zeros((slots.width, 1)), np.zeros((slots.width, 1))
    query[slots.one] = rate
    work[first + unit] = 1.0
    state = np.zeros((1, slots.width))
    state[0, unit] = 1.0
    return TokenHead(query, work, work, state)


def _make_feed_forward(
    slots: Slots, layer: PieceLayer, plan: LayerPlan, work: slice, stale: list[int]
) -> FeedForward:
    """Return the feed-forward part that writes a layer's pieces and clears the other slots."""
    bias_out = np.zeros(slots.width)
    constants = np.zeros((slots.n_tokens, layer.n_units))
    alone = layer.is_everywhere[layer.owner]
    fixed = np.flatnonzero(layer.is_constant & ~alone)
    constants[layer.place[fixed], layer.owner[fixed]] = layer.offsets[fixed]
    everywhere = np.flatnonzero(layer.is_constant & alone)
    bias_out[work.start + layer.owner[everywhere]] = layer.offsets[everywhere]
    is_idle = np.ones((slots.n_tokens, layer.n_units), dtype=bool)
    is_idle[layer.place, layer.owner] = False
    is_idle[:, layer.is_everywhere] = False
    constants = np.where(is_idle, plan.floors, constants)

    moving = np.flatnonzero(~layer.is_constant)
    holding = np.flatnonzero(constants.any(axis=1))
    ends = np.cumsum([2 * len(moving), len(holding), 2 * len(stale)]).tolist()
    rows_in, rows_out = np.zeros((ends[2], slots.width)), np.zeros((ends[2], slots.width))
    bias = np.zeros(ends[2])
    for side, sign in enumerate((1.0, -1.0)):
        rows = np.arange(side, ends[0], 2)
        rows_in[rows[:, None], layer.columns[moving]] = sign * layer.slopes[moving]
        gates = slots.gates[layer.place[moving]] > 0.0
        rows_in[rows, slots.code] = np.where(gates & ~alone[moving, None], -plan.gate, 0.0)
        bias[rows] = sign * layer.written_offsets[moving]
        rows_out[rows, work.start + layer.owner[moving]] = sign
        rows = np.arange(ends[1] + side, ends[2], 2)
        rows_in[rows, stale] = sign
        rows_out[rows, stale] = -sign
    rows_in[ends[0] : ends[1], slots.one] = 1.0
    rows_in[ends[0] : ends[1], slots.code] = np.where(slots.gates[holding] > 0.0, -1.0, 0.0)
    rows_out[ends[0] : ends[1], work] = constants[holding]
    return FeedForward(rows_in.T, bias, rows_out, bias_out)
