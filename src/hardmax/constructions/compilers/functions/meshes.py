r"""Functions given by their values at the vertices of a triangulated mesh.

**Convex functions that are affine on the simplices, with kinks at the required facets.**

A mesh is *regular* if there are heights at its vertices with a strictly convex interpolant. For a
Delaunay mesh without cospherical neighbours, the heights $|x|^2$ have this property. For other
meshes a linear program finds heights if they exist. Both are proposals in floats or rationals that
the caller checks exactly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpq
from scipy.sparse import csr_array, eye_array, hstack, vstack

from hardmax._ground.arguments import Sizes, integer, read_only_copy
from hardmax._ground.display import html_card
from hardmax.constructions.compilers.functions.convex_differences import (
    MAX_PIECES,
    maxout_from_pieces,
)
from hardmax.constructions.compilers.functions.exact_pieces import (
    ExactPieces,
    SharedFacet,
    interpolating_forms,
)
from hardmax.constructions.compilers.functions.mesh_checks import (
    MeshComplex,
    merge_vertices,
    mesh_complex,
)
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm, exact_numbers, read_box
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import homogeneous_points, nearest_floats, scaled_integers
from hardmax.geometry.domains import Box
from hardmax.geometry.linear_programs import maximise
from hardmax.typing import FloatArray, IntArray, WideArray

_MOST_FACETS = 40_000
"""More facets than in any mesh whose transformer fits into memory."""
_MOST_FACETS_SIMPLEX = 12_000
"""The simplex method takes seconds for 9000 facets and minutes for 20,000."""
_STEP = 2.0**-24
"""Resolution to which heights are rounded, relative to the deepest kink."""
_MARGIN = 2.0**-20
"""Margin added to the constraints of the linear program, so that an approximate solution satisfies
the original constraints; solvers are accurate to 1e-7."""


def lifted_by_squared_norm(mesh: MeshComplex) -> WideArray:
    r"""Return a multiple of the interpolant of $|x - m|^2$, where $m$ is the centre of the mesh.

    The factor makes the largest height about 1.

    Returns:
        The forms as flint rationals, shape `(n_simplices, 1, dim + 1)`.
    """
    places = _to_places(mesh)
    used = nearest_floats(places[np.unique(mesh.simplices)])
    middle = exact_numbers(used.min(axis=0) / 2 + used.max(axis=0) / 2)
    heights = ((places - middle) ** 2).sum(axis=1)
    largest = max(heights[np.unique(mesh.simplices)].tolist())
    return _interpolate(mesh, heights / (fmpq(2) ** _estimate_logarithm(largest)))


def lifted_by_linear_program(mesh: MeshComplex, kinks: WideArray) -> WideArray | None:
    r"""Find the smallest heights whose interpolant compensates all concave kinks of the function.

    Let $n_F$ be the depth of the concave kink at a facet $F$, measured at the apex beyond it. The
    linear program minimizes $\max_v |h_v|$, subject to a kink of $h$ of at least $n_F$ at each $F$,
    and of at least a millionth of the largest $n_F$ everywhere. The rounding error of a difference
    of maxima is proportional to $\max_v |h_v|$ if each piece is evaluated from a point of its own
    cell (`token_origins`).

    Args:
        mesh: The mesh.
        kinks: The kinks of the outputs to be lifted, shape `(n_facets, n_outputs)`.

    Returns:
        The forms as flint rationals, shape `(n_simplices, 1, dim + 1)`; None if the program is too
        large or has no solution.
    """
    used = np.unique(mesh.simplices)
    n, n_facets = len(used), len(mesh.facets)
    if n_facets > _MOST_FACETS:
        return None
    columns = {v: k for k, v in enumerate(used.tolist())}
    places = _to_places(mesh)
    n_corners = mesh.simplices.shape[1]
    entries, need = np.empty((n_facets, n_corners + 1)), np.empty(n_facets, dtype=object)
    where = np.empty((n_facets, n_corners + 1), dtype=np.int64)
    for k, facet in enumerate(mesh.facets):
        simplex, place = mesh.simplices[facet.one].tolist(), places[facet.apex]
        weights = [
            _evaluate_row(row, place) / _evaluate_row(row, places[v])
            for v, row in zip(simplex, mesh.rows[facet.one], strict=True)
        ]
        # Relative to a thin simplex, the apex is far away. Dividing by the weights balances rows.
        total = sum(map(abs, weights), fmpq(1))
        scaled = [weight / total for weight in (*weights, fmpq(-1))]
        entries[k] = nearest_floats(np.array(scaled, dtype=object))
        where[k] = [columns[v] for v in (*simplex, facet.apex)]
        deepest = max(fmpq(0), *(-kink for kink in kinks[k].tolist()))
        need[k] = deepest * abs(_evaluate_row(facet.row, place)) / total
    largest = fmpq(2) ** _estimate_logarithm(max(need.tolist()))
    relative = nearest_floats(need / largest)
    starts = np.arange(n_facets + 1) * (n_corners + 1)
    # Kinks add up over the mesh. In this unit, the heights are neither large nor small.
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
        # This is not a proof. The caller checks the heights in rational arithmetic.
        if solution is not None and (program[1] @ solution <= program[2] + _MARGIN / 2).all():
            break
        solution = None
    if solution is None:
        return None
    heights = np.array([fmpq(0)] * len(mesh.points), dtype=object)
    # Round to few digits, within the margin. On a lattice, forms are then exact.
    heights[used] = exact_numbers(np.round(solution[:n] * unit / _STEP) * _STEP) * largest
    return _interpolate(mesh, heights)


def _to_places(mesh: MeshComplex) -> WideArray:
    return np.array(
        [[fmpq(x, point[-1]) for x in point[:-1]] for point in mesh.points.tolist()], dtype=object
    )


def _evaluate_row(row: tuple[int, ...], place: WideArray) -> fmpq:
    return sum((a * b for a, b in zip(row, place.tolist(), strict=False)), fmpq(row[-1]))


def _estimate_logarithm(number: fmpq) -> int:
    """Return the logarithm of a positive rational to base 2, with an error of at most 1."""
    return int(number.p).bit_length() - int(number.q).bit_length()


def _interpolate(mesh: MeshComplex, heights: WideArray) -> WideArray:
    return np.stack(
        [
            interpolating_forms(corners, heights[simplex][:, None])
            for corners, simplex in zip(mesh.corners, mesh.simplices, strict=True)
        ]
    )


@dataclass(frozen=True, eq=False)
class Mesh:
    r"""The function that is affine on each simplex of a mesh, given by its values at the vertices.

    The simplices must fill a convex set and meet face to face, so that the function is continuous.
    This is checked exactly when the pieces are first needed.

    Attributes:
        vertices: The vertices, shape `(n_vertices, dim)`. A point may occur twice if the values
            agree.
        simplices: The indices of the vertices of each simplex, in any order, shape
            `(n_simplices, dim + 1)` (as in `scipy.spatial.Delaunay.simplices`).
        values: The values at the vertices, shape `(n_vertices,)`, or `(n_vertices, dim_out)` for a
            vector-valued function.

    Examples:
        >>> square = Mesh([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])
        >>> square.dim, square.dim_out, len(square.simplices)
        (2, 1, 2)
        >>> torn = Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0.0, 0.0, 5.0, 5.0])
        >>> torn.pieces
        Traceback (most recent call last):
            ...
        hardmax.errors.DiscontinuityError: `values` must describe a continuous function, but at
        (1.0) the function jumps between 0.0 (vertices[1]) and 5.0 (vertices[2]).
    """

    vertices: FloatArray
    simplices: IntArray
    values: FloatArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        counts = f"{len(self.simplices)} simplices, {len(self.vertices)} vertices"
        return f"Mesh({counts}, R^{self.dim} -> R^{self.dim_out})"

    def __post_init__(self) -> None:
        sizes = Sizes()
        vertices = sizes.floats("vertices", self.vertices, ("n_vertices", "dim"))
        corners = Sizes().ints("simplices", self.simplices, ("n_simplices", sizes["dim"] + 1))
        if np.ndim(self.values) == 1:
            values = sizes.floats("values", self.values, ("n_vertices",))[:, None]
        else:
            values = sizes.floats("values", self.values, ("n_vertices", "dim_out"))
        outside = (corners < 0) | (corners >= len(vertices))
        if outside.any():
            i, k = np.argwhere(outside)[0].tolist()
            raise ArgumentError(
                f"`simplices` must contain indices from 0 to {len(vertices) - 1}; got "
                f"simplices[{i}, {k}] = {corners[i, k]}."
            )
        frozen = corners.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "vertices", read_only_copy(vertices))
        object.__setattr__(self, "simplices", frozen)
        object.__setattr__(self, "values", read_only_copy(values))

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.vertices.shape[1])

    @property
    def dim_out(self) -> int:
        """The number of outputs."""
        return int(self.values.shape[1])

    @cached_property
    def _complex(self) -> MeshComplex:
        names = merge_vertices(self.vertices, self.values)
        return mesh_complex(
            homogeneous_points(self.vertices), names[self.simplices], self.interpolate_exactly
        )

    def interpolate_exactly(self, simplex: int) -> WideArray:
        """Return the exact forms on a simplex as flint rationals: shape `(dim_out, dim + 1)`.

        Args:
            simplex: The index of the simplex.
        """
        points = homogeneous_points(self.vertices[self.simplices[simplex]])
        return interpolating_forms(points, self._scaled_values[self.simplices[simplex]])

    @cached_property
    def _scaled_values(self) -> WideArray:
        scaled = scaled_integers(self.values)
        scale = fmpq(2) ** scaled.exponent
        return np.asarray(scaled.integers * scale, dtype=object)

    @cached_property
    def pieces(self) -> ExactPieces:
        """The exact pieces of the function, one for each simplex, after a check of continuity.

        Raises:
            DiscontinuityError: If two simplices or vertices have different values at the same
                point. The message states the point and the values.
            ArgumentError: If the simplices do not meet face to face, overlap, have a hole, or do
                not fill a convex set. The message states the point.
        """
        complex_ = self._complex
        forms = np.stack([self.interpolate_exactly(i) for i in range(len(self.simplices))])
        facets = tuple(SharedFacet(f.one, f.other, f.row) for f in complex_.facets)
        return ExactPieces(forms, facets, complex_.corners, complex_.rows)


def maxout_from_mesh(mesh: Mesh, box: Box | str, *, max_pieces: int = MAX_PIECES) -> MaxoutForm:
    r"""Write the interpolant of a mesh as a maxout network with one hidden layer.

    A lifting is a convex function that is affine on each simplex and strictly convex where the
    interpolant is concave. On a Delaunay mesh the interpolant of $|x|^2$ is a lifting; on a regular
    mesh a linear program finds one. Both are checked exactly. The network then has one unit for
    each output and one shared unit, each with at most one form per simplex. On any other mesh the
    concave kinks are filled along their hyperplanes.

    The gradients on the simplices are rationals and are rounded to float64, which changes the
    function by at most `rounding`. Outside the mesh the interpolant is not defined, and the values
    of the network are unspecified.

    Args:
        mesh: The mesh with its values.
        box: The box on which rounding is bounded: a `Box`, or its text. It must meet the mesh.
        max_pieces: The maximum number of pieces created by filling concave kinks.

    Raises:
        DiscontinuityError: If the function jumps.
        ArgumentError: If the simplices do not fill a convex set face to face, or if the box does
            not meet the mesh.
        SizeLimitError: If the mesh is not regular and filling kinks could exceed `max_pieces`.

    Examples:
        >>> square = Mesh([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])
        >>> form = maxout_from_mesh(square, Box([0, 0], [1, 1]))
        >>> form.method, form.network, form.rounding.tolist()
        ('convex', MaxoutNetwork(2 -> [1] -> 1, ranks 2 to 2), [0.0])
        >>> form.network([[0.75, 0.5], [0.25, 0.5]]).tolist()
        [[0.25], [0.0]]
    """
    limit = integer("max_pieces", max_pieces, at_least=1)
    box = read_box(box, mesh.dim)
    require_meeting(mesh, box)
    pieces = mesh.pieces
    complex_ = mesh._complex
    liftings = [
        ("lifting", lambda kinks: lifted_by_squared_norm(complex_)),
        ("lifting", lambda kinks: lifted_by_linear_program(complex_, kinks)),
    ]
    return maxout_from_pieces(pieces, box, liftings, max_pieces=limit)


def require_meeting(mesh: Mesh, box: Box) -> None:
    """Raise an error if a box does not meet the mesh."""
    used = mesh.vertices[np.unique(mesh.simplices)]
    apart = (used.max(axis=0) < box.low) | (used.min(axis=0) > box.high)
    if apart.any():
        raise ArgumentError(
            "`box` must meet the mesh, but they are disjoint along coordinate "
            f"{int(apart.argmax())}."
        )
