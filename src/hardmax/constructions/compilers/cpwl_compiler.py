"""Compile continuous piecewise linear functions, in any representation, to transformers."""

import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice, number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.constructions.compilers._bounds.float32_errors import Float32Rounding
from hardmax.constructions.compilers.compiled import CompiledTransformer, compile_network
from hardmax.constructions.compilers.functions.cancellation import has_cancellation
from hardmax.constructions.compilers.functions.clamped_lines import maxout_from_segments
from hardmax.constructions.compilers.functions.convex_differences import MAX_PIECES
from hardmax.constructions.compilers.functions.hats import maxout_from_hats
from hardmax.constructions.compilers.functions.knots import Knots, maxout_from_knots
from hardmax.constructions.compilers.functions.meshes import Mesh, maxout_from_mesh
from hardmax.constructions.compilers.functions.partition_pieces import maxout_from_partition
from hardmax.constructions.compilers.functions.small_arity import is_reducible, reduce_arity
from hardmax.constructions.compilers.functions.tropical_forms import (
    DifferenceOfMaxima,
    LatticeForm,
    maxout_from_difference,
    maxout_from_lattice,
    maxout_from_rational_map,
)
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm, exact_numbers, round_up
from hardmax.constructions.compilers.piece_layers import piece_layers
from hardmax.constructions.compilers.token_layout import Slots
from hardmax.errors import ArgumentError, DtypeError, SizeLimitError
from hardmax.geometry.domain_text import read_domain
from hardmax.geometry.domains import Box
from hardmax.regions.partition import Partition
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.typing import ArrayLike, FloatArray

METHODS = ("auto", "difference", "hats", "segments")
_MOST_NUMBERS = 2**27
"""Maximum size of a sum of hats that replaces a difference of maxima to avoid float32 errors."""


@dataclass(frozen=True, eq=False, repr=False)
class CompiledFunction(CompiledTransformer):
    r"""A transformer that computes a continuous piecewise linear function on a box.

    It is a `CompiledTransformer` whose errors refer to the function: `output_errors` and
    `certified_error` bound $|T(x) - f(x)|$, where $T$ is evaluated in float64 and $f$ is exact.
    They include the error of storing the pieces of $f$ in float64. `load_function` reads a file
    that `save` wrote, with the same errors.

    Attributes:
        form: The network between the function and the transformer, with its rounding.

    Examples:
        >>> from hardmax import Box, TropicalPolynomial
        >>> size = TropicalPolynomial([[1.0], [-1.0]], [0.0, 0.0])
        >>> compiled = compile_cpwl(size, Box([-1], [1]))
        >>> compiled.form.method, compiled([[-0.5], [0.25]]).ravel().tolist()
        ('convex', [0.5, 0.25])
    """

    form: MaxoutForm

    _repr_html_ = html_card

    def __repr__(self) -> str:
        return "CompiledFunction" + super().__repr__().removeprefix("CompiledTransformer")

    @property
    def softened(self) -> "CompiledFunction":
        """A soft function that equals this one up to rounding (see `CompiledTransformer`)."""
        return (
            self if self.epsilon is not None else with_piece_rounding(super().softened, self.form)
        )

    @cached_property
    def float32(self) -> Float32Rounding:
        """A proven bound on the error of the exported module in float32.

        Like all errors of a `CompiledFunction`, it refers to the function (see
        `CompiledTransformer.float32`).
        """
        network = super().float32
        errors = (network.errors + self.form.rounding) * (1.0 + 2.0**-50)
        return replace(network, errors=read_only_copy(errors))

    def errors_at(self, x: ArrayLike) -> FloatArray:
        """Bound the difference between transformer and function at given points.

        Args:
            x: A point `(dim_in,)` or a batch of points `(n_points, dim_in)` in the box.

        Returns:
            The bounds, shape `(dim_out,)` or `(n_points, dim_out)`.

        Raises:
            ArgumentError: If a point lies outside the box.
        """
        return np.asarray((super().errors_at(x) + self.form.rounding) * (1.0 + 2.0**-50))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transformer, network, box and rounding to a file, for `load_function`."""
        from hardmax.constructions.compilers.compiled_function_files import save_function

        save_function(self, path)


def compile_cpwl(
    f: Any,
    box: Box | str,
    epsilon: float | None = None,
    *,
    max_pieces: int = MAX_PIECES,
    small_arity: bool = False,
    method: str = "auto",
) -> CompiledFunction:
    r"""Compile a continuous piecewise linear function to a transformer that computes it on a box.

    The function is first written as a maxout network, usually with one hidden layer (see
    `maxout_form`). The transformer then has one attention block, with one head per maximum and one
    token per piece.

    By default, the network of `Knots` or of a `Mesh` is a difference of two maxima. It is replaced
    by a sum of hats, which needs two blocks, in two cases: if the maxima are so much larger than
    their difference that float32 would lose more than $10^{-4}$ of it, and if the difference would
    have more than `max_pieces` pieces. The sum of hats must not need more than $2^{27}$ numbers.

    Args:
        f: `Knots`, a `Mesh`, a `DifferenceOfMaxima`, a `LatticeForm`, a `Partition`, a
            `TropicalRationalMap` or a `TropicalPolynomial`.
        box: The box on which to compute the function: a `Box`, or its text.
        epsilon: None for a hard transformer, which equals the function up to rounding. A positive
            number for a soft transformer, which differs from the function by at most `epsilon` on
            the whole box (where the function is defined).
        max_pieces: The maximum number of pieces created by filling concave kinks (for meshes that
            are not regular, and partitions of models that do not consist of units).
        small_arity: Whether to use few tokens and many heads instead of the reverse: for functions
            of $d = 1$ or 2 variables, $d + 1$ tokens for any number of pieces (see `reduce_arity`).
        method: `"difference"` for a difference of maxima of any size; `"hats"` for a sum of hats
            (`Knots` or any `Mesh`); `"segments"` for a sum of clamped lines (`Knots` only; see
            `maxout_from_segments`); `"auto"` for the default described above.

    Returns:
        The transformer. Its `certified_error` includes the rounding of the pieces.

    Raises:
        DiscontinuityError: If the function is discontinuous. The message states the point and both
            values.
        ArgumentError: If `epsilon` is not larger than the rounding error, or if `small_arity` or
            `method` does not apply to the function.
        SizeLimitError: If filling concave kinks could exceed `max_pieces`, and a sum of hats is too
            large or excluded by the arguments.

    Examples:
        >>> hat = Knots([-1.0, 0.0, 1.0], [0.0, 1.0, 0.0], left_slope=0.0, right_slope=0.0)
        >>> compiled = compile_cpwl(hat, Box([-2], [2]))
        >>> compiled.transformer([[-1.5], [-0.25], [0.5]]).ravel().tolist()
        [0.0, 0.75, 0.5]
        >>> soft = compile_cpwl(hat, Box([-2], [2]), epsilon=1e-3)
        >>> soft.certified_error <= 1e-3
        True
    """
    where: Any = read_domain(box, "box")
    target = None if epsilon is None else number("epsilon", epsilon, above=0.0)
    name = choice("method", method, METHODS)
    if small_arity and name in ("hats", "segments"):
        raise ArgumentError(
            f"`small_arity` cannot be combined with `method={name!r}`, whose units have small "
            "arity already."
        )
    if name == "hats":
        return _compile_form(_make_hats(f, where), where, target)
    if name == "segments":
        if not isinstance(f, Knots):
            raise ArgumentError(
                f"`method='segments'` requires Knots; got a {type(f).__name__}. Use 'auto' instead."
            )
        return _compile_form(maxout_from_segments(f, where), where, target)
    may_be_hats = name == "auto" and not small_arity and isinstance(f, Knots | Mesh)
    try:
        form = maxout_form(f, where, max_pieces=max_pieces)
    except SizeLimitError:
        hats = _find_small_hats(f, where) if may_be_hats else None
        if hats is None:
            raise
        return _compile_form(hats, where, target)
    if small_arity:
        if not is_reducible(form):
            raise ArgumentError(
                "`small_arity` requires a function of one or two variables whose network has one "
                f"hidden layer; this network is {form.network!r}."
            )
        form = reduce_arity(form)
    elif may_be_hats and has_cancellation(form, f):
        hats = _find_small_hats(f, where)
        if hats is not None:
            try:
                return _compile_form(hats, where, target)
            except ArgumentError:  # Hats lose more in float64.
                pass
    return _compile_form(form, where, target)


def _compile_form(form: MaxoutForm, box: Box, epsilon: float | None) -> CompiledFunction:
    compiled = compile_network(form.network, box, epsilon, form.origins, form.rounding)
    return with_piece_rounding(compiled, form)


def _make_hats(f: Any, box: Box) -> MaxoutForm:
    if not isinstance(f, Knots | Mesh):
        raise ArgumentError(
            f"`method='hats'` requires Knots or a Mesh; got a {type(f).__name__}. Use 'auto' or "
            "'difference' instead."
        )
    return maxout_from_hats(f, box)


def _find_small_hats(f: Knots | Mesh, box: Box) -> MaxoutForm | None:
    """Return the sum of hats; None if it is too large or does not fit float32."""
    try:
        hats = _make_hats(f, box)
    except ArgumentError:
        return None
    return hats if _count_numbers(hats) <= _MOST_NUMBERS else None


def _count_numbers(form: MaxoutForm) -> int:
    """Return the number of weights that the transformer of a form stores."""
    layers, last = piece_layers(form.network, form.origins)
    return Slots.of(layers, last).numbers(layers)


def with_piece_rounding(compiled: CompiledTransformer, form: MaxoutForm) -> CompiledFunction:
    """Return the compiled function: a compiled network whose errors include piece rounding."""
    values = {field.name: getattr(compiled, field.name) for field in fields(CompiledTransformer)}
    exact = exact_numbers(compiled.output_errors) + exact_numbers(form.rounding)
    errors = values["output_errors"] = read_only_copy(round_up(exact.tolist()))
    if compiled.epsilon is not None:
        values["epsilon"] = max(compiled.epsilon, float(errors.max()))
    return CompiledFunction(**values, form=form)


def maxout_form(f: Any, box: Box | str, *, max_pieces: int = MAX_PIECES) -> MaxoutForm:
    """Write a continuous piecewise linear function, in any representation, as a maxout network.

    Args:
        f: `Knots`, a `Mesh`, a `DifferenceOfMaxima`, a `LatticeForm`, a `Partition`, a
            `TropicalRationalMap` or a `TropicalPolynomial`.
        box: The box on which the network computes the function: a `Box`, or its text.
        max_pieces: The maximum number of pieces created by filling concave kinks (for meshes that
            are not regular, and partitions of models that do not consist of units).

    Raises:
        DtypeError: If `f` has an unsupported type.
        SizeLimitError: If filling concave kinks could exceed `max_pieces`.

    Examples:
        >>> maxout_form(TropicalPolynomial([[1.0], [-1.0]], [0.0, 0.0]), Box([-1], [1])).network
        MaxoutNetwork(1 -> [1] -> 1, ranks 2 to 2)
    """
    if isinstance(f, Knots):
        return maxout_from_knots(f, box)
    if isinstance(f, Mesh):
        return maxout_from_mesh(f, box, max_pieces=max_pieces)
    if isinstance(f, DifferenceOfMaxima):
        return maxout_from_difference(f, box)
    if isinstance(f, LatticeForm):
        return maxout_from_lattice(f, box)
    if isinstance(f, Partition):
        return maxout_from_partition(f, box, max_pieces=max_pieces)
    if isinstance(f, TropicalRationalMap):
        return maxout_from_rational_map(f, box)
    if isinstance(f, TropicalPolynomial):
        return maxout_from_difference(DifferenceOfMaxima(f), box)
    raise DtypeError(
        "`f` must be Knots, a Mesh, a DifferenceOfMaxima, a LatticeForm, a Partition, a "
        f"TropicalRationalMap or a TropicalPolynomial; got {type(f).__name__}. For a Python "
        "function use `approximate`."
    )
