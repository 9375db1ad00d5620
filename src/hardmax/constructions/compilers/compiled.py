"""A transformer compiled from a network: what it is, how large, and how far it can be off."""

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, owned
from hardmax._ground.display import html_card
from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan, propagate
from hardmax.constructions.compilers._bounds.float32_errors import Float32Rounding, float32_rounding
from hardmax.constructions.compilers.piece_layers import Origins, SourceNetwork, piece_layers
from hardmax.constructions.compilers.temperatures import choose_rates, sharpest_rates
from hardmax.constructions.compilers.token_layout import token_transformer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.points import PointBatch
from hardmax.models.tokens.transformers import TokenTransformer
from hardmax.typing import ArrayLike, FloatArray


@dataclass(frozen=True)
class TransformerSize:
    """How large a compiled transformer is, beside the network it computes.

    Attributes:
        tokens: How many tokens there are.
        width: The width of a token.
        blocks: How many blocks there are.
        heads: How many heads there are in all.
        d_ff: The feed-forward width of each block, 0 where there is none.
        parameters: How many numbers are stored.
        nonzeros: How many of them are not zero.
        source_parameters: How many numbers the network stores.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.constructions import compile_relu
        >>> net = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
        >>> size = compile_relu(net, Box([-1], [1])).size
        >>> size.tokens, size.blocks, size.heads, size.source_parameters
        (2, 2, 2, 7)
    """

    tokens: int
    width: int
    blocks: int
    heads: int
    d_ff: tuple[int, ...]
    parameters: int
    nonzeros: int
    source_parameters: int

    _repr_html_ = html_card

    @property
    def overhead(self) -> float:
        """How many nonzero weights there are for each parameter of the network."""
        return self.nonzeros / self.source_parameters

    def __str__(self) -> str:
        return "\n".join(f"{name:<20}{value}" for name, value in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures as words and numbers, for a table."""
        return [
            ("tokens", f"{self.tokens}"),
            ("width", f"{self.width}"),
            ("blocks", f"{self.blocks}"),
            ("heads", f"{self.heads}"),
            ("d_ff", ", ".join(map(str, self.d_ff)) or "none"),
            ("parameters", f"{self.parameters}"),
            ("nonzeros", f"{self.nonzeros}"),
            ("source parameters", f"{self.source_parameters}"),
            ("overhead", f"{self.overhead:.2f}"),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledTransformer:
    r"""A standard transformer that computes a given network on a box.

    Made by `compile_maxout` and `compile_relu`. The hard one (`epsilon` None) equals the network;
    the soft one, with the usual softmax heads, is within `certified_error` of it at every point of
    the box.

    Attributes:
        source: The network.
        box: Where the transformer computes it.
        epsilon: The error that was asked for, or None for the hard transformer.
        plans: Rate, gate and floors of each hidden layer (`LayerPlan`).
        token_transformer: The transformer itself. It does not check that its input is in the box;
            outside gates may open and the result means nothing.
        output_errors: For each output the bound on transformer minus network over the box, both
            as float64 evaluates them, shape `(dim_out,)`.
        origins: Where the tokens stand, or the units; None if all stand at 0.
        assumption: What was assumed about the network because its file does not say it, in a
            sentence; None if nothing was. All errors are about the network as assumed.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.constructions import compile_relu
        >>> net = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
        >>> compiled = compile_relu(net, Box([-1], [1]), 1e-3)
        >>> compiled.certified_error <= 1e-3
        True
        >>> bool(abs(compiled([0.5]) - 0.5) <= compiled.certified_error)
        True
    """

    source: SourceNetwork
    box: Box
    epsilon: float | None
    plans: tuple[LayerPlan, ...]
    token_transformer: TokenTransformer
    output_errors: FloatArray
    origins: Origins | None = field(default=None, kw_only=True)
    assumption: str | None = field(default=None, kw_only=True)

    _repr_html_ = html_card

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the transformer (see `transformer`)."""
        return self.transformer(x)

    def __repr__(self) -> str:
        mode = "hard" if self.epsilon is None else f"epsilon = {self.epsilon:g}"
        size = self.size
        tokens, blocks, heads = (
            f"{n} {word}{'s' * (n != 1)}"
            for n, word in ((size.tokens, "token"), (size.blocks, "block"), (size.heads, "head"))
        )
        assumed = "" if self.assumption is None else f", ASSUMED {self.assumption}"
        return (
            f"CompiledTransformer({self.source!r}, {mode}, certified error "
            f"{self.certified_error:.3g}, {tokens} of width {size.width}, {blocks}, {heads}"
            f"{assumed})"
        )

    @property
    def certified_error(self) -> float:
        """The bound for the worst output; for a hard transformer, rounding only."""
        return float(self.output_errors.max())

    @property
    def temperatures(self) -> FloatArray:
        """The temperature of the heads of each hidden layer, 0 in the hard transformer."""
        if self.epsilon is None:
            return np.zeros(len(self.plans))
        return np.array([1.0 / plan.rate for plan in self.plans])

    @property
    def size(self) -> TransformerSize:
        """How large the transformer is."""
        model = self.token_transformer
        return TransformerSize(
            tokens=model.n_tokens,
            width=model.width,
            blocks=len(model.blocks),
            heads=sum(len(block.heads) for block in model.blocks),
            d_ff=tuple(0 if b.ffn is None else b.ffn.d_ff for b in model.blocks),
            parameters=model.n_parameters,
            nonzeros=model.n_nonzero,
            source_parameters=self.source.n_parameters,
        )

    @cached_property
    def network(self) -> ArgmaxNetwork:
        """The hard transformer on its box, as the engines read it (`TokenTransformer.network_on`).

        Worked out from the weights of the transformer, without a look at the source.
        `token_transformer.network` has every unit of it, closed gates included.
        """
        return self.token_transformer.network_on(self.box)

    def errors_at(self, x: ArrayLike) -> FloatArray:
        """Bound transformer minus network at given points, both as float64 evaluates them.

        Where no unit is close to switching this is rounding only, and close to the truth in
        networks of any depth. It takes about as long as a bound for the box.

        Args:
            x: A point `(dim_in,)` or a batch `(n_points, dim_in)` of the box.

        Returns:
            Shape `(dim_out,)` or `(n_points, dim_out)`.

        Raises:
            ArgumentError: If a point lies outside the box.

        Examples:
            >>> from hardmax.constructions import compile_relu
            >>> compiled = compile_relu([[[1.0]], [[1.0]]], Box([-1.0], [1.0]), epsilon=0.01)
            >>> compiled.errors_at([[0.0], [0.5]]).round(6).ravel().tolist()
            [0.01, 0.0]
        """
        batch = self._read_points(x)
        layers, last = piece_layers(self.source, self.origins)
        rates = None if self.epsilon is None else [plan.rate for plan in self.plans]
        bounds = [
            propagate(layers, last, _box_around(point), rates, self.plans).errors
            for point in batch.rows
        ]
        return batch.unpack(np.array(bounds).reshape(len(bounds), last.dim_out))

    def transformer(self, x: ArrayLike) -> FloatArray:
        """Evaluate the transformer: hard if `epsilon` is None, soft otherwise.

        Args:
            x: A point `(dim_in,)` or a batch `(n_points, dim_in)` of the box.

        Raises:
            ArgumentError: If a point lies outside the box.
        """
        self._read_points(x)
        if self.epsilon is None:
            return self.token_transformer(x)
        return self.token_transformer.soft(x)

    def _read_points(self, x: ArrayLike) -> PointBatch:
        batch = PointBatch.read("x", x, self.box.dim)
        outside = np.flatnonzero(~self.box.contains(batch.rows))
        if outside.size:
            raise ArgumentError(
                f"`x` must lie in the box the transformer was compiled for; row {outside[0]}, "
                f"{batch.rows[outside[0]].tolist()}, does not. Compile for a larger box."
            )
        return batch

    @property
    def softened(self) -> "CompiledTransformer":
        """Itself if soft; if hard, a soft one that cannot be told from it.

        Frameworks have no hard heads. But a soft mean is below the maximum by at most a constant
        times the temperature, ties included, so at a temperature low enough it is the maximum up
        to rounding, in float32 as well.
        """
        if self.epsilon is not None:
            return self
        layers, last = piece_layers(self.source, self.origins)
        rates = sharpest_rates(layers, last, self.box)
        bounds = propagate(layers, last, self.box, rates)
        soft = assembled(self.source, self.box, bounds.worst, bounds.plans, self.origins)
        return replace(soft, assumption=self.assumption)

    @cached_property
    def float32(self) -> Float32Rounding:
        """What the exported module can be off by in float32, proved, and what is unavoidable.

        It is worked out when it is first asked for, in up to a second or two.
        """
        soft = self.softened
        layers, last = piece_layers(soft.source, soft.origins)
        return float32_rounding(layers, last, soft.plans, soft.box)

    @property
    def float32_error(self) -> float:
        """A bound on the module in float32 minus the network, over all float32 inputs of the box.

        Infinite if float32 cannot hold the numbers; see `float32`.
        """
        return self.float32.error

    def to_torch(self, *, dtype: Any = "float64") -> Any:
        r"""Return the transformer as a plain `torch.nn` module.

        Attention is `torch.nn.MultiheadAttention` with the usual scaling $1/\sqrt{d_k}$ (the
        temperature stands in $W_Q$), feed-forward parts are `Linear`, `ReLU`, `Linear`. A hard
        transformer is exported as `softened`. The module can be trained, saved whole and scripted.

        Args:
            dtype: The type of all numbers, `float64` or `float32` (or `torch.float64`,
                `torch.float32`). In float32 the module is within `float32_error` of the network.

        Raises:
            MissingExtraError: If torch is not installed.
            ArgumentError: If a weight is beyond the range of `dtype`.
        """
        from hardmax.constructions.compilers.torch_export import token_module

        return token_module(self.softened.token_transformer, dtype)

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float64") -> None:
        """Write the transformer as an ONNX graph with input `x` and output `y`.

        Both are batches, `(n, dim_in)` and `(n, dim_out)`. A hard transformer is exported as
        `softened`.

        Args:
            path: The file to write.
            dtype: The type of all numbers, `float64` or `float32`.

        Raises:
            MissingExtraError: If onnx is not installed.
        """
        from hardmax.constructions.compilers.onnx_export import write_onnx

        write_onnx(self.softened.token_transformer, path, dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transformer, the network and the box to a file; see `load_compiled`."""
        from hardmax.constructions.compilers.compiled_files import save_compiled

        save_compiled(self, path)


@np.errstate(under="ignore")
def _box_around(point: FloatArray) -> Box:
    """The smallest box with an interior around a point."""
    return Box(np.nextafter(point, -np.inf), np.nextafter(point, np.inf))


def compile_network(
    source: SourceNetwork,
    box: Box,
    epsilon: float | None,
    origins: Origins | None = None,
    rounding: FloatArray | float = 0.0,
) -> CompiledTransformer:
    """Compile a network that was read and checked already.

    Args:
        source: The network.
        box: The box.
        epsilon: The largest error, or None for the hard transformer.
        origins: Where the tokens stand, or the units; None if all stand at 0.
        rounding: How much of `epsilon` the network has used up already, for each output.
    """
    layers, last = piece_layers(source, origins)
    rates = None if epsilon is None else choose_rates(layers, last, box, epsilon, rounding)
    plans = propagate(layers, last, box, rates).plans
    return assembled(source, box, epsilon, plans, origins)


def assembled(
    source: SourceNetwork,
    box: Box,
    epsilon: float | None,
    plans: tuple[LayerPlan, ...],
    origins: Origins | None = None,
) -> CompiledTransformer:
    """Build the transformer from plans, and certify it.

    Raises:
        ArgumentError: If the plans do not hold on the box.
    """
    layers, last = piece_layers(source, origins)
    rates = None if epsilon is None else [plan.rate for plan in plans]
    bounds = propagate(layers, last, box, rates, plans)
    model = token_transformer(layers, last, plans)
    if epsilon is not None and not bounds.worst <= epsilon:
        raise ArgumentError(
            f"`plans` must keep the error below {epsilon}; they allow {bounds.worst}."
        )
    errors = Sizes().floats("errors", bounds.errors, ("dim_out",))
    return CompiledTransformer(
        source, box, epsilon, bounds.plans, model, owned(errors), origins=origins
    )
