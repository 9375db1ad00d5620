"""`hardmax compile`: a ReLU or maxout network in a file to a transformer in a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.constructions.compiled import CompiledTransformer

_SMALL_ERROR = 1e-4
"""What float32 may add without a word about it."""


def compile_file(
    network: Annotated[
        Path,
        typer.Argument(
            help="A safetensors file: a network saved by hardmax, or the state dict of a "
            "torch.nn.Sequential of Linear and ReLU (0.weight, 0.bias, 2.weight, ...)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The safetensors file to write.")],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Largest error on the box; the hard transformer if not given."),
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="The interval of every input; -1 1 if not given."),
    ] = None,
    onnx: Annotated[Path | None, typer.Option(help="Also write an ONNX graph (float64).")] = None,
) -> None:
    """Compile a network to a standard transformer, exactly or within a certified error."""
    import numpy as np

    from hardmax.constructions.maxout_compiler import compile_maxout, compile_relu
    from hardmax.constructions.state_dicts import load_network
    from hardmax.geometry.domains import Box
    from hardmax.models.networks import MaxoutNetwork

    for option, path in (("--output", output), ("--onnx", onnx)):
        if path is not None and path.exists() and network.exists() and path.samefile(network):
            raise ArgumentError(
                f"`{option}` must be another file than the network, which it would overwrite; "
                f"got {path} for both."
            )
    with _naming("network", network):
        net = load_network(network)
    low, high = (-1.0, 1.0) if box is None else box
    if not -np.inf < low < high < np.inf:
        raise ArgumentError(f"`--box` must be two numbers, the lower one first; got {low} {high}.")
    where = Box(np.full(net.dim_in, low), np.full(net.dim_in, high))
    if isinstance(net, MaxoutNetwork):
        compiled = compile_maxout(net, where, epsilon)
    else:
        compiled = compile_relu(net, where, epsilon)
    with _naming("--output", output):
        compiled.save(output)
    default = "" if box is not None else "  (the default; change it with --box)"
    print(f"{'network':<20}{net!r}")
    print(f"{'box':<20}[{low:g}, {high:g}]^{net.dim_in}{default}")
    print(compiled.size)
    if epsilon is not None:
        taus = ", ".join(f"{tau:.3g}" for tau in compiled.temperatures)
        print(f"{'temperatures':<20}{taus or 'none'}")
    kind = "rounding only" if epsilon is None else f"epsilon = {epsilon:g}"
    print(f"{'certified error':<20}{compiled.certified_error:.4g}  ({kind})")
    for word, line in _float32_lines(compiled):
        print(f"{word:<20}{line}")
    print(f"{'written':<20}{output}")
    if onnx is not None:
        with _naming("--onnx", onnx):
            compiled.to_onnx(onnx)
        print(f"{'':<20}{onnx}")


def _float32_lines(compiled: "CompiledTransformer") -> list[tuple[str, str]]:
    """What float32 costs, and what to do where that is much."""
    rounding = compiled.float32
    lines = [
        ("float32 error", f"{rounding.error:.4g}  (a proven bound, for the module in float32)"),
        ("", f"{rounding.conditioning:.4g}  (found, for rounding the input to float32 alone)"),
    ]
    if rounding.error > compiled.certified_error + _SMALL_ERROR:
        lines.append(("", f"adds over {_SMALL_ERROR:g}: prefer float64, a smaller box or weights"))
    return lines


@contextmanager
def _naming(argument: str, path: Path) -> Iterator[None]:
    """Turn what the system says about a file into one line that names the argument."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"`{argument}` must be a file that can be opened; {path}: {error.strerror}."
        ) from None
