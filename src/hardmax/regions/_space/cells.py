"""The polytopes that the spatial engine found, and intervals that it found."""

from collections.abc import Iterable

import numpy as np

from hardmax.regions._measures.measures import Answers
from hardmax.regions._neighbours.adjacency import Neighbours
from hardmax.regions._neighbours.space import spatial_neighbours
from hardmax.regions.cells import Cells, Outline


class SpaceCells(Cells):
    """Polytopes, each with its vertices in no particular order and its facets."""

    @property
    def has_walls(self) -> bool:
        """Whether the engine stored the walls of cells."""
        return True

    @property
    def outline(self) -> Outline | None:
        """The vertices of the polytopes."""
        arrays = self.arrays
        if arrays.vertices is None or arrays.starts is None or arrays.facets is None:
            return None
        blurs = np.repeat(arrays.facets.blurs, np.diff(arrays.starts), axis=0)
        ways = np.zeros_like(arrays.vertices) if arrays.directions is None else arrays.directions
        return Outline(arrays.starts, arrays.vertices, blurs[:, 0], ways, blurs[:, 1])

    def facet_forms(self, cell: int) -> list[tuple[int, int]] | None:
        """Return the group (over all layers) and the rival of each facet inside the domain."""
        facets = self.arrays.facets
        if facets is None:
            return None
        begin, end = facets.starts[cell : cell + 2]
        return [(group, rival) for group, rival in facets.facets[begin:end].tolist()]

    def neighbours(self, chosen: Iterable[int] | None = None) -> Neighbours:
        """Find the neighbours among some cells, by their facets."""
        if not self.n_stored:
            return super().neighbours(chosen)
        return spatial_neighbours(self.network, self.domain, self.arrays, chosen)

    def measure(self, question: int) -> Answers:
        """Measure all polytopes in floats with proven errors."""
        if not self.n_stored:
            return super().measure(question)
        # Compiled code is loaded when it is needed.
        from hardmax.regions._measures import space as spatial_measures

        return spatial_measures.measured(self.network, self.domain, self.arrays, question)


class IntervalCells(SpaceCells):
    """Intervals, each with its two ends; those loaded from a file may have no facets."""

    @property
    def has_walls(self) -> bool:
        """Whether the ends have names."""
        return self.arrays.facets is not None

    def neighbours(self, chosen: Iterable[int] | None = None) -> Neighbours:
        """Find the neighbours among some intervals."""
        return super().neighbours(chosen) if self.has_walls else Cells.neighbours(self, chosen)

    def measure(self, question: int) -> Answers:
        """Measure all intervals in floats with proven errors."""
        starts = self.arrays.starts
        # A table read from a file may contain anything.
        if not self.has_walls or starts is None or not (np.diff(starts) == 2).all():
            return Cells.measure(self, question)
        from hardmax.regions._measures.line import interval_ends, measured_intervals

        return measured_intervals(*interval_ends(self.arrays), question)
