"""A reader of networks in torch files (scripted modules and state dicts) that executes no code.

A scripted or traced module describes its computation. A state dict does not: the activations
between its layers must be passed, and layers other than Linear require the module itself.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError
from hardmax.models.formats.layered_networks import build_network
from hardmax.models.formats.state_dicts import build_state_dict_network, read_state_dict
from hardmax.models.formats.torch.files import is_torch_file
from hardmax.models.formats.torch.input_shapes import (
    MOST_SIDES,
    InputShape,
    describe_sides,
    find_adjacent_sides,
    find_sides,
    find_usual_sides,
    solve_shape,
)
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    is_script_archive,
    read_script_archive,
)
from hardmax.models.formats.torch.script_programs import read_script_graph, read_script_steps
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
    """Read a scripted or traced module, or a state dict with given activations.

    Args:
        path: A file of `torch.jit.save` or `torch.save`, or a state dict as safetensors.
        input_shape: For a scripted module that does not determine it: the shape of one input
            without the batch axis.
        activations: For a state dict: the activations between its layers.
        last_activation: For a state dict: the activation after the last layer.
        max_bytes: The maximum memory for reading.

    Raises:
        RecordFormatError: If the file is damaged or not supported; the message suggests a remedy.
        ArgumentError: If `input_shape` or `activations` are missing, or do not apply to the file.
    """
    stated = activations is not None or last_activation is not None
    file = os.fspath(path)
    if is_script_archive(path):
        if stated:
            raise ArgumentError(
                f"`activations` must be None: {file} is a scripted module, which contains its "
                "activations."
            )
        line = f"hm.load_model({file!r}, input_shape={{shape}})"
        try:
            return read_script_network(path, input_shape, line, max_bytes)
        except RecordFormatError as error:
            raise RecordFormatError(
                f"`path` must contain a network; reading {file} failed: {error}"
            ) from None
    if not is_torch_file(path) and (file.lower().endswith(".onnx") or read_tensors(path)[0]):
        raise RecordFormatError(
            f"`path` must be a torch file; {file} is not. Use hm.load_model({file!r}) to read it."
        )
    tensors = read_state_dict(path)
    limit = SizeLimit(Path(path).stat().st_size, max_bytes)
    try:
        if input_shape is not None:
            raise RecordFormatError(
                "it is a state dict, which does not contain the connections of its layers. Build "
                f"the module `net` and write hm.from_torch(net, input_shape={tuple(input_shape)}, "
                f"state={file!r})."
            )
        network = build_state_dict_network(tensors, activations, last_activation, limit)
    except SizeLimitError:
        raise
    except RecordFormatError as error:
        reason = str(error).replace("(path)", f"({file!r})").replace("=path)", f"={file!r})")
        raise RecordFormatError(
            f"`path` must contain a network; reading {file} failed: {reason}"
        ) from None
    if not stated:
        raise ArgumentError(
            f"`activations` is required: {file} is a state dict, which does not contain the "
            "activations between its layers. If they are ReLUs, write "
            f'hm.load_model({file!r}, activations="relu").'
        )
    return network


def read_script_network(
    source: str | os.PathLike[str] | io.BytesIO,
    input_shape: Sequence[int] | None,
    line: str,
    max_bytes: int | None = None,
) -> ReluNetwork | MaxoutNetwork | GraphNetwork:
    """Read a scripted or traced module as a chain of layers or as a network of any shape.

    Args:
        source: A file that `torch.jit.save` wrote, or its content.
        input_shape: The shape of one input without the batch axis; None to infer it from the
            module.
        line: The line that passes the shape, for messages, with the placeholder `{shape}`.
        max_bytes: The maximum memory for reading.

    Raises:
        RecordFormatError: If an operation is not piecewise linear.
        ArgumentError: If the shape is required and the module does not determine it.
    """
    archive = read_script_archive(source)

    def limit() -> SizeLimit:
        return SizeLimit(archive.n_bytes, max_bytes)

    if input_shape is not None:
        return read_script_graph(archive, tuple(int(n) for n in input_shape), limit())
    try:
        return build_network(read_script_steps(source, limit()), limit())
    except SizeLimitError:
        raise
    except HardmaxError as error:
        reason = error
    found = _find_archive_shape(archive, max_bytes)
    if found.shape is not None:
        return read_script_graph(archive, found.shape, limit())
    kernels = [array for array in _collect_weights(archive.root) if array.ndim in (3, 4, 5)]
    if not kernels and found.example is None:
        raise RecordFormatError(str(reason))
    words = "(...)"
    if kernels:
        found = _find_image_shape(archive, kernels[0].shape, max_bytes)
        if found.shape is not None:
            return read_script_graph(archive, found.shape, limit())
        axes = {3: "length", 4: "height, width", 5: "depth, height, width"}[kernels[0].ndim]
        words = f"({kernels[0].shape[1]}, {axes})"
    raise ArgumentError(
        "`input_shape` is required for this scripted module, which does not determine it "
        f"({found.reason}); write {line.format(shape=found.example or words)}"
    )


class _MatrixSizes(GraphBuilder):
    """A builder that records whether a matrix takes more or fewer numbers than it receives.

    Attributes:
        excess: For the last matrix, the number of inputs received minus the number it takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.excess = 0

    def multiply(
        self, x: Signal, matrix: FloatArray, bias: Any = None, name: str = "matrix"
    ) -> Signal:
        self.excess = x.shape[-1] - len(matrix) if x.ndim else 0
        return super().multiply(x, matrix, bias, name)


def _find_image_shape(
    archive: ScriptArchive, kernel: tuple[int, ...], max_bytes: int | None
) -> InputShape:
    """Find the shape of a square image from the size of the first matrix that does not fit.

    A larger image passes at least as many numbers to the matrix. The sides that fit are therefore
    consecutive, and bisection finds the smallest of them.
    """
    channels, n_axes = kernel[1], len(kernel) - 2
    failed = ""
    outputs: list[tuple[int, ...]] = []

    def compute_excess(shape: tuple[int, ...]) -> int | None:
        """Return 0 if an image fits, otherwise the excess at the matrix, or None if unknown."""
        nonlocal failed
        build = _MatrixSizes()
        try:
            network = read_script_graph(
                archive, shape, SizeLimit(archive.n_bytes, max_bytes), build
            )
        except HardmaxError as error:
            failed = failed or f"{shape} does not fit: {str(error).rstrip('.')}"
            return build.excess or None
        outputs.append(network.output_shape)
        # If `view(-1, n)` splits a larger image into several inputs, the output has more axes.
        return 0 if len(outputs[0]) == len(outputs[-1]) else None

    def fits(shape: tuple[int, ...]) -> bool:
        return compute_excess(shape) == 0

    starts = find_usual_sides(lambda shape: compute_excess(shape) is not None, n_axes, channels, 1)
    if not starts:
        # A program with a fixed length of the flattened image fails before the matrix.
        sides = find_sides(fits, n_axes, channels, _MOST_TRIED[n_axes])
        return describe_sides(n_axes, channels, sides) if sides else InputShape(None, None, failed)
    low, high = 0, starts[0]
    while high < MOST_SIDES[n_axes] and (compute_excess((channels, *[high] * n_axes)) or 0) < 0:
        low, high = high, min(2 * high, MOST_SIDES[n_axes])
    while high - low > 1:
        middle = (low + high) // 2
        found = compute_excess((channels, *[middle] * n_axes))
        # A failure without a known excess means that the image is smaller than a window.
        low, high = (middle, high) if found is None or found < 0 else (low, middle)
    sides = find_adjacent_sides(fits, n_axes, channels, high)
    if not sides:
        return InputShape(None, None, "no square image fits")
    return describe_sides(n_axes, channels, sides)


def _find_archive_shape(archive: ScriptArchive, max_bytes: int | None) -> InputShape:
    """Find the length of the input vector, if only one length fits."""

    def fits(shape: tuple[int, ...]) -> bool:
        try:
            read_script_graph(archive, shape, SizeLimit(archive.n_bytes, max_bytes))
        except HardmaxError:
            return False
        return True

    linear = [array.shape[1] for array in _collect_weights(archive.root) if array.ndim == 2]
    return solve_shape(fits, [], dict.fromkeys(linear))


def _collect_weights(root: ScriptModule) -> list[Any]:
    """Return the weights of a module and its submodules, in order."""
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
