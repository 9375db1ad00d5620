"""All calls of the library whose answers are compared: if a method is renamed, adapt this file.

An answer is a short text without floats. Cells are compared in the order of their sorted
signatures, so that an answer does not depend on the order in which an engine finds them.

**Graphs.** Today a `GraphPartition` lists pieces: cells cut along the decision boundary. Its
`signatures` have one row per piece, already without the winner of the decision group, and the
pieces of one cell have equal rows. So the distinct rows of `signatures` are the signatures of the
cells, and their number is `n_cells`. The decision boundary is compared separately (`pieces`).
The dense form of a graph, `GraphNetwork.network`, has one layer for each node; a node without
decisions has groups of one form each. Its signatures, restricted to the groups of maxima, are those
of the graph. Exact maps of a graph's cells, and all questions that a `GraphPartition` does not
answer, are answered by the dense form. If graphs become argmax networks, `dense_form` and
`decided_groups` are no longer needed: the partition itself answers.
"""

import tempfile
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.models import GraphNetwork, Maxima
from hardmax.regions import level_set
from tests.equality.digests import digest

MOST_MAPS, MOST_MAPS_OF_GRAPHS = 8, 4
"""Exact maps are compared on this many cells, spread evenly over the sorted signatures."""


def explore(model: Any, domain: Any, **limits: Any) -> Any:
    """Return the partition of a model on a domain."""
    return hm.enumerate_regions(model, domain, **limits)


def n_rows(part: Any) -> int:
    """Return the number of rows in the lists of a partition: pieces of a graph, otherwise cells."""
    return len(part.signatures)


def is_planar_graph(part: Any) -> bool:
    """Return whether the partition of a graph lists pieces, and can name their classes."""
    return isinstance(part, hm.regions.GraphPartition)


def dense_form(model: Any) -> Any:
    """Return a graph with dense matrices; any other model as it is."""
    return model.network if isinstance(model, GraphNetwork) else model


def decided_groups(model: Any) -> Any:
    """Return which groups of a dense form belong to maxima of the graph; all for other models."""
    if not isinstance(model, GraphNetwork):
        return slice(None)
    parts = [np.full(node.slots.size, isinstance(node, Maxima)) for node in model.nodes]
    return np.concatenate(parts)


class Cells:
    """The cells of a partition in the order of their signatures.

    Attributes:
        rows: The distinct signatures, sorted lexicographically.
        firsts: For each of them, the first row of the partition that has it.
        rank_of: For each row of the partition, the index of its signature in `rows`.
    """

    def __init__(self, model: Any, domain: Any, part: Any) -> None:
        self.model, self.domain, self.part = model, domain, part
        signatures = np.asarray(part.signatures).astype(np.int32)
        if isinstance(model, GraphNetwork) and signatures.shape[1] != model.n_groups:
            signatures = signatures[:, decided_groups(model)]
        self.rows, self.firsts, self.rank_of = _distinct(signatures)

    @cached_property
    def dense(self) -> "Cells":
        """The cells of the dense form, which are the same; itself unless the model is a graph."""
        if not is_planar_graph(self.part):
            return self
        return Cells(self.model, self.domain, explore(dense_form(self.model), self.domain))

    @property
    def chosen(self) -> list[int]:
        """The cells whose exact maps are compared."""
        n = len(self.rows)
        most = MOST_MAPS_OF_GRAPHS if isinstance(self.model, GraphNetwork) else MOST_MAPS
        return sorted({i * n // most for i in range(most)}) if n > most else [*range(n)]


def _distinct(rows: Any) -> tuple[Any, Any, Any]:
    if not rows.shape[1]:
        return rows[:1], np.zeros(min(1, len(rows)), int), np.zeros(len(rows), int)
    found, firsts, ranks = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return found, firsts, ranks.reshape(-1)


def dimension(cells: Cells) -> int:
    """Return the dimension of the domain."""
    return int(cells.part.domain.dim)


def n_cells(cells: Cells) -> int:
    """Return the number of cells; it must be the number of distinct signatures."""
    n = int(cells.part.n_cells)
    assert n == len(cells.rows), f"{n} cells, but {len(cells.rows)} distinct signatures"
    return n


def n_regions(cells: Cells) -> int:
    """Return the number of regions."""
    return int(cells.part.n_regions)


def n_affine_maps(cells: Cells) -> int:
    """Return the number of distinct affine maps."""
    return int(cells.part.n_affine_maps)


def signatures(cells: Cells) -> str:
    """Return a digest of the sorted signatures."""
    return digest(cells.rows.shape, cells.rows.astype("<i4").tobytes())


def maps(cells: Cells) -> str:
    """Return a digest of the exact maps, then `!` and how many floats are not within their radii.

    Maps are compared on `cells.chosen`, each with its cell.
    """
    exact_maps = [exact_map(cells.dense, i) for i in cells.chosen]
    floats, radii = float_maps(cells)
    n_wrong = 0
    for i, exact in zip(cells.chosen, exact_maps, strict=True):
        row = cells.firsts[i]
        n_wrong += _n_outside(exact, floats[row], None if radii is None else radii[row])
    return digest(*exact_maps) + (f"!{n_wrong}" if n_wrong else "")


def exact_map(cells: Cells, cell: int) -> list[list[Fraction]]:
    """Return the exact affine map of a cell: for each output its slopes, then its offset."""
    forms = cells.part.exact_map(int(cells.firsts[cell]))
    unit = Fraction(2) ** int(forms.exponent) / int(forms.denominator)
    return [[int(x) * unit for x in row] for row in forms.rows]


def float_maps(cells: Cells) -> tuple[Any, Any]:
    """Return the maps of all rows in floats, `(n, dim + 1, dim_out)`, and bounds on their errors.

    The bounds are None if the maps are exact maps that were rounded.
    """
    part = cells.part
    if is_planar_graph(part):
        return part.maps, np.broadcast_to(part.found.map_radii[:, np.newaxis], part.maps.shape)
    stored = part.cells
    if stored.maps is None or stored.map_radii is None:
        return part.affine_maps, None
    radii = stored.map_radii
    if radii.ndim == 1:
        radii = radii[:, np.newaxis, np.newaxis]
    return part.affine_maps, np.broadcast_to(radii, part.affine_maps.shape)


def _n_outside(exact: list[list[Fraction]], floats: Any, radii: Any) -> int:
    """Count the coefficients that differ from the exact ones by more than the error bound."""
    wrong = 0
    for output, form in enumerate(exact):
        for k, true in enumerate(form):
            given = float(floats[k, output])
            if radii is None or not np.isfinite([given, radii[k, output]]).all():
                continue
            wrong += abs(Fraction(given) - true) > Fraction(float(radii[k, output]))
    return wrong


def dense(cells: Cells) -> str:
    """Return `equal` if the dense form of a graph has the same cells, otherwise what differs."""
    other = cells.dense
    asked = (n_cells, n_regions, n_affine_maps, signatures)
    different = [ask.__name__ for ask in asked if ask(cells) != ask(other)]
    return " ".join(different) or "equal"


def pieces(cells: Cells) -> str:
    """Return the number of pieces of one class, and a digest of the classes of each cell."""
    part = cells.part
    if len(part.signatures) != part.n_pieces or not part.is_complete:
        return "not all pieces are listed"
    found = sorted({*zip(cells.rank_of.tolist(), part.classes.tolist(), strict=True)})
    return f"{part.n_pieces}.{digest(found)}"


def boundary(cells: Cells) -> str:
    """Return the number of points of the decision boundary, or in a plane its length."""
    edges = cells.part.decision_boundary
    if dimension(cells) == 1:
        return str(len(edges))
    with np.errstate(all="ignore"):
        length = float(np.hypot(*(edges[:, 1] - edges[:, 0]).T).sum())
    return f"{length:.5e}"


def neighbours(cells: Cells) -> str:
    """Return a digest of the pairs of neighbours; for a network, also of the walls between them."""
    found, rank_of = cells.dense.part.neighbours, cells.dense.rank_of
    pairs = np.sort(rank_of[found.pairs.reshape(-1, 2)], axis=1).tolist()
    if isinstance(cells.model, GraphNetwork):
        return digest(sorted(pairs))
    walls = [sorted((int(a), int(b)) for a, b in one) for one in found.walls]
    return digest(sorted(zip(pairs, walls, strict=True)))


def certificate(cells: Cells) -> str:
    """Return the verdict on the certificate, its kind and a digest of what it claims."""
    other = cells.dense
    made = other.part.certificate()
    verdict = hm.verify_certificate(dense_form(cells.model), made)
    claimed = _distinct(np.asarray(made.signatures).astype(np.int32))[0]
    same = np.array_equal(claimed, _distinct(np.asarray(other.part.signatures, np.int32))[0])
    parts = [made.domain_fingerprint, made.kind, same]
    if not isinstance(cells.model, GraphNetwork):
        # The fingerprint of a graph's argmax network may change when graphs are lowered.
        parts.append(made.model)
    return ("ok." if verdict.ok else "refused.") + digest(*parts)


def volumes(cells: Cells) -> str:
    """Return a digest of the exact volumes, then `!` and how many floats are beyond their radii."""
    part, firsts = cells.dense.part, cells.dense.firsts
    exact = [part.exact_volumes[i] for i in firsts.tolist()]
    floats, radii = part.volumes[firsts], part.volume_radii[firsts]
    n_wrong = 0
    for true, given, radius in zip(exact, floats.tolist(), radii.tolist(), strict=True):
        if true == np.inf or not np.isfinite([given, radius]).all():
            n_wrong += (given == np.inf) is not (true == np.inf or radius == np.inf)
            continue
        n_wrong += abs(Fraction(given) - Fraction(true)) > Fraction(radius)
    return digest(*exact) + (f"!{n_wrong}" if n_wrong else "")


def located(cells: Cells) -> str:
    """Return a digest of the cells that contain the probe points, -1 for none."""
    other = cells.dense
    found = other.part.locate(probe_points(dimension(cells))).tolist()
    return digest([int(other.rank_of[i]) if i >= 0 else -1 for i in found])


def probe_points(dim: int) -> Any:
    """Return points in a domain's coordinates, among them corners, integers and large numbers."""
    points = np.random.default_rng(dim).integers(-24, 25, size=(24, dim)) / 8.0
    points[:8] = np.round(points[:8])
    points[8:12] *= 2.0**-10
    points[12:14] *= 2.0**40
    return points


def local(cells: Cells) -> str:
    """Return the cells at two points of the input space, and the distances to their walls.

    Distances have 6 digits. Their proven bounds are wider, but errors are much smaller in practice.
    """
    found = []
    for point in probe_points(cells.model.dim_in)[[3, 20]]:
        cell = hm.cell_at(cells.model, point)
        distances = [wall and f"{wall.distance:.5e}" for wall in (cell.wall, cell.decision)]
        found.append((cell.signature.tolist(), cell.class_index, distances))
    return digest(found)


def levels(cells: Cells) -> str:
    """Return a digest of the cells that the level set of the first output meets, and its jumps."""
    other = cells.dense
    found = level_set(other.part, value=0.5)
    ranks = np.append(other.rank_of, -1)
    return digest(
        sorted(zip(ranks[found.cells].tolist(), ranks[found.across].tolist(), strict=True))
    )


def table(cells: Cells) -> str:
    """Return a digest of the signatures in the order of the rows of a CSV file."""
    from hardmax.regions.csv_tables import write_csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.csv"
        write_csv(cells.dense.part, path)
        lines = path.read_text().splitlines()
    if isinstance(cells.model, GraphNetwork):
        return f"{len(lines)} lines"
    return digest([line.partition(",")[0] for line in lines])


def breakpoints(cells: Cells) -> str:
    """Return a digest of the exact points where cells of a line meet."""
    found = [Fraction(x) for x in cells.dense.part.breakpoints.tolist()]
    assert all(x < y for x, y in pairwise(found)), "breakpoints are not sorted"
    return digest(*found)
