r"""The standard transformer that computes a network of maxima: where everything stands.

$T$ tokens, one for each piece of the unit with most pieces. A token has four slots: the **state**
$S$ holds the values of the last layer (the same in every token), the **work** slot $Z$ one number
for each unit, the **code** $p$ tells the tokens apart, and the last coordinate is 1. Token $c$
starts as $(x, 0, p^c, 1)$, and nothing ever writes to the last two slots. (A function that stands
on tokens with origins $o^c$ has $x - o^c$ in place of $x$, see `token_origins`.)

For each token there is a row $g^c \ge 0$ with $\langle g^c, p^c\rangle = 0$ and
$\langle g^c, p^{c'}\rangle \ge 1$ for the others. The feed-forward part before a layer writes piece
$c$ of unit $i$ into $Z_i$ of token $c$, by the pair

$$\pm\mathrm{relu}\big(\pm(\langle a_{i,c}, S\rangle + b_{i,c}) - M \langle g^c, p\rangle\big).$$

On token $c$ the pair is the piece; on the others both are 0, as $M$ exceeds it. Constants (of
pieces without slope, and the floors of tokens that have no piece of a unit) hang on the units
$\mathrm{relu}(1 - \langle g^c, p\rangle)$; a unit of one piece has it on every token and needs no
gate. Other pairs $\mp\mathrm{relu}(\pm S_j)$, $\mp\mathrm{relu}(\pm Z_j)$ clear what was there
before.

Head $i$ of the attention that follows has $d_k = d_v = 1$: its query is $1/\tau$ on every token,
its key and value are $Z_i$, and its output goes to $S_i$. So every token receives the soft mean of
the pieces, in the hard transformer their maximum. Without origins no weight is computed from
another one, so with exact arithmetic the hard transformer *is* the network.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.certified_errors import LayerPlan
from hardmax.constructions.model_sizes import MOST_NUMBERS, OBJECT_NUMBERS
from hardmax.constructions.piece_layers import PieceLayer
from hardmax.errors import SizeLimitError
from hardmax.models.argmax_layers import AffineMap
from hardmax.models.token_transformers import TokenBlock, TokenHead, TokenTransformer
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
        n_work: The size of the work slot, after it.
        codes: The codes of the tokens, in the slot after that, shape `(n_tokens, n_code)`.
        gates: What closes a gate on every token but one, same shape.
    """

    n_state: int
    n_work: int
    codes: FloatArray
    gates: FloatArray

    @classmethod
    def of(cls, layers: list[PieceLayer], last: AffineMap) -> "Slots":
        """Return the slots a network needs."""
        widths = [layer.n_units for layer in layers]
        n_in = layers[0].slopes.shape[1] if layers else last.dim_in
        n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
        return cls(max([n_in, *widths]), max(widths, default=0), *token_codes(n_tokens))

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

    def work(self, unit: int) -> int:
        """The coordinate of a unit's work number."""
        return self.n_state + unit


def token_transformer(
    layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...]
) -> TokenTransformer:
    """Build the transformer of a network from the plans of its layers."""
    slots = Slots.of(layers, last)
    _refuse_size(slots, layers)
    n_in = layers[0].slopes.shape[1] if layers else last.dim_in
    embedding = np.zeros((n_in, slots.n_tokens, slots.width))
    positions = np.zeros((slots.n_tokens, slots.width))
    embedding[np.arange(n_in), :, np.arange(n_in)] = 1.0
    if layers and layers[0].origins is not None:
        positions[: len(layers[0].origins.points), :n_in] = -layers[0].origins.points
    positions[:, slots.code] = slots.codes
    positions[:, slots.one] = 1.0
    blocks = []
    heads: list[TokenHead] = []
    n_state, n_work = n_in, 0
    for layer, plan in zip(layers, plans, strict=True):
        blocks.append(TokenBlock(heads, _writing(slots, layer, plan, n_state, n_work)))
        heads = [_maximum(slots, unit, plan.rate) for unit in range(layer.n_units)]
        n_state = n_work = layer.n_units
    if heads:
        blocks.append(TokenBlock(heads))
    weight = np.zeros((slots.width, last.dim_out))
    weight[: last.dim_in] = last.weight
    return TokenTransformer(embedding, positions, blocks, AffineMap(weight, last.bias))


def _refuse_size(slots: Slots, layers: list[PieceLayer]) -> None:
    """Refuse a network whose transformer is too large to build, before anything is."""
    n_numbers = slots.n_tokens * slots.width * (slots.n_state + 1)
    for layer in layers:
        heads = layer.n_units * (4 * slots.width + OBJECT_NUMBERS)
        d_ff = 2 * len(layer.offsets) + 2 * (slots.n_state + slots.n_work)
        n_numbers += heads + 2 * (slots.width + 1) * (d_ff + slots.n_tokens)
    if n_numbers > MOST_NUMBERS:
        raise SizeLimitError(
            f"`net` must be smaller: its transformer, {slots.n_tokens} tokens of width "
            f"{slots.width}, would store about 2^{(n_numbers - 1).bit_length()} numbers, more than "
            f"2^{MOST_NUMBERS.bit_length() - 1}."
        )


def _maximum(slots: Slots, unit: int, rate: float) -> TokenHead:
    """The head that writes the soft maximum of a unit's pieces to its place in the state."""
    query, work = np.zeros((slots.width, 1)), np.zeros((slots.width, 1))
    query[slots.one] = rate
    work[slots.work(unit)] = 1.0
    state = np.zeros((1, slots.width))
    state[0, unit] = 1.0
    return TokenHead(query, work, work, state)


def _writing(
    slots: Slots, layer: PieceLayer, plan: LayerPlan, n_state: int, n_work: int
) -> FeedForward:
    """The feed-forward part that writes a layer's pieces to the tokens and clears the rest."""
    rows_in: list[FloatArray] = []
    bias: list[float] = []
    rows_out: list[FloatArray] = []
    bias_out = np.zeros(slots.width)
    constants = np.zeros((slots.n_tokens, layer.n_units))
    for piece in range(len(layer.offsets)):
        unit, token = int(layer.owner[piece]), int(layer.place[piece])
        alone = layer.is_everywhere[unit]
        if layer.is_constant[piece]:
            if alone:
                bias_out[slots.work(unit)] = layer.offsets[piece]
            else:
                constants[token, unit] = layer.offsets[piece]
            continue
        for sign in (1.0, -1.0):
            row = np.zeros(slots.width)
            row[:n_state] = sign * layer.slopes[piece]
            if not alone:
                row[slots.code] = np.where(slots.gates[token] > 0.0, -plan.gate, 0.0)
            rows_in.append(row)
            bias.append(sign * layer.written_offsets[piece])
            rows_out.append(_unit_row(slots, slots.work(unit), sign))
    is_idle = np.ones((slots.n_tokens, layer.n_units), dtype=bool)
    is_idle[layer.place, layer.owner] = False
    is_idle[:, layer.is_everywhere] = False
    constants = np.where(is_idle, plan.floors, constants)
    for token in np.flatnonzero(constants.any(axis=1)).tolist():
        row = _unit_row(slots, slots.one, 1.0)
        row[slots.code] = np.where(slots.gates[token] > 0.0, -1.0, 0.0)
        rows_in.append(row)
        bias.append(0.0)
        out = np.zeros(slots.width)
        out[slots.work(0) : slots.work(layer.n_units)] = constants[token]
        rows_out.append(out)
    stale = [*range(n_state), *(slots.work(unit) for unit in range(n_work))]
    for coordinate in stale:
        for sign in (1.0, -1.0):
            rows_in.append(_unit_row(slots, coordinate, sign))
            bias.append(0.0)
            rows_out.append(_unit_row(slots, coordinate, -sign))
    return FeedForward(np.array(rows_in).T, np.array(bias), np.array(rows_out), bias_out)


def _unit_row(slots: Slots, coordinate: int, value: float) -> FloatArray:
    row = np.zeros(slots.width)
    row[coordinate] = value
    return row
