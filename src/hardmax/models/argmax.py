r"""The common form of every model: affine maps with argmax layers of affine forms between them.

A ReLU unit is a group of two forms, a maxout unit a group of $k$ forms, and an attention head with
a fixed memory a group of $N$ forms. In every group the largest form wins, and the winner determines
what the group contributes. The engines use no other information about a model.

Affine maps are available in floats, in floats with error radii, and in integers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax._ground.arguments import ArrayGroup, Sizes, integer, read_only_copy
from hardmax._ground.deadlines import check_time
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.pickling import DropsCachesOnPickle, cached_attribute
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import integer_matrix, scaled_integers
from hardmax.models._arithmetic.enclosures import EnclosedMap
from hardmax.models.layer_words import LayerWords, infer_words
from hardmax.typing import BoolArray, FloatArray, IntArray

_MOST_KEPT = 1 << 23
"""Larger maps are not cached as integers, which take several times the memory of floats."""
_MOST_AT_ONCE = 1 << 19
"""The number of weights to convert between two checks of the clock: about half a second."""


_AFFINE_MAP = ArrayGroup(("weight", ("dim_in", "dim_out")), ("bias", ("dim_out",)))


@dataclass(frozen=True, eq=False)
class AffineMap(DropsCachesOnPickle):
    r"""The map $x \mapsto x W + b$ on row vectors.

    Attributes:
        weight: The $W$, shape `(dim_in, dim_out)`.
        bias: The $b$, shape `(dim_out,)`; None means 0.

    Examples:
        >>> AffineMap([[1.0, 2.0]], [0.0, 1.0])
        AffineMap(weight=[[1.0, 2.0]], bias=[0.0, 1.0])
    """

    weight: FloatArray
    bias: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        weight, bias = _AFFINE_MAP.read(self.weight, self.bias)
        self.__dict__.update(weight=weight, bias=bias)

    @classmethod
    def trusted(cls, weight: FloatArray, bias: FloatArray) -> "AffineMap":
        """Wrap finite float64 arrays of the right shapes that no other code modifies."""
        trusted = object.__new__(cls)
        trusted.__dict__.update(weight=weight, bias=bias)
        return trusted

    @staticmethod
    def identity(dim: int) -> "AffineMap":
        r"""Return the identity of $\mathbb{R}^{dim}$; its matrix takes no memory.

        Examples:
            >>> identity = AffineMap.identity(10**6)
            >>> identity.weight.shape, identity.weight[7, 6:9].tolist(), identity.is_identity
            ((1000000, 1000000), [0.0, 1.0, 0.0], True)
        """
        return _build_identity(dim)

    @cached_attribute
    def is_identity(self) -> bool:
        """Whether the map is the identity."""
        n, dim_out = self.weight.shape
        return (
            n == dim_out
            and self.weight.item(0) == 1.0
            and not self.bias.any()
            and bool((self.weight.diagonal() == 1.0).all())
            and int(np.count_nonzero(self.weight)) == n
        )

    @cached_property
    def enclosed(self) -> EnclosedMap | None:
        """The map on enclosed vectors; None for the identity."""
        return None if self.is_identity else EnclosedMap(self.weight, self.bias)

    @cached_property
    def exact(self) -> tuple[fmpz_mat, int]:
        r"""The rows $(W^\top, b)$ as integers and their exponent: `(dim_out, dim_in + 1)`."""
        return integer_matrix(np.column_stack([self.weight.T, self.bias]))

    def on_integers(self, rows: fmpz_mat) -> tuple[fmpz_mat, int]:
        """Apply the map to rows of integers: the coordinates of the argument, then the constant 1.

        Args:
            rows: The rows, shape `(dim_in + 1, n_columns)`.

        Returns:
            The rows of the result, shape `(dim_out, n_columns)`, and the exponent of their scale
            relative to the scale of `rows`.
        """
        n_columns = rows.ncols()
        if self.is_identity:
            return fmpz_mat(self.dim_out, n_columns, rows.entries()[:-n_columns]), 0
        if self.weight.size <= _MOST_AT_ONCE:
            matrix, exponent = self.exact
            return matrix * rows, exponent
        products = []
        for part, exponent in self._exact_parts():
            products.append((part * rows, exponent))
            check_time()
        lowest = min(exponent for _, exponent in products)
        scaled = (product * fmpz(1 << (e - lowest)) for product, e in products)
        entries = [entry for part in scaled for entry in part.entries()]
        return fmpz_mat(self.dim_out, n_columns, entries), lowest

    def _exact_parts(self) -> Iterator[tuple[fmpz_mat, int]]:
        """Yield the rows of `exact` in parts, each with its own scale."""
        step = max(1, _MOST_AT_ONCE // self.dim_in)
        kept = self._part_cache if self.weight.size <= _MOST_KEPT else {}
        for i in range(0, self.dim_out, step):
            part = kept.get(i)
            if part is None:
                columns = slice(i, i + step)
                table = np.column_stack([self.weight[:, columns].T, self.bias[columns]])
                part = integer_matrix(table)
                if self.weight.size <= _MOST_KEPT:
                    kept[i] = part
            yield part

    @cached_attribute
    def _part_cache(self) -> dict[int, tuple[fmpz_mat, int]]:
        """A cache of `_exact_parts`, by the first row of each part."""
        return {}

    def hashed_parts(self) -> dict[str, object]:
        """The parts that enter a fingerprint; for an identity, only its dimension."""
        if self.is_identity:
            return {"": "AffineMap", "identity": self.dim_in}
        return {"": "AffineMap", "weight": self.weight, "bias": self.bias}

    @property
    def dim_in(self) -> int:
        """The dimension of the input."""
        return int(self.weight.shape[0])

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return int(self.weight.shape[1])


@lru_cache(maxsize=64)
def _build_identity(dim: int) -> AffineMap:
    if dim < 1:
        return AffineMap(np.eye(dim), np.zeros(dim))
    # All rows are overlapping views of one array: zeros around a single one.
    line = np.zeros(2 * dim - 1)
    line[dim - 1] = 1.0
    line.setflags(write=False)
    step = line.itemsize
    weight = np.ndarray((dim, dim), line.dtype, line, (dim - 1) * step, (-step, step))
    bias = np.zeros(dim)
    bias.setflags(write=False)
    identity = AffineMap.trusted(weight, bias)
    identity.__dict__["is_identity"] = True
    return identity


@dataclass(frozen=True, eq=False)
class FormBlock(DropsCachesOnPickle):
    """Forms of a layer that read the same entries of the query.

    Attributes:
        forms: The indices of the forms, in order, or a slice for all.
        columns: The entries that the forms read, shape `(n,)`, or a slice for all.
        slopes: The slopes on these entries, shape `(n_forms, n)`.
        offsets: The offsets, shape `(n_forms,)`.

    Examples:
        >>> block = FormBlock(slice(None), slice(None), np.eye(2), np.zeros(2))
        >>> block.slopes.shape, block.offsets.tolist()
        ((2, 2), [0.0, 0.0])
    """

    forms: Any
    columns: Any
    slopes: FloatArray
    offsets: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    @cached_property
    def enclosed(self) -> EnclosedMap:
        """The scores as a map of enclosed vectors; its input is the entries that the forms read."""
        return EnclosedMap(np.ascontiguousarray(self.slopes.T), self.offsets)


class ExactContributions(NamedTuple):
    r"""The contribution of each form of a layer, when it wins, in integers.

    Attributes:
        gains: The $\lambda_j$ as integers, shape `(n_forms,)`.
        gains_exponent: The exponent of two that scales `gains`.
        values: For each form, the `(column, integer)` pairs of the nonzero entries of $v_j$.
        values_exponent: The exponent of two that scales `values`.
        has_gains: Whether any $\lambda_j$ is nonzero.
        has_values: Whether any $v_j$ is nonzero.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> layer = ReluNetwork([[[1.0]], [[1.0]]]).network.layers[0]
        >>> layer.exact_contributions.gains, layer.exact_contributions.has_values
        ([0, 1], False)
    """

    gains: list[int]
    gains_exponent: int
    values: list[list[tuple[int, int]]]
    values_exponent: int
    has_gains: bool
    has_values: bool

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, eq=False)
class ArgmaxLayer(DropsCachesOnPickle):
    r"""One layer $z \mapsto [z +]\; y(z W_q + b_q)\, W_y + b_y$.

    With $q = z W_q + b_q \in \mathbb{R}^p$, group $g$ owns the forms
    $s_j(q) = \langle a_j, q_{R_g}\rangle + c_j$ for `starts[g] <= j < starts[g + 1]`. It writes to
    the block of $y$ that starts at column `slots[g]` and is as wide as the values. The winner $j$
    fills the block with $\lambda_j s_j(q) e_1 + v_j$. A ReLU or maxout unit contributes the winning
    score ($\lambda_j = 1$, $v_j = 0$, blocks of width 1), a head the winner's value
    ($\lambda_j = 0$).

    A group reads the entries $R_g$ of the query: a ReLU unit reads one, a head its own, a maxout
    unit all of them. All arrays are stored weights and hence exact; no product of weights is
    formed.

    Attributes:
        query: The map $z \mapsto q$.
        slopes: The $a_j$, shape `(n_forms, n_read)`.
        offsets: The $c_j$, shape `(n_forms,)`.
        starts: The first form of each group, then the number of forms, shape `(n_groups + 1,)`.
        slots: The first column of each group's block in $y$, shape `(n_groups,)`. If two groups
            write to the same columns, their contributions are added.
        gains: The $\lambda_j$, shape `(n_forms,)`.
        values: The $v_j$, shape `(n_forms, width)`.
        output: The map $y \mapsto y W_y + b_y$.
        residual: Whether $z$ is added to the result.
        reads: The $R_g$, shape `(n_groups, n_read)`, with no entry repeated within a group. Entries
            are -1, with slopes 0, where a group reads fewer. None if every group reads all of $q$.

    Examples:
        The ReLU of one number, as one group of the forms 0 and $q$:

        >>> identity = AffineMap(np.eye(1), np.zeros(1))
        >>> relu = ArgmaxLayer(identity, [[0.0], [1.0]], [0.0, 0.0], np.array([0, 2]),
        ...                    np.array([0]), [0.0, 1.0], [[0.0], [0.0]], identity, False)
        >>> relu.n_groups, relu.dim_in, relu.dim_out
        (1, 1, 1)
    """

    query: AffineMap
    slopes: FloatArray
    offsets: FloatArray
    starts: IntArray
    slots: IntArray
    gains: FloatArray
    values: FloatArray
    output: AffineMap
    residual: bool
    reads: IntArray | None = None
    kind: ClassVar[str | None] = None
    """`HEADS` or `UNITS` (see `layer_words`) if the groups are a model's heads or units."""

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes(p=self.query.dim_out)
        n_read = "p" if self.reads is None else "n_read"
        read = {
            "slopes": sizes.floats("slopes", self.slopes, ("n_forms", n_read)),
            "offsets": sizes.floats("offsets", self.offsets, ("n_forms",)),
            "gains": sizes.floats("gains", self.gains, ("n_forms",)),
            "values": sizes.floats("values", self.values, ("n_forms", "width")),
        }
        starts = sizes.ints("starts", self.starts, ("n_ends",))
        slots = sizes.ints("slots", self.slots, ("n_groups",))
        # Compare entries directly: differences and sums of integers from a file may wrap around.
        rising = (
            starts[0] == 0 and starts[-1] == sizes["n_forms"] and (starts[:-1] < starts[1:]).all()
        )
        if len(starts) != len(slots) + 1 or not rising:
            raise ArgumentError(
                f"`starts` must increase from 0 to {sizes['n_forms']} in {len(slots)} steps, one "
                f"for each group; got {starts.tolist()}."
            )
        if slots.min() < 0 or slots.max() > self.output.dim_in - sizes["width"]:
            raise ArgumentError(
                f"`slots` must be at least 0, and each block of {sizes['width']} columns must fit "
                f"into the {self.output.dim_in} columns of the output map; got {slots.tolist()}."
            )
        if self.residual and self.dim_in != self.dim_out:
            raise ArgumentError(
                "`residual` must be False because the widths of input and output differ; got "
                f"{self.dim_in} in and {self.dim_out} out."
            )
        for name, array in read.items():
            object.__setattr__(self, name, read_only_copy(array))
        given = {"starts": starts, "slots": slots}
        if self.reads is not None:
            given["reads"] = sizes.ints("reads", self.reads, ("n_groups", "n_read"))
            _check_reads(given["reads"], self.slopes, starts, self.query.dim_out)
        for name, indices in given.items():
            frozen = indices.copy()
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    def with_kind(self, kind: str) -> "ArgmaxLayer":
        """Set `kind` and return the layer."""
        self.__dict__["kind"] = kind
        return self

    @classmethod
    def trusted(cls, shared: dict[str, Any], **fields: Any) -> "ArgmaxLayer":
        """Build a layer, without checks, from consistent fields and precomputed properties."""
        layer = object.__new__(cls)
        layer.__dict__.update(shared, **fields)
        return layer

    @cached_property
    def is_table(self) -> BoolArray:
        """Mask of the groups that contribute constants only, as heads do: shape `(n_groups,)`."""
        return np.asarray(~np.logical_or.reduceat(self.gains != 0.0, self.starts[:-1]))

    @cached_property
    def passes_maximum(self) -> BoolArray:
        """Mask of the groups that contribute their maximum, as units do: shape `(n_groups,)`."""
        if self.is_relu:
            return np.ones(self.n_groups, dtype=np.bool_)
        has_value = self.values.any(axis=1)
        if has_value.all():
            return np.zeros(self.n_groups, dtype=np.bool_)
        # The gain of a form that is identically zero does not matter.
        is_zero = ~self.slopes.any(axis=1) & (self.offsets == 0.0)
        passes = ((self.gains == 1.0) | is_zero) & ~has_value
        return np.asarray(np.logical_and.reduceat(passes, self.starts[:-1]))

    @cached_property
    def has_own_slots(self) -> bool:
        """Whether no two groups write to the same column."""
        columns = np.add.outer(self.slots, np.arange(self.values.shape[1]))
        return len(np.unique(columns)) == columns.size

    @cached_property
    def copies(self) -> IntArray | None:
        """The entry of the query that each form equals, -1 for the zero form.

        None if some form is neither an entry nor zero. The forms of ReLU units are entries or zero,
        so copying replaces a matrix product.
        """
        nonzero = self.slopes != 0.0
        if self.offsets.any() or (nonzero.sum(axis=1) > 1).any():
            return None
        if not (self.slopes[nonzero] == 1.0).all():
            return None
        place = nonzero.argmax(axis=1)
        if self.reads is not None:
            place = self.reads[self.group_of, place]
        return np.where(nonzero.any(axis=1), place, -1)

    @cached_attribute
    def is_relu(self) -> bool:
        """Whether group `i` is the ReLU of entry `i` of the query and writes to column `i`."""
        p = self.query.dim_out
        if len(self.offsets) != 2 * p or self.values.shape[1] != 1 or self.output.dim_in != p:
            return False
        if self.copies is None or self.values.any() or self.gains[::2].any():
            return False
        units = np.arange(p)
        return (
            np.array_equal(self.starts, np.arange(0, 2 * p + 1, 2))
            and np.array_equal(self.slots, units)
            and bool((self.gains[1::2] == 1.0).all())
            and bool((self.copies[::2] == -1).all())
            and np.array_equal(self.copies[1::2], units)
        )

    @cached_property
    def form_blocks(self) -> list[FormBlock]:
        """The forms in blocks; all groups of a block read the same entries of the query."""
        if self.reads is None:
            return [FormBlock(slice(None), slice(None), self.slopes, self.offsets)]
        kinds, kind = np.unique(self.reads, axis=0, return_inverse=True)
        kind_of_form = kind.ravel()[self.group_of]
        ends = np.cumsum(np.bincount(kind_of_form))
        blocks = np.split(np.argsort(kind_of_form, kind="stable"), ends[:-1])
        return [
            FormBlock(
                forms,
                columns[columns >= 0],
                self.slopes[forms][:, columns >= 0],
                self.offsets[forms],
            )
            for columns, forms in zip(kinds, blocks, strict=True)
        ]

    def dense_slopes(self) -> FloatArray:
        """The slopes on the whole query, shape `(n_forms, p)`."""
        if self.reads is None:
            return self.slopes
        dense = np.zeros((len(self.offsets), self.query.dim_out))
        forms, places = np.nonzero(self.slopes)
        dense[forms, self.reads[self.group_of[forms], places]] = self.slopes[forms, places]
        return dense

    def on_integers(self, queries: fmpz_mat) -> tuple[fmpz_mat, int]:
        """Evaluate the forms on rows of integers: the entries of the query, then the constant 1.

        Args:
            queries: The rows, shape `(p + 1, n_columns)`.

        Returns:
            The scores, shape `(n_forms, n_columns)`, and the exponent of their scale relative to
            the scale of `queries`.
        """
        shape = len(self.offsets), queries.ncols()
        rows: list[Any] = [] if self.reads is None and self.copies is None else queries.tolist()
        if self.copies is not None:
            rows[-1] = [0] * queries.ncols()
            return fmpz_mat(*shape, list(chain(*(rows[i] for i in self.copies.tolist())))), 0
        blocks, exponent = self.exact_blocks
        if self.reads is None:
            return blocks[0] * queries, exponent
        scores: list[Any] = [None] * len(self.offsets)
        for block, weights in zip(self.form_blocks, blocks, strict=True):
            read = fmpz_mat([*(rows[i] for i in block.columns.tolist()), rows[-1]])
            for form, row in zip(block.forms.tolist(), (weights * read).tolist(), strict=True):
                scores[form] = row
        return fmpz_mat(*shape, list(chain(*scores))), exponent

    @cached_property
    def exact_scores(self) -> tuple[fmpz_mat, int]:
        """The scores as forms $(a, c)$ of the layer's input, in integers, and their exponent.

        The matrix has shape `(n_forms, dim_in + 1)`, with the offset last.
        """
        queries, exponent = self.query.exact
        if exponent > 0:
            queries, exponent = queries * fmpz(1 << exponent), 0
        one = [0] * self.dim_in + [1 << -exponent]
        stacked = fmpz_mat(self.query.dim_out + 1, self.dim_in + 1, queries.entries() + one)
        scores, more = self.on_integers(stacked)
        return scores, exponent + more

    @cached_property
    def exact_blocks(self) -> tuple[list[fmpz_mat], int]:
        """The slopes and offsets of each block as integers, all with one exponent."""
        tables = []
        for block in self.form_blocks:
            check_time()
            tables.append(integer_matrix(np.column_stack([block.slopes, block.offsets])))
        lowest = min(exponent for _, exponent in tables)
        return [matrix * fmpz(1 << (e - lowest)) for matrix, e in tables], lowest

    @cached_property
    def exact_contributions(self) -> ExactContributions:
        """The gains and values as integers."""
        gains, values = scaled_integers(self.gains), scaled_integers(self.values)
        nonzero = [
            [(k, value) for k, value in enumerate(row) if value] for row in values.integers.tolist()
        ]
        return ExactContributions(
            gains.integers.tolist(),
            gains.exponent,
            nonzero,
            values.exponent,
            bool(self.gains.any()),
            any(nonzero),
        )

    @cached_property
    def group_of(self) -> IntArray:
        """The group of each form, shape `(n_forms,)`."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.starts))

    @property
    def n_groups(self) -> int:
        """The number of groups: the length of the layer's part of a signature."""
        return len(self.slots)

    @property
    def dim_in(self) -> int:
        """The dimension of the input."""
        return self.query.dim_in

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.output.dim_out


class Place(NamedTuple):
    """The position of a layer in its network.

    Attributes:
        depth: The number of layers before it.
        layer: The layer.
        groups: The slice of a signature that belongs to the layer.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> network = ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]], [[1.0]]]).network
        >>> [(place.depth, place.groups) for place in network.places]
        [(0, slice(0, 2, None)), (1, slice(2, 3, None))]
    """

    depth: int
    layer: ArgmaxLayer
    groups: slice

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return html_card(self)


@dataclass(frozen=True, eq=False)
class ArgmaxNetwork(DropsCachesOnPickle):
    """A sequence of layers between two affine maps: the form of a model that the engines use.

    A signature lists, for all groups of all layers in order, the winner's index within its group.

    Attributes:
        layers: The layers, first to last; may be empty.
        embedding: The affine map before the first layer.
        readout: The affine map after the last layer.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> network = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]]).network
        >>> len(network.layers), network.n_groups, network.dim_in, network.dim_out
        (1, 2, 1, 1)
    """

    layers: tuple[ArgmaxLayer, ...]
    embedding: AffineMap
    readout: AffineMap

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        self.__dict__["layers"] = layers = tuple(self.layers)
        width = self.embedding.dim_out
        for index, layer in enumerate(layers):
            if layer.query.weight.shape[0] != width:
                raise ArgumentError(
                    f"`layers[{index}]` must take vectors of width {width}, the output width of "
                    f"the part before it; got one that takes {layer.dim_in}."
                )
            width = layer.output.weight.shape[1]
        if self.readout.dim_in != width:
            raise ArgumentError(
                f"`readout` must take vectors of width {width}; got {self.readout.dim_in}."
            )

    @classmethod
    def trusted(
        cls, layers: tuple[ArgmaxLayer, ...], embedding: AffineMap, readout: AffineMap
    ) -> "ArgmaxNetwork":
        """Build a network, without checks, from layers and maps that fit together."""
        network = object.__new__(cls)
        network.__dict__.update(layers=layers, embedding=embedding, readout=readout, kept={})
        return network

    @property
    def dim_in(self) -> int:
        """The dimension of the input space."""
        return self.embedding.dim_in

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.readout.dim_out

    @cached_attribute
    def n_groups(self) -> int:
        """The length of a signature."""
        return sum(layer.n_groups for layer in self.layers)

    @property
    def words(self) -> tuple[LayerWords, ...]:
        """The words for each layer, its groups and their forms."""
        given: tuple[LayerWords, ...] | None = self.__dict__.get("_words")
        return infer_words([layer.kind for layer in self.layers]) if given is None else given

    def with_words(self, words: Iterable[LayerWords]) -> "ArgmaxNetwork":
        """Set `words`, one entry for each layer, and return the network."""
        self.__dict__["_words"] = tuple(words)
        return self

    def name_wall(self, layer: int, group: int, form: int | None = None) -> str:
        """Return the name of a wall, as it appears in legends and messages.

        Args:
            layer: The index of the wall's layer, as listed in results; -1 for the domain.
            group: The index of the group, or of the row of the domain.
            form: The index of a form within the group.

        Raises:
            ArgumentError: If the network has no such layer.

        Examples:
            >>> from hardmax import ReluNetwork
            >>> network = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]]).network
            >>> network.name_wall(0, 1), network.name_wall(0, 1, 0), network.name_wall(-1, 3)
            ('layer 0, unit 1', 'layer 0, unit 1, form 0', 'domain, row 3')
        """
        if layer == -1:
            return f"domain, row {group}" if group >= 0 else "infinity"
        index = integer("layer", layer, at_least=-1, at_most=len(self.layers) - 1)
        return self.words[index].name(group, form)

    def find_wall(self, name: str) -> tuple[int, int]:
        """Return the pair `(layer, group)` of a wall from its name.

        Args:
            name: The name from a legend or a message, with or without the form.

        Raises:
            ArgumentError: If the network has no such wall.

        Examples:
            >>> from hardmax import ReluNetwork
            >>> network = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]]).network
            >>> network.find_wall("layer 0, unit 1")
            (0, 1)
        """
        for index, (layer, words) in enumerate(zip(self.layers, self.words, strict=True)):
            group = words.find_group(name)
            if group is not None and group < layer.n_groups:
                return index, group
        known = ", ".join(
            f"{words.name(0)!r} to {words.name(layer.n_groups - 1)!r}"
            for words, layer in zip(self.words[:4], self.layers, strict=False)
        )
        more = ", ..." * (len(self.layers) > 4)
        raise ArgumentError(
            f"`name` must be the name of a wall of this network ({known}{more}); got {name!r:.60}."
        )

    @cached_attribute
    def n_weights(self) -> int:
        """The total number of entries in the matrices of all layers."""
        return sum(layer.query.weight.size + layer.output.weight.size for layer in self.layers)

    @cached_attribute
    def kept(self) -> dict[str, Any]:
        """A cache, by name, of data derived from the network; it lives as long as the network."""
        return {}

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The position of every layer, first to last."""
        ends = [0, *accumulate(layer.n_groups for layer in self.layers)]
        return tuple(
            Place(depth, layer, slice(ends[depth], ends[depth + 1]))
            for depth, layer in enumerate(self.layers)
        )


def _check_reads(reads: IntArray, slopes: FloatArray, starts: IntArray, p: int) -> None:
    if reads.min() < -1 or reads.max() >= p:
        raise ArgumentError(
            f"`reads` must hold indices into a query of width {p}, or -1 for no entry; got values "
            f"from {reads.min()} to {reads.max()}."
        )
    if reads.shape[1] > 1:
        ordered = np.sort(reads, axis=1)
        if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
            raise ArgumentError("`reads` must not repeat an entry within a group.")
    if reads.min() < 0:
        is_used = np.logical_or.reduceat(slopes != 0.0, starts[:-1], axis=0)
        if (is_used & (reads < 0)).any():
            raise ArgumentError("`slopes` must be 0 wherever `reads` is -1; some are not.")
