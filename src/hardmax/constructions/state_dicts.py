"""Networks from safetensors files: saved by this library, or state dicts of `torch.nn.Sequential`.

A state dict has tensors such as `0.weight`, `0.bias`, `2.weight`, and says nothing about what
stands between the layers: a ReLU is assumed after each but the last.
"""

import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from hardmax.constructions.piece_layers import SourceNetwork
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import load_model
from hardmax.typing import AnyArray


def load_network(path: str | os.PathLike[str]) -> SourceNetwork:
    """Read a ReLU or maxout network from a safetensors file.

    Args:
        path: A file written by `save_model`, or the state dict of a `torch.nn.Sequential` of
            `Linear` and `ReLU`: matrices `NAME.weight` of shape `(n_out, n_in)` and vectors
            `NAME.bias` (which may be missing), layers in the order of the numbers in their names.

    Raises:
        RecordFormatError: If the file holds something else; the message says what.
    """
    from safetensors import SafetensorError, safe_open

    with Path(path).open("rb"):
        pass  # A missing or unreadable file is reported as such, before its content is judged.
    try:
        with safe_open(path, framework="np") as file:
            is_ours = "hardmax" in (file.metadata() or {})
            tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordFormatError(
            f"`path` must be a safetensors file of numbers NumPy has; reading {path} failed: "
            f"{error}."
        ) from None
    if is_ours:
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
    for layer in sorted(layers, key=_natural):
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


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that puts layer 10 after layer 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
