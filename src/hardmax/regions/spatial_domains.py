"""The first cell of a spatial search: a domain with its vertices and facets."""

from math import lcm
from typing import Any, NamedTuple

import numpy as np

from hardmax._kernels.spatial_buffers import (
    FAR,
    MOST_DIMENSIONS,
    N_EXTRA,
    NORM,
    OFFSET_RADIUS,
    RADIUS,
)
from hardmax.errors import ArgumentError
from hardmax.geometry.double_description import cone_generators
from hardmax.geometry.integer_vectors import primitive, wide_rows
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.planar_domains import divided
from hardmax.regions.spatial_polytopes import (
    ExactCell,
    Form,
    clipped,
    space,
    with_facets_only,
)
from hardmax.typing import FloatArray


class SpatialDomain(NamedTuple):
    """A domain as the search starts with it.

    Attributes:
        charted: The domain.
        cell: Its facets and vertices.
        is_bounded: Whether no vertex is at infinity.
    """

    charted: ChartedDomain
    cell: ExactCell
    is_bounded: bool


def spatial_domain(domain: Any, dim_in: int) -> SpatialDomain:
    """Read a domain.

    Raises:
        ArgumentError: If the domain lies in another space, has no interior, or has more dimensions
            than the search can take.
    """
    given = charted(domain, dim_in)
    if given.dim > MOST_DIMENSIONS:
        raise ArgumentError(
            f"`domain` must have at most {MOST_DIMENSIONS} dimensions for the search by vertices; "
            f"got {given.dim}."
        )
    rows = given.cone_rows
    # The last row only keeps the homogenising coordinate positive.
    forms = tuple((*row, 0) for row in rows[:-1])
    box = _box(forms, given.dim)
    if box is not None:
        return SpatialDomain(given, box, True)
    if forms:
        generators = cone_generators(wide_rows(rows, given.dim + 1))
        rays = [tuple(int(x) for x in ray) for ray in generators.rays.tolist()]
        if not len(generators.lineality) and all(ray[-1] > 0 for ray in rays):
            masks = tuple(
                sum(int(tight) << i for i, tight in enumerate(incidence))
                for incidence in generators.incidence[:, :-1].tolist()
            )
            vertices = tuple((*ray[:-1], *(0,) * given.dim, ray[-1]) for ray in rays)
            return SpatialDomain(given, ExactCell(forms, vertices, masks), True)
    cell: ExactCell | None = space(given.dim)
    for form in forms:
        assert cell is not None
        cell = clipped(cell, form)
    assert cell is not None
    return SpatialDomain(given, with_facets_only(cell)[0], False)


def _box(forms: tuple[Form, ...], dim: int) -> ExactCell | None:
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


def rounded_form(form: Form) -> FloatArray:
    """Return the pool row of a form: scaled, rounded, with radii."""
    dim = len(form) - 2
    row = np.zeros(dim + N_EXTRA)
    reduced = primitive(form)
    # A power of two divides exactly, and makes every slope at most 1.
    unit = 1 << max(abs(x).bit_length() for x in reduced[:dim])
    quotients = [divided(x, unit) for x in reduced]
    row[: dim + 1] = [value for value, _ in quotients[: dim + 1]]
    row[dim + RADIUS] = max(error for _, error in quotients[:dim])
    row[dim + OFFSET_RADIUS] = quotients[dim][1]
    norm = float(np.abs(row[:dim]).sum()) + dim * float(row[dim + RADIUS])
    row[dim + NORM] = norm * (1.0 + 2.0**-40)
    # Only the sides of space have this entry, and there it is a half.
    row[dim + FAR] = quotients[dim + 1][0]
    return row


def rounded_vertex(vertex: Form, is_bounded: bool) -> list[float]:
    """Return a vertex, rounded, and its radius; on an unbounded domain its direction as well."""
    dim = (len(vertex) - 1) // 2
    quotients = [divided(x, vertex[-1]) for x in vertex[:-1]]
    row: list[float] = []
    for part in (quotients[:dim],) if is_bounded else (quotients[:dim], quotients[dim:]):
        row += [*(value for value, _ in part), max(error for _, error in part)]
    return row


def mask_words(masks: tuple[int, ...], n_words: int) -> Any:
    """Return masks as 64-bit words, shape `(n_masks, n_words)`."""
    full = (1 << 64) - 1
    words = [[mask >> 64 * w & full for w in range(n_words)] for mask in masks]
    return np.array(words, dtype=np.uint64).reshape(len(masks), n_words)
