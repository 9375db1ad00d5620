r"""Which cells touch along a wall in the plane, exactly and quickly.

The planar engine names every edge of a cell by the two forms that tie on it. Their line, and so
the corners, can be recomposed from the winners of the layers before; cells of one region share
these, so a layer is composed once for each region and not once for each cell. Edges are gathered
by their line, those of each side sorted along it, and the two lists of intervals merged: no two
edges need be equal for cells to be neighbours.

**In the core.** Edges are gathered by the line they lie on, and those of both sides compared along
it (see `core/include/hardmax/neighbours.hpp`). Edges that take part in something undecided are
compared exactly.
"""

from collections import defaultdict
from collections.abc import Iterable
from ctypes import Structure, addressof, c_double, c_int32, c_int64, c_void_p
from fractions import Fraction
from itertools import accumulate, groupby
from math import inf
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import address, borrow_block, release_block
from hardmax._ground.arguments import prepare_array
from hardmax.errors import RecordFormatError
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._neighbours.adjacency import LazyNeighbours, Neighbours
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.searches import CoreSearch
from hardmax.regions.cell_arrays import CellArrays, largest_row
from hardmax.regions.cell_rows import Wall
from hardmax.regions.charted_domains import ChartedDomain, embedded
from hardmax.typing import AnyArray, BoolArray, IntArray


class Matching(NamedTuple):
    """What floats and names prove.

    Attributes:
        pairs: Neighbours `i < j`, sorted, shape `(n_pairs, 2)`.
        edges: For each pair the edges that overlap, shape `(n_pairs, 2)`.
        is_open: Which edges may have neighbours that are not among them, shape `(n_vertices,)`: all
            of these are marked, on both sides.
    """

    pairs: IntArray
    edges: AnyArray
    is_open: BoolArray


class _Polygons(Structure):
    """`hm_polygons` of the interface."""

    _fields_ = (
        ("n_cells", c_int64),
        ("n_edges", c_int64),
        ("n_layers", c_int32),
        ("n_groups", c_int32),
        ("scale", c_double),
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("starts", c_void_p),
        ("codes", c_void_p),
        ("points", c_void_p),
        ("directions", c_void_p),
        ("first_groups", c_void_p),
        ("form_starts", c_void_p),
        ("passes", c_void_p),
        ("has_means", c_int32),
    )


class StoredCells:
    """Cells that the planar engine found, as the core reads them.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells, with the walls of their edges.
    """

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays) -> None:
        names, points, starts = cells.wall_names, cells.vertices, cells.starts
        assert names is not None
        assert points is not None
        assert starts is not None
        assert len(points) < 2**31, "edges are counted by 32 bits"
        self.network = network
        self.domain = read_planar_domain(domain, network.dim_in)
        self.n_edges = len(points)
        self._starts = starts
        first_groups, form_starts, passes = _groups(network)
        is_short = cells.signatures.dtype == np.uint8
        signatures = prepare_array(cells.signatures, np.uint8 if is_short else np.int32)
        directions = cells.directions
        # Kept as long as the core may read them.
        self._arrays = (
            signatures if is_short else None,
            None if is_short else signatures,
            prepare_array(starts, np.int64),
            prepare_array(names.codes, np.int32),
            prepare_array(points),
            None if directions is None else prepare_array(directions),
            first_groups,
            form_starts,
            passes,
        )
        given = (None if array is None else address(array) for array in self._arrays)
        n_layers, n_groups = len(network.layers), network.n_groups
        sizes = len(signatures), self.n_edges, n_layers, n_groups, self.domain.scale
        self._polygons = _Polygons(*sizes, *given, cells.has_means)
        self._n_bytes = check_size(core().hm_neighbours_size(addressof(self._polygons)))

    def matching(self) -> Matching:
        """Match the edges, as far as floats and names prove what they share."""
        given, library = addressof(self._polygons), core()
        memory = borrow_block(self._n_bytes)
        needed = library.hm_neighbours_gather(given, memory.address)
        assert needed >= 0, "the engine returned cells out of order"
        room = borrow_block(needed)
        is_open = np.zeros(self.n_edges, dtype=np.bool_)
        n_pairs = library.hm_neighbours_match(given, memory.address, room.address, address(is_open))
        release_block(room)
        pairs = np.empty((n_pairs, 2), dtype=np.int64)
        edges = np.empty((n_pairs, 2), dtype=np.int32)
        library.hm_neighbours_pairs(given, memory.address, address(pairs), address(edges))
        release_block(memory)
        return Matching(pairs, edges, is_open)

    def may_tie(self) -> BoolArray:
        """Say which edges may lie on other walls beside the one that names them."""
        domain = self.domain
        stream = first_stream(self.network, domain.inputs, domain.scale)
        search = CoreSearch(
            core_network(self.network),
            stream,
            self.domain.scale,
            is_bounded=self.domain.is_bounded,
            stores=False,
        )
        search.grow_to(largest_row(self._starts))
        marks = np.zeros(self.n_edges, dtype=np.bool_)
        core().hm_neighbours_ties(search.address, addressof(self._polygons), address(marks))
        search.release()
        return marks


def _groups(network: ArgmaxNetwork) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the first group of each layer, the first form of each group, and which pass it on.

    Layers and forms end with how many there are; the last says of each group whether it passes its
    largest form on. They are kept as long as the network is.
    """
    known: tuple[AnyArray, AnyArray, AnyArray] | None = network.kept.get("groups")
    if known is None:
        first = [0, *accumulate(layer.n_groups for layer in network.layers)]
        passes = [np.zeros(0, bool), *(layer.passes_maximum for layer in network.layers)]
        known = network.kept["groups"] = (
            np.array(first, dtype=np.int32),
            core_network(network).form_starts.astype(np.int32),
            np.concatenate(passes),
        )
    return known


Position = Fraction | float
"""A place on a line; floats are infinities only."""

Edge = tuple[Position, Position, int, tuple[Wall, ...]]
"""Where an edge begins and ends along its line, its cell, and the walls on it."""


class RegionForms:
    """The scores of a layer on a region where the layers before it are affine, and their walls."""

    def __init__(self, network: ArgmaxNetwork, index: int, stream: RationalForms) -> None:
        self.layer = network.layers[index]
        self.stream = stream
        self.scores = layer_scores(self.layer, stream)
        self._rows = [tuple(int(x) for x in row) for row in self.scores.rows]
        self._entered: set[tuple[int, int]] = set()
        self._walls: dict[Vector, list[tuple[int, int]]] = defaultdict(list)

    def row(self, group: int, winner: int, rival: int) -> Vector:
        """Return winner minus rival as coprime integers."""
        start = int(self.layer.starts[group])
        best, other = self._rows[start + winner], self._rows[start + rival]
        return primitive(b - o for b, o in zip(best, other, strict=True))

    def enter_walls(self, winners: tuple[int, ...]) -> None:
        """Note the lines on which the winners tie with others of their groups."""
        for key in enumerate(winners):
            if key in self._entered:
                continue
            self._entered.add(key)
            group, winner = key
            size = int(self.layer.starts[group + 1] - self.layer.starts[group])
            rows = (self.row(group, winner, rival) for rival in range(size) if rival != winner)
            for line in {normalised(row) for row in rows if any(row[:-1])}:
                self._walls[line].append(key)

    def groups_on(self, line: Vector, winners: tuple[int, ...]) -> list[int]:
        """List the groups whose winner ties with another form on a line, after `enter_walls`."""
        return [g for g, winner in self._walls.get(line, ()) if winners[g] == winner]


class Regions:
    """All regions that have been looked at, by layer and winners before it."""

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain) -> None:
        self.network, self.domain = network, domain
        self._known: dict[tuple[int, ...], RegionForms] = {}
        self._ends = [0]
        for layer in network.layers:
            self._ends.append(self._ends[-1] + layer.n_groups)

    def forms(self, index: int, signature: tuple[int, ...]) -> RegionForms:
        """Return the forms of a layer on the region of a cell."""
        # No two layers have prefixes of one length, as every layer has groups.
        prefix = signature[: self._ends[index]]
        known = self._known.get(prefix)
        if known is None:
            stream = embedded(self.network, self.domain)
            if index:
                before = self.forms(index - 1, signature)
                won = prefix[self._ends[index - 1] :]
                stream = layer_output(before.layer, before.stream, before.scores, won)
            known = RegionForms(self.network, index, stream)
            self._known[prefix] = known
        return known

    def layers(self, signature: tuple[int, ...]) -> list[tuple[RegionForms, tuple[int, ...]]]:
        """Return for each layer its forms on a cell, walls entered, and the winners."""
        result = []
        for index in range(len(self.network.layers)):
            forms = self.forms(index, signature)
            winners = signature[self._ends[index] : self._ends[index + 1]]
            forms.enter_walls(winners)
            result.append((forms, winners))
        return result


def planar_neighbours(
    network: ArgmaxNetwork,
    domain: ChartedDomain,
    cells: CellArrays,
    chosen: Iterable[int] | None = None,
) -> Neighbours:
    """Find all neighbours among cells that the planar engine found.

    Most are proven by floats and by the names of their edges (`planar_matching`); the others, and
    which walls coincide, are found in integers.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells, with the walls of their edges.
        chosen: The cells to look at; all if None.
    """
    stored = StoredCells(network, domain, cells)
    matching = stored.matching()
    pairs = matching.pairs
    if matching.is_open.any():
        found = sorted(overlapping_edges(network, domain, cells, np.flatnonzero(matching.is_open)))
        others = np.array(found, dtype=np.int64).reshape(len(found), 2)
        codes = np.sort(np.concatenate([pairs, others]) @ np.array([cells.n_counted, 1]))
        codes = codes[np.diff(codes, prepend=-1) > 0]
        pairs = np.column_stack(np.divmod(codes, cells.n_counted))
    if chosen is not None:
        kept = np.zeros(cells.n_counted, dtype=np.bool_)
        kept[list(chosen)] = True
        pairs = pairs[kept[pairs].all(axis=1)]

    def find_walls() -> tuple[tuple[Wall, ...], ...]:
        known = _walls_between(stored, domain, cells)
        return tuple([known[one, other] for one, other in pairs.tolist()])

    return LazyNeighbours(pairs, (), find_walls=find_walls)


def _walls_between(
    stored: StoredCells, domain: ChartedDomain, cells: CellArrays
) -> dict[tuple[int, int], tuple[Wall, ...]]:
    """Return all pairs with the walls between them."""
    pairs, edges, is_open = stored.matching()
    is_shared = stored.may_tie()[edges].any(axis=1)
    is_open[edges[is_shared]] = True
    assert cells.walls is not None
    names: dict[Wall, tuple[Wall, ...]] = {}
    walls = map(tuple, cells.walls[edges[:, 0], :2].tolist())
    known = {
        (one, other): names.setdefault(wall, (wall,))
        for (one, other), wall in zip(pairs.tolist(), walls, strict=True)
    }
    exact = overlapping_edges(stored.network, domain, cells, np.flatnonzero(is_open))
    return known | exact


def overlapping_edges(
    network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays, chosen: IntArray
) -> dict[tuple[int, int], tuple[Wall, ...]]:
    """Return the pairs of cells that share a part of chosen edges, with the walls on it."""
    assert cells.starts is not None
    regions = Regions(network, domain)
    sides: dict[Vector, tuple[list[Edge], list[Edge]]] = defaultdict(lambda: ([], []))
    owners = np.searchsorted(cells.starts, chosen, side="right") - 1
    for cell, edges in groupby(zip(owners.tolist(), chosen.tolist(), strict=True), itemgetter(0)):
        for row, begin, end, walls in _cell_edges(regions, cells, cell, [e for _, e in edges]):
            line = normalised(row)
            if row == line:
                sides[line][0].append((begin, end, cell, walls))
            else:
                # Seen along the line's own direction, the edge runs backwards.
                sides[line][1].append((-end, -begin, cell, walls))
    found: dict[tuple[int, int], tuple[Wall, ...]] = {}
    for left, right in sides.values():
        left.sort(key=_beginning)
        right.sort(key=_beginning)
        for one, other in _overlaps(left, right):
            pair = min(one[2], other[2]), max(one[2], other[2])
            found[pair] = tuple(sorted({*one[3], *other[3]}))
    return found


def normalised(row: Vector) -> Vector:
    """Return a row or its opposite, the same for both."""
    return max(row, tuple(-x for x in row))


def _cell_edges(
    regions: Regions, cells: CellArrays, cell: int, chosen: list[int]
) -> list[tuple[Vector, Position, Position, tuple[Wall, ...]]]:
    """List those of chosen edges of a cell that are walls: row, beginning, end, and walls.

    The row is positive in the cell; positions rise with the edge, which has the cell on its left.
    """
    assert cells.starts is not None
    assert cells.walls is not None
    first, last = int(cells.starts[cell]), int(cells.starts[cell + 1])
    names = cells.walls[first:last].tolist()
    signature = tuple(cells.signatures[cell].tolist())
    at_infinity = [False] * len(names)
    if cells.directions is not None:
        at_infinity = (cells.directions[first:last] != 0.0).any(axis=1).tolist()
    layers, boundary = regions.layers(signature), regions.domain.cone_rows
    rows = [
        layers[layer][0].row(group, winner, rival)
        if layer >= 0
        # A side at infinity has no row, and no corner on it is asked for.
        else (boundary[group] if group >= 0 else (0, 0, 0))
        for layer, group, winner, rival in names
    ]
    found = []
    for i in (edge - first for edge in chosen):
        if names[i][0] < 0:
            continue
        row = rows[i]
        after = (i + 1) % len(rows)
        begin = -inf if at_infinity[i] else _position(row, rows[i - 1])
        end = inf if at_infinity[after] else _position(row, rows[after])
        line = normalised(row)
        walls = tuple(
            (index, group)
            for index, (forms, winners) in enumerate(layers)
            for group in forms.groups_on(line, winners)
        )
        found.append((row, begin, end, walls))
    return found


def _position(row: Vector, other: Vector) -> Fraction:
    """Return where two lines meet, along the direction that has the positive side on its left."""
    a, b, c = row
    p, q, r = other
    weight = a * q - b * p
    if weight == 0:
        # The search finds no such polygon: a file has it.
        raise RecordFormatError(
            "Two consecutive edges of a cell lie on parallel lines. The file from which the cells "
            "were loaded has been modified. Search again."
        )
    # The corner is (x, y) / weight with x = b r - c q, y = c p - a r; the direction is (b, -a).
    return Fraction(b * (b * r - c * q) - a * (c * p - a * r), weight)


def _beginning(edge: Edge) -> Position:
    return edge[0]


def _overlaps(left: list[Edge], right: list[Edge]) -> list[tuple[Edge, Edge]]:
    """Return the pairs of two sorted lists of disjoint intervals that share more than a point."""
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        one, other = left[i], right[j]
        if max(one[0], other[0]) < min(one[1], other[1]):
            found.append((one, other))
        if one[1] <= other[1]:
            i += 1
        else:
            j += 1
    return found
