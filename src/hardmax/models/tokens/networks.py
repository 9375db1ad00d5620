r"""The argmax network that equals a token transformer on a box.

A layer makes the decisions of one level. Its state consists of the atoms that later levels or the
outputs still need; an atom that only passes through a layer is a group with one form. If a
coefficient is not a float64 number, it is split into a sum of several, each applied to its own copy
of the atom, so the network equals the model exactly.

**Symbols.** The hard transformer is evaluated symbolically on the box.

Every coordinate of every token is an affine combination of **atoms** with rational coefficients. An
atom is an input, the maximum of several combinations (a head that contributes its best score, or a
ReLU), or the constant that belongs to the best of several combinations (a head that looks up
values). Equal combinations are stored once, even if they occur in several tokens. Because
$\max(0, -e) = \max(0, e) - e$,

- a pair $\mathrm{relu}(e) - \mathrm{relu}(-e)$ contributes $e$, which needs no decision;
- a unit that is off on the whole box is 0, and one that is on equals its argument;
- a score that is dominated by another on the whole box is dropped.

The remaining decisions shape the function on the box; for a compiled network, these are its own
decisions. All computations are exact; ranges over the box are rational intervals.
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
        terms: The pairs `(atom, coefficient)` with nonzero coefficients, sorted by atom.
        constant: The constant term.
    """

    terms: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = ZERO

    def __neg__(self) -> "Combination":
        return Combination(tuple((atom, -c) for atom, c in self.terms), -self.constant)

    def times(self, factor: Fraction) -> "Combination":
        """Multiply the combination by a number."""
        return combine([(factor, self)])


def combine(
    parts: Iterable[tuple[Fraction, Combination]], constant: Fraction = ZERO
) -> Combination:
    r"""Return $\sum_i \lambda_i e_i + c$ for pairs $(\lambda_i, e_i)$."""
    total: dict[int, Fraction] = {}
    for factor, part in parts:
        for atom, coefficient in part.terms:
            total[atom] = total.get(atom, ZERO) + factor * coefficient
        constant += factor * part.constant
    return Combination(tuple(sorted((a, c) for a, c in total.items() if c)), constant)


@dataclass(frozen=True, slots=True)
class Decision:
    """An atom that is not an input: the contribution of the best of several combinations.

    Attributes:
        scores: The competing combinations, in order.
        values: The constants that belong to the combinations; None if the atom is the best score.
        level: The length of the longest chain of decisions that ends with this one.
    """

    scores: tuple[Combination, ...]
    values: tuple[Fraction, ...] | None
    level: int


@dataclass(frozen=True, eq=False)
class Symbols:
    """The atoms known so far, with their ranges.

    Attributes:
        n_inputs: The number of atoms that are inputs; they come first.
        ranges: Lower and upper bounds of each atom on the box.
        decisions: The atoms after the inputs.
        names: The atom of each decision.
    """

    n_inputs: int
    ranges: list[tuple[Fraction, Fraction]]
    decisions: list[Decision] = field(default_factory=list)
    names: dict[tuple[object, ...], int] = field(default_factory=dict)

    @classmethod
    def from_box(cls, box: Box) -> "Symbols":
        """Return the inputs of a box as the only atoms."""
        ends = zip(box.low.tolist(), box.high.tolist(), strict=True)
        return cls(box.dim, [(Fraction(low), Fraction(high)) for low, high in ends])

    def range(self, e: Combination) -> tuple[Fraction, Fraction]:
        """Return bounds of a combination on the box."""
        low = high = e.constant
        for atom, c in e.terms:
            ends = self.ranges[atom] if c > 0 else self.ranges[atom][::-1]
            low, high = low + c * ends[0], high + c * ends[1]
        return low, high

    def decision(self, atom: int) -> Decision:
        """Return the decision of an atom that is not an input."""
        return self.decisions[atom - self.n_inputs]

    def level(self, e: Combination) -> int:
        """Return the largest level of the atoms in a combination."""
        inside = (atom for atom, _ in e.terms if atom >= self.n_inputs)
        return max((self.decision(atom).level for atom in inside), default=0)

    def rectify(self, e: Combination) -> Combination:
        """Return the maximum of 0 and a combination."""
        low, high = self.range(e)
        if low >= 0:
            return e
        if high <= 0:
            return Combination()
        if e.terms[0][1] < 0:
            return combine([(Fraction(1), self.rectify(-e)), (Fraction(1), e)])
        return self.best([Combination(), e])

    def best(self, scores: list[Combination]) -> Combination:
        """Return the maximum of several combinations.

        A combination that always wins is an atom too; this avoids products of the weights of
        consecutive layers.
        """
        ranges = [self.range(e) for e in scores]
        floor = max(low for low, _ in ranges)
        kept = tuple(dict.fromkeys(e for e, r in zip(scores, ranges, strict=True) if r[1] >= floor))
        if len(kept) == 1 and (not kept[0].terms or kept[0] == _single_atom(kept[0].terms[0][0])):
            return kept[0]
        return self._find_atom(kept, None, (floor, max(high for _, high in ranges)))

    def look_up(self, scores: list[Combination], values: list[Fraction]) -> Combination:
        """Return the value that belongs to the best combination; if several tie, the mean.

        Equal combinations are all kept, because the mean on a wall counts each of them.
        """
        ranges = [self.range(e) for e in scores]
        floor = max(low for low, _ in ranges)
        kept = [i for i, (_, high) in enumerate(ranges) if high >= floor]
        named, table = tuple(scores[i] for i in kept), tuple(values[i] for i in kept)
        mean = sum(table, ZERO) / len(table)
        # If floats cannot represent the mean, keep the coinciding forms, whose values are floats.
        if len(set(table)) == 1 or (len(set(named)) == 1 and mean.denominator.bit_count() == 1):
            return Combination(constant=mean)
        return self._find_atom(named, table, (min(table), max(table)))

    def _find_atom(
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
        return _single_atom(self.names[name])


def _single_atom(atom: int) -> Combination:
    return Combination(((atom, Fraction(1)),))


State = list[list[Combination]]
"""The coordinates of each token."""


def read_out(model: "TokenTransformer", box: Box) -> tuple[Symbols, list[Combination]]:
    """Evaluate a model symbolically on a box: the atoms, and each output as a combination of them.

    Raises:
        ArgumentError: If a score is a product of two numbers that both depend on the input, or if a
            head contributes something other than a constant or a multiple of its score.
    """
    symbols = Symbols.from_box(box)
    state = _embed(model)
    for b, block in enumerate(model.blocks):
        if block.heads:
            columns = [
                _SymbolicHead(head, symbols, f"block {b}, head {h}").attend(state, model.allowed)
                for h, head in enumerate(block.heads)
            ]
            added = [_sum([column[t] for column in columns]) for t in range(len(state))]
            state = _add_rows(state, added) if block.attention_residual else added
        if block.ffn is not None:
            added = _apply_feed_forward(block.ffn, state, symbols)
            state = _add_rows(state, added) if block.ffn_residual else added
    row = state[model.readout_token]
    return symbols, _map_rows([row], model.readout.weight, model.readout.bias)[0]


def _embed(model: "TokenTransformer") -> State:
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


def _map_rows(rows: State, weight: FloatArray, bias: FloatArray | None = None) -> State:
    """Apply an affine map to each row."""
    columns = [
        [(int(j), Fraction(float(weight[j, k]))) for j in np.flatnonzero(weight[:, k])]
        for k in range(weight.shape[1])
    ]
    offsets = [ZERO] * len(columns) if bias is None else [Fraction(float(b)) for b in bias]
    return [
        [
            combine(((w, row[j]) for j, w in column), offset)
            for column, offset in zip(columns, offsets, strict=True)
        ]
        for row in rows
    ]


def _sum(rows: list[list[Combination]]) -> list[Combination]:
    if len(rows) == 1:
        return rows[0]
    return [combine([(Fraction(1), e) for e in column]) for column in zip(*rows, strict=True)]


def _add_rows(left: State, right: State) -> State:
    return [_sum([a, b]) for a, b in zip(left, right, strict=True)]


def _apply_feed_forward(ffn: "FeedForward", state: State, symbols: Symbols) -> State:
    """Apply the feed-forward part to each token; units that floats prove to be off are skipped."""
    b_in = np.asarray(ffn.b_in)
    before = EnclosedMap(ffn.w_in, b_in)(_enclose(state, symbols))
    may_be_on = ~(before.values <= -before.radii)
    result = []
    for row, on in zip(state, may_be_on, strict=True):
        units = np.flatnonzero(on)
        values = _map_rows([row], ffn.w_in[:, units], b_in[units])[0]
        rectified = [symbols.rectify(e) for e in values]
        result += _map_rows([rectified], ffn.w_out[units], ffn.b_out)
    return result


def _enclose(state: State, symbols: Symbols) -> Enclosed:
    """Return the ranges of all coordinates as float64 midpoints with radii that cover them."""
    known: dict[Combination, tuple[float, float]] = {}
    for e in {e for row in state for e in row}:
        low, high = symbols.range(e)
        middle = float((low + high) / 2)
        radius = max(high - Fraction(middle), Fraction(middle) - low)
        known[e] = middle, float(np.nextafter(float(radius), np.inf)) if radius else 0.0
    pairs = np.array([[known[e] for e in row] for row in state])
    return Enclosed(np.ascontiguousarray(pairs[:, :, 0]), np.ascontiguousarray(pairs[:, :, 1]))


@dataclass(frozen=True, eq=False)
class _SymbolicHead:
    """One head, evaluated symbolically."""

    head: "TokenHead"
    symbols: Symbols
    place: str

    def attend(self, state: State, allowed: BoolArray) -> State:
        """Return the head's contribution to each token."""
        queries = _map_rows(state, self.head.query_weight, self.head.bias)
        keys = _map_rows(state, self.head.key_weight)
        values = _map_rows(state, self.head.value_weight)
        received: dict[tuple[object, ...], list[Combination]] = {}
        result = []
        for t, query in enumerate(queries):
            name = (*query, allowed[t].tobytes())
            if name not in received:
                others = np.flatnonzero(allowed[t]).tolist()
                scores = [self._compute_score(query, keys[s]) for s in others]
                received[name] = _map_rows(
                    [
                        [
                            self._pass_on(scores, [values[s][e] for s in others])
                            for e in range(self.head.d_v)
                        ]
                    ],
                    self.head.output_weight,
                )[0]
            result.append(received[name])
        return result

    def _compute_score(self, query: list[Combination], key: list[Combination]) -> Combination:
        parts = []
        for q, k in zip(query, key, strict=True):
            if q.terms and k.terms:
                raise self._make_error(
                    "a query and a key that both depend on the input are multiplied, which is not "
                    "affine."
                )
            parts.append((q.constant, k) if k.terms else (k.constant, q))
        return combine(parts)

    def _pass_on(self, scores: list[Combination], values: list[Combination]) -> Combination:
        """Return one component of the winner's contribution."""
        if not any(v.terms for v in values):
            return self.symbols.look_up(scores, [v.constant for v in values])
        if not any(e.terms for e in scores):
            best = max(e.constant for e in scores)
            tied = [v for e, v in zip(scores, values, strict=True) if e.constant == best]
            return combine([(Fraction(1, len(tied)), v) for v in tied])
        ratio = _common_ratio(scores, values)
        if ratio is None:
            raise self._make_error(
                "the value of the winner is neither constant nor a fixed multiple of its score."
            )
        if ratio > 0:
            return self.symbols.best(values)
        return -self.symbols.best([-v for v in values])

    def _make_error(self, reason: str) -> ArgumentError:
        return ArgumentError(f"`model` must be piecewise affine; in {self.place}: {reason}")


def _common_ratio(scores: list[Combination], values: list[Combination]) -> Fraction | None:
    """Return the nonzero factor that takes every score to its value, or None."""
    score, value = next(pair for pair in zip(scores, values, strict=True) if pair[0].terms)
    if not value.terms:
        return None
    ratio = value.terms[0][1] / score.terms[0][1]
    same = all(e.times(ratio) == v for e, v in zip(scores, values, strict=True))
    return ratio if same else None


def build_network_on_box(model: "TokenTransformer", box: Box) -> ArgmaxNetwork:
    """Return an argmax network that equals the hard model on a box.

    Raises:
        ArgumentError: If the model is not piecewise affine on the box (see `read_out`), or a number
            in it is not a sum of float64 numbers.
    """
    symbols, outputs = read_out(model, box)
    levels = _group_by_level(symbols, outputs)
    state = _find_needed_atoms(symbols, outputs, levels)
    embedding = np.zeros((box.dim, max(len(state), 1)))
    embedding[state, np.arange(len(state))] = 1.0
    layers = []
    for i, groups in enumerate(levels):
        after = _find_needed_atoms(symbols, outputs, levels[i + 1 :])
        layers.append(_build_layer(symbols, state, groups, after))
        state = after
    readout = _FloatForms.from_combinations(outputs, state)
    if not readout.query.is_identity:
        layers.append(affine_layer(readout.query))
    return ArgmaxNetwork(
        tuple(layers),
        AffineMap(embedding, np.zeros(embedding.shape[1])),
        AffineMap(readout.slopes.T, readout.offsets),
    )


_Group = tuple[tuple[Combination, ...], list[int]]
"""Competing scores, and the atoms that depend on the winner."""


def _group_by_level(symbols: Symbols, outputs: list[Combination]) -> list[list[_Group]]:
    """Return the decisions that reach an output, by level; atoms with one winner share a group."""
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


def _find_needed_atoms(
    symbols: Symbols, outputs: list[Combination], levels: list[list[_Group]]
) -> list[int]:
    """Return the atoms from before some levels that these levels or the outputs read."""
    own = {atom for groups in levels for _, atoms in groups for atom in atoms}
    readers = [*outputs, *(score for groups in levels for scores, _ in groups for score in scores)]
    return sorted({atom for e in readers for atom, _ in e.terms} - own)


def _build_layer(
    symbols: Symbols, state: list[int], groups: list[_Group], after: list[int]
) -> ArgmaxLayer:
    """Return the layer that makes the given decisions and passes on the atoms still needed."""
    carried = [atom for atom in after if atom in set(state)]
    competing = [((Combination(((atom, Fraction(1)),)),), [atom]) for atom in carried] + groups
    forms = _FloatForms.from_combinations(
        [score for scores, _ in competing for score in scores], state
    )
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
            parts = _split_exactly(values)
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
class _FloatForms:
    """Combinations as float64 forms of a query, which copies atoms whose coefficient is a sum.

    Attributes:
        query: The map from the state to the query; the identity if every coefficient is one float.
        slopes: The coefficients, shape `(n_forms, p)`.
        offsets: The constants, shape `(n_forms,)`.
    """

    query: AffineMap
    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def from_combinations(cls, combinations: list[Combination], state: list[int]) -> "_FloatForms":
        # The engines need at least one column; None stands for the constant 1.
        names: list[int | None] = [*state] or [None]
        position = {(atom, 0): k for k, atom in enumerate(names)}
        n_state = len(position)
        offsets = np.zeros(len(combinations))
        entries: list[tuple[int, int, float]] = []
        for i, e in enumerate(combinations):
            constants = _split_number(e.constant)
            offsets[i] = constants[0] if constants else 0.0
            split: list[tuple[int | None, list[float]]] = [(None, constants)]
            split += [(atom, _split_number(c)) for atom, c in e.terms]
            copies = [(atom, k, part) for atom, parts in split for k, part in enumerate(parts)]
            for atom, copy, part in copies:
                if atom is None and copy == 0:  # This part is the offset.
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


def _split_exactly(values: Iterable[Fraction]) -> list[FloatArray]:
    """Return numbers as a sum of arrays of floats."""
    split = [_split_number(value) for value in values]
    n_parts = max(map(len, split))
    return [np.array([p[k] if k < len(p) else 0.0 for p in split]) for k in range(n_parts)]


def _split_number(value: Fraction) -> list[float]:
    parts = float_parts(value)
    if parts is None:
        raise ArgumentError(
            f"`model` must only contain numbers that are sums of float64 numbers; {value} is not "
            "one."
        )
    return parts
