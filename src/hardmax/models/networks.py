"""Feed-forward networks of ReLU or maxout units."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hardmax._ground.arguments import ArrayGroup, Sizes, read_only_copy
from hardmax._ground.display import format_widths, html_card
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.argmax_models import ArgmaxModel
from hardmax.models.layer_words import UNITS
from hardmax.typing import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class ReluNetwork(ArgmaxModel):
    r"""A network $x \mapsto \mathrm{relu}(\dots\mathrm{relu}(x W_1 + b_1)\dots) W_L + b_L$.

    Hidden layers have ReLU units; the last layer is affine. A signature has one entry for each
    hidden unit: 1 if the unit is on, 0 if it is off or identically zero.

    Attributes:
        weights: The $W_l$, shapes `(n_0, n_1), (n_1, n_2), ...`, at least one.
        biases: The $b_l$, shapes `(n_1,), (n_2,), ...`. None in place of one of them, or of the
            whole sequence, means zero.

    Examples:
        >>> absolute = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]], [None, [-1.0]])
        >>> absolute
        ReluNetwork(1 -> [2] -> 1)
        >>> absolute([[-3.0], [0.0], [2.0]]).tolist()
        [[2.0], [-1.0], [1.0]]
        >>> absolute.signature([[-3.0], [0.0], [2.0]]).tolist()
        [[0, 1], [0, 0], [1, 0]]
        >>> [part.tolist() for part in absolute.affine_map([0, 1])]
        [[[-1.0]], [-1.0]]
    """

    weights: Sequence[FloatArray]
    biases: Sequence[FloatArray] | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        given = read_sequence("weights", self.weights)
        biases = _read_entries("biases", self.biases, len(given))
        both = given + biases
        both[::2], both[1::2] = given, biases
        kept = _specify_chain(len(given)).read(*both)
        self.__dict__.update(weights=tuple(kept[::2]), biases=tuple(kept[1::2]))

    def __repr__(self) -> str:
        hidden = format_widths(self.widths)
        return f"ReluNetwork({self.weights[0].shape[0]} -> {hidden} -> {self.dim_out})"

    @property
    def widths(self) -> list[int]:
        """The number of units in each hidden layer."""
        return [int(weight.shape[1]) for weight in self.weights[:-1]]

    @property
    def n_parameters(self) -> int:
        """The total number of weights and biases."""
        return sum(array.size for array in (*self.weights, *(self.biases or ())))

    def _build_network(self) -> ArgmaxNetwork:
        maps = list(map(AffineMap.trusted, self.weights, self.biases or ()))
        layers = [relu_layer(affine, AffineMap.identity(affine.dim_out)) for affine in maps[:-1]]
        embedding = AffineMap.identity(len(maps[0].weight))
        return ArgmaxNetwork.trusted(tuple(layers), embedding, maps[-1])


@lru_cache(maxsize=64)
def _specify_chain(n: int) -> ArrayGroup:
    """Specify the weights and biases of `n` consecutive affine maps."""
    arrays: list[tuple[str, tuple[str, ...]]] = []
    for i in range(n):
        arrays += (f"weights[{i}]", (f"n_{i}", f"n_{i + 1}")), (f"biases[{i}]", (f"n_{i + 1}",))
    return ArrayGroup(*arrays)


@dataclass(frozen=True, eq=False, repr=False)
class MaxoutNetwork(ArgmaxModel):
    r"""A network whose hidden units are maxima $\max_j \langle a_j, z\rangle + c_j$.

    The last layer is affine. Units of one layer may have different ranks (numbers of forms). A
    signature has one entry for each hidden unit: the index of its winning form.

    Attributes:
        weights: For each hidden layer, a sequence of units. Unit $i$ is an array `(rank_i, n_in)`
            with one form per row; if all ranks agree, the layer may be one array
            `(width, rank, n_in)`. The last entry is a matrix `(n_in, dim_out)` that acts on row
            vectors.
        biases: For each hidden layer, a sequence of arrays `(rank_i,)`, or one array
            `(width, rank)`. The last entry has shape `(dim_out,)`. None in place of a unit, of a
            layer, or of the whole sequence means zero.

    References:
        [GWMCB13].

    Examples:
        A unit of rank 3 and one of rank 2, added:

        >>> net = MaxoutNetwork([[[[1.0], [-1.0], [0.0]], [[1.0], [0.0]]], [[1.0], [1.0]]],
        ...                     [[[0.0, 0.0, 1.0], None], None])
        >>> net
        MaxoutNetwork(1 -> [2] -> 1, ranks 2 to 3)
        >>> net([[-2.0], [0.5], [2.0]]).ravel().tolist()
        [2.0, 1.5, 4.0]
        >>> net.signature([[-2.0], [0.5], [2.0]]).tolist()
        [[1, 1], [2, 0], [0, 0]]
    """

    weights: Sequence[Any]
    biases: Sequence[Any] | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        given = read_sequence("weights", self.weights)
        biases = _read_entries("biases", self.biases, len(given))
        sizes = Sizes()
        read_weights: list[Any] = []
        read_biases: list[Any] = []
        for i, (layer, bias) in enumerate(zip(given[:-1], biases[:-1], strict=True)):
            units = _read_units(i, layer, bias, sizes)
            read_weights.append(tuple(weight for weight, _ in units))
            read_biases.append(tuple(offset for _, offset in units))
            sizes = Sizes(n_in=len(units))
        last = len(given) - 1
        affine = read_affine(f"weights[{last}]", given[-1], f"biases[{last}]", biases[-1], sizes)
        object.__setattr__(self, "weights", (*read_weights, affine.weight))
        object.__setattr__(self, "biases", (*read_biases, affine.bias))

    def __repr__(self) -> str:
        ranks = [rank for layer in self.ranks for rank in layer]
        spread = f", ranks {min(ranks)} to {max(ranks)}" if ranks else ""
        hidden = format_widths([len(layer) for layer in self.ranks])
        return f"MaxoutNetwork({self.dim_in} -> {hidden} -> {self.dim_out}{spread})"

    @property
    def ranks(self) -> list[list[int]]:
        """The number of forms of each unit in each hidden layer."""
        return [[len(unit) for unit in layer] for layer in self.weights[:-1]]

    @property
    def n_parameters(self) -> int:
        """The total number of weights and biases."""
        layers = [*self.weights[:-1], *(self.biases or ())[:-1]]
        last = self.weights[-1].size + (self.biases or ())[-1].size
        return int(sum(unit.size for layer in layers for unit in layer) + last)

    def _build_network(self) -> ArgmaxNetwork:
        biases = self.biases or ()
        layers = tuple(map(_build_maxout_layer, self.weights[:-1], biases[:-1]))
        readout = AffineMap(self.weights[-1], biases[-1])
        width = layers[0].dim_in if layers else readout.dim_in
        return ArgmaxNetwork(layers, AffineMap.identity(width), readout)


def relu_layer(before: AffineMap, after: AffineMap, *, residual: bool = False) -> ArgmaxLayer:
    r"""Return the layer $z \mapsto [z +]\; \mathrm{relu}(z W + b)\, W' + b'$.

    Unit $i$ is the group of the two forms 0 and $q_i$, in this order.
    """
    (dim_in, n), (width, dim_out) = before.weight.shape, after.weight.shape
    units = _relu_unit_fields(n)
    if width != n or (residual and dim_in != dim_out):
        return ArgmaxLayer(query=before, output=after, residual=residual, **units)
    return ArgmaxLayer.trusted(
        units, query=before, output=after, residual=residual, is_relu=True, kind=UNITS
    )


@lru_cache(maxsize=64)
def _relu_unit_fields(n: int) -> dict[str, Any]:
    """Return the arrays that all layers of `n` ReLU units share."""
    units: dict[str, Any] = {
        "slopes": np.tile([[0.0], [1.0]], (n, 1)),
        "offsets": np.zeros(2 * n),
        "starts": np.arange(0, 2 * n + 1, 2),
        "slots": np.arange(n),
        "gains": np.tile([0.0, 1.0], n),
        "values": np.zeros((2 * n, 1)),
        "reads": np.arange(n)[:, np.newaxis],
    }
    for array in units.values():
        array.setflags(write=False)
    return units


def affine_layer(affine: AffineMap) -> ArgmaxLayer:
    """Return an affine map as a layer without decisions: every group has one form."""
    n = affine.dim_out
    identity = AffineMap.identity(n)
    return ArgmaxLayer(
        query=affine,
        slopes=np.ones((n, 1)),
        offsets=np.zeros(n),
        starts=np.arange(n + 1),
        slots=np.arange(n),
        gains=np.ones(n),
        values=np.zeros((n, 1)),
        output=identity,
        residual=False,
        reads=np.arange(n)[:, np.newaxis],
    )


def read_affine(
    weight_name: str, weight: Any, bias_name: str, bias: Any, sizes: Sizes
) -> AffineMap:
    """Read a matrix `(n_in, n_out)` and a bias `(n_out,)` or None."""
    matrix = sizes.floats(weight_name, weight, ("n_in", "n_out"))
    return AffineMap.trusted(read_only_copy(matrix), _read_offsets(bias_name, bias, "n_out", sizes))


def _read_offsets(name: str, value: Any, axis: str, sizes: Sizes) -> FloatArray:
    """Read a vector of known length and copy it if needed; None means zero."""
    return read_only_copy(
        np.zeros(sizes[axis]) if value is None else sizes.floats(name, value, (axis,))
    )


def read_sequence(name: str, value: Any, *, nonempty: bool = True) -> list[Any]:
    """Read a sequence as a list, without checking its entries."""
    if type(value) is not list and type(value) is not tuple:
        if isinstance(value, str | bytes | dict) or not isinstance(value, Sequence | np.ndarray):
            raise DtypeError(f"`{name}` must be a sequence; got {type(value).__name__}.")
        if isinstance(value, np.ndarray) and value.ndim == 0:
            raise DtypeError(f"`{name}` must be a sequence; got one number.")
    items = list(value)
    if nonempty and not items:
        raise EmptyInputError(f"`{name}` must have at least one entry; got none.")
    return items


def _read_entries(name: str, value: Any, n: int) -> list[Any]:
    if value is None:
        return [None] * n
    items = read_sequence(name, value)
    if len(items) != n:
        raise ShapeMismatchError(f"`{name}` must have {n} entries; got {len(items)}.")
    return items


def _read_units(
    index: int, layer: Any, bias: Any, sizes: Sizes
) -> list[tuple[FloatArray, FloatArray]]:
    name = f"weights[{index}]"
    units = read_sequence(name, layer)
    biases = _read_entries(f"biases[{index}]", bias, len(units))
    known = Sizes(n_in=sizes["n_in"]) if index else Sizes()
    read = []
    for i, (unit, offset) in enumerate(zip(units, biases, strict=True)):
        weight = read_only_copy(known.floats(f"{name}[{i}]", unit, (f"rank_{i}", "n_in")))
        read.append((weight, _read_offsets(f"biases[{index}][{i}]", offset, f"rank_{i}", known)))
    return read


def _build_maxout_layer(
    units: tuple[FloatArray, ...], biases: tuple[FloatArray, ...]
) -> ArgmaxLayer:
    slopes = np.vstack(units)
    return ArgmaxLayer(
        query=AffineMap.identity(slopes.shape[1]),
        slopes=slopes,
        offsets=np.concatenate(biases),
        starts=np.cumsum([0, *map(len, units)]),
        slots=np.arange(len(units)),
        gains=np.ones(len(slopes)),
        values=np.zeros((len(slopes), 1)),
        output=AffineMap.identity(len(units)),
        residual=False,
    ).with_kind(UNITS)
