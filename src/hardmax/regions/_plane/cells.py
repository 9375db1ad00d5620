"""The polygons that the planar engine found."""

from collections.abc import Iterable

import numpy as np

from hardmax.regions._measures.measures import Answers
from hardmax.regions._neighbours.adjacency import Neighbours
from hardmax.regions._neighbours.plane import planar_neighbours
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions.cells import Cells, Outline

VERTEX_RADIUS = 2.0**-29
"""The error of a vertex is at most this times its largest coordinate or the domain's scale."""


class PlaneCells(Cells):
    """Polygons, each with its vertices in counter-clockwise order and the walls of its edges."""

    @property
    def has_walls(self) -> bool:
        """Whether the engine stored the walls of cells."""
        return True

    @property
    def outline(self) -> Outline | None:
        """The vertices of the polygons."""
        vertices, starts, ways = self.arrays.vertices, self.arrays.starts, self.arrays.directions
        if vertices is None or starts is None:
            return None
        scale = read_planar_domain(self.domain, self.domain.ambient_dim).scale
        radii = VERTEX_RADIUS * np.maximum(np.abs(vertices).max(axis=1), scale)
        ways = np.zeros_like(vertices) if ways is None else ways
        return Outline(starts, vertices, radii, ways, np.full(len(vertices), VERTEX_RADIUS))

    def facet_forms(self, cell: int) -> list[tuple[int, int]] | None:
        """Return the group (over all layers) and the rival of each edge inside the domain."""
        names, starts = self.arrays.wall_names, self.arrays.starts
        if names is None or starts is None:
            return None
        codes = np.asarray(names.codes[starts[cell] : starts[cell + 1]])
        codes, first = codes[codes >= 0], names.form_starts
        groups = np.searchsorted(first, codes, side="right") - 1
        return list(zip(groups.tolist(), (codes - first[groups]).tolist(), strict=True))

    def neighbours(self, chosen: Iterable[int] | None = None) -> Neighbours:
        """Find the neighbours among some cells, by the names of their edges."""
        if not self.n_stored:
            return super().neighbours(chosen)
        return planar_neighbours(self.network, self.domain, self.arrays, chosen)

    def measure(self, question: int) -> Answers:
        """Measure all polygons in floats with proven errors."""
        if not self.n_stored:
            return super().measure(question)
        # Compiled code is loaded when it is needed.
        from hardmax.regions._measures.plane import measured

        return measured(self.network, self.domain, self.arrays, question)
