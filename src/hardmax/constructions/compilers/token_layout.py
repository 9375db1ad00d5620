r"""The standard transformer that computes a network of maxima: where everything stands.

$T$ tokens, one for each piece of the unit with most pieces. A token has four slots: the **state**
$S$ holds the values of the last layer (the same in every token), the **work** slot $Z$ one number
for each unit, the **code** $p$ tells the tokens apart, and the last coordinate is 1. Token $c$
starts as $(x, 0, p^c, 1)$, and nothing ever writes to the last two slots. (A function that stands
on tokens with origins $o^c$ has $x - o^c$ in place of $x$, see `token_origins`; one whose units
stand at points $o_1, \dots, o_m$ has all $x - o_i$, see `unit_origins`.)

For each token there is a row $g^c \ge 0$ with $\langle g^c, p^c\rangle = 0$ and
$\langle g^c, p^{c'}\rangle \ge 1$ for the others. The feed-forward part before a layer writes piece
$c$ of unit $i$ into $Z_i$ of token $c$, by the pair

$$\pm\mathrm{relu}\big(\pm(\langle a_{i,c}, S\rangle + b_{i,c}) - M \langle g^c, p\rangle\big).$$

On token $c$ the pair is the piece; on the others both are 0, as $M$ exceeds it. Constants (of
pieces without slope, and the floors of tokens that have no piece of a unit) hang on the units
$\mathrm{relu}(1 - \langle g^c, p\rangle)$; a unit of one piece has it on every token and needs no
gate. Other pairs $\mp\mathrm{relu}(\pm S_j)$, $\mp\mathrm{relu}(\pm Z_j)$ clear the state and what
the layer before wrote. Odd and even layers have work slots of their own, so pieces are added to 0,
and neither writing nor clearing rounds.

Head $i$ of the attention that follows has $d_k = d_v = 1$: its query is $1/\tau$ on every token,
its key and value are $Z_i$, and its output goes to $S_i$. So every token receives the soft mean of
the pieces, in the hard transformer their maximum. Without origins no weight is computed from
another one, so with exact arithmetic the hard transformer *is* the network.
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
    r"""Return codes $p^c$ and gates $g^c$ of zeros and ones that tell tokens apart.

    $\langle g^c, p^{c'}\rangle$ is 0 for $c = c'$ and at least 1 otherwise. A few tokens have the
    zero of their code at their own place; many have the binary digits of their number, each
    followed by its complement.

    Returns:
        Two arrays `(n_tokens, n_code)`, with `n_code` the smaller of `n_tokens` and twice the
        number of binary digits; 0 for a single token.

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
    """Where the parts of a token stand.

    Attributes:
        n_state: The size of the state slot, at the front.
        work_sizes: The sizes of the two work slots after it, of odd and even layers.
        codes: The codes of the tokens, in the slot after that, shape `(n_tokens, n_code)`.
        gates: What closes a gate on every token but one, same shape.
    """

    n_state: int
    work_sizes: tuple[int, int]
    codes: FloatArray
    gates: FloatArray

    @classmethod
    def of(cls, layers: list[PieceLayer], last: AffineMap) -> "Slots":
        """Return the slots a network needs."""
        widths = [layer.n_units for layer in layers]
        n_in = layers[0].n_state if layers else last.dim_in
        n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
        work = (max(widths[::2], default=0), max(widths[1::2], default=0))
        return cls(max([n_in, *widths]), work, *token_codes(n_tokens))

    @property
    def n_work(self) -> int:
        """The size of both work slots."""
        return sum(self.work_sizes)

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
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
        """About how many numbers the transformer of these layers stores, rather too many."""
        n_numbers = self.n_tokens * self.width * (self.n_state + 1)
        for layer in layers:
            heads = layer.n_units * (4 * self.width + OBJECT_NUMBERS)
            d_ff = 2 * len(layer.offsets) + 2 * (self.n_state + max(self.work_sizes))
            n_numbers += heads + 2 * (self.width + 1) * (d_ff + self.n_tokens)
        return n_numbers

    def work(self, index: int, n_units: int) -> slice:
        """The coordinates of the work numbers of the hidden layer `index`."""
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
        blocks.append(TokenBlock(heads, _writing(slots, layer, plan, work, stale)))
        heads = [_maximum(slots, unit, work.start, plan.rate) for unit in range(layer.n_units)]
        stale = [*range(layer.n_units), *range(work.start, work.stop)]
    if heads:
        blocks.append(TokenBlock(heads))
    weight = np.zeros((slots.width, last.dim_out))
    weight[: last.dim_in] = last.weight
    return TokenTransformer(embedding, positions, blocks, AffineMap(weight, last.bias))


def _refuse_size(slots: Slots, layers: list[PieceLayer]) -> None:
    """Refuse a network whose transformer is too large to build, before anything is."""
    n_numbers = slots.numbers(layers)
    if n_numbers > MOST_NUMBERS:
        raise SizeLimitError(
            f"`net` must be smaller: its transformer, {slots.n_tokens} tokens of width "
            f"{slots.width}, would store about 2^{(n_numbers - 1).bit_length()} numbers, more than "
            f"2^{MOST_NUMBERS.bit_length() - 1}."
        )


def _maximum(slots: Slots, unit: int, first: int, rate: float) -> TokenHead:
    """The head that writes the soft maximum of a unit's pieces to its place in the state."""
    query, work = np.zeros((slots.width, 1)), np.zeros((slots.width, 1))
    query[slots.one] = rate
    work[first + unit] = 1.0
    state = np.zeros((1, slots.width))
    state[0, unit] = 1.0
    return TokenHead(query, work, work, state)


def _writing(
    slots: Slots, layer: PieceLayer, plan: LayerPlan, work: slice, stale: list[int]
) -> FeedForward:
    """The feed-forward part that writes a layer's pieces to the tokens and clears the rest."""
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
