"""Networks from files: what the file says they compute, and what it does not say.

An ONNX file, a scripted module and a file of this library say what stands between the layers, and
are read for it. A state dict has tensors such as `0.weight`, `0.bias`, `2.weight`, and says nothing
about activations: they can be stated, and if they are not, a ReLU after each layer but the last is
*assumed*, which `NetworkFile.assumption` and all that is made from it keep saying. Nor does a file
keep the order of its tensors: layers go by the numbers in their names and by their shapes, and
where both together leave a choice the file is refused (`state_dict_layers`).

Nothing in a file is ever run, scripted modules included.

A file does not keep the order of its tensors: layers go by the numbers in their names and by their
shapes, and where both together leave a choice it is refused.
"""

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from hardmax._ground.arguments import Sizes
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.size_limits import SizeLimit
from hardmax.constructions.compilers.piece_layers import SourceNetwork
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import Activation, activation_items, prelu, read_activations
from hardmax.models.formats.layered_networks import Step, chained, network_of
from hardmax.models.formats.onnx.graphs import onnx_steps
from hardmax.models.formats.torch.files import is_torch_file, read_torch_tensors
from hardmax.models.formats.torch.script_files import is_script_archive
from hardmax.models.formats.torch.script_programs import script_steps
from hardmax.models.networks import MaxoutNetwork, ReluNetwork, read_affine
from hardmax.models.storage import load_model
from hardmax.models.tensor_files import read_tensors
from hardmax.typing import AnyArray

_MOST_STEPS = 1000
_MOST_LAYERS = 1000
_MOST_UNORDERED = 100


@dataclass(frozen=True, eq=False)
class StateDict:
    """The Linear layers of a state dict, in order, and slopes that stand between them.

    Attributes:
        names: The layers.
        weights: Their matrices, shape `(n_out, n_in)`.
        biases: Their biases, where they have any.
        slopes: Vectors that follow a layer, by its name: each with its own name.
    """

    names: list[str]
    weights: dict[str, AnyArray]
    biases: dict[str, AnyArray]
    slopes: dict[str, tuple[str, AnyArray]]

    @classmethod
    def of(cls, tensors: dict[str, AnyArray]) -> "StateDict":
        """Read tensors `NAME.weight` and `NAME.bias`.

        Raises:
            RecordFormatError: If they are something else, or leave their order open.
        """
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
                f"it must have at most {_MOST_LAYERS:,} layers; it has {len(layers):,}."
            )
        vectors: dict[str, AnyArray] = {}
        for layer, parts in layers.items():
            weight = parts.get("weight")
            if weight is not None and weight.ndim == 1 and "bias" not in parts:
                vectors[layer] = weight
            elif weight is None or weight.ndim != 2:
                shape = "none" if weight is None else weight.shape
                raise RecordFormatError(
                    f"`{layer}.weight` must have shape (n_out, n_in), as a Linear layer has; got "
                    f"{shape}."
                )
        weights = {n: parts["weight"] for n, parts in layers.items() if n not in vectors}
        biases = {n: parts["bias"] for n, parts in layers.items() if "bias" in parts}
        names = _in_order({name: weight.shape for name, weight in weights.items()})
        for before, name in pairwise(names):
            if weights[name].shape[1] != len(weights[before]):
                raise RecordFormatError(
                    f"`{name}.weight` must take the {len(weights[before])} outputs of the layer "
                    f"before; got shape {weights[name].shape}."
                )
        return cls(names, weights, biases, _followers(names, vectors))

    def maps(self) -> list[AffineMap]:
        """Return the layers as affine maps, in order."""
        return [
            read_affine(f"{n}.weight", self.weights[n].T, f"{n}.bias", self.biases.get(n), Sizes())
            for n in self.names
        ]

    def activations(self, stated: Any, last: Any) -> list[Activation]:
        """Say what stands after each layer: as stated, or a ReLU after each but the last.

        Args:
            stated: One activation for all layers but the last, or one for each; `prelu` takes its
                slopes from the tensors. None if nothing was stated.
            last: What stands after the last layer, or None.

        Raises:
            RecordFormatError: If the tensors speak against what was assumed or stated.
            ArgumentError: If the activations are not those of so many layers.
        """
        n = len(self.names)
        if stated is None and last is None:
            self._refuse_assuming()
            return read_activations([*["relu"] * (n - 1), "identity"], None, n)
        if stated is None and n > 1:
            raise ArgumentError(
                "`activations` must be given beside `last_activation`: a state dict does not say "
                "what stands between its layers."
            )
        items = [last] if stated is None else activation_items(stated)
        if len(items) == 1 < n and _is_filed_prelu(items[0]):
            items = [*items * (n - 1), "identity" if last is None else last]
            last = None
        used = self._filed_slopes(items) if len(items) == n else {}
        for name, (vector, _) in self.slopes.items():
            if name not in used:
                raise RecordFormatError(_vector_message(vector))
        if used:
            pairs = zip(self.names, items, strict=True)
            items = [used.get(name, item) for name, item in pairs]
        return read_activations(items, None if stated is None else last, n)

    def _filed_slopes(self, items: list[Any]) -> dict[str, Activation]:
        """Return the layers whose activation is a `prelu`, with its slopes."""
        found = {}
        for name, item in zip(self.names, items, strict=True):
            if _is_filed_prelu(item):
                if name not in self.slopes:
                    raise ArgumentError(
                        "`activations` must say prelu(SLOPE) where the file has no slopes; none "
                        f"follow `{name}`."
                    )
                found[name] = prelu(self.slopes[name][1])
        return found

    def _refuse_assuming(self) -> None:
        """Raise where the file itself speaks against a ReLU between the layers."""
        for vector, _ in self.slopes.values():
            raise RecordFormatError(_vector_message(vector))
        for before, name in pairwise(self.names):
            if before.isdecimal() and name.isdecimal() and int(name) == int(before) + 1:
                raise RecordFormatError(
                    f"the layers `{before}` and `{name}` of a torch.nn.Sequential stand side by "
                    "side, with nothing between them: state `activations`, identity if that is so."
                )


def _vector_message(name: str) -> str:
    return (
        f"`{name}.weight` must have shape (n_out, n_in), as a Linear layer has; it has one axis. "
        "If it holds the slopes of a PReLU, state prelu in `activations`."
    )


def _is_filed_prelu(item: Any) -> bool:
    return isinstance(item, str) and item.strip().lower() == "prelu"


def _followers(names: list[str], vectors: dict[str, AnyArray]) -> dict[str, tuple[str, AnyArray]]:
    """Find the layer that each vector follows, by the numbers in the names."""
    followers: dict[str, tuple[str, AnyArray]] = {}
    for vector, slopes in vectors.items():
        before = [name for name in names if _is_before(name, vector)]
        after = [name for name in names if _is_before(vector, name)]
        if not before or [*before, *after] != names or before[-1] in followers:
            raise RecordFormatError(_vector_message(vector))
        followers[before[-1]] = vector, slopes
    return followers


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
def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that orders numbers by value, whatever their length."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    digits = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    return [
        (False, 0, part) if digit is None else (True, len(digit), digit)
        for part, digit in zip(parts, digits, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class NetworkFile:
    """A network from a file, and how it is known what stands between its layers.

    Attributes:
        network: The network.
        activations: What stands after each affine layer, in words; None for a maxout network.
        known_from: `"file"` if the file says it, `"stated"` if the caller did, `"assumed"` if
            nobody did.

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
        """What was assumed about the network, in a sentence; None if nothing was."""
        if self.known_from != "assumed" or self.activations is None:
            return None
        if len(self.activations) == 1:
            return "nothing after the only layer; a state dict does not say"
        return "a ReLU after every layer but the last, nothing after it; a state dict does not say"


def load_network(
    path: str | os.PathLike[str], activations: Any = None, last_activation: Any = None
) -> SourceNetwork:
    """Read a network of maxima from a file (see `read_network_file`, which also says how)."""
    return read_network_file(path, activations, last_activation).network


def read_network_file(
    path: str | os.PathLike[str],
    activations: "Activation | str | Sequence[Activation | str] | None" = None,
    last_activation: Activation | str | None = None,
) -> NetworkFile:
    """Read a network of maxima from a file, with how its activations are known.

    Args:
        path: A file written by `save_model`; an ONNX file (`.onnx`); a module saved by
            `torch.jit.save`; or the state dict of a `torch.nn.Sequential` or such, as safetensors
            or as `torch.save` writes it: matrices `NAME.weight` of shape `(n_out, n_in)` and
            vectors `NAME.bias` (which may be missing), in any type of floats, bfloat16 included.
            Layers follow the numbers in their names; names without numbers will do if only one
            order lets every layer take what the one before gives.
        activations: For a state dict, what stands between its layers, in the words of
            `read_activation`: one for all layers but the last, or one for each, the last included.
            `prelu` takes its slopes from the file. None assumes `relu`, and says so.
        last_activation: What stands after the last layer, if `activations` is one for all.

    Raises:
        RecordFormatError: If the file holds something else; the message says what.
        ArgumentError: If `activations` are no piecewise linear ones, or given for a file that has
            its own.

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
    steps = _own_steps(path)
    if steps is not None:
        _refuse_statement(path, stated)
        words = [str(step) for step in steps if isinstance(step, Activation)]
        ending = [] if steps and isinstance(steps[-1], Activation) else ["identity"]
        return NetworkFile(_network(path, steps), (*words, *ending), "file")
    is_pickled = is_torch_file(path)
    header, tensors = (None, read_torch_tensors(path)) if is_pickled else read_tensors(path)
    if header is not None:
        _refuse_statement(path, stated)
        model = load_model(path)
        if not isinstance(model, ReluNetwork | MaxoutNetwork):
            raise RecordFormatError(
                f"`path` must hold a ReLU or maxout network; {path} holds a {type(model).__name__}."
            )
        is_relu = isinstance(model, ReluNetwork)
        known = ("relu",) * (len(model.weights) - 1) + ("identity",) if is_relu else None
        return NetworkFile(model, known, "file")
    try:
        layers = StateDict.of(tensors)
        maps = layers.maps()
    except HardmaxError as error:
        raise _no_network(path, error) from None
    try:
        used = layers.activations(activations, last_activation)
    except RecordFormatError as error:
        raise _no_network(path, error) from None
    network = _network(path, chained(maps, used))
    return NetworkFile(network, tuple(map(str, used)), "stated" if stated else "assumed")


def _own_steps(path: str | os.PathLike[str]) -> list[Step] | None:
    """The steps of a file that has them; None if it is of another kind."""
    if Path(path).suffix.lower() == ".onnx":
        return onnx_steps(path)
    if not Path(path).is_file() or not is_script_archive(path):
        return None
    try:
        return script_steps(path)
    except HardmaxError as error:
        raise _no_network(path, error) from None


def _network(path: str | os.PathLike[str], steps: Sequence[Step]) -> SourceNetwork:
    try:
        return network_of(steps, SizeLimit(Path(path).stat().st_size))
    except HardmaxError as error:
        raise _no_network(path, error) from None


def _no_network(path: str | os.PathLike[str], error: HardmaxError) -> RecordFormatError:
    return RecordFormatError(f"`path` must hold a ReLU or maxout network; in {path}: {error}")


def _refuse_statement(path: str | os.PathLike[str], stated: bool) -> None:
    if stated:
        raise ArgumentError(
            f"`activations` must not be given for a file that says what stands between its layers, "
            f"as {path} does."
        )
