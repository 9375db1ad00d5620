r"""Convex functions that are affine on the simplices of a mesh, with kinks where they are needed.

A mesh is *regular* if some heights at its vertices make a strictly convex interpolant. The heights
$|x|^2$ do so for a Delaunay mesh without cospherical neighbours; otherwise a linear program finds
heights if there are any. Both are proposals in floats or rationals that the caller checks exactly.
"""

import numpy as np
from flint import fmpq
from scipy.sparse import csr_array, eye_array, hstack, vstack

from hardmax.constructions.compilers.functions.exact_pieces import interpolating_forms
from hardmax.constructions.compilers.functions.mesh_checks import MeshComplex
from hardmax.constructions.compilers.maxout_assembly import exact_numbers
from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.linear_programs import maximise
from hardmax.typing import WideArray

_MOST_FACETS = 40_000
"""More than the meshes whose transformers fit into memory have."""
_MOST_FACETS_SIMPLEX = 12_000
"""The simplex method takes seconds for 9000 facets, minutes for 20,000."""
_STEP = 2.0**-24
"""The digits that heights are rounded to, relative to the deepest kink."""
_MARGIN = 2.0**-20
"""What the program asks for beyond the need, so that its solution keeps it: solvers are within
1e-7."""


def lifted_by_squared_norm(mesh: MeshComplex) -> WideArray:
    r"""Return a multiple of the interpolant of $|x - m|^2$, $m$ the middle of the mesh.

    The multiple makes the largest height about 1.

    Returns:
        Shape `(n_simplices, 1, dim + 1)`, flint rationals.
    """
    places = _places(mesh)
    used = nearest_floats(places[np.unique(mesh.simplices)])
    middle = exact_numbers(used.min(axis=0) / 2 + used.max(axis=0) / 2)
    heights = ((places - middle) ** 2).sum(axis=1)
    largest = max(heights[np.unique(mesh.simplices)].tolist())
    return _interpolant(mesh, heights / (fmpq(2) ** _logarithm(largest)))


def lifted_by_linear_program(mesh: MeshComplex, kinks: WideArray) -> WideArray | None:
    r"""Look for the flattest heights whose interpolant is as convex as the function is concave.

    With $n_F$ the depth of the concave kink at a facet $F$, seen at the apex beyond it, the program
    minimises $\max_v |h_v|$ subject to a kink of $h$ of at least $n_F$ there, and of a millionth of
    the largest everywhere. What a difference of maxima loses to rounding is proportional to
    $\max_v |h_v|$, if each piece is evaluated from a point of its own cell (`token_origins`).

    Args:
        mesh: The mesh.
        kinks: Of the outputs to be lifted, shape `(n_facets, n_outputs)`.

    Returns:
        Shape `(n_simplices, 1, dim + 1)`, flint rationals; None if the program is too large or has
        no solution.
    """
    used = np.unique(mesh.simplices)
    n, n_facets = len(used), len(mesh.facets)
    if n_facets > _MOST_FACETS:
        return None
    columns = {v: k for k, v in enumerate(used.tolist())}
    places = _places(mesh)
    n_corners = mesh.simplices.shape[1]
    entries, need = np.empty((n_facets, n_corners + 1)), np.empty(n_facets, dtype=object)
    where = np.empty((n_facets, n_corners + 1), dtype=np.int64)
    for k, facet in enumerate(mesh.facets):
        simplex, place = mesh.simplices[facet.one].tolist(), places[facet.apex]
        weights = [
            _height(row, place) / _height(row, places[v])
            for v, row in zip(simplex, mesh.rows[facet.one], strict=True)
        ]
        # Seen from a sliver the apex is far away; dividing by the weights makes rows alike.
        total = sum(map(abs, weights), fmpq(1))
        scaled = [weight / total for weight in (*weights, fmpq(-1))]
        entries[k] = nearest_floats(np.array(scaled, dtype=object))
        where[k] = [columns[v] for v in (*simplex, facet.apex)]
        deepest = max(fmpq(0), *(-kink for kink in kinks[k].tolist()))
        need[k] = deepest * abs(_height(facet.row, place)) / total
    largest = fmpq(2) ** _logarithm(max(need.tolist()))
    relative = nearest_floats(need / largest)
    starts = np.arange(n_facets + 1) * (n_corners + 1)
    # Kinks add up over the mesh: in this unit the heights are neither large nor small.
    unit = float(n_facets)
    convex = csr_array((unit * entries.ravel(), where.ravel(), starts), shape=(n_facets, n + 1))
    caps = [hstack([sign * eye_array(n), -np.ones((n, 1))]) for sign in (1.0, -1.0)]
    program = (
        np.r_[np.zeros(n), -1.0],
        vstack([convex, *caps]),
        np.r_[-relative - _MARGIN, np.zeros(2 * n)],
    )
    solution = None
    for interior in (True, False) if n_facets <= _MOST_FACETS_SIMPLEX else (True,):
        solution = maximise(*program, interior=interior)
        # Not a proof: the caller decides in rationals whether the heights will do.
        if solution is not None and (program[1] @ solution <= program[2] + _MARGIN / 2).all():
            break
        solution = None
    if solution is None:
        return None
    heights = np.array([fmpq(0)] * len(mesh.points), dtype=object)
    # Few digits, within the margin: forms on a lattice are then exact and have no slivers.
    heights[used] = exact_numbers(np.round(solution[:n] * unit / _STEP) * _STEP) * largest
    return _interpolant(mesh, heights)


def _places(mesh: MeshComplex) -> WideArray:
    return np.array(
        [[fmpq(x, point[-1]) for x in point[:-1]] for point in mesh.points.tolist()], dtype=object
    )


def _height(row: tuple[int, ...], place: WideArray) -> fmpq:
    return sum((a * b for a, b in zip(row, place.tolist(), strict=False)), fmpq(row[-1]))


def _logarithm(number: fmpq) -> int:
    """Return the logarithm of a positive rational to base 2, to within 1."""
    return int(number.p).bit_length() - int(number.q).bit_length()


def _interpolant(mesh: MeshComplex, heights: WideArray) -> WideArray:
    return np.stack(
        [
            interpolating_forms(corners, heights[simplex][:, None])
            for corners, simplex in zip(mesh.corners, mesh.simplices, strict=True)
        ]
    )
