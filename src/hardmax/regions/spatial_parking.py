"""Cells that floats could not split, split in exact arithmetic.

Everything is read from stored weights, the domain, the winners on the path, and which facets each
vertex lies on; no float of the engine is.
"""

from typing import Any, NamedTuple

from hardmax._kernels.layouts import (
    FIRST_GROUP,
    IS_RELU,
    Tables,
)
from hardmax._kernels.spatial_buffers import (
    F_COUNT,
    F_START,
    LAYER,
    N_CUTS,
    N_ITEMS,
    N_POOL,
    N_TIES,
    POOL_END,
    POSITION,
    TIES_END,
    V_COUNT,
    V_START,
    Frames,
    Stack,
    grown_stack,
)
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import RationalForms
from hardmax.regions.charted_domains import embedded
from hardmax.regions.exact_paths import ExactForms
from hardmax.regions.spatial_domains import (
    SpatialDomain,
    mask_words,
    rounded_form,
    rounded_vertex,
)
from hardmax.regions.spatial_polytopes import (
    ExactCell,
    Form,
    clipped,
    from_masks,
    vanishing,
    with_facets_only,
)

_Name = tuple[int, int, int, int]


class _Part(NamedTuple):
    """Where one form of a group wins.

    Attributes:
        winner: The form, within its group.
        cell: The cell; the forms that cut it come last.
        names: The names of the forms that cut it.
        ties: The places of forms of the cell where the winner equals a rival, or -1 for all.
    """

    winner: int
    cell: ExactCell
    names: list[_Name]
    ties: list[int]


class ExactPath(ExactForms):
    """The path to the cell on top."""

    def __init__(
        self, network: ArgmaxNetwork, domain: SpatialDomain, tables: Tables, frames: Frames
    ) -> None:
        super().__init__(network, tables, frames)
        self.domain = domain

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        return embedded(self.network, self.domain.charted)

    def form(self, name: list[int]) -> Form:
        """Return the exact form of a facet from its name."""
        layer, group, winner, rival, _ = name
        if layer < 0:
            return self.domain.cell.forms[group]
        rows, start = self.scores(layer).rows, int(self.network.layers[layer].starts[group])
        return _less(rows[start + winner], rows[start + rival])

    def cell(self, stack: Stack, item: int) -> ExactCell:
        """Read the cell of an item, exactly."""
        entry = stack.items[item].tolist()
        ids = stack.facets[entry[F_START] : entry[F_START] + entry[F_COUNT]]
        words = stack.masks[entry[V_START] : entry[V_START] + entry[V_COUNT]].tolist()
        masks = [sum(word << 64 * w for w, word in enumerate(row)) for row in words]
        return from_masks([self.form(name) for name in stack.names[ids].tolist()], masks)

    def split_top(self, stack: Stack) -> Stack:
        """Split the cell on top of the stack by its next group; return the stack."""
        top = int(stack.state[N_ITEMS]) - 1
        entry = stack.items[top].tolist()
        layer, position = entry[LAYER], entry[POSITION]
        self.scores(layer)
        ids = stack.facets[entry[F_START] : entry[F_START] + entry[F_COUNT]].tolist()
        parts = self._parts(layer, position, self.cell(stack, top))
        winners = stack.winners[top].copy()
        row, n_ties = entry[POOL_END], entry[TIES_END]
        cut = int(stack.state[N_CUTS])
        number = int(self.tables.layout[layer, FIRST_GROUP]) + self._group(layer, position)
        v_end, f_end = entry[V_START], entry[F_START]
        for item, (winner, whole, names, ties) in enumerate(parts, start=top):
            known = [*ids, *range(row, row + len(names))]
            cell, stay = with_facets_only(whole)
            ends = row + len(names), n_ties + len(ties)
            stack = _with_room(stack, item, max(ends), v_end, f_end, cell)
            n_words = stack.masks.shape[1]
            for place in ties:
                stack.ties[n_ties] = known[place] if place >= 0 else -1, number, winner
                n_ties += 1
            for place, name in enumerate(names):
                stack.names[row + place] = *name, cut
                stack.pool[row + place] = rounded_form(whole.forms[len(ids) + place])
            n, n_facets = len(cell.vertices), len(stay)
            stack.items[item] = entry
            stack.items[item, V_START], stack.items[item, V_COUNT] = v_end, n
            stack.items[item, F_START], stack.items[item, F_COUNT] = f_end, n_facets
            stack.items[item, POSITION] = position + 1
            stack.winners[item] = winners
            stack.winners[item, position] = winner
            stack.points[v_end : v_end + n] = [
                rounded_vertex(v, self.domain.is_bounded) for v in cell.vertices
            ]
            stack.masks[v_end : v_end + n] = mask_words(cell.masks, n_words)
            stack.facets[f_end : f_end + n_facets] = [known[i] for i in stay]
            row += len(names)
            v_end, f_end = v_end + n, f_end + n_facets
        stack.items[top : top + len(parts), [POOL_END, TIES_END]] = row, n_ties
        stack.state[N_ITEMS] = top + len(parts)
        stack.state[[N_POOL, N_TIES]] = row, n_ties
        stack.state[N_CUTS] += 1
        return stack

    def _group(self, layer: int, position: int) -> int:
        return int(self.frames.pending[layer, position])

    def _parts(self, layer: int, position: int, whole: ExactCell) -> list[_Part]:
        """Return the part of a cell that each form of a group wins."""
        group = self._group(layer, position)
        start = int(self.network.layers[layer].starts[group])
        rows = self.scores(layer).rows
        members = self.competitors(layer, group)
        if self.tables.layout[layer, IS_RELU] == 1 and len(members) == 1:
            return [_Part(0, whole, [], [-1])]
        parts: list[_Part] = []
        for winner in members:
            part: ExactCell | None = whole
            names: list[_Name] = []
            ties: list[int] = []
            for rival in members:
                if rival == winner:
                    continue
                assert part is not None
                self.decisions.record(rational=len(part.vertices))
                form = _less(rows[winner], rows[rival])
                smaller = clipped(part, form)
                if smaller is part:
                    ties += vanishing(part, form) or []
                elif smaller is not None:
                    names.append((layer, group, winner - start, rival - start))
                part = smaller
                if part is None:
                    break
            if part is not None:
                parts.append(_Part(winner - start, part, names, ties))
        return parts


def _with_room(
    stack: Stack, item: int, pool_end: int, v_end: int, f_end: int, cell: ExactCell
) -> Stack:
    """Return the stack, enlarged until a cell fits on it."""
    n_words = stack.masks.shape[1]
    while 64 * n_words < len(cell.forms):
        n_words *= 2
    if n_words != stack.masks.shape[1]:
        stack = grown_stack(stack, 1, n_words)
    n_points = max(pool_end, v_end + len(cell.vertices), f_end + len(cell.forms))
    while item + 1 > len(stack.items) or n_points > len(stack.points):
        stack = grown_stack(stack)
    return stack


def _less(one: list[Any], other: list[Any]) -> Form:
    return (*(int(x - y) for x, y in zip(one, other, strict=True)), 0)
