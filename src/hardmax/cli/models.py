"""The reader of model files for the commands, and the options for state dicts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hardmax.cli.flags import rename_arguments, report_file_errors

Activations = Annotated[
    str | None,
    typer.Option(
        help="The activations between the layers of a state dict (see `hardmax compile --help`)."
    ),
]
LastActivation = Annotated[
    str | None, typer.Option(help="The activation after the last layer of a state dict.")
]


def read_model(
    flag: str,
    path: Path,
    activations: str | None = None,
    last_activation: str | None = None,
    *,
    keeps_graphs: bool = False,
) -> tuple[Any, str]:
    """Read a model from any file that the library supports.

    Args:
        flag: The name of the file on the command line, for error messages.
        path: A file written by `save_model`, a compiled transformer or function, or any network
            file that `read_network_file` reads.
        activations: The activations between the layers of a state dict.
        last_activation: The activation after the last layer of a state dict.
        keeps_graphs: Whether to return a network with convolutions or skip connections as a graph.
            Otherwise, it is converted to dense layers if it is small.

    Returns:
        A model that the engines accept, and the assumption made about it; empty if there is none.
    """
    # Each reader is imported only where it is needed: importing the compilers takes longer than
    # most searches.
    from hardmax.errors import ArgumentError

    with report_file_errors(flag, path):
        kind = _read_format(path)
        if path.suffix.lower() == ".onnx" and activations is None and last_activation is None:
            from hardmax.models.formats.onnx.graphs import from_onnx
            from hardmax.models.graphs.graph_networks import GraphNetwork

            network = from_onnx(path)
            is_dense = isinstance(network, GraphNetwork) and not keeps_graphs
            return network.network if is_dense else network, ""
        if (
            kind is None
            and activations is None
            and last_activation is None
            and _is_script_archive(path)
        ):
            from hardmax.models.formats.torch.network_files import load_torch_file
            from hardmax.models.graphs.graph_networks import GraphNetwork

            scripted = load_torch_file(path)
            is_dense = isinstance(scripted, GraphNetwork) and not keeps_graphs
            return scripted.network if is_dense else scripted, ""
        if kind is None:
            from hardmax.constructions.compilers.state_dicts import read_network_file

            with rename_arguments(activations="--activations", last_activation="--last-activation"):
                file = read_network_file(path, activations, last_activation)
            return file.network, file.assumption or ""
        for name, given in (("activations", activations), ("last-activation", last_activation)):
            if given is not None:
                raise ArgumentError(
                    f"`--{name}` applies only to state dicts; {path} defines its own activations. "
                    "Leave the option out."
                )
        if kind.startswith("hardmax.compiled-function/"):
            from hardmax.constructions.compilers.compiled_function_files import load_function

            return load_function(path), ""
        if kind.startswith("hardmax.compiled/"):
            from hardmax.constructions.compilers.compiled_files import load_compiled

            return load_compiled(path), ""
        from hardmax.models.storage import load_model

        return load_model(path), ""


def describe_model(model: Any) -> str:
    """Return a one-line description of a model."""
    from hardmax.models.argmax import ArgmaxNetwork

    if not isinstance(model, ArgmaxNetwork):
        return repr(model)
    layers = f"{len(model.layers)} layer{'s' * (len(model.layers) != 1)}"
    return f"ArgmaxNetwork(R^{model.dim_in} -> R^{model.dim_out}, {layers})"


def _is_script_archive(path: Path) -> bool:
    from hardmax.models.formats.torch.script_files import is_script_archive

    return is_script_archive(path)


def _read_format(path: Path) -> str | None:
    """Return the format recorded in a file, or None if the file is not one of this library."""
    from hardmax._ground.json_text import parse_json
    from hardmax.errors import RecordFormatError
    from hardmax.models.tensor_files import read_tensors

    try:
        header, _ = read_tensors(path)
        fields = None if header is None else parse_json(header)
    except RecordFormatError:
        return None
    if header is None:
        return None
    return str(fields.get("format")) if isinstance(fields, dict) else ""
