"""Exact splits of cells that floats could not split.

They are computed from the stored weights, the domain, the winners on the path, and the facets
through each vertex. No floating-point result of the core is used.
"""

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.exact.integer_vectors import wide_rows
from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.exact_polytopes import (
    ExactCell,
    Form,
    cell_from_masks,
    clip,
    drop_redundant_forms,
    find_vanishing,
    sign_at,
)
from hardmax.regions._search.searches import LARGE_GROUP, CoreSearch, SpaceCell
from hardmax.regions._search.space_domains import SpatialDomain, round_cell, round_vertex
from hardmax.tropical.envelopes import active_rows

_Name = tuple[int, int, int, int]


class _Part(NamedTuple):
    """The part of a cell where one form of a group wins.

    Attributes:
        winner: The form, within its group.
        cell: The part; the forms that cut it off come last.
        names: The walls of its forms.
        ties: The indices of the forms of the part on which the winner equals a rival that is not
            named in their walls; -1 for the whole part.
    """

    winner: int
    cell: ExactCell
    names: list[_Name]
    ties: list[int]


class SpatialPath(ExactPath):
    """The path to the cell on top."""

    def __init__(self, network: ArgmaxNetwork, domain: SpatialDomain, search: CoreSearch) -> None:
        super().__init__(network, domain.scale, search)
        self.domain = domain
        self._chains: dict[tuple[int, int], tuple[int, list[int]]] = {}

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        inputs = self.domain.inputs
        if inputs is None:
            return chart_forms(self.network.embedding)
        return inputs.compose(self.network.embedding)

    def exact_cell(self, cell: SpaceCell, *, refresh: bool = True) -> ExactCell:
        """Return the exact version of a cell of the stack."""
        forms: list[Form] = []
        for wall in cell.walls.tolist():
            if wall[0] < 0:
                forms.append(self.domain.cell.forms[wall[1]])
            else:
                forms.append((*map(int, self.difference(wall, refresh=refresh)), 0))
        words = cell.masks.tolist()
        masks = [sum(word << 64 * w for w, word in enumerate(row)) for row in words]
        return cell_from_masks(forms, masks)

    def improve_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        _, cell = self.search.top()
        exact = self.exact_cell(cell, refresh=False)
        self.search.set_vertices(np.array([round_vertex(vertex) for vertex in exact.vertices]))

    def split_top(self) -> None:
        """Split the cell on top of the stack by its next group."""
        (layer, _, group), cell = self.search.top()
        has_chain = self._has_chain(layer, group)
        if not has_chain and self._try_set_chain(layer, group):
            return
        # With a chain, only the ends of the cell are unclear, and better forms would not help.
        rows = self.scores(layer, refresh=not has_chain).rows
        whole = self.exact_cell(cell, refresh=not has_chain)
        rivals = (
            self._chain_rivals(layer, group, whole) if has_chain else self._all_rivals(layer, group)
        )
        number = sum(before.n_groups for before in self.network.layers[:layer]) + group
        n_facets = len(cell.facets)
        names = [tuple(wall) for wall in cell.walls.tolist()]
        parts = []
        for part in self._split(layer, group, rows, rivals, whole, names):
            kept, stay = drop_redundant_forms(part.cell)
            place_of = {place: i for i, place in enumerate(stay)}
            place_of[-1] = -1
            ties = [
                (place_of[place], number, part.winner) for place in part.ties if place in place_of
            ]
            rounded = round_cell(kept, [part.names[place] for place in stay], ties)
            sources = np.array(
                [place if place < n_facets else -1 for place in stay], dtype=np.int32
            )
            parts.append((part.winner, rounded._replace(sources=sources)))
        self.search.replace_top(parts)

    def _has_chain(self, layer: int, group: int) -> bool:
        """Return whether the candidates of a group are known in order, which requires a line."""
        is_relu = self.network.layers[layer].is_relu
        return self.search.dim == 1 and not is_relu and self.search.has_chain(layer, group)

    def _try_set_chain(self, layer: int, group: int) -> bool:
        """Give the core the winners of a large group along a line in order, where that applies."""
        if self.search.dim > 1 or self.network.layers[layer].is_relu:
            return False
        members = self.search.candidates(layer, group)
        if len(members) < LARGE_GROUP:
            return False
        rows = self.scores(layer, refresh=False).rows
        if len({tuple(map(int, rows[j])) for j in members}) < len(members):
            # The core needs the means of coinciding forms. Of these, only the first remain.
            rows = self.scores(layer).rows
            members = self.search.candidates(layer, group)
        points = wide_rows([tuple(map(int, rows[j])) for j in members], 2)
        self.decisions.record(rational=len(points))
        winners = np.flatnonzero(active_rows(points))
        chain = np.array(members)[winners[np.argsort(points[winners, 0])]]
        self.search.set_chain(layer, group, chain)
        return True

    def _all_rivals(self, layer: int, group: int) -> dict[int, list[int]]:
        """Return the forms of a group that may win, each with all the others."""
        members = self.competitors(layer, group)
        return {j: [other for other in members if other != j] for j in members}

    def _chain_rivals(self, layer: int, group: int, whole: ExactCell) -> dict[int, list[int]]:
        """Return the forms of a chain that win on an interval, each with its neighbours there."""
        version = self.search.versions()[0][layer]
        if self._chains.get((layer, group), (0, []))[0] != version:
            self._chains[layer, group] = version, self.search.candidates(layer, group)
        chain, rows = self._chains[layer, group][1], self.scores(layer, refresh=False).rows

        def signs(step: int) -> list[int]:
            pairs = zip(rows[chain[step + 1]], rows[chain[step]], strict=True)
            form = (*(int(later - earlier) for later, earlier in pairs), 0)
            return [sign_at(form, vertex) for vertex in whole.vertices]

        # Forms before `first` are exceeded by their successors, forms after `last` by their
        # predecessors.
        steps = range(len(chain) - 1)
        first = bisect_left(steps, True, key=lambda step: min(signs(step)) < 0)
        last = bisect_left(steps, True, key=lambda step: max(signs(step)) <= 0)
        self.decisions.record(rational=4 * len(chain).bit_length())
        own = chain[first : last + 1]
        return {j: [*own[max(k - 1, 0) : k], *own[k + 1 : k + 2]] for k, j in enumerate(own)}

    def _split(
        self,
        layer: int,
        group: int,
        rows: list[list[Any]],
        rivals: dict[int, list[int]],
        whole: ExactCell,
        walls: list[_Name],
    ) -> list[_Part]:
        """Split a cell into the parts where each form of a group wins.

        Args:
            layer: The layer.
            group: The group.
            rows: The exact scores of the layer.
            rivals: The forms that may win on the cell, each with the forms that can bound its part.
            whole: The cell.
            walls: The walls of the cell.
        """
        start = int(self.network.layers[layer].starts[group])
        is_relu = self.network.layers[layer].is_relu
        if is_relu and len(rivals) == 1:
            return [_Part(0, whole, walls, [-1])]
        parts: list[_Part] = []
        for winner in rivals:
            part: ExactCell | None = whole
            names = list(walls)
            ties: list[int] = []
            for rival in rivals[winner]:
                check_time()
                assert part is not None
                self.decisions.record(rational=len(part.vertices))
                pairs = zip(rows[winner], rows[rival], strict=True)
                form = (*(int(one - other) for one, other in pairs), 0)
                smaller = clip(part, form, is_lower=is_relu and winner == start)
                name = layer, group, winner - start, rival - start
                if smaller is part:
                    # The group that made a part may split it again. Its own walls are not ties.
                    own = name, (layer, group, rival - start, winner - start)
                    ties += [p for p in find_vanishing(part, form) or [] if names[p] not in own]
                elif smaller is not None:
                    names.append(name)
                part = smaller
                if part is None:
                    break
            if part is not None:
                parts.append(_Part(winner - start, part, names, ties))
        return parts
