r"""Decide in integers whether simplices fill a convex set face to face.

Three conditions suffice. (1) Each facet belongs to one simplex only, or to two simplices on its two
sides. (2) No vertex lies beyond the hyperplane of a facet that belongs to one simplex only. (3) One
point in general position lies in exactly one simplex. *Proof.* By (2), a facet that belongs to one
simplex only does not meet the interior of the convex hull. Hence, away from faces of lower
dimension, the number of simplices that contain a point is constant in the interior: a path that
crosses a facet leaves one simplex and enters another, by (1). By (3), this number is 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpz_mat

from hardmax.constructions.compilers.functions.exact_pieces import (
    describe,
    describe_values,
    exact_values_at,
)
from hardmax.errors import ArgumentError, DiscontinuityError
from hardmax.exact.dyadic import homogeneous_points
from hardmax.exact.integer_vectors import Vector, null_space, wide_rows
from hardmax.typing import FloatArray, IntArray, WideArray

Forms = Callable[[int], WideArray]
"""Returns the forms on a simplex, for error messages."""


class MeshFacet(NamedTuple):
    """A facet between two simplices.

    Attributes:
        one: The simplex on the positive side.
        other: The simplex on the negative side.
        row: The primitive integers of its hyperplane.
        apex: The vertex of `other` that is not on the facet.
    """

    one: int
    other: int
    row: Vector
    apex: int


class MeshComplex(NamedTuple):
    """A mesh whose simplices fill a convex set face to face.

    Attributes:
        points: Integers proportional to $(x, 1)$, shape `(n_vertices, dim + 1)`.
        simplices: The indices of vertices; equal points have equal indices.
        facets: The facets between simplices.
        corners: The points of each simplex.
        rows: For each simplex, one row per vertex, which is zero on the facet opposite to the
            vertex and positive at the vertex.
    """

    points: WideArray
    simplices: IntArray
    facets: tuple[MeshFacet, ...]
    corners: list[WideArray]
    rows: list[list[Vector]]


def merge_vertices(vertices: FloatArray, values: FloatArray) -> IntArray:
    """Return, for each vertex, the first vertex at the same place.

    Raises:
        DiscontinuityError: If two vertices at one place have different values.
    """
    first: dict[Vector, int] = {}
    names = np.empty(len(vertices), dtype=np.int64)
    for i, point in enumerate(map(tuple, homogeneous_points(vertices).tolist())):
        names[i] = k = first.setdefault(point, i)
        if not np.array_equal(values[i], values[k]):
            raise DiscontinuityError(
                "`values` must describe a continuous function, but at "
                f"({', '.join(map(repr, vertices[i].tolist()))}) the function jumps between "
                f"{describe_values(values[k].tolist())} (vertices[{k}]) and "
                f"{describe_values(values[i].tolist())} (vertices[{i}])."
            )
    return names


def mesh_complex(points: WideArray, simplices: IntArray, forms: Forms) -> MeshComplex:
    """Check that simplices form a mesh.

    Raises:
        DiscontinuityError: If two simplices have different values at the same point.
        ArgumentError: If a simplex is flat, or one of the three conditions fails. The message
            states the point and, if it helps, the vertex at which to split a simplex.
    """
    n = points.shape[1]
    corners = [np.asarray(points[simplex], dtype=object) for simplex in simplices]
    for i, corner in enumerate(corners):
        if fmpz_mat(n, n, corner.ravel().tolist()).det() == 0:
            raise ArgumentError(
                f"`simplices` must have nonempty interior; simplices[{i}] with the vertices "
                f"{simplices[i].tolist()} is flat. Remove it."
            )
    owners: dict[Vector, list[tuple[int, int, Vector]]] = {}
    rows: list[list[Vector]] = []
    planes: dict[Vector, Vector] = {}
    for i, simplex in enumerate(simplices.tolist()):
        rows.append([])
        for apex in simplex:
            name = tuple(sorted(v for v in simplex if v != apex))
            if name not in planes:
                planes[name] = null_space([tuple(points[v].tolist()) for v in name], n)[0]
            plane = planes[name]
            positive = sum(a * b for a, b in zip(plane, points[apex].tolist(), strict=True)) > 0
            row = plane if positive else tuple(-x for x in plane)
            rows[-1].append(row)
            owners.setdefault(name, []).append((i, apex, row))
    complex_ = MeshComplex(points, simplices, _list_facets(owners), corners, rows)
    _refuse_overlap_at_facets(complex_, owners, forms)
    _refuse_inner_boundary(complex_, owners, forms)
    _refuse_overlaps(complex_, forms)
    return complex_


def _list_facets(owners: dict[Vector, list[tuple[int, int, Vector]]]) -> tuple[MeshFacet, ...]:
    pairs = [both for both in owners.values() if len(both) == 2]
    return tuple(MeshFacet(one[0], two[0], one[2], two[1]) for one, two in pairs)


def _refuse_overlap_at_facets(
    mesh: MeshComplex, owners: dict[Vector, list[tuple[int, int, Vector]]], forms: Forms
) -> None:
    for name, sharing in owners.items():
        for k, (i, apex, row) in enumerate(sharing):
            same = next((other for other in sharing[:k] if other[2] == row), None)
            if same is not None:
                middle = _weighted_mean(mesh.points[list(name)])
                target, step = _to_point(mesh.points[apex]), fmpq(1, 2)
                # Close to the facet, both simplices are on the same side.
                while not _is_inside(mesh.rows[same[0]], middle + (target - middle) * step):
                    step /= 2
                place = middle + (target - middle) * step
                raise _conflict_error(same[0], i, place, forms, "overlap")


def _refuse_inner_boundary(
    mesh: MeshComplex, owners: dict[Vector, list[tuple[int, int, Vector]]], forms: Forms
) -> None:
    used = np.unique(mesh.simplices)
    for name, sharing in owners.items():
        if len(sharing) == 2:
            continue
        i, _, row = sharing[0]
        heights = mesh.points[used] @ np.array(row, dtype=object)
        if all(height >= 0 for height in heights.tolist()):
            continue
        on_facet = [
            v for v, height in zip(used.tolist(), heights.tolist(), strict=True) if height == 0
        ]
        places = [_to_point(mesh.points[v]) for v in on_facet]
        middle = _weighted_mean(mesh.points[list(name)])
        met: ArgumentError | None = None
        for place in [*places, middle]:
            if not _is_inside(mesh.rows[i], place, closed=True):
                continue
            for k, rows in enumerate(mesh.rows):
                # At a common vertex, the values agree.
                if k == i or not _is_inside(rows, place, closed=True):
                    continue
                jumps = exact_values_at(forms(i), place) != exact_values_at(forms(k), place)
                if jumps or place is middle:
                    how, remedy = "do not meet face to face", _suggest_fix(mesh, i, k)
                    met = _conflict_error(i, k, place, forms, how, remedy)
                    if jumps:
                        raise met
        if met is not None:
            raise met
        raise ArgumentError(
            "`simplices` must fill a convex set, but there is no simplex beyond the facet with the "
            f"vertices {list(name)} of simplices[{i}], at {describe(middle)}, although the mesh "
            "has vertices there. Fill the hole or the dent, or remove a part of the mesh."
        )


def _refuse_overlaps(mesh: MeshComplex, forms: Forms) -> None:
    rng = np.random.default_rng(0)
    while True:
        weights = rng.integers(1, 2**40, size=len(mesh.corners[0])).tolist()
        place = _weighted_mean(mesh.corners[0], weights)
        closed = [k for k, rows in enumerate(mesh.rows) if _is_inside(rows, place, closed=True)]
        if all(_is_inside(mesh.rows[k], place) for k in closed):
            break
    if len(closed) > 1:
        raise _conflict_error(closed[0], closed[1], place, forms, "overlap")


def _suggest_fix(mesh: MeshComplex, i: int, k: int) -> str:
    """Return advice for two simplices that do not meet face to face."""
    for large, small in ((i, k), (k, i)):
        for v in np.setdiff1d(mesh.simplices[small], mesh.simplices[large]).tolist():
            if _is_inside(mesh.rows[large], _to_point(mesh.points[v]), closed=True):
                return f". Split simplices[{large}] at vertices[{v}]"
    return ""


def _conflict_error(
    i: int, k: int, place: WideArray, forms: Forms, how: str, remedy: str = ""
) -> ArgumentError:
    one, other = exact_values_at(forms(i), place), exact_values_at(forms(k), place)
    values = (
        f"the function jumps between {describe_values(one)} and {describe_values(other)}"
        if one != other
        else f"both give {describe_values(one)}"
    )
    kind = ArgumentError if one == other else DiscontinuityError
    return kind(
        "`simplices` must fill a convex set face to face, but simplices"
        f"[{i}] and simplices[{k}] {how} at {describe(place)}, where {values}{remedy}."
    )


def _to_point(homogeneous: WideArray) -> WideArray:
    *x, weight = homogeneous.tolist()
    return np.array([fmpq(entry, weight) for entry in x], dtype=object)


def _weighted_mean(points: WideArray, weights: Sequence[int] | None = None) -> WideArray:
    given = [1] * len(points) if weights is None else weights
    total = sum(w * _to_point(p) for w, p in zip(given, points, strict=True))
    return np.asarray(total / sum(given), dtype=object)


def _is_inside(rows: Sequence[Vector], place: WideArray, *, closed: bool = False) -> bool:
    planes = wide_rows(list(rows), len(place) + 1)
    heights = (planes[:, :-1] @ place + planes[:, -1]).tolist()
    return all(height >= 0 if closed else height > 0 for height in heights)
