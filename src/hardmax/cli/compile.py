"""`hardmax compile`: compile a network file to a transformer file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax.cli.flags import rename_arguments
from hardmax.errors import ArgumentError, HardmaxError

if TYPE_CHECKING:
    from hardmax.constructions.compilers.compiled import CompiledTransformer
    from hardmax.constructions.compilers.state_dicts import NetworkFile

_SMALL_ERROR = 1e-4
"""The largest additional error of float32 that is reported without a recommendation."""


def compile_file(
    network: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK",
            help="The network: a file saved by hardmax, an ONNX file, a TorchScript file, or a "
            "state dict in safetensors (0.weight, 0.bias, 2.weight, ...). A state dict does not "
            "record its activations; give them with --activations.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The safetensors file to write.")],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The largest error allowed on the box. By default, the result is the exact hard "
            "transformer."
        ),
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH", help="The interval of every input coordinate (default: -1 1)."
        ),
    ] = None,
    activations: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="The activations between the layers of a state dict: relu, leaky_relu(0.2), "
            "prelu, hardtanh(-1,1), relu6, clip(0,1), abs, softshrink(0.5) or none. Give one "
            "for all layers but the last, or one per layer, separated by commas (default: relu).",
        ),
    ] = None,
    last_activation: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="The activation after the last layer (default: none)."),
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(help="Also write an ONNX graph, in float64, to this file.")
    ] = None,
) -> None:
    """Compile a network to a standard transformer, exactly or within a certified error."""
    import numpy as np

    from hardmax._ground.files import check_ending
    from hardmax.constructions.compilers.maxout_compiler import compile_network_file
    from hardmax.constructions.compilers.state_dicts import read_network_file

    for option, path in (("--output", output), ("--onnx", onnx)):
        if path is not None and path.exists() and network.exists() and path.samefile(network):
            raise ArgumentError(
                f"`{option}` would overwrite the network: both are {path}. Choose another file."
            )
    if output.suffix:
        with rename_arguments(path="--output"):
            check_ending(output, (".safetensors",))
    with _report_file_errors("network", network):
        file = read_network_file(network, activations, last_activation)
    low, high = (-1.0, 1.0) if box is None else box
    if not -np.inf < low < high < np.inf:
        raise ArgumentError(
            f"`--box` must be two finite numbers, the smaller first; got {low} {high}."
        )
    compiled, net = compile_network_file(file, (low, high), epsilon), file.network
    with _report_file_errors("--output", output):
        compiled.save(output)
    default = "" if box is not None else "  (default; change it with --box)"
    print(f"{'network':<20}{net!r}")
    for word, line in _activation_lines(file):
        print(f"{word:<20}{line}")
    print(f"{'box':<20}[{low:g}, {high:g}]^{net.dim_in}{default}")
    print(compiled.size)
    if epsilon is not None:
        taus = ", ".join(f"{tau:.3g}" for tau in compiled.temperatures)
        print(f"{'temperatures':<20}{taus or 'none'}")
    kind = "rounding only" if epsilon is None else f"epsilon = {epsilon:g}"
    about = "" if compiled.assumption is None else ", for the network ASSUMED above"
    print(f"{'certified error':<20}{compiled.certified_error:.4g}  ({kind}{about})")
    for word, line in _float32_lines(compiled):
        print(f"{word:<20}{line}")
    print(f"{'written':<20}{output}")
    if compiled.assumption is not None:
        print(f"hardmax: ASSUMED {compiled.assumption}", file=sys.stderr)
    if onnx is not None:
        with _report_file_errors("--onnx", onnx):
            compiled.to_onnx(onnx)
        print(f"{'':<20}{onnx}")


def _activation_lines(file: "NetworkFile") -> list[tuple[str, str]]:
    """Return the lines that state the activations and their source."""
    if file.activations is None:
        return []
    source = {
        "file": "from the file",
        "stated": "from --activations",
        "assumed": "ASSUMED, see below",
    }
    lines = [("activations", f"{', '.join(file.activations)}  ({source[file.known_from]})")]
    if file.assumption is not None:
        lines += [
            ("ASSUMED", f"{file.assumption}."),
            ("", "If your network has other activations, these results are about a different"),
            ("", "function. Give yours with --activations and --last-activation."),
        ]
    return lines


def _float32_lines(compiled: "CompiledTransformer") -> list[tuple[str, str]]:
    """Return the lines about the error of float32, with a recommendation if it is large."""
    rounding = compiled.float32
    lines = [
        ("float32 error", f"{rounding.error:.4g}  (a proven bound for the module in float32)"),
        ("", f"{rounding.conditioning:.4g}  (measured, for rounding only the input to float32)"),
    ]
    if rounding.error > compiled.certified_error + _SMALL_ERROR:
        lines.append(
            ("", f"adds over {_SMALL_ERROR:g}: use float64, a smaller box or smaller weights")
        )
    return lines


_FLAGS = {
    "`path`": "`network`",
    "`activations`": "`--activations`",
    "`last_activation`": "`--last-activation`",
}
"""The library's name of each argument, and its name on the command line."""


@contextmanager
def _report_file_errors(argument: str, path: Path) -> Iterator[None]:
    """Make errors about a file that are raised inside the block name the argument typed."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"`{argument}` must be a file that can be opened; {path}: {error.strerror}."
        ) from None
    except HardmaxError as error:
        message = str(error)
        for name, flag in _FLAGS.items():
            message = message.replace(name, flag)
        raise type(error)(message) from None
