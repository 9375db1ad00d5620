r"""The sets of k largest forms in three and four dimensions, by upper hulls.

The sum of the k largest of some forms is the largest of all sums of k of them, so the sets that win
on an open set are the vertices of the upper hull of these sums. There are far too many sums; but at
a point that is on no wall, the k largest are the k - 1 largest and one more. So the hull of order k
is that of the sets of order k - 1 with every other form added.
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
        sets: The forms that win, ascending, in lexicographic order: shape `(n_cells, k)`.
        envelope: The cells of the sums, in the order of the sets.
    """

    sets: IntArray
    envelope: SpaceEnvelope

    def walls(self, i: int) -> list[Vector]:
        """Return the inequalities of cell `i`, none of them redundant."""
        sums = self.envelope.rows
        own = tuple(sums[self.envelope.sites[i]].tolist())
        rivals = self.envelope.around.neighbours[i]
        return [wall(own, tuple(sums[j].tolist())) for j in rivals]


def order_k_hull(rows: WideArray, k: int) -> OrderKHull:
    r"""Find all sets of k winners.

    Args:
        rows: Distinct $(a_j, c_j)$, integers on one scale, shape `(n_forms, dim + 1)` with three or
            four dimensions; the $a_j$ do not lie in a hyperplane.
        k: How many win: at least 1, less than there are forms.

    Examples:
        Of the corners of an octahedron opposite ones never win together.

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
        sets, sums = _with_one_more(sets[found], sums[found], rows)
    envelope = space_envelope(sums)
    assert envelope is not None
    return OrderKHull(sets[envelope.sites], envelope)


def _with_one_more(sets: IntArray, sums: WideArray, rows: WideArray) -> tuple[IntArray, WideArray]:
    """Add every other form to every set: the sets that arise, in their order, and their sums."""
    n_sets, n_forms = len(sets), len(rows)
    old, new = np.divmod(np.arange(n_sets * n_forms), n_forms)
    is_other = (sets[old] != new[:, None]).all(axis=1)
    old, new = old[is_other], new[is_other]
    larger = np.sort(np.column_stack([sets[old], new]), axis=1)
    larger, first = np.unique(larger, axis=0, return_index=True)
    return larger, sums[old[first]] + rows[new[first]]
