"""Continuous piecewise linear functions, in any form they come in, as transformers."""

import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice, number, owned
from hardmax._ground.display import html_card
from hardmax.constructions.compilers._bounds.float32_errors import Float32Rounding
from hardmax.constructions.compilers.compiled import CompiledTransformer, compile_network
from hardmax.constructions.compilers.functions.cancellation import cancels
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
"""Beyond this a difference of maxima stays one, whatever float32 loses."""


@dataclass(frozen=True, eq=False, repr=False)
class CompiledFunction(CompiledTransformer):
    r"""A transformer that computes a continuous piecewise linear function on a box.

    Everything a `CompiledTransformer` is, but its errors are about the function: `output_errors`
    and `certified_error` bound $|T(x) - f(x)|$, with $T$ as float64 evaluates it and $f$ exact, so
    they include what storing the pieces of $f$ in float64 has changed. A file that `save` wrote is
    read by `load_function`, with the same errors.

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
        """Itself if soft, otherwise the soft one that is closest (see `CompiledTransformer`)."""
        return self if self.epsilon is not None else about_the_function(super().softened, self.form)

    @cached_property
    def float32(self) -> Float32Rounding:
        """What the exported module can be off by in float32 (see `CompiledTransformer.float32`).

        The errors are about the function, as all errors of a `CompiledFunction` are.
        """
        network = super().float32
        errors = (network.errors + self.form.rounding) * (1.0 + 2.0**-50)
        return replace(network, errors=owned(errors))

    def errors_at(self, x: ArrayLike) -> FloatArray:
        """Bound transformer minus function at given points (see `CompiledTransformer`)."""
        return np.asarray((super().errors_at(x) + self.form.rounding) * (1.0 + 2.0**-50))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transformer, the network, the box and the rounding; see `load_function`."""
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

    The function is first written as a maxout network, in most cases of one hidden layer (see
    `maxout_form`), hence the transformer has one attention block: a head for each maximum, a token
    for each piece. `Knots` and meshes whose two maxima would be so much larger than their
    difference that float32 lost more than $10^{-4}$ of it are written as a sum of hats, in two
    blocks (see `hats` and `cancellation`), unless that takes more than $2^{27}$ numbers; so are
    meshes whose difference would have more than `max_pieces` pieces.

    Args:
        f: `Knots`, a `Mesh`, a `DifferenceOfMaxima`, a `LatticeForm`, a `Partition`, a
            `TropicalRationalMap` or a `TropicalPolynomial`.
        box: Where it is to be computed: a `Box`, or its text.
        epsilon: None for the hard transformer, which equals the function up to rounding. A number
            above 0 for the soft one, which is within `epsilon` of it on the whole box (where the
            function is defined).
        max_pieces: How many pieces filling concave kinks may make (meshes that are not regular,
            partitions of models that are not made of units).
        small_arity: Whether to use a few tokens and many heads in place of the reverse: in $d = 1$
            or 2 variables $d + 1$ tokens, whatever the number of pieces (see `reduce_arity`).
        method: `"difference"` for a difference of maxima, whatever its size; `"hats"` for a sum of
            hats, of `Knots` or a `Mesh`, regular or not; `"segments"` for that of `clamped_lines`,
            of `Knots`; `"auto"` as said above.

    Returns:
        The transformer. Its `certified_error` includes the rounding of the pieces.

    Raises:
        DiscontinuityError: If the function jumps; the message names the place and both values.
        ArgumentError: If `epsilon` is not above what rounding adds, or `small_arity` or a `method`
            is asked for where it does not apply.
        SizeLimitError: If filling concave kinks could exceed `max_pieces`, and hats are too large
            or not asked for.

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
        raise ArgumentError(f"`small_arity` must be False for {name}, whose units are small.")
    if name == "hats":
        return _compiled(_hats(f, where), where, target)
    if name == "segments":
        if not isinstance(f, Knots):
            raise ArgumentError(f"`method` must not be 'segments' for a {type(f).__name__}.")
        return _compiled(maxout_from_segments(f, where), where, target)
    may_be_hats = name == "auto" and not small_arity and isinstance(f, Knots | Mesh)
    try:
        form = maxout_form(f, where, max_pieces=max_pieces)
    except SizeLimitError:
        hats = _small_hats(f, where) if may_be_hats else None
        if hats is None:
            raise
        return _compiled(hats, where, target)
    if small_arity:
        if not is_reducible(form):
            raise ArgumentError(
                "`small_arity` must be False for a function of more than two variables, or one "
                f"that needs several layers; its network is {form.network!r}."
            )
        form = reduce_arity(form)
    elif may_be_hats and cancels(form, f):
        hats = _small_hats(f, where)
        if hats is not None:
            try:
                return _compiled(hats, where, target)
            except ArgumentError:  # Hats lose more in float64.
                pass
    return _compiled(form, where, target)


def _compiled(form: MaxoutForm, box: Box, epsilon: float | None) -> CompiledFunction:
    compiled = compile_network(form.network, box, epsilon, form.origins, form.rounding)
    return about_the_function(compiled, form)


def _hats(f: Any, box: Box) -> MaxoutForm:
    if not isinstance(f, Knots | Mesh):
        raise ArgumentError(
            f"`method` must be 'auto' or 'difference' for a {type(f).__name__}; hats stand on "
            "Knots or a Mesh."
        )
    return maxout_from_hats(f, box)


def _small_hats(f: Knots | Mesh, box: Box) -> MaxoutForm | None:
    """The sum of hats; None if it is too large or does not fit float32."""
    try:
        hats = _hats(f, box)
    except ArgumentError:
        return None
    return hats if _numbers(hats) <= _MOST_NUMBERS else None


def _numbers(form: MaxoutForm) -> int:
    """How many numbers the transformer of a form stores."""
    layers, last = piece_layers(form.network, form.origins)
    return Slots.of(layers, last).numbers(layers)


def about_the_function(compiled: CompiledTransformer, form: MaxoutForm) -> CompiledFunction:
    """Add the rounding of the pieces to the errors of a compiled network."""
    values = {field.name: getattr(compiled, field.name) for field in fields(CompiledTransformer)}
    exact = exact_numbers(compiled.output_errors) + exact_numbers(form.rounding)
    errors = values["output_errors"] = owned(round_up(exact.tolist()))
    if compiled.epsilon is not None:
        values["epsilon"] = max(compiled.epsilon, float(errors.max()))
    return CompiledFunction(**values, form=form)


def maxout_form(f: Any, box: Box | str, *, max_pieces: int = MAX_PIECES) -> MaxoutForm:
    """Write a continuous piecewise linear function as a maxout network, whatever it is given as.

    Args:
        f: `Knots`, a `Mesh`, a `DifferenceOfMaxima`, a `LatticeForm`, a `Partition`, a
            `TropicalRationalMap` or a `TropicalPolynomial`.
        box: Where the network stands for the function.
        max_pieces: How many pieces filling concave kinks may make (meshes that are not regular,
            partitions of models that are not made of units).

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
