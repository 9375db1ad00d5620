"""Read networks from files, and record the assumptions about activations.

An ONNX file, a scripted module and a file of this library specify their activations. A state dict
only has tensors such as `0.weight`, `0.bias`, `2.weight`. The caller can state its activations;
otherwise a ReLU after each layer but the last is *assumed*, and `NetworkFile.assumption` and all
results computed from it state this assumption. A state dict does not record the order of its layers
either (`models.formats.state_dicts`).

Code in a file is never run, not even in scripted modules.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardmax._ground.display import html_card, short_repr
from hardmax._ground.size_limits import SizeLimit
from hardmax.constructions.compilers.piece_layers import SourceNetwork
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.models.formats.activations import Activation
from hardmax.models.formats.layered_networks import Step, build_network, interleave
from hardmax.models.formats.onnx.graphs import read_onnx_steps
from hardmax.models.formats.state_dicts import StateDict
from hardmax.models.formats.torch.files import is_torch_file, read_torch_tensors
from hardmax.models.formats.torch.script_files import is_script_archive
from hardmax.models.formats.torch.script_programs import read_script_steps
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import load_model
from hardmax.models.tensor_files import read_tensors


@dataclass(frozen=True, eq=False)
class NetworkFile:
    """A network from a file, with its activations and their source.

    Attributes:
        network: The network.
        activations: The name of the activation after each affine layer; None for a maxout network.
        known_from: The source of the activations: `"file"`, `"stated"` (by the caller) or
            `"assumed"`.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = ReluNetwork([[[1.0]], [[1.0]]])
        >>> NetworkFile(net, ("relu", "identity"), "assumed").assumption
        'a ReLU after every layer but the last, nothing after it; a state dict does not say'
    """

    network: SourceNetwork
    activations: tuple[str, ...] | None
    known_from: Literal["file", "stated", "assumed"]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def assumption(self) -> str | None:
        """A phrase that states what was assumed about the network; None if nothing was assumed."""
        if self.known_from != "assumed" or self.activations is None:
            return None
        if len(self.activations) == 1:
            return "nothing after the only layer; a state dict does not say"
        return "a ReLU after every layer but the last, nothing after it; a state dict does not say"


def load_network(
    path: str | os.PathLike[str], activations: Any = None, last_activation: Any = None
) -> SourceNetwork:
    """Read a network of maxima from a file, like `read_network_file` but without the source."""
    return read_network_file(path, activations, last_activation).network


def read_network_file(
    path: str | os.PathLike[str],
    activations: "Activation | str | Sequence[Activation | str] | None" = None,
    last_activation: Activation | str | None = None,
) -> NetworkFile:
    """Read a network of maxima from a file, with the source of its activations.

    Args:
        path: One of the following: a file written by `save_model`; an ONNX file (`.onnx`); a module
            saved by `torch.jit.save`; or the state dict of a sequential torch module, in
            safetensors or as written by `torch.save`. A state dict contains matrices `NAME.weight`
            of shape `(n_out, n_in)` and optional vectors `NAME.bias`, in any floating-point type,
            including bfloat16. Its layers are ordered by the numbers in their names. Names without
            numbers are accepted if the shapes allow only one order.
        activations: The activations of a state dict, as names that `read_activation` accepts:
            either one name for all layers but the last, or one name for each layer, including the
            last. `prelu` reads its slopes from the file. By default, `relu` is assumed, and the
            result records the assumption.
        last_activation: The activation after the last layer of a state dict, if `activations` is a
            single name.

    Returns:
        The network and the source of its activations.

    Raises:
        RecordFormatError: If the file does not hold such a network. The message states what it
            holds instead.
        ArgumentError: If an activation is not piecewise linear, or if `activations` is passed for a
            file that specifies its own.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from safetensors.numpy import save_file
        >>> weights = {"0.weight": np.array([[1.0], [-1.0]]), "2.weight": np.ones((1, 2))}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file(weights, f"{folder}/net.safetensors")
        ...     read = read_network_file(f"{folder}/net.safetensors", "leaky_relu(0.5)")
        >>> read.network, read.network([2.0]).tolist()
        (MaxoutNetwork(1 -> [2] -> 1, ranks 2 to 2), [1.0])
    """
    stated = activations is not None or last_activation is not None
    steps = _read_own_steps(path)
    if steps is not None:
        _refuse_activations(path, stated)
        words = [str(step) for step in steps if isinstance(step, Activation)]
        ending = [] if steps and isinstance(steps[-1], Activation) else ["identity"]
        return NetworkFile(_network(path, steps), (*words, *ending), "file")
    is_pickled = is_torch_file(path)
    header, tensors = (None, read_torch_tensors(path)) if is_pickled else read_tensors(path)
    if header is not None:
        _refuse_activations(path, stated)
        model = load_model(path)
        if not isinstance(model, ReluNetwork | MaxoutNetwork):
            raise RecordFormatError(
                f"`path` must be a file with a ReLU or maxout network; {path} contains a "
                f"{type(model).__name__}."
            )
        is_relu = isinstance(model, ReluNetwork)
        known = ("relu",) * (len(model.weights) - 1) + ("identity",) if is_relu else None
        return NetworkFile(model, known, "file")
    try:
        layers = StateDict.from_tensors(tensors)
        maps = layers.maps()
    except HardmaxError as error:
        raise _wrong_file_error(path, error) from None
    try:
        used = layers.activations(activations, last_activation)
    except RecordFormatError as error:
        raise _wrong_file_error(path, error) from None
    network = _network(path, interleave(maps, used))
    return NetworkFile(network, tuple(map(str, used)), "stated" if stated else "assumed")


def _read_own_steps(path: str | os.PathLike[str]) -> list[Step] | None:
    """Return the steps of an ONNX file or a scripted module; None for other files."""
    if Path(path).suffix.lower() == ".onnx":
        return read_onnx_steps(path)
    if not Path(path).is_file() or not is_script_archive(path):
        return None
    try:
        return read_script_steps(path)
    except HardmaxError as error:
        raise _wrong_file_error(path, error) from None


def _network(path: str | os.PathLike[str], steps: Sequence[Step]) -> SourceNetwork:
    try:
        return build_network(steps, SizeLimit(Path(path).stat().st_size))
    except HardmaxError as error:
        raise _wrong_file_error(path, error) from None


def _wrong_file_error(path: str | os.PathLike[str], error: HardmaxError) -> RecordFormatError:
    return RecordFormatError(
        f"`path` must be a file with a ReLU or maxout network; {path}: {error}"
    )


def _refuse_activations(path: str | os.PathLike[str], stated: bool) -> None:
    if stated:
        raise ArgumentError(
            f"`activations` cannot be combined with {path}, which specifies its own activations. "
            "Omit the argument."
        )
