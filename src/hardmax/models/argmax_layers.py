r"""The one shape every model has: affine, argmax over affine forms, affine.

A ReLU unit is a group of two forms, a maxout unit of $k$, an attention head with fixed memory of
$N$. In every group the largest form wins, and the winner decides what the group contributes. The
engines know nothing else about a model.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.arguments import Sizes, owned
from hardmax.errors import ArgumentError
from hardmax.typing import FloatArray, IntArray


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

    @property
    def dim_in(self) -> int:
        """The dimension of its arguments."""
        return int(self.weight.shape[0])

    @property
    def dim_out(self) -> int:
        """The dimension of its values."""
        return int(self.weight.shape[1])


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
