r"""The one shape every model has: affine, argmax over affine forms, affine.

A ReLU unit is a group of two forms, a maxout unit of $k$, an attention head with fixed memory of
$N$. In every group the largest form wins, and the winner decides what the group contributes. The
engines know nothing else about a model.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import fmpz_mat

from hardmax.algebra.exact.dyadic import integer_matrix, scaled_integers
from hardmax.arguments import Sizes, owned
from hardmax.errors import ArgumentError
from hardmax.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class AffineMap:
    r"""The map $x \mapsto x W + b$ on row vectors.

    Attributes:
        weight: The $W$, shape `(dim_in, dim_out)`.
        bias: The $b$, shape `(dim_out,)`.
    """

    weight: FloatArray
    bias: FloatArray

    def __post_init__(self) -> None:
        sizes = Sizes()
        weight = sizes.floats("weight", self.weight, ("dim_in", "dim_out"))
        bias = sizes.floats("bias", self.bias, ("dim_out",))
        object.__setattr__(self, "weight", owned(weight))
        object.__setattr__(self, "bias", owned(bias))

    @classmethod
    def identity(cls, dim: int) -> "AffineMap":
        r"""Return the identity of $\mathbb{R}^{dim}$."""
        return cls(np.eye(dim), np.zeros(dim))

    @cached_property
    def exact(self) -> tuple[fmpz_mat, int]:
        r"""The rows $(W^\top, b)$ as integers and their exponent: `(dim_out, dim_in + 1)`."""
        return integer_matrix(np.column_stack([self.weight.T, self.bias]))

    @cached_property
    def is_identity(self) -> bool:
        """Whether it returns its argument."""
        return (
            self.dim_in == self.dim_out
            and not self.bias.any()
            and np.array_equal(self.weight, np.eye(self.dim_in))
        )

    @property
    def dim_in(self) -> int:
        """The dimension of its arguments."""
        return int(self.weight.shape[0])

    @property
    def dim_out(self) -> int:
        """The dimension of its values."""
        return int(self.weight.shape[1])


class ExactContributions(NamedTuple):
    r"""What each form of a layer contributes when it wins, as integers.

    Attributes:
        gains: The $\lambda_j$ without their scale, shape `(n_forms,)`.
        gains_exponent: The power of two that is their scale.
        values: For each form the `(column, integer)` pairs of the nonzero entries of $v_j$.
        values_exponent: The power of two that is their scale.
        has_gains: Whether any $\lambda_j$ is nonzero.
        has_values: Whether any $v_j$ is nonzero.
    """

    gains: list[int]
    gains_exponent: int
    values: list[list[tuple[int, int]]]
    values_exponent: int
    has_gains: bool
    has_values: bool


@dataclass(frozen=True, eq=False)
class ArgmaxLayer:
    r"""One layer $z \mapsto [z +]\; y(z W_q + b_q)\, W_y + b_y$.

    With $q = z W_q + b_q \in \mathbb{R}^p$, group $g$ owns the forms
    $s_j(q) = \langle a_j, q\rangle + c_j$ for `starts[g] <= j < starts[g + 1]` and the block of $y$
    from column `slots[g]`, as wide as the values. The winner $j$ fills the block with
    $\lambda_j s_j(q) e_1 + v_j$: a ReLU or maxout unit passes the winning form on
    ($\lambda_j = 1$, $v_j = 0$, blocks of width 1), a head its value ($\lambda_j = 0$).

    All arrays are stored weights, hence exact; nothing is multiplied out.

    Attributes:
        query: The map $z \mapsto q$.
        slopes: The $a_j$, shape `(n_forms, p)`.
        offsets: The $c_j$, shape `(n_forms,)`.
        starts: First form of each group and the end, shape `(n_groups + 1,)`.
        slots: First column of each group's block in $y$, shape `(n_groups,)`. Blocks of two groups
            may coincide: contributions add.
        gains: The $\lambda_j$, shape `(n_forms,)`.
        values: The $v_j$, shape `(n_forms, width)`.
        output: The map $y \mapsto y W_y + b_y$.
        residual: Whether $z$ is added to the result.

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

    def __post_init__(self) -> None:
        sizes = Sizes(p=self.query.dim_out)
        read = {
            "slopes": sizes.floats("slopes", self.slopes, ("n_forms", "p")),
            "offsets": sizes.floats("offsets", self.offsets, ("n_forms",)),
            "gains": sizes.floats("gains", self.gains, ("n_forms",)),
            "values": sizes.floats("values", self.values, ("n_forms", "width")),
        }
        starts = sizes.ints("starts", self.starts, ("n_ends",))
        slots = sizes.ints("slots", self.slots, ("n_groups",))
        rising = starts[0] == 0 and starts[-1] == sizes["n_forms"] and (np.diff(starts) > 0).all()
        if len(starts) != len(slots) + 1 or not rising:
            raise ArgumentError(
                f"`starts` must rise from 0 to {sizes['n_forms']} in {len(slots)} steps, one for "
                f"each group; got {starts.tolist()}."
            )
        if slots.min() < 0 or slots.max() + sizes["width"] > self.output.dim_in:
            raise ArgumentError(
                f"`slots` must leave room for {sizes['width']} columns below "
                f"{self.output.dim_in}; got {slots.tolist()}."
            )
        if self.residual and self.dim_in != self.dim_out:
            raise ArgumentError(
                f"`residual` must be False where the widths differ; got {self.dim_in} in and "
                f"{self.dim_out} out."
            )
        for name, array in read.items():
            object.__setattr__(self, name, owned(array))
        for name, indices in (("starts", starts), ("slots", slots)):
            frozen = indices.copy()
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    @cached_property
    def is_table(self) -> BoolArray:
        """Which groups contribute constants only, as heads do: shape `(n_groups,)`."""
        return np.asarray(~np.logical_or.reduceat(self.gains != 0.0, self.starts[:-1]))

    @cached_property
    def passes_maximum(self) -> BoolArray:
        """Which groups contribute their largest score, as units do: shape `(n_groups,)`."""
        # The gain of a form that is zero does not matter.
        is_zero = ~self.slopes.any(axis=1) & (self.offsets == 0.0)
        passes = ((self.gains == 1.0) | is_zero) & ~self.values.any(axis=1)
        return np.asarray(np.logical_and.reduceat(passes, self.starts[:-1]))

    @cached_property
    def exact_scores(self) -> tuple[fmpz_mat, int]:
        """The scores as forms $(a, c)$ of the layer's input: integers, and their exponent.

        Shape `(n_forms, dim_in + 1)`, the offset last.
        """
        p, dim_in = self.query.dim_out, self.dim_in
        queries = np.zeros((p + 1, dim_in + 1))
        queries[:p, :dim_in] = self.query.weight.T
        queries[:p, dim_in] = self.query.bias
        queries[p, dim_in] = 1.0
        inner, inner_exponent = integer_matrix(queries)
        outer, outer_exponent = integer_matrix(np.column_stack([self.slopes, self.offsets]))
        return outer * inner, outer_exponent + inner_exponent

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

    @property
    def n_groups(self) -> int:
        """How many argmax decisions the layer makes: the length of its part of a signature."""
        return len(self.slots)

    @property
    def dim_in(self) -> int:
        """The width of its input."""
        return self.query.dim_in

    @property
    def dim_out(self) -> int:
        """The width of its output."""
        return self.output.dim_out


@dataclass(frozen=True, eq=False)
class ArgmaxNetwork:
    """Layers one after the other, with an affine map after the last: what an engine works on.

    A signature lists the winner's index within its group for all groups of all layers, in order.

    Attributes:
        layers: The layers, first to last; there may be none.
        embedding: The affine map before the first layer.
        readout: The affine map after the last layer.
    """

    layers: tuple[ArgmaxLayer, ...]
    embedding: AffineMap
    readout: AffineMap

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        width = self.embedding.dim_out
        for index, layer in enumerate(self.layers):
            if layer.dim_in != width:
                raise ArgumentError(
                    f"`layers[{index}]` must take vectors of width {width}, what comes before it "
                    f"gives; got one that takes {layer.dim_in}."
                )
            width = layer.dim_out
        if self.readout.dim_in != width:
            raise ArgumentError(
                f"`readout` must take vectors of width {width}; got {self.readout.dim_in}."
            )

    @property
    def dim_in(self) -> int:
        """The dimension of the input space."""
        return self.embedding.dim_in

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.readout.dim_out

    @property
    def n_groups(self) -> int:
        """The length of a signature."""
        return sum(layer.n_groups for layer in self.layers)
