r"""The cells of a power diagram in space, computed from its envelope and clipped to a domain.

Cells are described on first use. A cell with a vertex inside the domain meets the interior of the
domain. A bounded cell whose vertices all violate one inequality of the domain does not. Floats
decide nearly all cells, and cone decisions settle the rest.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.descriptions import Generators, negate
from hardmax.geometry.double_description import cut_cone, face_has_dimension
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.space_envelopes import SpaceEnvelope
from hardmax.tropical.diagrams.power_cells import (
    CellParts,
    PowerCell,
    certain_sides,
    open_cone_rows,
    wall,
)
from hardmax.typing import BoolArray, IntArray

_OUTSIDE = -1
"""The label of a row that comes from the domain."""


def space_cells(
    envelope: SpaceEnvelope, names: IntArray, domain: Sequence[Vector] = ()
) -> list[PowerCell]:
    """Return the cells that meet the interior of a domain, clipped to it and sorted by site.

    Args:
        envelope: All cells in space.
        names: The site of each form.
        domain: The inequalities of the domain, which has interior points.
    """
    dim = envelope.rows.shape[1] - 1
    domain = [row for row in domain if any(row[:dim])]
    sites = names[envelope.sites].tolist()
    if not domain:
        return [
            PowerCell(site, dim, partial(_describe_whole_cell, envelope, names, i))
            for i, site in enumerate(sites)
        ]
    inside, meets, outside = _classify_cells(envelope, domain)
    cells = []
    for i in np.flatnonzero(~outside).tolist():
        if not (meets[i] or _has_interior(envelope, i, domain)):
            continue
        parts = partial(_describe_clipped_cell, envelope, names, i, domain)
        if inside[i]:
            parts = partial(_describe_whole_cell, envelope, names, i)
        cells.append(PowerCell(sites[i], dim, parts))
    return cells


def _classify_cells(
    envelope: SpaceEnvelope, domain: Sequence[Vector]
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Tell which cells are certainly inside the domain, certainly meet it, and certainly do not."""
    above, below = certain_sides(envelope.vertices, domain)
    within = np.logical_and.reduce(above)
    points = envelope.surroundings.points
    is_bounded = np.array([not rays for rays in envelope.surroundings.directions], dtype=np.bool_)
    inside = np.array([within[found].all() for found in points], dtype=np.bool_)
    meets = np.array([within[found].any() for found in points], dtype=np.bool_)
    outside = np.array([below[:, found].all(axis=1).any() for found in points], dtype=np.bool_)
    return inside & is_bounded, meets, outside & is_bounded


def _list_walls(envelope: SpaceEnvelope, i: int) -> list[Vector]:
    rows = envelope.rows
    form = tuple(rows[envelope.sites[i]].tolist())
    return [wall(form, tuple(rows[j].tolist())) for j in envelope.surroundings.neighbours[i]]


def _has_interior(envelope: SpaceEnvelope, i: int, domain: Sequence[Vector]) -> bool:
    dim = envelope.rows.shape[1] - 1
    clipped = Polytope.from_rows([*domain, *_list_walls(envelope, i)], dim)
    return decide_open_cone(open_cone_rows(clipped.rows)).is_open


def _describe_whole_cell(envelope: SpaceEnvelope, names: IntArray, i: int) -> CellParts:
    rivals, vertices, directions = (lists[i] for lists in envelope.surroundings)
    tight = [frozenset(envelope.points.among(k, rivals)) for k in vertices]
    tight += [frozenset(envelope.directions.among(k, rivals)) for k in directions]
    generators = Generators(
        tuple(map(envelope.exact_vertex, vertices)),
        tuple(map(envelope.exact_direction, directions)),
        (),
        tuple(tight),
    )
    dim = envelope.rows.shape[1] - 1
    polytope = Polytope.from_rows(_list_walls(envelope, i), dim, generators)
    return CellParts(polytope, names[np.array(rivals, dtype=np.int64)], True)


def _describe_clipped_cell(
    envelope: SpaceEnvelope, names: IntArray, i: int, domain: Sequence[Vector]
) -> CellParts:
    """Describe the part of a cell inside the domain by irredundant inequalities."""
    whole, rivals, _ = _describe_whole_cell(envelope, names, i)
    dim, first = whole.rows.shape[1] - 1, len(domain)
    # In the cone over the cell, t >= 0 is row -1, and the domain's rows precede the walls.
    generators, n_points = whole.generators, len(whole.generators.points)
    tight = [{first + row for row in on} for on in generators.tight]
    for on in tight[n_points:]:
        on.add(-1)
    cuts = {row: (*negate(cut[:-1]), cut[-1]) for row, cut in enumerate(domain)}
    rays, found = cut_cone(generators.homogeneous, tight, cuts)
    on_row: dict[int, list[Vector]] = {}
    for ray, rows in zip(rays, found, strict=True):
        for row in rows:
            on_row.setdefault(row, []).append(ray)
    # A wall of the cell that lies on the boundary of the domain is attributed to the domain.
    every = [primitive(row) for row in (*domain, *whole.rows.tolist())]
    chosen: dict[Vector, int] = {}
    for row, inequality in enumerate(every):
        chosen.setdefault(inequality, row)
    kept = [
        row
        for row in chosen.values()
        if any(ray[-1] for ray in on_row.get(row, ())) and face_has_dimension(on_row[row], dim)
    ]
    number = {row: local for local, row in enumerate(kept)}
    proper = [k for k, ray in enumerate(rays) if ray[-1]]
    infinite = [k for k, ray in enumerate(rays) if not ray[-1]]
    clipped = Generators(
        tuple(rays[k] for k in proper),
        tuple(rays[k][:-1] for k in infinite),
        (),
        tuple(
            frozenset(number[row] for row in found[k] if row in number) for k in proper + infinite
        ),
    )
    labels = np.concatenate([np.full(first, _OUTSIDE), rivals])
    polytope = Polytope.from_rows([every[row] for row in kept], dim, clipped)
    return CellParts(polytope, labels[kept], True)
