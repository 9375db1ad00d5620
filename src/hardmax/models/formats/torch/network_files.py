"""Networks from files that torch wrote: scripted modules, and state dicts. Nothing is run.

A scripted or traced module says what it computes. A state dict does not: the activations between
its layers must be stated, and layers that are not Linear need the module they belong to.
"""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError
from hardmax.models.formats.layered_networks import network_of
from hardmax.models.formats.state_dicts import read_state_dict, state_dict_network
from hardmax.models.formats.torch.files import is_torch_file
from hardmax.models.formats.torch.input_shapes import InputShape, solved_shape
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    is_script_archive,
    read_script_archive,
)
from hardmax.models.formats.torch.script_programs import script_graph, script_steps
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tensor_files import read_tensors

_MOST_MODULES = 10_000


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
    shape, rest = found.example, found.reason
    if kernels:
        shape, rest = _example_image(kernels[0].shape, archive, limit)
    raise ArgumentError(
        "`input_shape` must be given for this scripted module, which does not determine it "
        f"({rest}); write {line.format(shape=shape)}"
    )


def _example_image(
    kernel: tuple[int, ...], archive: ScriptArchive, limit: Callable[[], SizeLimit]
) -> tuple[Any, str]:
    """Return the shape of an image of a usual size that fits, or words in its place."""
    channels, n_axes = kernel[1], len(kernel) - 2
    sides = {1: (128, 64, 32), 2: (28, 32, 64), 3: (16, 8)}[n_axes]
    failed = ""
    for side in sides if channels == 1 or n_axes != 2 else (32, 28, 64):
        shape = (channels, *[side] * n_axes)
        try:
            script_graph(archive, shape, limit())
        except HardmaxError as error:
            failed = failed or f"{shape} does not fit: {str(error).rstrip('.')}"
            continue
        return shape, f"{shape} fits, others may"
    words = {1: "length", 2: "height, width", 3: "depth, height, width"}[n_axes]
    return f"({channels}, {words})", failed


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
