"""Compiled functions in files: what `save_compiled` writes, and the rounding of the pieces.

The errors of a compiled function are about the function, not about the network between function and
transformer, so the file must say how far these two are apart. The function itself is not in the
file: unlike everything else this one bound cannot be made anew by the reader.
"""

import os

from hardmax._ground.arguments import Sizes, owned
from hardmax.constructions.compilers.compiled_files import (
    COMPILED_FORMAT,
    compiled_from_parts,
    compiled_parts,
)
from hardmax.constructions.compilers.cpwl_compiler import CompiledFunction, about_the_function
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.tensor_files import read_tensor_file, take_field, write_tensor_file

FUNCTION_FORMAT = "hardmax.compiled-function/2"
"""The value of `format` in the metadata entry `hardmax`. Beside the fields and tensors of
`COMPILED_FORMAT` there are the field `method` and the F64 tensor `rounding` `(dim_out,)`. Format
`hardmax.compiled-function/1`, which is read too, has no hash."""

METHODS = (
    "convex",
    "concave",
    "difference",
    "lattice",
    "lifting",
    "layers",
    "facet kinks",
    "segments",
    "hats",
)


def save_function(compiled: CompiledFunction, path: str | os.PathLike[str]) -> None:
    """Write a compiled function (see `CompiledFunction.save`)."""
    fields, tensors = compiled_parts(compiled)
    header = {**fields, "format": FUNCTION_FORMAT, "method": compiled.form.method}
    write_tensor_file(path, header, {**tensors, "rounding": compiled.form.rounding})


def load_function(path: str | os.PathLike[str]) -> CompiledFunction:
    """Read a compiled function written by `CompiledFunction.save`.

    The transformer and its error as a network are made anew (see `load_compiled`); the rounding of
    the pieces is taken from the file.

    Raises:
        RecordFormatError: If the file is damaged, does not hold a compiled function, or holds
            weights or a plan that do not belong to its network and box.

    Examples:
        >>> import tempfile
        >>> from hardmax import Box
        >>> from hardmax.constructions import Knots, compile_cpwl
        >>> compiled = compile_cpwl(Knots([0.0, 3.0, 4.0], [0.0, 1.0, 0.5]), Box([0], [4]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     compiled.save(f"{folder}/f.safetensors")
        ...     again = load_function(f"{folder}/f.safetensors")
        >>> again.certified_error == compiled.certified_error, again.form.method
        (True, 'concave')
    """
    fields, tensors = read_tensor_file(path)
    try:
        found = fields.get("format")
        if found not in (FUNCTION_FORMAT, "hardmax.compiled-function/1"):
            raise RecordFormatError(
                f"its metadata must have the format {FUNCTION_FORMAT!r}; got {found!r:.60}."
            )
        method = take_field(fields, "method", str)
        if method not in METHODS:
            raise RecordFormatError(f"`method` must be among {', '.join(METHODS)}; got {method!r}.")
        if "rounding" not in tensors:
            raise RecordFormatError("the tensor `rounding` is missing.")
        given = tensors.pop("rounding")
        network = compiled_from_parts({**fields, "format": COMPILED_FORMAT}, tensors)
        source = network.source
        if not isinstance(source, MaxoutNetwork):
            raise RecordFormatError("its network must be a MaxoutNetwork.")
        rounding = Sizes(dim_out=source.dim_out).floats("rounding", given, ("dim_out",))
        if (rounding < 0.0).any():
            raise RecordFormatError("`rounding` must not be negative.")
        form = MaxoutForm(source, owned(rounding), network.box, method, network.origins)
        compiled = about_the_function(network, form)
        if network.epsilon is not None and compiled.certified_error > network.epsilon:
            raise RecordFormatError(
                f"`rounding` must leave the error below {network.epsilon}; with it the error is "
                f"{compiled.certified_error}."
            )
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must hold a compiled function; in {path}: {error}"
        ) from None
    return compiled
