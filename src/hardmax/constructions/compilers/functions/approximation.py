r"""Universal approximation made runnable: a continuous function as a transformer.

Continuous functions on a box are limits of continuous piecewise linear ones, and these are
transformers. Here the piecewise linear function interpolates on an adaptive mesh; for a smooth
function the error falls like $n^{-2/d}$ with the number $n$ of pieces.
"""

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax.constructions.compilers.cpwl_compiler import CompiledFunction, compile_cpwl
from hardmax.constructions.compilers.functions.box_bisection import adaptive_mesh
from hardmax.constructions.compilers.functions.interpolation import (
    Sampled,
    checked_function,
    enclosing_radius,
    indicated_errors,
    measured_error,
    sampled_worst,
)
from hardmax.constructions.compilers.functions.jumps import find_jump, line_segments, mesh_segments
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.functions.probes import Probes
from hardmax.constructions.compilers.maxout_assembly import read_box
from hardmax.errors import ArgumentError, DiscontinuityError
from hardmax.exact.rounding import SMALL_RAISE
from hardmax.geometry.domains import Box
from hardmax.typing import ArrayLike, FloatArray

MOST_PIECES = 2_000
"""The transformer has a token for each piece, and its size grows with their square."""

_MOST_DIM = 3
_UNCERTAIN = 2.0**-40
"""What rounding may add to a measured error, in parts of the largest value."""


@dataclass(frozen=True, eq=False)
class Approximation:
    r"""A continuous function, its interpolant, and the transformer that computes the interpolant.

    Attributes:
        interpolant: The piecewise linear function between them.
        compiled: The transformer, within `compiled.certified_error` of the interpolant.
        n_pieces: How many simplices the mesh has.
        measured_error: The largest difference of function and interpolant that was *found*, on a
            lattice in every simplex, at 4096 points spread over the box, and by local search: a
            lower bound on the supremum, not a proof.
        worst_point: Where it was found, shape `(dim,)`.
        certified_error: A bound on $|T(x) - f(x)|$ on the whole box, transformer included, proved
            from the Lipschitz constant or the second derivatives the caller vouches for; None if
            neither was given.
    """

    interpolant: Knots | Mesh
    compiled: CompiledFunction
    n_pieces: int
    measured_error: float
    worst_point: FloatArray
    certified_error: float | None

    _repr_html_ = html_card

    def __repr__(self) -> str:
        proved = "" if self.certified_error is None else f", certified {self.certified_error:.3g}"
        errors = f"measured error {self.measured_error:.3g}{proved}"
        return f"Approximation({self.n_pieces} pieces, {errors})"

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the transformer at a point `(dim,)` or a batch `(n_points, dim)`."""
        return self.compiled.transformer(x)


def approximate(
    f: Any,
    box: Box,
    n_pieces: int,
    *,
    epsilon: float | None = None,
    lipschitz: float | None = None,
    second_derivative: float | None = None,
) -> Approximation:
    r"""Approximate a continuous function by a transformer.

    The mesh starts with the $d!$ simplices of a cube and halves longest edges where the sampled
    error of interpolation is largest: in every simplex, and at 4096 points spread over the box, so
    that a narrow peak is found even if the function is flat everywhere else. No continuous function
    is near one that jumps, so a jump that samples see on both sides (of at least $2^{-16}$ of the
    range of values) is refused; `jumps.find_jump` says how it is told from a steep slope.

    Args:
        f: A function of arrays: points of shape `(n_points, dim)` to values of shape `(n_points,)`
            or `(n_points, dim_out)`. Its values are taken as they come. In one dimension a function
            of one number will do, such as `math.sin`.
        box: The box, in 1, 2 or 3 dimensions.
        n_pieces: How many simplices the mesh may have, from $d!$ to 2000.
        epsilon: None for a hard transformer; otherwise the soft one stays within `epsilon` of the
            interpolant.
        lipschitz: A Lipschitz constant $L$ of every output in the Euclidean norm, if known.
        second_derivative: A bound $M$ on the norm of the Hessian of every output, if known.

    Returns:
        The transformer with what is known about its error: with the radius $r$ of the largest
        simplex, the interpolant is within $L r$ and within $\tfrac12 M r^2$.

    Raises:
        DiscontinuityError: If `f` jumps; the message names the place and both values.
        ArgumentError: If the dimension or the number of pieces is out of range, or `f` returns
            something else than finite values, one row for each point, or differs from its
            interpolant by more than `lipschitz` or `second_derivative` allow.

    Examples:
        >>> import numpy as np
        >>> bump = approximate(lambda x: np.exp(-x[:, 0] ** 2), Box([-2], [2]), 32,
        ...                    second_derivative=2.0)
        >>> bump.n_pieces
        32
        >>> bump.measured_error < bump.certified_error < 0.02
        True
        >>> bool(abs(bump([0.3]) - np.exp(-0.09)) < 0.01)
        True
    """
    dim = box.dim if isinstance(box, Box) else 0
    read_box(box, dim)
    if dim > _MOST_DIM:
        raise ArgumentError(f"`box` must have at most {_MOST_DIM} dimensions; got {dim}.")
    limit = integer("n_pieces", n_pieces, at_least=factorial(dim), at_most=MOST_PIECES)
    constants = [
        None if given is None else number(name, given, at_least=0.0)
        for name, given in (("lipschitz", lipschitz), ("second_derivative", second_derivative))
    ]
    sampled = checked_function(f, dim)
    probes = Probes.of(sampled, box)
    vertices, simplices = adaptive_mesh(box, limit, lambda c: indicated_errors(sampled, c, probes))
    _refuse_jumps(sampled, vertices[simplices], probes)
    values = sampled(vertices)
    interpolant = Knots(vertices[:, 0], values) if dim == 1 else Mesh(vertices, simplices, values)
    compiled = compile_cpwl(interpolant, box, epsilon)
    found, where = measured_error(sampled, vertices[simplices], probes)
    radius = enclosing_radius(vertices[simplices])
    allowed = {
        "lipschitz": None if constants[0] is None else constants[0] * radius,
        "second_derivative": None if constants[1] is None else constants[1] * radius * radius / 2.0,
    }
    bounds = {name: bound * SMALL_RAISE for name, bound in allowed.items() if bound is not None}
    for name, bound in bounds.items():
        if found > bound + _UNCERTAIN * float(np.abs(values).max()):
            raise ArgumentError(
                f"`{name}` must hold for `f`; it allows an error of {bound:.6g} on the mesh, and "
                f"at {where.tolist()} the error is {found:.6g}."
            )
    certified = (min(bounds.values()) + compiled.certified_error) * SMALL_RAISE if bounds else None
    return Approximation(interpolant, compiled, len(simplices), found, where, certified)


def _refuse_jumps(f: Sampled, corners: FloatArray, probes: Probes) -> None:
    """Raise if a function jumps between points that were sampled."""
    segments = mesh_segments(corners, sampled_worst(f, corners, probes))
    if corners.shape[2] == 1:
        box = probes.box
        places = box.low + probes.places * (box.high - box.low)
        along = line_segments(np.concatenate([places[:, 0], box.low, box.high]), np.unique(corners))
        segments = (
            np.concatenate([segments[0], along[0]]),
            np.concatenate([segments[1], along[1]]),
        )
    jump = find_jump(f, *segments)
    if jump is not None:
        raise DiscontinuityError(
            f"`f` must be continuous; it jumps by {jump.size:.6g}, from "
            f"{jump.value_before.tolist()} at {jump.before.tolist()} to "
            f"{jump.value_after.tolist()} at {jump.after.tolist()}. No continuous function is "
            f"closer to it than {jump.size / 2:.6g}."
        )
