r"""The pieces of a tropical rational map: cells, linear regions and affine maps.

In a cell of the common refinement, each numerator and the denominator has one winner, so the map is
affine there. Neighbouring cells can have the same affine map, because the walls of the numerators
and the denominator can cancel, and so can cells that are far apart. Hence there are three counts:
`n_cells >= n_regions >= n_affine_maps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import SizeLimitError
from hardmax.exact.dyadic import ScaledIntegers, nearest_floats, round_scaled_integers
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.refinement import common_refinement
from hardmax.tropical.coefficients import align
from hardmax.tropical.envelopes import active_rows
from hardmax.typing import FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.tropical.rational_maps import TropicalRationalMap


@dataclass(frozen=True, eq=False)
class AffinePieces:
    r"""The full-dimensional cells on which $F = (P_1, \dots, P_n) - Q$ has constant winners.

    Attributes:
        choices: For each cell, the indices of the winning terms of $P_1, \dots, P_n$ and $Q$, shape
            `(n_cells, dim_out + 1)`, in lexicographic order of the rows.
        exact_maps: For each cell, the exact rows $(A_c, b_c)$ of
            $F_c(x) = \langle A_c, x\rangle + b_c$, shape `(n_cells, dim_out, dim_in + 1)`.
        map_index: For each cell, the index of its affine map, shape `(n_cells,)`. The distinct
            affine maps are numbered in order of first occurrence.

    References:
        Definition III.8 and Remark III.12 of [SL26]. Cells need not be maximal linear regions.

    Examples:
        >>> from hardmax import TropicalPolynomial, TropicalRationalMap
        >>> size = TropicalPolynomial([[1], [-1]], [0, 0])
        >>> zero = TropicalPolynomial([[0]], [0])
        >>> pieces = affine_pieces(TropicalRationalMap([size], zero), max_terms=10)
        >>> pieces.choices.tolist(), pieces.matrices.ravel().tolist()
        ([[0, 0], [1, 0]], [1.0, -1.0])
    """

    choices: IntArray
    exact_maps: ScaledIntegers
    map_index: IntArray
    _groups: tuple[WideArray, ...]
    """The active rows of $P_1, \\dots, P_n, Q$ on one common scale."""
    _winners: IntArray
    """`choices` as indices into `_groups`."""

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return int(self.choices.shape[0])

    @property
    def n_affine_maps(self) -> int:
        """The number of distinct affine maps."""
        return int(self.map_index.max()) + 1

    @property
    def n_regions(self) -> int:
        """The number of maximal linear regions (see `region_index`)."""
        return int(self.region_index.max()) + 1

    @cached_property
    def matrices(self) -> FloatArray:
        """The matrix $A$ of `A @ x + b` on each cell: `(n_cells, dim_out, dim_in)`, rounded."""
        return np.asarray(round_scaled_integers(self.exact_maps)[0][:, :, :-1])

    @cached_property
    def offsets(self) -> FloatArray:
        """The vector $b$ of `A @ x + b` on each cell: `(n_cells, dim_out)`, rounded."""
        return np.asarray(round_scaled_integers(self.exact_maps)[0][:, :, -1])

    @cached_property
    def exact_witnesses(self) -> WideArray:
        """An interior point of each cell as fractions, shape `(n_cells, dim_in)`."""
        dim = self._groups[0].shape[1] - 1
        points = np.empty((self.n_cells, dim), dtype=object)
        for cell, winners in enumerate(self._winners.tolist()):
            direction = decide_open_cone(_list_cell_rows(self._groups, winners)).direction
            assert direction is not None, "every listed cell is open"
            points[cell] = [Fraction(int(u), int(direction[-1])) for u in direction[:-1]]
        return points

    @property
    def witnesses(self) -> FloatArray:
        """The rounded `exact_witnesses`. In a very thin cell, rounding can move a point outside."""
        return nearest_floats(self.exact_witnesses)

    @cached_property
    def region_index(self) -> IntArray:
        """For each cell, the index of its maximal linear region, shape `(n_cells,)`.

        A region is a connected component of the interior of the closure of all cells with the same
        affine map. Cells are connected through shared facets, which are decided exactly.
        """
        pairs = [
            (i, k)
            for i, k in self._same_map_pairs()
            if _share_a_facet(self._groups, *self._winners_of(i, k))
        ]
        rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(self.n_cells,) * 2)
        _, labels = connected_components(graph, directed=False)
        return _number_by_occurrence(labels.tolist())

    def _same_map_pairs(self) -> Iterator[tuple[int, int]]:
        for index in range(self.n_affine_maps):
            yield from combinations(np.flatnonzero(self.map_index == index).tolist(), 2)

    def _winners_of(self, i: int, k: int) -> tuple[list[int], list[int]]:
        return self._winners[i].tolist(), self._winners[k].tolist()


def affine_pieces(rational: TropicalRationalMap, max_terms: int) -> AffinePieces:
    r"""Find the cells of the common refinement of all numerators and the denominator.

    If the coefficients fit float64, `geometry.refinement` finds the cells, at a cost close to the
    size of the result. Otherwise the cells are the active terms of the tropical product
    $P_1 \odot \dots \odot P_n \odot Q$, because a sum of convex functions is affine on an open set
    only if every summand is. Both methods are exact.

    Args:
        rational: The map.
        max_terms: The maximum number of terms that a product may form.

    Raises:
        SizeLimitError: Before a product of more than `max_terms` terms is formed.

    Examples:
        Log-lifted attention with keys -1 and 1 and three value channels has two routing cells but
        five pieces:

        >>> from hardmax import TropicalPolynomial, TropicalRationalMap
        >>> lifted = [TropicalPolynomial([[-1], [1]], [0, v]) for v in (2, 4, -2)]
        >>> F = TropicalRationalMap(lifted, TropicalPolynomial([[-1], [1]], [0, 0]))
        >>> pieces = affine_pieces(F, max_terms=100)
        >>> pieces.n_cells, pieces.n_regions, pieces.n_affine_maps
        (5, 5, 5)

        If the values are equal, the walls cancel:

        >>> constant = TropicalRationalMap([lifted[0]], lifted[0])
        >>> pieces = affine_pieces(constant, max_terms=100)
        >>> pieces.n_cells, pieces.n_regions, pieces.matrices.tolist()
        (2, 1, [[[0.0]], [[0.0]]])
    """
    polynomials = [*rational.numerators, rational.denominator]
    rows, exponent = align([p.coefficients for p in polynomials])
    active = [np.flatnonzero(p.active_terms()) for p in polynomials]
    groups = tuple(r[a] for r, a in zip(rows, active, strict=True))
    if all(p.fits_float64 for p in polynomials):
        choices = common_refinement([p.forms for p in polynomials]).choices
        columns = [np.searchsorted(a, c) for a, c in zip(active, choices.T, strict=True)]
        winners = np.stack(columns, axis=1).astype(np.int64)
    else:
        winners = _multiply_active_terms(groups, max_terms)
        winners = winners[np.lexsort(winners.T[::-1])]
        choices = np.stack([a[w] for a, w in zip(active, winners.T, strict=True)], axis=1)
    parts = [group[column] for group, column in zip(groups, winners.T, strict=True)]
    maps = np.stack([part - parts[-1] for part in parts[:-1]], axis=1)
    index = _number_by_occurrence([tuple(row) for row in maps.reshape(len(maps), -1).tolist()])
    return AffinePieces(choices, ScaledIntegers(maps, exponent), index, groups, winners)


def _multiply_active_terms(groups: Sequence[WideArray], max_terms: int) -> IntArray:
    """Multiply group by group, and keep only the active terms of each product."""
    sums = groups[0]
    winners = np.arange(len(sums))[:, None]
    for group in groups[1:]:
        count = len(sums) * len(group)
        if count > max_terms:
            raise SizeLimitError(
                f"the common refinement would form {len(sums)} x {len(group)} = {count} sums of "
                f"terms, more than `max_terms` = {max_terms}. Raise `max_terms`, or refine fewer "
                "channels at a time."
            )
        product = (sums[:, None, :] + group[None, :, :]).reshape(count, -1)
        left, right = np.divmod(np.flatnonzero(active_rows(product)), len(group))
        sums = sums[left] + group[right]
        winners = np.c_[winners[left], right]
    return winners


def _list_cell_rows(groups: Sequence[WideArray], winners: Sequence[int]) -> WideArray:
    """Return rows that are positive exactly on the homogenised cell $(x, t)$, $t > 0$."""
    upward = np.full((1, groups[0].shape[1]), 0, dtype=object)
    upward[0, -1] = 1
    rivals = [
        group[winner] - np.delete(group, winner, axis=0)
        for group, winner in zip(groups, winners, strict=True)
    ]
    return np.concatenate([upward, *rivals])


def _share_a_facet(groups: Sequence[WideArray], left: list[int], right: list[int]) -> bool:
    """Decide exactly whether two cells with the same affine map share a facet.

    Since the maps are equal, the winning forms of every group change by the same difference, which
    vanishes on one hyperplane. The cells share a facet if, on an open part of this hyperplane, the
    two winners of each group beat all other forms of the group.
    """
    normal = groups[-1][left[-1]] - groups[-1][right[-1]]
    upward = np.full((1, len(normal)), 0, dtype=object)
    upward[0, -1] = 1
    rivals = [
        group[i] - np.delete(group, [i, k], axis=0)
        for group, i, k in zip(groups, left, right, strict=True)
    ]
    rows = np.concatenate([upward, *rivals])
    # The columns n_p e_q - n_q e_p, q != p, span the hyperplane orthogonal to n.
    pivot = int(np.flatnonzero(normal != 0)[0])
    restricted = rows * normal[pivot] - np.multiply.outer(rows[:, pivot], normal)
    return decide_open_cone(np.delete(restricted, pivot, axis=1)).is_open


def _number_by_occurrence(labels: Sequence[object]) -> IntArray:
    """Number labels 0, 1, ... in the order in which they first occur."""
    number: dict[object, int] = {}
    return np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
