r"""The argmax network of a transformer on tokens whose symbols were worked out on a box.

A layer makes the decisions of one level; its state are the atoms that later levels or the outputs
still need. Atoms that only pass through a layer are groups of one form. A coefficient that is not a
float64 number is a sum of several, each on its own copy of the atom, so the network is the model
exactly.

**Symbols.** A hard transformer on tokens is worked out symbol by symbol on a box.

Every coordinate of every token is an affine combination of **atoms** with rational coefficients:
the inputs, the maximum of some combinations (a head that passes on its best score, a ReLU), and
the constant that belongs to the best of some combinations (a head that looks values up). Equal
combinations are one, whatever token they stand on, and $\max(0, -e) = \max(0, e) - e$, so that

- what a pair $\mathrm{relu}(e) - \mathrm{relu}(-e)$ passes on is $e$, no decision at all;
- a unit that is off all over the box is 0, one that is on is its argument;
- a score that another one beats all over the box is gone.

What remains are the decisions that shape the function on the box: for a compiled network its own.
All of it is exact; ranges over the box are intervals of rationals.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import float_parts
from hardmax.geometry.domains import Box
from hardmax.models._arithmetic.enclosures import Enclosed, EnclosedMap
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import affine_layer
from hardmax.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from hardmax.models.tokens.transformers import TokenHead, TokenTransformer
    from hardmax.models.transformers import FeedForward


ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Combination:
    """An affine combination of atoms.

    Attributes:
        terms: The pairs `(atom, coefficient)` with coefficients other than 0, by atom.
        constant: The constant.
    """

    terms: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = ZERO

    def __neg__(self) -> "Combination":
        return Combination(tuple((atom, -c) for atom, c in self.terms), -self.constant)

    def times(self, factor: Fraction) -> "Combination":
        """Multiply it by a number."""
        return combined([(factor, self)])


def combined(
    parts: Iterable[tuple[Fraction, Combination]], constant: Fraction = ZERO
) -> Combination:
    r"""Return $\sum_i \lambda_i e_i + c$ of pairs $(\lambda_i, e_i)$."""
    total: dict[int, Fraction] = {}
    for factor, part in parts:
        for atom, coefficient in part.terms:
            total[atom] = total.get(atom, ZERO) + factor * coefficient
        constant += factor * part.constant
    return Combination(tuple(sorted((a, c) for a, c in total.items() if c)), constant)


@dataclass(frozen=True, slots=True)
class Decision:
    """An atom that is not an input: what the best of some combinations contributes.

    Attributes:
        scores: The combinations that compete, in order.
        values: None for the best score itself, else the constant that belongs to each of them.
        level: How many decisions stand one behind the other up to this one.
    """

    scores: tuple[Combination, ...]
    values: tuple[Fraction, ...] | None
    level: int


@dataclass(frozen=True, eq=False)
class Symbols:
    """The atoms met so far, and what they range over.

    Attributes:
        n_inputs: How many atoms, the first ones, are inputs.
        ranges: The smallest and the largest value of each atom on the box, or more.
        decisions: The atoms after the inputs.
        names: Which atom a decision is.
    """

    n_inputs: int
    ranges: list[tuple[Fraction, Fraction]]
    decisions: list[Decision] = field(default_factory=list)
    names: dict[tuple[object, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, box: Box) -> "Symbols":
        """The inputs alone."""
        ends = zip(box.low.tolist(), box.high.tolist(), strict=True)
        return cls(box.dim, [(Fraction(low), Fraction(high)) for low, high in ends])

    def range(self, e: Combination) -> tuple[Fraction, Fraction]:
        """Bounds of a combination on the box."""
        low = high = e.constant
        for atom, c in e.terms:
            ends = self.ranges[atom] if c > 0 else self.ranges[atom][::-1]
            low, high = low + c * ends[0], high + c * ends[1]
        return low, high

    def decision(self, atom: int) -> Decision:
        """The decision an atom is."""
        return self.decisions[atom - self.n_inputs]

    def level(self, e: Combination) -> int:
        """How many decisions stand behind a combination."""
        inside = (atom for atom, _ in e.terms if atom >= self.n_inputs)
        return max((self.decision(atom).level for atom in inside), default=0)

    def rectified(self, e: Combination) -> Combination:
        """The larger of 0 and a combination."""
        low, high = self.range(e)
        if low >= 0:
            return e
        if high <= 0:
            return Combination()
        if e.terms[0][1] < 0:
            return combined([(Fraction(1), self.rectified(-e)), (Fraction(1), e)])
        return self.best([Combination(), e])

    def best(self, scores: list[Combination]) -> Combination:
        """The largest of some combinations.

        A combination that always wins is an atom too, so that the weights of one layer are not
        multiplied by those of the next.
        """
        ranges = [self.range(e) for e in scores]
        floor = max(low for low, _ in ranges)
        kept = tuple(dict.fromkeys(e for e, r in zip(scores, ranges, strict=True) if r[1] >= floor))
        if len(kept) == 1 and (not kept[0].terms or kept[0] == _alone(kept[0].terms[0][0])):
            return kept[0]
        return self._atom(kept, None, (floor, max(high for _, high in ranges)))

    def looked_up(self, scores: list[Combination], values: list[Fraction]) -> Combination:
        """The value that belongs to the best combination, the mean where several tie.

        Equal combinations all stay: on a wall the mean counts each of them.
        """
        ranges = [self.range(e) for e in scores]
        floor = max(low for low, _ in ranges)
        kept = [i for i, (_, high) in enumerate(ranges) if high >= floor]
        named, table = tuple(scores[i] for i in kept), tuple(values[i] for i in kept)
        mean = sum(table, ZERO) / len(table)
        # A mean that floats cannot say stays with those who can: forms that coincide.
        if len(set(table)) == 1 or (len(set(named)) == 1 and mean.denominator.bit_count() == 1):
            return Combination(constant=mean)
        return self._atom(named, table, (min(table), max(table)))

    def _atom(
        self,
        scores: tuple[Combination, ...],
        values: tuple[Fraction, ...] | None,
        ends: tuple[Fraction, Fraction],
    ) -> Combination:
        name = (scores, values)
        if name not in self.names:
            self.names[name] = len(self.ranges)
            self.ranges.append(ends)
            level = 1 + max(map(self.level, scores))
            self.decisions.append(Decision(scores, values, level))
        return _alone(self.names[name])


def _alone(atom: int) -> Combination:
    return Combination(((atom, Fraction(1)),))


State = list[list[Combination]]
"""The coordinates of each token."""


def read_out(model: "TokenTransformer", box: Box) -> tuple[Symbols, list[Combination]]:
    """Work a model out on a box: the atoms, and each output as a combination of them.

    Raises:
        ArgumentError: If a score is a product of two numbers that both depend on the input, or a
            head passes on something else than a constant or a multiple of its score.
    """
    symbols = Symbols.of(box)
    state = _embedded(model)
    for b, block in enumerate(model.blocks):
        if block.heads:
            columns = [
                _HeadSymbols(head, symbols, f"block {b}, head {h}").attended(state, model.allowed)
                for h, head in enumerate(block.heads)
            ]
            added = [_summed([column[t] for column in columns]) for t in range(len(state))]
            state = _rows_added(state, added) if block.attention_residual else added
        if block.ffn is not None:
            added = _fed_forward(block.ffn, state, symbols)
            state = _rows_added(state, added) if block.ffn_residual else added
    row = state[model.readout_token]
    return symbols, _mapped([row], model.readout.weight, model.readout.bias)[0]


def _embedded(model: "TokenTransformer") -> State:
    return [
        [
            Combination(
                tuple((i, Fraction(float(w))) for i, w in enumerate(column) if w),
                Fraction(float(bias)),
            )
            for column, bias in zip(weight.T, biases, strict=True)
        ]
        for weight, biases in zip(
            np.moveaxis(model.embedding_weight, 1, 0), model.embedding_bias, strict=True
        )
    ]


def _mapped(rows: State, weight: FloatArray, bias: FloatArray | None = None) -> State:
    """Apply an affine map to each row."""
    columns = [
        [(int(j), Fraction(float(weight[j, k]))) for j in np.flatnonzero(weight[:, k])]
        for k in range(weight.shape[1])
    ]
    offsets = [ZERO] * len(columns) if bias is None else [Fraction(float(b)) for b in bias]
    return [
        [
            combined(((w, row[j]) for j, w in column), offset)
            for column, offset in zip(columns, offsets, strict=True)
        ]
        for row in rows
    ]


def _summed(rows: list[list[Combination]]) -> list[Combination]:
    if len(rows) == 1:
        return rows[0]
    return [combined([(Fraction(1), e) for e in column]) for column in zip(*rows, strict=True)]


def _rows_added(left: State, right: State) -> State:
    return [_summed([a, b]) for a, b in zip(left, right, strict=True)]


def _fed_forward(ffn: "FeedForward", state: State, symbols: Symbols) -> State:
    """The feed-forward part of each token; units that floats show to be off are never looked at."""
    b_in = np.asarray(ffn.b_in)
    before = EnclosedMap(ffn.w_in, b_in)(_enclosed(state, symbols))
    may_be_on = ~(before.values <= -before.radii)
    result = []
    for row, on in zip(state, may_be_on, strict=True):
        units = np.flatnonzero(on)
        values = _mapped([row], ffn.w_in[:, units], b_in[units])[0]
        rectified = [symbols.rectified(e) for e in values]
        result += _mapped([rectified], ffn.w_out[units], ffn.b_out)
    return result


def _enclosed(state: State, symbols: Symbols) -> Enclosed:
    """The ranges of all coordinates as float64 midpoints and radii that cover them."""
    known: dict[Combination, tuple[float, float]] = {}
    for e in {e for row in state for e in row}:
        low, high = symbols.range(e)
        middle = float((low + high) / 2)
        radius = max(high - Fraction(middle), Fraction(middle) - low)
        known[e] = middle, float(np.nextafter(float(radius), np.inf)) if radius else 0.0
    pairs = np.array([[known[e] for e in row] for row in state])
    return Enclosed(np.ascontiguousarray(pairs[:, :, 0]), np.ascontiguousarray(pairs[:, :, 1]))


@dataclass(frozen=True, eq=False)
class _HeadSymbols:
    """One head at work."""

    head: "TokenHead"
    symbols: Symbols
    place: str

    def attended(self, state: State, allowed: BoolArray) -> State:
        """What each token receives."""
        queries = _mapped(state, self.head.query_weight, self.head.bias)
        keys = _mapped(state, self.head.key_weight)
        values = _mapped(state, self.head.value_weight)
        received: dict[tuple[object, ...], list[Combination]] = {}
        result = []
        for t, query in enumerate(queries):
            name = (*query, allowed[t].tobytes())
            if name not in received:
                others = np.flatnonzero(allowed[t]).tolist()
                scores = [self._score(query, keys[s]) for s in others]
                received[name] = _mapped(
                    [
                        [
                            self._passed(scores, [values[s][e] for s in others])
                            for e in range(self.head.d_v)
                        ]
                    ],
                    self.head.output_weight,
                )[0]
            result.append(received[name])
        return result

    def _score(self, query: list[Combination], key: list[Combination]) -> Combination:
        parts = []
        for q, k in zip(query, key, strict=True):
            if q.terms and k.terms:
                raise self._refusal(
                    "a query and a key that both depend on the input are multiplied, which is not "
                    "affine."
                )
            parts.append((q.constant, k) if k.terms else (k.constant, q))
        return combined(parts)

    def _passed(self, scores: list[Combination], values: list[Combination]) -> Combination:
        """One component of what the winner contributes."""
        if not any(v.terms for v in values):
            return self.symbols.looked_up(scores, [v.constant for v in values])
        if not any(e.terms for e in scores):
            best = max(e.constant for e in scores)
            tied = [v for e, v in zip(scores, values, strict=True) if e.constant == best]
            return combined([(Fraction(1, len(tied)), v) for v in tied])
        ratio = _common_ratio(scores, values)
        if ratio is None:
            raise self._refusal(
                "the value of the winner is neither constant nor one multiple of its score."
            )
        if ratio > 0:
            return self.symbols.best(values)
        return -self.symbols.best([-v for v in values])

    def _refusal(self, reason: str) -> ArgumentError:
        return ArgumentError(f"`model` must be piecewise affine; in {self.place}: {reason}")


def _common_ratio(scores: list[Combination], values: list[Combination]) -> Fraction | None:
    """The one number, not 0, that takes every score to its value, or None."""
    score, value = next(pair for pair in zip(scores, values, strict=True) if pair[0].terms)
    if not value.terms:
        return None
    ratio = value.terms[0][1] / score.terms[0][1]
    same = all(e.times(ratio) == v for e, v in zip(scores, values, strict=True))
    return ratio if same else None


def network_on(model: "TokenTransformer", box: Box) -> ArgmaxNetwork:
    """Return the hard model as an argmax network that equals it on a box.

    Raises:
        ArgumentError: If the model is not piecewise affine on the box (see
            `token_symbols.read_out`), or a number in it is not a sum of float64 numbers.
    """
    symbols, outputs = read_out(model, box)
    levels = _levels(symbols, outputs)
    state = _needed(symbols, outputs, levels)
    embedding = np.zeros((box.dim, max(len(state), 1)))
    embedding[state, np.arange(len(state))] = 1.0
    layers = []
    for i, groups in enumerate(levels):
        after = _needed(symbols, outputs, levels[i + 1 :])
        layers.append(_layer(symbols, state, groups, after))
        state = after
    readout = _Forms.of(outputs, state)
    if not readout.query.is_identity:
        layers.append(affine_layer(readout.query))
    return ArgmaxNetwork(
        tuple(layers),
        AffineMap(embedding, np.zeros(embedding.shape[1])),
        AffineMap(readout.slopes.T, readout.offsets),
    )


_Group = tuple[tuple[Combination, ...], list[int]]
"""Scores that compete, and the atoms that depend on who wins."""


def _levels(symbols: Symbols, outputs: list[Combination]) -> list[list[_Group]]:
    """The decisions that reach an output, level by level; atoms with one winner in one group."""
    live: set[int] = set()
    pending = list(outputs)
    while pending:
        for atom, _ in pending.pop().terms:
            if atom >= symbols.n_inputs and atom not in live:
                live.add(atom)
                pending += symbols.decision(atom).scores
    levels: list[dict[tuple[Combination, ...], list[int]]] = []
    for atom in sorted(live):
        decision = symbols.decision(atom)
        levels += [{} for _ in range(decision.level - len(levels))]
        levels[decision.level - 1].setdefault(decision.scores, []).append(atom)
    return [list(level.items()) for level in levels]


def _needed(symbols: Symbols, outputs: list[Combination], levels: list[list[_Group]]) -> list[int]:
    """The atoms that some levels or the outputs read and that come before these levels."""
    own = {atom for groups in levels for _, atoms in groups for atom in atoms}
    readers = [*outputs, *(score for groups in levels for scores, _ in groups for score in scores)]
    return sorted({atom for e in readers for atom, _ in e.terms} - own)


def _layer(
    symbols: Symbols, state: list[int], groups: list[_Group], after: list[int]
) -> ArgmaxLayer:
    """The layer that makes some decisions and passes on what is still needed."""
    carried = [atom for atom in after if atom in set(state)]
    competing = [((Combination(((atom, Fraction(1)),)),), [atom]) for atom in carried] + groups
    forms = _Forms.of([score for scores, _ in competing for score in scores], state)
    starts = np.cumsum([0, *(len(scores) for scores, _ in competing)])
    tables: list[list[FloatArray]] = []
    columns: dict[int, list[tuple[int, int]]] = {}
    for g, (_, atoms) in enumerate(competing):
        tables.append([])
        for atom in atoms:
            values = None if atom in carried else symbols.decision(atom).values
            if values is None:
                columns[atom] = [(g, 0)]
                continue
            parts = _parts(values)
            columns[atom] = [(g, 1 + len(tables[g]) + k) for k in range(len(parts))]
            tables[g] += parts
    width = 1 + max(map(len, tables))
    table = np.zeros((int(starts[-1]), width))
    for g, parts in enumerate(tables):
        for k, part in enumerate(parts):
            table[starts[g] : starts[g + 1], 1 + k] = part
    output = np.zeros((len(competing) * width, max(len(after), 1)))
    for position, atom in enumerate(after):
        for g, k in columns[atom]:
            output[g * width + k, position] = 1.0
    passes = [any(columns[a] == [(g, 0)] for a in atoms) for g, (_, atoms) in enumerate(competing)]
    return ArgmaxLayer(
        query=forms.query,
        slopes=forms.slopes,
        offsets=forms.offsets,
        starts=starts,
        slots=np.arange(len(competing)) * width,
        gains=np.repeat(np.array(passes, dtype=float), np.diff(starts)),
        values=table,
        output=AffineMap(output, np.zeros(output.shape[1])),
        residual=False,
    )


@dataclass(frozen=True, eq=False)
class _Forms:
    """Combinations as float64 forms of a query that copies the state where one float is too few.

    Attributes:
        query: From the state to copies of it, the identity where no coefficient needs two.
        slopes: The coefficients, shape `(n_forms, p)`.
        offsets: The constants, shape `(n_forms,)`.
    """

    query: AffineMap
    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def of(cls, combinations: list[Combination], state: list[int]) -> "_Forms":
        # An engine wants at least one number; None is the number 1.
        names: list[int | None] = [*state] or [None]
        position = {(atom, 0): k for k, atom in enumerate(names)}
        n_state = len(position)
        offsets = np.zeros(len(combinations))
        entries: list[tuple[int, int, float]] = []
        for i, e in enumerate(combinations):
            constants = _exact_parts(e.constant)
            offsets[i] = constants[0] if constants else 0.0
            split: list[tuple[int | None, list[float]]] = [(None, constants)]
            split += [(atom, _exact_parts(c)) for atom, c in e.terms]
            copies = [(atom, k, part) for atom, parts in split for k, part in enumerate(parts)]
            for atom, copy, part in copies:
                if atom is None and copy == 0:  # That is the offset.
                    continue
                column = position.setdefault((atom, copy), len(position))
                entries.append((i, column, part))
        p = len(position)
        slopes = np.zeros((len(combinations), p))
        for i, column, part in entries:
            slopes[i, column] = part
        if p == n_state:
            return cls(AffineMap.identity(p), slopes, offsets)
        weight, bias = np.zeros((n_state, p)), np.zeros(p)
        for (atom, _), column in position.items():
            if atom is None:
                bias[column] = 1.0
            else:
                weight[position[atom, 0], column] = 1.0
        return cls(AffineMap(weight, bias), slopes, offsets)


def _parts(values: Iterable[Fraction]) -> list[FloatArray]:
    """Numbers as a sum of arrays of floats."""
    split = [_exact_parts(value) for value in values]
    n_parts = max(map(len, split))
    return [np.array([p[k] if k < len(p) else 0.0 for p in split]) for k in range(n_parts)]


def _exact_parts(value: Fraction) -> list[float]:
    parts = float_parts(value)
    if parts is None:
        raise ArgumentError(
            f"`model` must have numbers that are sums of float64 numbers; {value} is not one."
        )
    return parts
