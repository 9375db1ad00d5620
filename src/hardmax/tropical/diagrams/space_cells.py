"""The cells of a power diagram in space, from its envelope, each described when it is asked for."""

from functools import partial

import numpy as np

from hardmax.geometry.descriptions import Generators
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.space_envelopes import SpaceEnvelope
from hardmax.tropical.diagrams.power_cells import CellParts, PowerCell, wall
from hardmax.typing import IntArray


def space_cells(envelope: SpaceEnvelope, names: IntArray) -> list[PowerCell]:
    """Return all cells, whole, by site.

    Args:
        envelope: All cells in space.
        names: The site of each form.
    """
    dim = envelope.rows.shape[1] - 1
    return [
        PowerCell(site, dim, partial(_whole_cell, envelope, names, i))
        for i, site in enumerate(names[envelope.sites].tolist())
    ]


def _whole_cell(envelope: SpaceEnvelope, names: IntArray, i: int) -> CellParts:
    rows = envelope.rows
    form = tuple(rows[envelope.sites[i]].tolist())
    rivals, vertices, directions = (lists[i] for lists in envelope.around)
    walls = [wall(form, tuple(rows[j].tolist())) for j in rivals]
    number = {j: local for local, j in enumerate(rivals)}
    tight = []
    for ties, found in ((envelope.points, vertices), (envelope.directions, directions)):
        for k in found:
            forms = ties.forms[ties.starts[k] : ties.starts[k + 1]].tolist()
            tight.append(frozenset(number[j] for j in forms if j in number))
    generators = Generators(
        tuple(map(envelope.exact_vertex, vertices)),
        tuple(map(envelope.exact_direction, directions)),
        (),
        tuple(tight),
    )
    dim = rows.shape[1] - 1
    polytope = Polytope.from_rows(walls, dim, generators)
    return CellParts(polytope, names[np.array(rivals, dtype=np.int64)], True)
