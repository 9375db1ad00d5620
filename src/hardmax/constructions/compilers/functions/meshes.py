r"""Functions given by their values at the vertices of a triangulated mesh."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import Sizes, integer, owned
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
from hardmax.constructions.compilers.functions.mesh_liftings import (
    lifted_by_linear_program,
    lifted_by_squared_norm,
)
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm, read_box
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import homogeneous_points, scaled_integers
from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class Mesh:
    r"""The function that is affine on each simplex and takes given values at the vertices.

    The simplices fill a convex set and meet face to face, so the function is continuous. This is
    decided in integers when the pieces are first needed.

    Attributes:
        vertices: Shape `(n_vertices, dim)`. A point may occur twice if its values agree.
        simplices: Indices of vertices, shape `(n_simplices, dim + 1)`, in any order within a
            simplex (as in `scipy.spatial.Delaunay.simplices`).
        values: Shape `(n_vertices,)`, or `(n_vertices, dim_out)` for a vector-valued function.

    Examples:
        >>> square = Mesh([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])
        >>> square.dim, square.dim_out, len(square.simplices)
        (2, 1, 2)
        >>> torn = Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0.0, 0.0, 5.0, 5.0])
        >>> torn.pieces
        Traceback (most recent call last):
            ...
        hardmax.errors.DiscontinuityError: `values` must be those of a continuous function; at (1.0)
        it jumps between 0.0 (vertices[1]) and 5.0 (vertices[2]).
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
                f"`simplices` must hold indices from 0 to {len(vertices) - 1}; got "
                f"simplices[{i}, {k}] = {corners[i, k]}."
            )
        frozen = corners.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "vertices", owned(vertices))
        object.__setattr__(self, "simplices", frozen)
        object.__setattr__(self, "values", owned(values))

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
        """Return the forms on one simplex as flint rationals: shape `(dim_out, dim + 1)`."""
        points = homogeneous_points(self.vertices[self.simplices[simplex]])
        return interpolating_forms(points, self._scaled_values[self.simplices[simplex]])

    @cached_property
    def _scaled_values(self) -> WideArray:
        scaled = scaled_integers(self.values)
        scale = fmpq(2) ** scaled.exponent
        return np.asarray(scaled.integers * scale, dtype=object)

    @cached_property
    def pieces(self) -> ExactPieces:
        """The function in rationals, simplex by simplex, checked to be continuous.

        Raises:
            DiscontinuityError: If two simplices or vertices give one place two values; the message
                names the place and the values.
            ArgumentError: If the mesh is not conforming, overlaps itself, has a hole, or does not
                fill a convex set; the message names the place.
        """
        complex_ = self._complex
        forms = np.stack([self.interpolate_exactly(i) for i in range(len(self.simplices))])
        facets = tuple(SharedFacet(f.one, f.other, f.row) for f in complex_.facets)
        return ExactPieces(forms, facets, complex_.corners, complex_.rows)


def maxout_from_mesh(mesh: Mesh, box: Box, *, max_pieces: int = MAX_PIECES) -> MaxoutForm:
    r"""Write the interpolant of a mesh as a maxout network of one hidden layer.

    On a Delaunay mesh the interpolant of $|x|^2$ is a lifting, on a regular mesh a linear program
    finds one; both are checked in rationals. Then the network has one unit for each output and one
    shared unit, each with at most one form for each simplex. On any other mesh the concave kinks
    are filled along their hyperplanes (see `facet_kinks`).

    The gradients on the simplices are rationals and become float64, which moves the function by at
    most `rounding`. Where the box leaves the mesh the interpolant is not defined, and the network
    continues it in some way.

    Args:
        mesh: The mesh with its values.
        box: Where rounding is bounded; it must meet the mesh.
        max_pieces: How many pieces filling concave kinks may make.

    Raises:
        DiscontinuityError: If the function jumps.
        ArgumentError: If the mesh does not fill a convex set face to face.
        SizeLimitError: If the mesh is not regular and filling could exceed `max_pieces`.

    Examples:
        >>> square = Mesh([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])
        >>> form = maxout_from_mesh(square, Box([0, 0], [1, 1]))
        >>> form.method, form.network, form.rounding.tolist()
        ('convex', MaxoutNetwork(2 -> [1] -> 1, ranks 2 to 2), [0.0])
        >>> form.network([[0.75, 0.5], [0.25, 0.5]]).tolist()
        [[0.25], [0.0]]
    """
    limit = integer("max_pieces", max_pieces, at_least=1)
    require_meeting(mesh, box)
    pieces = mesh.pieces
    complex_ = mesh._complex
    liftings = [
        ("lifting", lambda kinks: lifted_by_squared_norm(complex_)),
        ("lifting", lambda kinks: lifted_by_linear_program(complex_, kinks)),
    ]
    return maxout_from_pieces(pieces, box, liftings, max_pieces=limit)


def require_meeting(mesh: Mesh, box: Box) -> None:
    """Refuse a box in another space, or apart from the mesh."""
    read_box(box, mesh.dim)
    used = mesh.vertices[np.unique(mesh.simplices)]
    apart = (used.max(axis=0) < box.low) | (used.min(axis=0) > box.high)
    if apart.any():
        raise ArgumentError(
            f"`box` must meet the mesh; they are apart along coordinate {int(apart.argmax())}."
        )
