r"""The sets of k largest forms in three and four dimensions, by upper hulls.

The sum of the k largest forms is the largest sum of k forms. Hence the sets that win on an open set
are the vertices of the upper hull of all sums of k forms. To avoid forming all of these sums, note
that at a point on no wall, the k largest forms are the k - 1 largest and one more. Hence the sets
of order k - 1, each with every other form added, suffice as candidates for order k.
"""

from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.convex_hulls import extreme_corners, hull_facets, lifted_rows
from hardmax.geometry.space_envelopes import SpaceEnvelope, space_envelope
from hardmax.tropical.diagrams.power_cells import wall
from hardmax.typing import IntArray, WideArray


class OrderKHull(NamedTuple):
    """The cells of an order-k diagram in space.

    Attributes:
        sets: The forms that win in each cell, shape `(n_cells, k)`. Each row is ascending, and the
            rows are in lexicographic order.
        envelope: The cells of the sums, in the order of `sets`.
    """

    sets: IntArray
    envelope: SpaceEnvelope

    def walls(self, i: int) -> list[Vector]:
        """Return the irredundant inequalities of cell `i`."""
        sums = self.envelope.rows
        own = tuple(sums[self.envelope.sites[i]].tolist())
        rivals = self.envelope.surroundings.neighbours[i]
        return [wall(own, tuple(sums[j].tolist())) for j in rivals]


def order_k_hull(rows: WideArray, k: int) -> OrderKHull:
    r"""Find all sets of k winners.

    Args:
        rows: Distinct vectors $(a_j, c_j)$ as integers on one common scale, shape
            `(n_forms, dim + 1)` with `dim` 3 or 4. The $a_j$ must not lie in a hyperplane.
        k: The number of forms that win, with `1 <= k < n_forms`.

    Examples:
        Opposite corners of an octahedron never win together:

        >>> corners = np.r_[np.eye(3, 4, dtype=int), -np.eye(3, 4, dtype=int)].astype(object)
        >>> order_k_hull(corners, 2).sets.tolist()[:4]
        [[0, 1], [0, 2], [0, 4], [0, 5]]
    """
    sets, sums = np.arange(len(rows))[:, None], rows
    for _ in range(k - 1):
        lifted = lifted_rows(sums)
        hull = hull_facets(lifted.for_core, sums[:, :-1], is_upper=True)
        assert hull is not None
        found = extreme_corners(hull)
        sets, sums = _add_one_form(sets[found], sums[found], rows)
    envelope = space_envelope(sums)
    assert envelope is not None
    return OrderKHull(sets[envelope.sites], envelope)


def _add_one_form(sets: IntArray, sums: WideArray, rows: WideArray) -> tuple[IntArray, WideArray]:
    """Add every other form to every set, and return the distinct sets, sorted, and their sums."""
    n_sets, n_forms = len(sets), len(rows)
    old, new = np.divmod(np.arange(n_sets * n_forms), n_forms)
    is_other = (sets[old] != new[:, None]).all(axis=1)
    old, new = old[is_other], new[is_other]
    larger = np.sort(np.column_stack([sets[old], new]), axis=1)
    larger, first = np.unique(larger, axis=0, return_index=True)
    return larger, sums[old[first]] + rows[new[first]]
