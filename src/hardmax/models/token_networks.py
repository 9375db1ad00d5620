r"""The argmax network of a transformer on tokens whose symbols were worked out on a box.

A layer makes the decisions of one level; its state are the atoms that later levels or the outputs
still need. Atoms that only pass through a layer are groups of one form. A coefficient that is not a
float64 number is a sum of several, each on its own copy of the atom, so the network is the model
exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.algebra.exact.dyadic import float_parts
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import affine_layer
from hardmax.models.token_symbols import Combination, Symbols, read_out
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from hardmax.models.token_transformers import TokenTransformer


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
