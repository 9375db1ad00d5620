"""Networks from files that torch wrote: scripted modules, and state dicts. Nothing is run.

A scripted or traced module says what it computes. A state dict does not: the activations between
its layers must be stated, and layers that are not Linear need the module they belong to.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError
from hardmax.models.formats.layered_networks import network_of
from hardmax.models.formats.state_dicts import read_state_dict, state_dict_network
from hardmax.models.formats.torch.files import is_torch_file
from hardmax.models.formats.torch.input_shapes import (
    MOST_SIDES,
    InputShape,
    adjacent_sides,
    describe_sides,
    fitting_sides,
    solved_shape,
    usual_sides,
)
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    is_script_archive,
    read_script_archive,
)
from hardmax.models.formats.torch.script_programs import script_graph, script_steps
from hardmax.models.graphs.building import GraphBuilder, Signal
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import FloatArray

_MOST_MODULES = 10_000
_MOST_TRIED = {1: 256, 2: 64, 3: 16}


def load_torch_file(
    path: str | os.PathLike[str],
    *,
    input_shape: Sequence[int] | None = None,
    activations: Any = None,
    last_activation: Any = None,
    max_bytes: int | None = None,
) -> ReluNetwork | MaxoutNetwork | GraphNetwork:
    """Read a scripted or traced module, or a state dict with stated activations.

    Args:
        path: A file of `torch.jit.save` or `torch.save`, or a state dict as safetensors.
        input_shape: For a scripted module: the shape of one input without the batch, where it does
            not determine it.
        activations: For a state dict: what stands between its layers.
        last_activation: For a state dict: what stands after the last layer.
        max_bytes: The most memory that reading may take.

    Raises:
        RecordFormatError: If the file is damaged, or cannot be read; the message says what to do.
        ArgumentError: If `input_shape` or `activations` are missing, or do not belong to the file.
    """
    stated = activations is not None or last_activation is not None
    file = os.fspath(path)
    if is_script_archive(path):
        if stated:
            raise ArgumentError(
                f"`activations` must be None for a scripted module, as {file} is; it says which it "
                "has."
            )
        line = f"hm.load_model({file!r}, input_shape={{shape}})"
        try:
            return script_network(path, input_shape, line, max_bytes)
        except RecordFormatError as error:
            raise RecordFormatError(f"`path` must hold a network; in {file}: {error}") from None
    if not is_torch_file(path) and (file.lower().endswith(".onnx") or read_tensors(path)[0]):
        raise RecordFormatError(
            f"`path` must be a file of torch; {file} is none. hm.load_model({file!r}) reads it."
        )
    tensors = read_state_dict(path)
    limit = SizeLimit(Path(path).stat().st_size, max_bytes)
    try:
        if input_shape is not None:
            raise RecordFormatError(
                "it is a state dict, which does not say how its layers are connected. Build the "
                f"module `net` and write hm.from_torch(net, input_shape={tuple(input_shape)}, "
                f"state={file!r})."
            )
        network = state_dict_network(tensors, activations, last_activation, limit)
    except SizeLimitError:
        raise
    except RecordFormatError as error:
        reason = str(error).replace("(path)", f"({file!r})").replace("=path)", f"={file!r})")
        raise RecordFormatError(f"`path` must hold a network; in {file}: {reason}") from None
    if not stated:
        raise ArgumentError(
            f"`activations` must be given for a state dict, as {file} is: it does not say what "
            "stands between its layers. If a ReLU does, write "
            f'hm.load_model({file!r}, activations="relu").'
        )
    return network


def script_network(
    source: str | os.PathLike[str] | io.BytesIO,
    input_shape: Sequence[int] | None,
    line: str,
    max_bytes: int | None = None,
) -> ReluNetwork | MaxoutNetwork | GraphNetwork:
    """Read a scripted or traced module: layers one after another, or a network of any shape.

    Args:
        source: A file that `torch.jit.save` wrote, or its content.
        input_shape: The shape of one input without the batch; None to find it, where the module
            determines it.
        line: The line to write to state it, for messages, with `{shape}` in it.
        max_bytes: The most memory that reading may take.

    Raises:
        RecordFormatError: If it does something that is not piecewise linear.
        ArgumentError: If the shape is needed and not determined.
    """
    archive = read_script_archive(source)

    def limit() -> SizeLimit:
        return SizeLimit(archive.n_bytes, max_bytes)

    if input_shape is not None:
        return script_graph(archive, tuple(int(n) for n in input_shape), limit())
    try:
        return network_of(script_steps(source, limit()), limit())
    except SizeLimitError:
        raise
    except HardmaxError as error:
        reason = error
    found = _archive_shape(archive, max_bytes)
    if found.shape is not None:
        return script_graph(archive, found.shape, limit())
    kernels = [array for array in _weights(archive.root) if array.ndim in (3, 4, 5)]
    if not kernels and found.example is None:
        raise RecordFormatError(str(reason))
    words = "(...)"
    if kernels:
        found = _image_shape(archive, kernels[0].shape, max_bytes)
        if found.shape is not None:
            return script_graph(archive, found.shape, limit())
        axes = {3: "length", 4: "height, width", 5: "depth, height, width"}[kernels[0].ndim]
        words = f"({kernels[0].shape[1]}, {axes})"
    raise ArgumentError(
        "`input_shape` must be given for this scripted module, which does not determine it "
        f"({found.reason}); write {line.format(shape=found.example or words)}"
    )


class _MatrixSizes(GraphBuilder):
    """A builder that records whether a matrix takes more or fewer numbers than it is given.

    Attributes:
        excess: The number of entries given, minus the number taken, for the last matrix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.excess = 0

    def multiply(
        self, x: Signal, matrix: FloatArray, bias: Any = None, name: str = "matrix"
    ) -> Signal:
        self.excess = x.shape[-1] - len(matrix) if x.ndim else 0
        return super().multiply(x, matrix, bias, name)


def _image_shape(
    archive: ScriptArchive, kernel: tuple[int, ...], max_bytes: int | None
) -> InputShape:
    """Find the shape of a square image from the sizes of the first matrix that does not fit.

    The larger the image, the more numbers the matrix is given. So the sides that fit are
    consecutive, and bisection finds the least of them.
    """
    channels, n_axes = kernel[1], len(kernel) - 2
    failed = ""
    outputs: list[tuple[int, ...]] = []

    def excess(shape: tuple[int, ...]) -> int | None:
        """Return 0 if an image fits, the sign of the misfit, or None if that is unknown."""
        nonlocal failed
        build = _MatrixSizes()
        try:
            network = script_graph(archive, shape, SizeLimit(archive.n_bytes, max_bytes), build)
        except HardmaxError as error:
            failed = failed or f"{shape} does not fit: {str(error).rstrip('.')}"
            return build.excess or None
        outputs.append(network.output_shape)
        # A larger image that `view(-1, n)` makes several inputs of has an output with more axes.
        return 0 if len(outputs[0]) == len(outputs[-1]) else None

    def fits(shape: tuple[int, ...]) -> bool:
        return excess(shape) == 0

    starts = usual_sides(lambda shape: excess(shape) is not None, n_axes, channels, 1)
    if not starts:
        # A program that states the length of a flattened image fails before the matrix.
        sides = fitting_sides(fits, n_axes, channels, _MOST_TRIED[n_axes])
        return describe_sides(n_axes, channels, sides) if sides else InputShape(None, None, failed)
    low, high = 0, starts[0]
    while high < MOST_SIDES[n_axes] and (excess((channels, *[high] * n_axes)) or 0) < 0:
        low, high = high, min(2 * high, MOST_SIDES[n_axes])
    while high - low > 1:
        middle = (low + high) // 2
        found = excess((channels, *[middle] * n_axes))
        # An image that is smaller than a window has too few pixels.
        low, high = (middle, high) if found is None or found < 0 else (low, middle)
    sides = adjacent_sides(fits, n_axes, channels, high)
    if not sides:
        return InputShape(None, None, "no square image fits")
    return describe_sides(n_axes, channels, sides)


def _archive_shape(archive: ScriptArchive, max_bytes: int | None) -> InputShape:
    """Find the length of vectors that the module takes, if only one fits."""

    def fits(shape: tuple[int, ...]) -> bool:
        try:
            script_graph(archive, shape, SizeLimit(archive.n_bytes, max_bytes))
        except HardmaxError:
            return False
        return True

    linear = [array.shape[1] for array in _weights(archive.root) if array.ndim == 2]
    return solved_shape(fits, [], dict.fromkeys(linear))


def _weights(root: ScriptModule) -> list[Any]:
    """The weights of a module and of those inside it, in order."""
    found: list[Any] = []
    waiting: list[ScriptModule] = [root]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_MODULES:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        values = list(module.attributes.values())
        found += [value for value in values if isinstance(value, np.ndarray)]
        waiting += [value for value in reversed(values) if isinstance(value, ScriptModule)]
    return found
