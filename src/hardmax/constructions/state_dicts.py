"""Networks from safetensors files: saved by this library, or state dicts of `torch.nn.Sequential`.

A state dict has tensors such as `0.weight`, `0.bias`, `2.weight`, and says nothing about what
stands between the layers: a ReLU is assumed after each but the last. Nor does a file keep the order
of its tensors: layers go by the numbers in their names and by their shapes, and where both together
leave a choice the file is refused.
"""

import os
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from hardmax.constructions.piece_layers import SourceNetwork
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import load_model
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import AnyArray

_MOST_STEPS = 1000
_STORED_AS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def load_network(path: str | os.PathLike[str]) -> SourceNetwork:
    """Read a ReLU or maxout network from a safetensors file.

    Args:
        path: A file written by `save_model`, or the state dict of a `torch.nn.Sequential` of
            `Linear` and `ReLU`: matrices `NAME.weight` of shape `(n_out, n_in)` and vectors
            `NAME.bias` (which may be missing), in any type of floats, bfloat16 included. Layers
            follow the numbers in their names; names without numbers will do if only one order
            lets every layer take what the one before gives.

    Raises:
        RecordFormatError: If the file holds something else; the message says what.
    """
    floats = _floats(path)
    try:
        header, tensors = read_tensors(path)
    except RecordFormatError:
        if floats is None:
            _refuse_pickles(path)
            raise
        header, tensors = None, floats
    if header is not None:
        model = load_model(path)
        if not isinstance(model, ReluNetwork | MaxoutNetwork):
            raise RecordFormatError(
                f"`path` must hold a ReLU or maxout network; {path} holds a {type(model).__name__}."
            )
        return model
    try:
        return _from_state_dict(tensors if floats is None else floats)
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must hold a ReLU or maxout network; in {path}: {error}"
        ) from None


def _floats(path: str | os.PathLike[str]) -> dict[str, AnyArray] | None:
    """Read a file of floats, bfloat16 as float32: NumPy has it, as a type of its own, or not.

    Returns:
        The tensors; None if the file is no safetensors file, or not all of them are floats.
    """
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(Path(path).read_bytes())  # type: ignore[no-untyped-call]
    except SafetensorError:
        return None
    if any(entry["dtype"] not in _STORED_AS for _, entry in tensors):
        return None
    result = {}
    for name, entry in tensors:
        stored = _STORED_AS[entry["dtype"]]
        array = np.frombuffer(entry["data"], dtype=stored).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            # The upper half of a float32.
            array = (array.astype(np.uint32) << 16).view(np.float32)
        result[name] = array
    return result


def _refuse_pickles(path: str | os.PathLike[str]) -> None:
    """Say what to do with a file of `torch.save`; reading it could run any program."""
    with Path(path).open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise RecordFormatError(
                f"`path` must be a safetensors file; {path} looks like one of torch.save. Write "
                "the weights with safetensors.torch.save_file(net.state_dict(), path)."
            )


def _from_state_dict(tensors: dict[str, AnyArray]) -> ReluNetwork:
    layers: dict[str, dict[str, AnyArray]] = defaultdict(dict)
    for name, array in tensors.items():
        layer, _, part = name.rpartition(".")
        if part not in ("weight", "bias"):
            raise RecordFormatError(
                f"every tensor must be the `weight` or the `bias` of a Linear layer; got `{name}`."
            )
        layers[layer][part] = array
    if not layers:
        raise RecordFormatError("it has no tensors.")
    weights: list[AnyArray] = []
    biases: list[AnyArray | None] = []
    for layer, parts in layers.items():
        weight = parts.get("weight")
        if weight is None or weight.ndim != 2:
            shape = "none" if weight is None else weight.shape
            raise RecordFormatError(
                f"`{layer}.weight` must have shape (n_out, n_in), as a Linear layer has; got "
                f"{shape}."
            )
    for layer in _in_order({layer: parts["weight"].shape for layer, parts in layers.items()}):
        weight = layers[layer]["weight"]
        if weights and weight.shape[1] != weights[-1].shape[1]:
            raise RecordFormatError(
                f"`{layer}.weight` must take the {weights[-1].shape[1]} outputs of the layer "
                f"before; got shape {weight.shape}."
            )
        weights.append(np.ascontiguousarray(weight.T))
        biases.append(layers[layer].get("bias"))
    return ReluNetwork(weights, biases)  # type: ignore[arg-type]


def _in_order(shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Put layer 10 after layer 2, and refuse names that do not say what comes first.

    Where the names leave it open, the shapes `(n_out, n_in)` may say it.
    """
    ordered = sorted(shapes, key=_natural)
    unknown = next((pair for pair in pairwise(ordered) if not _is_before(*pair)), None)
    if unknown is None:
        return ordered
    chains = _chains(shapes)
    if len(chains) == 1:
        return chains[0]
    raise RecordFormatError(
        "layers must be numbered, as those of a torch.nn.Sequential are (0.weight, 2.weight, ...); "
        f"which of `{unknown[0]}` and `{unknown[1]}` comes first is unknown, and "
        + ("more than one order" if chains else "no order")
        + " of the layers fits their shapes: rename the tensors."
    )


def _is_before(one: str, other: str) -> bool:
    """Whether two names first differ in a number, and the first has the smaller one."""
    pairs = zip(_natural(one), _natural(other), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), None)
    return first is not None and all(is_number for is_number, _, _ in first) and first[0] < first[1]


def _chains(shapes: dict[str, tuple[int, ...]]) -> list[list[str]]:
    """Return orders in which every layer takes what the one before gives, and numbers rise.

    Returns:
        All of them, or two; none also if the search becomes too long.
    """
    found: list[list[str]] = []
    open_ends: list[list[str]] = [[]]
    for _ in range(_MOST_STEPS):
        if not open_ends or len(found) == 2:
            return found
        begun = open_ends.pop()
        rest = [name for name in shapes if name not in begun]
        if not rest:
            found.append(begun)
        fitting = (n for n in rest if not begun or shapes[n][1] == shapes[begun[-1]][0])
        for name in fitting:
            if not any(_is_before(other, name) for other in rest):
                open_ends.append([*begun, name])
    return []


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that orders numbers by value, whatever their length."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    digits = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    return [
        (False, 0, part) if digit is None else (True, len(digit), digit)
        for part, digit in zip(parts, digits, strict=True)
    ]
