"""Layers of state dicts: matrices and biases by name, in the order in which they are applied.

A state dict has tensors such as `0.weight`, `0.bias`, `2.weight`. It does not contain the
activations, and a file does not preserve the order of its tensors. Layers are ordered by the
numbers in their names and by their shapes; if both together are ambiguous, the file is refused.
"""

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from hardmax._ground.arguments import Sizes
from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import (
    Activation,
    prelu,
    read_activations,
    split_activations,
)
from hardmax.models.formats.layered_networks import build_network, interleave
from hardmax.models.formats.torch.files import is_torch_file, read_torch_tensors
from hardmax.models.networks import MaxoutNetwork, ReluNetwork, read_affine
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import AnyArray

_MOST_STEPS = 1000
_MOST_LAYERS = 1000
_MOST_UNORDERED = 100


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """Read the tensors of a state dict from a file of `torch.save` or safetensors.

    Raises:
        RecordFormatError: If the file is damaged or has another format.
    """
    return read_torch_tensors(path) if is_torch_file(path) else read_tensors(path)[1]


@dataclass(frozen=True, eq=False)
class StateDict:
    """The Linear layers of a state dict, in order, and the slopes between them.

    Attributes:
        names: The names of the layers.
        weights: The matrices by name of the layer, shape `(n_out, n_in)`.
        biases: The biases by name of the layer, for layers that have one.
        slopes: The vectors that follow a layer, by name of the layer: pairs of the vector's own
            name and its entries.
    """

    names: list[str]
    weights: dict[str, AnyArray]
    biases: dict[str, AnyArray]
    slopes: dict[str, tuple[str, AnyArray]]

    @classmethod
    def from_tensors(cls, tensors: dict[str, AnyArray]) -> "StateDict":
        """Read tensors `NAME.weight` and `NAME.bias`.

        Raises:
            RecordFormatError: If there are other tensors, or the order of the layers is ambiguous.
        """
        _refuse_other_layers(tensors)
        layers: dict[str, dict[str, AnyArray]] = defaultdict(dict)
        for name, array in tensors.items():
            layer, _, part = name.rpartition(".")
            if part not in ("weight", "bias"):
                raise RecordFormatError(
                    "every tensor must be the `weight` or the `bias` of a Linear layer; got "
                    f"`{name}`."
                )
            layers[layer][part] = array
        if not layers:
            raise RecordFormatError("it has no tensors.")
        if len(layers) > _MOST_LAYERS:
            raise RecordFormatError(
                f"it must have at most {_MOST_LAYERS:,} layers; got {len(layers):,}."
            )
        vectors: dict[str, AnyArray] = {}
        for layer, parts in layers.items():
            weight = parts.get("weight")
            if weight is not None and weight.ndim == 1 and "bias" not in parts:
                vectors[layer] = weight
            elif weight is None or weight.ndim != 2:
                shape = "no weight" if weight is None else f"shape {weight.shape}"
                raise RecordFormatError(
                    f"`{layer}.weight` must have shape (n_out, n_in), as in a Linear layer; got "
                    f"{shape}."
                )
        weights = {n: parts["weight"] for n, parts in layers.items() if n not in vectors}
        biases = {n: parts["bias"] for n, parts in layers.items() if "bias" in parts}
        names = _sort_layers({name: weight.shape for name, weight in weights.items()})
        for before, name in pairwise(names):
            if weights[name].shape[1] != len(weights[before]):
                raise RecordFormatError(
                    f"`{name}.weight` must take the {len(weights[before])} outputs of the previous "
                    f"layer; got shape {weights[name].shape}."
                )
        return cls(names, weights, biases, _find_followers(names, vectors))

    def maps(self) -> list[AffineMap]:
        """Return the layers as affine maps, in order."""
        return [
            read_affine(f"{n}.weight", self.weights[n].T, f"{n}.bias", self.biases.get(n), Sizes())
            for n in self.names
        ]

    def activations(self, stated: Any, last: Any) -> list[Activation]:
        """Return the activation after each layer: as stated, or a ReLU after each but the last.

        Args:
            stated: One activation for all layers but the last, or one for each; `prelu` takes its
                slopes from the tensors. None if no activation was stated.
            last: The activation after the last layer, or None.

        Raises:
            RecordFormatError: If the tensors contradict the assumed or stated activations.
            ArgumentError: If the number of activations does not match the number of layers.
        """
        n = len(self.names)
        if stated is None and last is None:
            self._refuse_implicit_relu()
            return read_activations([*["relu"] * (n - 1), "identity"], None, n)
        if stated is None and n > 1:
            raise ArgumentError(
                "`last_activation` requires `activations`: a state dict does not contain the "
                "activations between its layers."
            )
        items = [last] if stated is None else split_activations(stated)
        if len(items) == 1 < n and _is_bare_prelu(items[0]):
            items = [*items * (n - 1), "identity" if last is None else last]
            last = None
        used = self._collect_slopes(items) if len(items) == n else {}
        for name, (vector, _) in self.slopes.items():
            if name not in used:
                raise RecordFormatError(_vector_message(vector))
        if used:
            pairs = zip(self.names, items, strict=True)
            items = [used.get(name, item) for name, item in pairs]
        return read_activations(items, None if stated is None else last, n)

    def _collect_slopes(self, items: list[Any]) -> dict[str, Activation]:
        """Return the layers whose activation is a `prelu`, with its slopes."""
        found = {}
        for name, item in zip(self.names, items, strict=True):
            if _is_bare_prelu(item):
                if name not in self.slopes:
                    raise ArgumentError(
                        "`activations` must specify prelu(SLOPE) where the file has no slopes; "
                        f"there are none after `{name}`."
                    )
                found[name] = prelu(self.slopes[name][1])
        return found

    def _refuse_implicit_relu(self) -> None:
        """Raise if the tensors show that the layers are not separated by ReLUs."""
        for vector, _ in self.slopes.values():
            raise RecordFormatError(_vector_message(vector))
        for before, name in pairwise(self.names):
            if before.isdecimal() and name.isdecimal() and int(name) == int(before) + 1:
                raise RecordFormatError(
                    f"the layers `{before}` and `{name}` of a torch.nn.Sequential are adjacent, "
                    "without an activation between them: pass `activations`, with identity if that "
                    "is intended."
                )


def build_state_dict_network(
    tensors: dict[str, AnyArray], activations: Any, last_activation: Any, limit: SizeLimit
) -> ReluNetwork | MaxoutNetwork:
    """Return the network of a state dict with stated activations.

    Args:
        tensors: The tensors by name.
        activations: The activations between the layers (see `StateDict.activations`).
        last_activation: The activation after the last layer, or None.
        limit: The limit on the memory of the matrices.
    """
    layers = StateDict.from_tensors(tensors)
    used = layers.activations(activations, last_activation)
    return build_network(interleave(layers.maps(), used), limit)


def _refuse_other_layers(tensors: dict[str, AnyArray]) -> None:
    """Raise for layers that require the module itself; the message contains the line to write."""
    kernels = [(n, a) for n, a in tensors.items() if n.endswith("weight") and a.ndim > 2]
    norms = [name for name in tensors if name.endswith(("running_mean", "running_var"))]
    attentions = [n for n in tensors if n.endswith(("in_proj_weight", "q_proj.weight"))]
    if attentions:
        raise RecordFormatError(
            f"`{attentions[0]}` belongs to an attention layer; use hm.load_checkpoint(path) for "
            "trained transformers."
        )
    if not kernels and not norms:
        return
    shape = ""
    if kernels:
        name, kernel = kernels[0]
        what = f"`{name}` has shape {kernel.shape}, as in a convolution"
        sides = {1: "length", 2: "height, width", 3: "depth, height, width"}.get(kernel.ndim - 2)
        shape = f", input_shape=({kernel.shape[1]}, {sides})" if sides else ""
    else:
        what = f"`{norms[0]}` belongs to a normalisation"
    raise RecordFormatError(
        f"{what}, and a state dict does not contain the connections of such layers. Build the "
        f"module `net` to which it belongs, and write hm.from_torch(net{shape}, state=path)."
    )


def _vector_message(name: str) -> str:
    return (
        f"`{name}.weight` must have shape (n_out, n_in), as in a Linear layer; got one axis. If it "
        "contains the slopes of a PReLU, pass prelu in `activations`."
    )


def _is_bare_prelu(item: Any) -> bool:
    return isinstance(item, str) and item.strip().lower() == "prelu"


def _find_followers(
    names: list[str], vectors: dict[str, AnyArray]
) -> dict[str, tuple[str, AnyArray]]:
    """Find the layer that each vector follows, by the numbers in the names."""
    followers: dict[str, tuple[str, AnyArray]] = {}
    for vector, slopes in vectors.items():
        before = [name for name in names if _is_before(name, vector)]
        after = [name for name in names if _is_before(vector, name)]
        if not before or [*before, *after] != names or before[-1] in followers:
            raise RecordFormatError(_vector_message(vector))
        followers[before[-1]] = vector, slopes
    return followers


def _sort_layers(shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Sort layers by the numbers in their names, or by shapes if the names are ambiguous.

    Raises:
        RecordFormatError: If both names and shapes `(n_out, n_in)` together are ambiguous.
    """
    ordered = sorted(shapes, key=_natural_key)
    unknown = next((pair for pair in pairwise(ordered) if not _is_before(*pair)), None)
    if unknown is None:
        return ordered
    chains = _find_chains(shapes)
    if len(chains) == 1:
        return chains[0]
    raise RecordFormatError(
        "layers must be numbered, as in a torch.nn.Sequential (0.weight, 2.weight, ...); the order "
        f"of `{unknown[0]}` and `{unknown[1]}` is unknown, and "
        + ("more than one order" if chains else "no order")
        + " of the layers fits their shapes. Rename the tensors."
    )


def _is_before(one: str, other: str) -> bool:
    """Whether two names first differ in a number that is smaller in the first name."""
    pairs = zip(_natural_key(one), _natural_key(other), strict=False)
    first = next((pair for pair in pairs if pair[0] != pair[1]), None)
    return first is not None and all(is_number for is_number, _, _ in first) and first[0] < first[1]


def _find_chains(shapes: dict[str, tuple[int, ...]]) -> list[list[str]]:
    """Return the orders in which shapes of adjacent layers match and numbers increase.

    Returns:
        At most two such orders; none if the search takes too long.
    """
    if len(shapes) > _MOST_UNORDERED:
        return []
    earlier = {name: {other for other in shapes if _is_before(other, name)} for name in shapes}
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
            if earlier[name].isdisjoint(rest):
                open_ends.append([*begun, name])
    return []


@lru_cache(maxsize=4 * _MOST_LAYERS)
def _natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that orders the numbers in a name by value."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    digits = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    return [
        (False, 0, part) if digit is None else (True, len(digit), digit)
        for part, digit in zip(parts, digits, strict=True)
    ]
