"""Cells that floats could not split, split in exact arithmetic.

Everything is read from stored weights, the domain, the winners on the path, and which facets each
vertex lies on; no float of the core is.
"""

from typing import NamedTuple

import numpy as np

from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.exact_polytopes import (
    ExactCell,
    Form,
    clipped,
    from_masks,
    vanishing,
    with_facets_only,
)
from hardmax.regions._search.searches import CoreSearch, SpaceCell
from hardmax.regions._search.space_domains import SpatialDomain, rounded_cell, rounded_vertex

_Name = tuple[int, int, int, int]


class _Part(NamedTuple):
    """Where one form of a group wins.

    Attributes:
        winner: The form, within its group.
        cell: The cell; the forms that cut it come last.
        names: The names of its forms.
        ties: The places of forms of the cell where the winner equals a rival that does not name
            them, or -1 for all.
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

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        inputs = self.domain.inputs
        if inputs is None:
            return chart_forms(self.network.embedding)
        return inputs.compose(self.network.embedding)

    def exact_cell(self, cell: SpaceCell, *, refresh: bool = True) -> ExactCell:
        """Read a cell of the stack, exactly."""
        forms: list[Form] = []
        for wall in cell.walls.tolist():
            if wall[0] < 0:
                forms.append(self.domain.cell.forms[wall[1]])
            else:
                forms.append((*map(int, self.difference(wall, refresh=refresh)), 0))
        words = cell.masks.tolist()
        masks = [sum(word << 64 * w for w, word in enumerate(row)) for row in words]
        return from_masks(forms, masks)

    def improve_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        _, cell = self.search.top()
        exact = self.exact_cell(cell, refresh=False)
        self.search.set_vertices(np.array([rounded_vertex(vertex) for vertex in exact.vertices]))

    def split_top(self) -> None:
        """Split the cell on top of the stack by its next group."""
        (layer, _, group), cell = self.search.top()
        self.scores(layer)
        number = sum(before.n_groups for before in self.network.layers[:layer]) + group
        n_facets = len(cell.facets)
        names = [tuple(wall) for wall in cell.walls.tolist()]
        parts = []
        for part in self._parts(layer, group, self.exact_cell(cell), names):
            kept, stay = with_facets_only(part.cell)
            place_of = {place: i for i, place in enumerate(stay)}
            place_of[-1] = -1
            ties = [
                (place_of[place], number, part.winner) for place in part.ties if place in place_of
            ]
            rounded = rounded_cell(kept, [part.names[place] for place in stay], ties)
            sources = np.array(
                [place if place < n_facets else -1 for place in stay], dtype=np.int32
            )
            parts.append((part.winner, rounded._replace(sources=sources)))
        self.search.replace_top(parts)

    def _parts(self, layer: int, group: int, whole: ExactCell, walls: list[_Name]) -> list[_Part]:
        """Return the part of a cell, whose walls are given, that each form of a group wins."""
        start = int(self.network.layers[layer].starts[group])
        rows = self.scores(layer).rows
        members = self.competitors(layer, group)
        is_relu = self.network.layers[layer].is_relu
        if is_relu and len(members) == 1:
            return [_Part(0, whole, walls, [-1])]
        parts: list[_Part] = []
        for winner in members:
            part: ExactCell | None = whole
            names = list(walls)
            ties: list[int] = []
            for rival in members:
                if rival == winner:
                    continue
                assert part is not None
                self.decisions.record(rational=len(part.vertices))
                pairs = zip(rows[winner], rows[rival], strict=True)
                form = (*(int(one - other) for one, other in pairs), 0)
                smaller = clipped(part, form, is_lower=is_relu and winner == start)
                name = layer, group, winner - start, rival - start
                if smaller is part:
                    # A part is split again by the group that made it: its own walls are no ties.
                    own = name, (layer, group, rival - start, winner - start)
                    ties += [p for p in vanishing(part, form) or [] if names[p] not in own]
                elif smaller is not None:
                    names.append(name)
                part = smaller
                if part is None:
                    break
            if part is not None:
                parts.append(_Part(winner - start, part, names, ties))
        return parts
