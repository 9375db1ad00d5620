r"""Reduction of a token transformer to an argmax network on its flattened state, if possible.

The score of a pair of tokens is $\sum_i q_i k_i$ with $q_i$ and $k_i$ affine in the state. It is
affine in the state if, in every product, one factor does not depend on the input; that factor
becomes the coefficient of the other. The winner must contribute a constant or a multiple of its
score; then the head is a group of forms like any other. A head whose winner never changes only
moves numbers between tokens, and may move any numbers.

Decisions that cannot reach the output (such as other tokens in the last block) are omitted, so that
they do not cut cells, and tokens with the same decision share one group. All coefficients are
stored weights or exact sums of floats; nothing is rounded.

**Constant coordinates.** The coordinates of tokens that do not depend on the input are tracked
exactly.

Each coordinate is followed through the blocks symbolically. A result that is computed from
constants only, apart from terms with weight zero, is constant. Any other result counts as depending
on the input, even if the dependence cancels. Constants are rationals, because means over tied
values can have odd denominators.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.errors import ArgumentError, SizeLimitError
from hardmax.exact.dyadic import float_parts, rationals
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import relu_layer
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
    from hardmax.models.transformers import FeedForward


@dataclass(frozen=True, eq=False)
class KnownEntries:
    """The entries of an array that do not depend on the input.

    Attributes:
        varies: The mask of the entries that depend on the input.
        constants: The other entries as rationals, in an object array of the same shape; entries
            that vary are 0.
    """

    varies: BoolArray
    constants: WideArray

    @classmethod
    def exactly(cls, array: FloatArray) -> "KnownEntries":
        """Convert floats to constants."""
        return cls(np.zeros(array.shape, dtype=bool), rationals(array))

    def times(self, weight: FloatArray, bias: FloatArray | None = None) -> "KnownEntries":
        """Apply an affine map to each row."""
        varies = (self.varies.astype(float) @ (weight != 0.0)) > 0.0
        constants = np.full(varies.shape, Fraction(0), dtype=object)
        entries = [
            [(int(j), Fraction(float(weight[j, k]))) for j in np.flatnonzero(weight[:, k])]
            for k in range(weight.shape[1])
        ]
        for t, k in np.argwhere(~varies).tolist():
            start = Fraction(0) if bias is None else Fraction(float(bias[k]))
            terms = (w * self.constants[t, j] for j, w in entries[k] if self.constants[t, j])
            constants[t, k] = sum(terms, start)
        return KnownEntries(varies, constants)

    def __add__(self, other: "KnownEntries") -> "KnownEntries":
        varies = self.varies | other.varies
        total = self.constants + other.constants
        total[varies] = Fraction(0)
        return KnownEntries(varies, total)


def embed_tokens(model: "TokenTransformer") -> KnownEntries:
    """Return the known entries of the tokens before the first block, shape `(n_tokens, width)`."""
    varies = np.asarray(model.embedding_weight.any(axis=0))
    constants = rationals(model.embedding_bias)
    constants[varies] = Fraction(0)
    return KnownEntries(varies, constants)


def apply_feed_forward(ffn: "FeedForward", state: KnownEntries) -> KnownEntries:
    """Return the known entries of the feed-forward output."""
    before = state.times(ffn.w_in, ffn.b_in)
    rectified = before.constants.copy()
    rectified[before.constants < 0] = Fraction(0)
    return KnownEntries(before.varies, rectified).times(ffn.w_out, ffn.b_out)


def attend(head: "TokenHead", allowed: BoolArray, state: KnownEntries) -> KnownEntries:
    """Return the known entries of a hard head's output, shape `(n_tokens, width)`."""
    n_tokens = len(allowed)
    query = state.times(head.query_weight, head.bias)
    key, value = state.times(head.key_weight), state.times(head.value_weight)
    varies = np.zeros((n_tokens, head.d_v), dtype=bool)
    constants = np.full(varies.shape, Fraction(0), dtype=object)
    for t in range(n_tokens):
        keys = np.flatnonzero(allowed[t])
        winners = find_known_winners(query, key, t, keys)
        for e in range(head.d_v):
            among = keys if winners is None else winners
            column = value.constants[among, e]
            # The result does not depend on the winner: equal constants, or a fixed decision.
            same = winners is not None or all(entry == column[0] for entry in column)
            if value.varies[among, e].any() or not same:
                varies[t, e] = True
            else:
                constants[t, e] = sum(column, Fraction(0)) / len(among)
    return KnownEntries(varies, constants).times(head.output_weight)


def find_known_winners(
    query: KnownEntries, key: KnownEntries, token: int, keys: IntArray
) -> IntArray | None:
    """Return the keys that win for a token at every input, or None if they depend on the input."""
    for s in keys.tolist():
        if any(is_term_varying(query, key, token, s, i) for i in range(query.varies.shape[1])):
            return None
    scores = [sum(query.constants[token] * key.constants[s], Fraction(0)) for s in keys.tolist()]
    best = max(scores)
    return keys[[score == best for score in scores]]


def is_term_varying(query: KnownEntries, key: KnownEntries, token: int, other: int, i: int) -> bool:
    """Whether component `i` of the score of a pair of tokens depends on the input."""
    if query.varies[token, i]:
        return bool(key.varies[other, i] or key.constants[other, i] != 0)
    return bool(key.varies[other, i] and query.constants[token, i] != 0)


_MOST_ENTRIES = 1 << 27
"""The maximum size of a matrix, one GiB of floats; layers are dense."""

Column = tuple[str, int, int, int, int]
"""A number that a layer reads: the weight, head, token, component and copy."""


def reduce_tokens(model: "TokenTransformer") -> ArgmaxNetwork:
    """Return the hard model as an argmax network on the state of `n_tokens * width` numbers.

    Raises:
        ArgumentError: If a score is not affine in the input, or if a winner contributes something
            other than a constant or a multiple of its score. The message names the block and the
            head.
        SizeLimitError: If a layer would need more memory than an engine can use.
    """
    states = _track_states(model)
    live = np.zeros((model.n_tokens, model.width), dtype=bool)
    live[model.readout_token] = model.readout.weight.any(axis=1)
    layers: list[ArgmaxLayer] = []
    for b in reversed(range(len(model.blocks))):
        block = model.blocks[b]
        if block.ffn is not None:
            layer, live = _build_ffn_layer(block.ffn, live, residual=block.ffn_residual)
            layers.append(layer)
        if block.heads:
            groups, live = _collect_groups(model, b, states[b], live)
            if groups or not block.attention_residual:
                layers.append(_build_attention_layer(model, block, groups))
    size = model.n_tokens * model.width
    weight = np.zeros((size, model.dim_out))
    start = model.readout_token * model.width
    weight[start : start + model.width] = model.readout.weight
    embedding = AffineMap(
        np.ascontiguousarray(model.embedding_weight.reshape(model.dim_in, size)),
        model.embedding_bias.ravel(),
    )
    return ArgmaxNetwork(tuple(layers[::-1]), embedding, AffineMap(weight, model.readout.bias))


def _track_states(model: "TokenTransformer") -> list[KnownEntries]:
    """Return the known entries of the state before each block."""
    state = embed_tokens(model)
    states = []
    for block in model.blocks:
        states.append(state)
        if block.heads:
            added = [attend(head, model.allowed, state) for head in block.heads]
            total = added[0]
            for part in added[1:]:
                total = total + part
            state = state + total if block.attention_residual else total
        if block.ffn is not None:
            result = apply_feed_forward(block.ffn, state)
            state = state + result if block.ffn_residual else result
    return states


def _build_ffn_layer(
    ffn: "FeedForward", live: BoolArray, *, residual: bool
) -> tuple[ArgmaxLayer, BoolArray]:
    """Return the units that reach the live coordinates after them, and the live ones before."""
    n_tokens, width = live.shape
    needed = (live.astype(float) @ (ffn.w_out.T != 0.0)) > 0.0
    if not needed.any():
        # Keep one unit: the bias remains, and a layer needs at least one.
        needed[0, 0] = True
    units = np.argwhere(needed)
    _refuse_size(2 * len(units) * n_tokens * width, f"{len(units)} units on {n_tokens} tokens")
    before = np.zeros((n_tokens * width, len(units)))
    after = np.zeros((len(units), n_tokens * width))
    for column, (t, u) in enumerate(units.tolist()):
        rows = slice(t * width, (t + 1) * width)
        before[rows, column] = ffn.w_in[:, u]
        after[column, rows] = ffn.w_out[u]
    layer = relu_layer(
        AffineMap(before, np.asarray(ffn.b_in)[units[:, 1]]),
        AffineMap(after, np.tile(np.asarray(ffn.b_out), n_tokens)),
        residual=residual,
    )
    read = (needed.astype(float) @ (ffn.w_in.T != 0.0)) > 0.0
    return layer, (live | read) if residual else read


@dataclass(frozen=True, eq=False)
class _Form:
    """One form of a group: coefficients of columns, and its contribution when it wins."""

    slopes: dict[Column, float] = field(default_factory=dict)
    gain: float = 0.0
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Group:
    """The forms of a group and, for each entry of its block, the vector it adds to its tokens."""

    tokens: list[int]
    forms: list[_Form]
    rows: list[FloatArray]

    @property
    def decision(self) -> tuple[object, ...]:
        """The part of the group that all tokens sharing it have in common."""
        forms = [(tuple(f.slopes.items()), f.gain, tuple(f.values)) for f in self.forms]
        return (*forms, *(row.tobytes() for row in self.rows))


def _collect_groups(
    model: "TokenTransformer", b: int, state: KnownEntries, live: BoolArray
) -> tuple[list[_Group], BoolArray]:
    """Return the decisions of a block's heads that reach live coordinates, and what they read."""
    block = model.blocks[b]
    before = live.copy() if block.attention_residual else np.zeros_like(live)
    groups: list[_Group] = []
    for h, head in enumerate(block.heads):
        reader = _HeadReader(head, h, b, state)
        for t in np.flatnonzero(live.any(axis=1)).tolist():
            components = np.flatnonzero((head.output_weight[:, live[t]] != 0.0).any(axis=1))
            keys = np.flatnonzero(model.allowed[t])
            groups += list(reader.iter_groups(t, keys, components.tolist(), before))
    shared: dict[tuple[object, ...], _Group] = {}
    for group in groups:
        first = shared.setdefault(group.decision, group)
        if first is not group:
            first.tokens.extend(group.tokens)
    return list(shared.values()), before


class _HeadReader:
    """The known entries of one head, and the groups that it forms for a token."""

    def __init__(self, head: "TokenHead", h: int, b: int, state: KnownEntries) -> None:
        self.head, self.h, self.b = head, h, b
        self.query = state.times(head.query_weight, head.bias)
        self.key = state.times(head.key_weight)
        self.value = state.times(head.value_weight)

    def iter_groups(
        self, t: int, keys: IntArray, components: list[int], before: BoolArray
    ) -> Iterator[_Group]:
        """Yield the groups of a token, and mark the coordinates they read in `before`."""
        winners = find_known_winners(self.query, self.key, t, keys)
        among = keys if winners is None else winners
        fixed = [e for e in components if self._is_fixed(among, e, winners is not None)]
        moving = [e for e in components if e not in fixed]
        if fixed:
            means = [sum(self.value.constants[among, e], Fraction(0)) / len(among) for e in fixed]
            yield self._build_constant_group(t, [_Form()], [means], fixed)
        if not moving:
            return
        before[among] |= (self.head.value_weight[:, moving] != 0.0).any(axis=1)
        if winners is not None:
            for e in moving:
                yield self._build_mean_group(t, winners, e)
            return
        before[t] |= (self.head.query_weight != 0.0).any(axis=1)
        before[keys] |= (self.head.key_weight != 0.0).any(axis=1)
        constant = [e for e in moving if not self.value.varies[keys, e].any()]
        passed = [e for e in moving if e not in constant]
        table = [[self.value.constants[s, e] for e in constant] for s in keys]
        if not passed:
            forms = [_Form(self._score_coefficients(t, int(s))) for s in keys]
            yield self._build_constant_group(t, forms, table, constant)
            return
        sign, row = self._factor_values(t, passed)
        columns: list[Column] = [("v", self.h, int(s), passed[0], 0) for s in keys]
        forms = [_Form({column: sign}, sign) for column in columns]
        group = self._build_constant_group(t, forms, table, constant)
        yield _Group([t], [_reserve_score_entry(form) for form in group.forms], [row, *group.rows])

    def _is_fixed(self, among: IntArray, e: int, decided: bool) -> bool:
        column = self.value.constants[among, e]
        same = decided or all(entry == column[0] for entry in column)
        return same and not self.value.varies[among, e].any()

    def _build_mean_group(self, t: int, winners: IntArray, e: int) -> _Group:
        """Return a group that passes on one component of the mean over fixed winners."""
        share = Fraction(1, len(winners))
        if float_parts(share) is None:
            raise self._make_error(
                f"token {t} takes the mean over {len(winners)} tokens, but the reduction can only "
                "divide by powers of two."
            )
        slopes: dict[Column, float] = {("v", self.h, int(s), e, 0): float(share) for s in winners}
        return _Group([t], [_Form(slopes, 1.0, [0.0])], [self.head.output_weight[e]])

    def _score_coefficients(self, t: int, s: int) -> dict[Column, float]:
        """Return the score of a pair as coefficients of queries and keys."""
        slopes: dict[Column, float] = {}
        for i in range(self.head.d_k):
            if not self.key.varies[s, i]:
                kind, token, factor = "q", t, self.key.constants[s, i]
            elif not self.query.varies[t, i]:
                kind, token, factor = "k", s, self.query.constants[t, i]
            else:
                raise self._make_error(
                    f"the score of token {s} for token {t} is a product of a query and a key that "
                    "both depend on the input, which is not affine."
                )
            for copy, part in enumerate(self._split_number(factor)):
                slopes[kind, self.h, token, i, copy] = part
        return slopes

    def _build_constant_group(
        self, t: int, forms: list[_Form], table: list[list[Fraction]], components: list[int]
    ) -> _Group:
        """Return a group whose forms contribute the constants of a table, split into floats."""
        split = [[self._split_number(entry) for entry in line] for line in table]
        values: list[list[float]] = [[] for _ in forms]
        rows = []
        for position, e in enumerate(components):
            for copy in range(max(len(line[position]) for line in split)):
                rows.append(self.head.output_weight[e])
                for entries, line in zip(values, split, strict=True):
                    parts = line[position]
                    entries.append(parts[copy] if copy < len(parts) else 0.0)
        filled = [
            _Form(form.slopes, form.gain, entries)
            for form, entries in zip(forms, values, strict=True)
        ]
        return _Group([t], filled, rows)

    def _factor_values(self, t: int, components: list[int]) -> tuple[float, FloatArray]:
        """Write the values as multiples of the first, which is a multiple of the score.

        Returns the sign of that multiple, and the vector that a unit of the first value adds.
        """
        used = [i for i in range(self.head.d_k) if self.head.key_weight[:, i].any()]
        if self.query.varies[t, used].any():
            raise self._make_error(
                f"token {t} has a query and values that both depend on the input, so the winner's "
                "value is not a multiple of its score."
            )
        total = [Fraction(0)] * self.head.width
        for i in used:
            factor = self.query.constants[t, i]
            for j in np.flatnonzero(self.head.key_weight[:, i]).tolist():
                total[j] += factor * Fraction(float(self.head.key_weight[j, i]))
        ratios = [_common_ratio(self.head.value_weight[:, e].tolist(), total) for e in components]
        if any(ratio is None for ratio in ratios) or not ratios[0]:
            raise self._make_error(
                f"the winner's value for token {t} is neither constant nor a multiple of its score."
            )
        first = ratios[0]
        exact = [Fraction(0)] * self.head.width
        for e, ratio in zip(components, ratios, strict=True):
            assert ratio is not None
            for j in np.flatnonzero(self.head.output_weight[e]).tolist():
                exact[j] += ratio / first * Fraction(float(self.head.output_weight[e, j]))
        if any(Fraction(float(entry)) != entry for entry in exact):
            raise self._make_error(
                "a multiple of the score that it contributes is not a float64 number."
            )
        return (1.0 if first > 0 else -1.0), np.array([float(entry) for entry in exact])

    def _split_number(self, value: Fraction) -> list[float]:
        parts = float_parts(value)
        if parts is None:
            raise self._make_error(f"its constant {value} is not a sum of float64 numbers.")
        return parts

    def _make_error(self, reason: str) -> ArgumentError:
        return ArgumentError(
            f"`network` must be piecewise affine; in block {self.b}, head {self.h}: {reason}"
        )


def _refuse_size(n_entries: int, what: str) -> None:
    if n_entries > _MOST_ENTRIES:
        raise SizeLimitError(
            f"`network` is too large: {what} in one layer need {n_entries} numbers, but the limit "
            f"is {_MOST_ENTRIES}. Use fewer tokens or units."
        )


def _reserve_score_entry(form: _Form) -> _Form:
    """Reserve the first entry of the block for the score that the form contributes."""
    return _Form(form.slopes, form.gain, [0.0, *form.values])


def _common_ratio(numerators: list[float], denominators: list[Fraction]) -> Fraction | None:
    """Return the factor that takes one vector to another, or None if there is none."""
    pivot = next((j for j, entry in enumerate(denominators) if entry), None)
    if pivot is None:
        return None
    ratio = Fraction(numerators[pivot]) / denominators[pivot]
    exact = all(Fraction(a) == ratio * b for a, b in zip(numerators, denominators, strict=True))
    return ratio if exact else None


def _build_attention_layer(
    model: "TokenTransformer", block: "TokenBlock", groups: list[_Group]
) -> ArgmaxLayer:
    """Concatenate groups into a layer; without groups, the layer discards the state."""
    size, width = model.n_tokens * model.width, model.width
    groups = groups or [_Group([], [_Form()], [])]
    names = sorted({column for g in groups for form in g.forms for column in form.slopes})
    index = {column: k for k, column in enumerate(names)}
    query, bias = np.zeros((size, max(len(names), 1))), np.zeros(max(len(names), 1))
    for k, (kind, h, token, i, _) in enumerate(names):
        head = block.heads[h]
        weight = {"q": head.query_weight, "k": head.key_weight, "v": head.value_weight}[kind]
        query[token * width : (token + 1) * width, k] = weight[:, i]
        bias[k] = head.bias[i] if kind == "q" else 0.0
    forms = [form for group in groups for form in group.forms]
    read = [sorted({index[c] for form in group.forms for c in form.slopes}) for group in groups]
    n_read = max(1, *map(len, read))
    _refuse_size(len(forms) * n_read, f"{len(forms)} scores of {model.n_tokens} tokens")
    block_width = max(1, *(len(group.rows) for group in groups))
    reads = np.array([[*columns, *[-1] * (n_read - len(columns))] for columns in read])
    slopes, values = np.zeros((len(forms), n_read)), np.zeros((len(forms), block_width))
    owner = np.repeat(np.arange(len(groups)), [len(group.forms) for group in groups])
    for j, (form, g) in enumerate(zip(forms, owner.tolist(), strict=True)):
        place = {column: k for k, column in enumerate(read[g])}
        for column, slope in form.slopes.items():
            slopes[j, place[index[column]]] = slope
        values[j, : len(form.values)] = form.values
    output = np.zeros((len(groups) * block_width, size))
    for g, group in enumerate(groups):
        for position, row in enumerate(group.rows):
            line = output[g * block_width + position].reshape(model.n_tokens, width)
            line[group.tokens] = row
    return ArgmaxLayer(
        query=AffineMap(query, bias),
        slopes=slopes,
        offsets=np.zeros(len(forms)),
        starts=np.cumsum([0, *(len(group.forms) for group in groups)]),
        slots=np.arange(len(groups)) * block_width,
        gains=np.array([form.gain for form in forms]),
        values=values,
        output=AffineMap(output, np.zeros(size)),
        residual=block.attention_residual,
        reads=reads,
    )
