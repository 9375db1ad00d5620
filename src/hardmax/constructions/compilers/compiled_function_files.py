"""Write compiled functions to files, and read them back.

A file contains everything that `save_transformer` writes, and the rounding of the pieces. The
errors of a compiled function refer to the function, not to the network between the function and the
transformer, so the file must bound the difference between these two. The function itself is not in
the file; therefore this bound is the only number that the reader cannot compute again.
"""

import os

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax.constructions.compilers.compiled_files import (
    COMPILED_FORMAT,
    compiled_from_parts,
    compiled_parts,
)
from hardmax.constructions.compilers.cpwl_compiler import CompiledFunction, with_piece_rounding
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.tensor_files import read_tensor_file, take_field, write_tensor_file

FUNCTION_FORMAT = "hardmax.compiled-function/2"
"""The value of `format` in the metadata entry `hardmax`. In addition to the fields and tensors of
`COMPILED_FORMAT`, the file has the field `method` and the F64 tensor `rounding` of shape
`(dim_out,)`. The older format `hardmax.compiled-function/1` has no hash and can still be read."""

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

    The transformer and its error relative to the network are computed again (see `load_compiled`).
    The rounding of the pieces is taken from the file.

    Args:
        path: The file to read.

    Raises:
        RecordFormatError: If the file is damaged, does not hold a compiled function, or contains
            weights or plans that do not fit its network and box.

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
                f"the metadata must state the format {FUNCTION_FORMAT!r}; got {found!r:.60}."
            )
        method = take_field(fields, "method", str)
        if method not in METHODS:
            words = ", ".join(METHODS)
            raise RecordFormatError(f"`method` must be one of {words}; got {method!r}.")
        if "rounding" not in tensors:
            raise RecordFormatError("the tensor `rounding` is missing.")
        given = tensors.pop("rounding")
        network = compiled_from_parts({**fields, "format": COMPILED_FORMAT}, tensors)
        source = network.source
        if not isinstance(source, MaxoutNetwork):
            raise RecordFormatError("the network in the file must be a MaxoutNetwork.")
        rounding = Sizes(dim_out=source.dim_out).floats("rounding", given, ("dim_out",))
        if (rounding < 0.0).any():
            raise RecordFormatError("`rounding` must not be negative.")
        form = MaxoutForm(source, read_only_copy(rounding), network.box, method, network.origins)
        compiled = with_piece_rounding(network, form)
        if network.epsilon is not None and compiled.certified_error > network.epsilon:
            raise RecordFormatError(
                f"`rounding` must keep the error below {network.epsilon}; with it the error bound "
                f"is {compiled.certified_error}."
            )
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must be a file with a compiled function; {path}: {error}"
        ) from None
    return compiled
