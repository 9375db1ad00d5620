"""Networks from safetensors files: saved by this library, or state dicts of `torch.nn.Sequential`.

A state dict has tensors such as `0.weight`, `0.bias`, `2.weight`, and says nothing about what
stands between the layers: a ReLU is assumed after each but the last.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from hardmax.constructions.piece_layers import SourceNetwork
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import load_model
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import AnyArray


def load_network(path: str | os.PathLike[str]) -> SourceNetwork:
    """Read a ReLU or maxout network from a safetensors file.

    Args:
        path: A file written by `save_model`, or the state dict of a `torch.nn.Sequential` of
            `Linear` and `ReLU`: matrices `NAME.weight` of shape `(n_out, n_in)` and vectors
            `NAME.bias` (which may be missing), layers in the order of the numbers in their names
            (a file does not keep any other order).

    Raises:
        RecordFormatError: If the file holds something else; the message says what.
    """
    header, tensors = read_tensors(path)
    if header is not None:
        model = load_model(path)
        if not isinstance(model, ReluNetwork | MaxoutNetwork):
            raise RecordFormatError(
                f"`path` must hold a ReLU or maxout network; {path} holds a {type(model).__name__}."
            )
        return model
    try:
        return _from_state_dict(tensors)
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must hold a ReLU or maxout network; in {path}: {error}"
        ) from None


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
    for layer in _in_order(layers):
        weight = layers[layer].get("weight")
        if weight is None or weight.ndim != 2:
            shape = "none" if weight is None else weight.shape
            raise RecordFormatError(
                f"`{layer}.weight` must have shape (n_out, n_in), as a Linear layer has; got "
                f"{shape}."
            )
        if weights and weight.shape[1] != weights[-1].shape[1]:
            raise RecordFormatError(
                f"`{layer}.weight` must take the {weights[-1].shape[1]} outputs of the layer "
                f"before; got shape {weight.shape}."
            )
        weights.append(np.ascontiguousarray(weight.T))
        biases.append(layers[layer].get("bias"))
    return ReluNetwork(weights, biases)  # type: ignore[arg-type]


def _in_order(names: Iterable[str]) -> list[str]:
    """Put layer 10 after layer 2, and refuse names whose numbers do not say what comes first."""
    ordered = sorted(names, key=_natural)
    for before, after in pairwise(ordered):
        pairs = zip(_natural(before), _natural(after), strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if first is None or not all(is_number for is_number, _, _ in first):
            raise RecordFormatError(
                "layers must be numbered, as those of a torch.nn.Sequential are (0.weight, "
                f"2.weight, ...); which of `{before}` and `{after}` comes first is unknown."
            )
    return ordered


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that orders numbers by value, whatever their length."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    digits = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    return [
        (False, 0, part) if digit is None else (True, len(digit), digit)
        for part, digit in zip(parts, digits, strict=True)
    ]
