"""The first cell of a spatial search: the vertices and facets of the domain."""

from math import frexp, lcm
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import primitive, wide_rows
from hardmax.exact.rounding import enclosed_quotient
from hardmax.geometry.double_description import cone_generators
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.regions._search.exact_polytopes import (
    ExactCell,
    Form,
    clip,
    drop_redundant_forms,
    whole_space,
)
from hardmax.regions._search.searches import CellStruct, SpaceCell
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.typing import FloatArray

MOST_DIMENSIONS = 7
"""The error bounds of the core are proven up to here."""


class SpatialDomain(NamedTuple):
    """A domain in the form in which a search starts.

    Attributes:
        inputs: The inputs as exact forms in these coordinates; None for the identity.
        cell: The facets and vertices.
        start: The same cell in floats.
        cell_struct: The same cell as the core reads it.
        borders: The inequalities as forms that are positive inside: slopes, offset, radius of the
            slopes, radius of the offset, shape `(n_borders, dim + 3)`.
        is_bounded: Whether no vertex is at infinity.
        scale: A power of two, at least 1, that no coordinate of a vertex exceeds.
    """

    inputs: RationalForms | None
    cell: ExactCell
    start: SpaceCell
    cell_struct: CellStruct
    borders: FloatArray
    is_bounded: bool
    scale: float


def read_spatial_domain(domain: Any, dim_in: int) -> SpatialDomain:
    """Read a domain.

    Raises:
        ArgumentError: If the domain lies in another space, has no interior, or has more than
            `MOST_DIMENSIONS` dimensions.
    """
    given = charted(domain, dim_in)
    if given.dim > MOST_DIMENSIONS:
        raise ArgumentError(
            f"`domain` must have dimension at most {MOST_DIMENSIONS} for the engine 'spatial'; "
            f"got {given.dim}."
        )
    known: SpatialDomain | None = given.kept.get("spatial")
    if known is None:
        cell, is_bounded = _first_cell(given)
        walls = [(-1, i, 0, 0) for i in range(len(cell.forms))]
        start = round_cell(cell, walls, [])._replace(is_canonical=True)
        points = start.vertices[:, : given.dim]
        scale = float(2.0 ** min(frexp(np.abs(points).max(initial=1.0))[1], 1000))
        is_side = start.facets[:, given.dim + 1] == 0.0
        # Only the sides of space have an offset at infinity. The last column bounds the slopes.
        borders = np.delete(start.facets[is_side], [given.dim + 1, given.dim + 4], axis=1)
        known = given.kept["spatial"] = SpatialDomain(
            given.inputs,
            cell,
            start,
            start.as_struct(),
            np.ascontiguousarray(borders),
            is_bounded,
            scale,
        )
    return known


def _first_cell(given: ChartedDomain) -> tuple[ExactCell, bool]:
    """Return the facets and vertices of a domain, and whether it is bounded."""
    rows = given.cone_rows
    # The last row only keeps the homogenizing coordinate positive.
    forms = tuple((*row, 0) for row in rows[:-1])
    box = _box_cell(forms, given.dim)
    if box is not None:
        return box, True
    if forms:
        generators = cone_generators(wide_rows(rows, given.dim + 1), shown="inequalities")
        rays = [tuple(int(x) for x in ray) for ray in generators.rays.tolist()]
        if not len(generators.lineality) and all(ray[-1] > 0 for ray in rays):
            masks = tuple(map(_facet_mask, generators.incidence[:, :-1].tolist()))
            vertices = tuple((*ray[:-1], *(0,) * given.dim, ray[-1]) for ray in rays)
            return ExactCell(forms, vertices, masks), True
    cell: ExactCell | None = whole_space(given.dim)
    for form in forms:
        assert cell is not None
        check_time()
        cell = clip(cell, form)
    assert cell is not None
    return drop_redundant_forms(cell)[0], False


def _facet_mask(incidence: list[bool]) -> int:
    """Return the facets through a vertex as the bits of an integer."""
    check_time()
    return sum(1 << i for i, tight in enumerate(incidence) if tight)


def _box_cell(forms: tuple[Form, ...], dim: int) -> ExactCell | None:
    """Return the cell of a box from its forms, or None if they do not describe one."""
    sides: list[list[int]] = [[] for _ in range(2 * dim)]
    for i, form in enumerate(forms):
        axes = [k for k in range(dim) if form[k] != 0]
        if len(axes) != 1:
            return None
        sides[2 * axes[0] + (form[axes[0]] < 0)].append(i)
    if any(len(side) != 1 for side in sides):
        return None
    vertices, masks = [], []
    for corner in range(1 << dim):
        chosen = [sides[2 * k + (corner >> k & 1)][0] for k in range(dim)]
        slopes = [forms[i][k] for k, i in enumerate(chosen)]
        w = lcm(*slopes)
        point = [-forms[i][dim] * (w // a) for a, i in zip(slopes, chosen, strict=True)]
        vertices.append((*point, *(0,) * dim, w))
        masks.append(sum(1 << i for i in chosen))
    return ExactCell(forms, tuple(vertices), tuple(masks))


def round_cell(
    cell: ExactCell, walls: list[tuple[int, int, int, int]], ties: list[tuple[int, int, int]]
) -> SpaceCell:
    """Round a cell to floats, with radii.

    Args:
        cell: The cell.
        walls: The wall of each form.
        ties: The facets on which another group has two winners.
    """
    n, n_facets = len(cell.vertices), len(cell.forms)
    n_words = -(-n_facets // 64)
    vertices = []
    for vertex in cell.vertices:
        check_time()
        vertices.append(round_vertex(vertex))
    return SpaceCell(
        np.array(vertices),
        np.array([round_form(form) for form in cell.forms]),
        np.array(walls, dtype=np.int32).reshape(n_facets, 4),
        mask_words(cell.masks, n_words).reshape(n, n_words),
        np.array(ties, dtype=np.int32).reshape(-1, 3),
        np.zeros(n_facets, dtype=np.int32),
        np.full(n_facets, -1, dtype=np.int32),
        False,
    )


def round_form(form: Form) -> list[float]:
    """Return a facet as a row of `SpaceCell.facets`: scaled and rounded, with radii."""
    dim = len(form) - 2
    reduced = primitive(form)
    # A power of two divides exactly, and makes every slope at most 1.
    unit = 1 << max(abs(x).bit_length() for x in reduced[:dim])
    quotients = [enclosed_quotient(x, unit) for x in reduced]
    slopes = [value for value, _ in quotients[:dim]]
    slope_radius = max(error for _, error in quotients[:dim])
    norm = (sum(map(abs, slopes)) + dim * slope_radius) * (1.0 + 2.0**-40)
    # Only the sides of space have an offset at infinity, which is one half.
    offset, far = quotients[dim], quotients[dim + 1]
    return [*slopes, offset[0], far[0], slope_radius, offset[1], norm]


def round_vertex(vertex: Form) -> list[float]:
    """Round a vertex: the point and its radius, then the direction and its radius."""
    dim = (len(vertex) - 1) // 2
    quotients = [enclosed_quotient(x, vertex[-1]) for x in vertex[:-1]]
    row: list[float] = []
    for part in (quotients[:dim], quotients[dim:]):
        row += [*(value for value, _ in part), max(error for _, error in part)]
    return row


def mask_words(masks: tuple[int, ...], n_words: int) -> Any:
    """Return masks as 64-bit words, shape `(n_masks, n_words)`."""
    full = (1 << 64) - 1
    words = [[mask >> 64 * w & full for w in range(n_words)] for mask in masks]
    return np.array(words, dtype=np.uint64).reshape(len(masks), n_words)
