"""A transformer compiled from a network, its size, and its certified error."""

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
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
    """The size of a compiled transformer, compared with the network that it computes.

    Attributes:
        tokens: The number of tokens.
        width: The width of a token.
        blocks: The number of blocks.
        heads: The total number of heads.
        d_ff: The feed-forward width of each block, 0 for a block without a feed-forward part.
        parameters: The number of weights that the transformer stores.
        nonzeros: The number of nonzero weights.
        source_parameters: The number of weights that the network stores.

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
        """The number of nonzero weights per parameter of the network."""
        return self.nonzeros / self.source_parameters

    def __str__(self) -> str:
        return "\n".join(f"{name:<20}{value}" for name, value in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return pairs of a name and a formatted value, the rows of a table."""
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

    `compile_maxout` and `compile_relu` return such a transformer. A hard transformer (`epsilon` is
    None) equals the network up to rounding. A soft transformer, with ordinary softmax heads,
    differs from the network by at most `certified_error` at every point of the box.

    Attributes:
        source: The network.
        box: The box on which the transformer computes the network.
        epsilon: The error passed to the compiler, or None for a hard transformer.
        plans: The rate, gate and floors of each hidden layer (`LayerPlan`).
        token_transformer: The transformer itself. It does not check whether its input lies in the
            box. Outside the box gates may open, and the output is meaningless.
        output_errors: For each output, a bound on the difference between the transformer and the
            network over the box, both evaluated in float64; shape `(dim_out,)`.
        origins: The origins of the tokens or of the units; None if all origins are 0.
        assumption: A sentence that states what was assumed about the network because its file does
            not specify it; None if nothing was assumed. All errors refer to the assumed network.

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
        """The largest of the `output_errors`; for a hard transformer, due to rounding only."""
        return float(self.output_errors.max())

    @property
    def temperatures(self) -> FloatArray:
        """The temperature of the heads of each hidden layer, 0 for a hard transformer."""
        if self.epsilon is None:
            return np.zeros(len(self.plans))
        return np.array([1.0 / plan.rate for plan in self.plans])

    @property
    def size(self) -> TransformerSize:
        """The size of the transformer."""
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
        """The hard transformer on its box as a network for the engines.

        It is derived from the weights of the transformer alone, not from the source (see
        `TokenTransformer.network_on`). `token_transformer.network` has all units of the
        transformer, including those with closed gates.
        """
        return self.token_transformer.network_on(self.box)

    def errors_at(self, x: ArrayLike) -> FloatArray:
        """Bound the difference between transformer and network at given points, in float64.

        If no unit is close to switching, the bound covers rounding only and is tight at any depth.
        Computing the bound for one point takes about as long as for the box.

        Args:
            x: A point `(dim_in,)` or a batch of points `(n_points, dim_in)` in the box.

        Returns:
            The bounds, shape `(dim_out,)` or `(n_points, dim_out)`.

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
            propagate(layers, last, _enclose_point(point), rates, self.plans).errors
            for point in batch.rows
        ]
        return batch.unpack(np.array(bounds).reshape(len(bounds), last.dim_out))

    def transformer(self, x: ArrayLike) -> FloatArray:
        """Evaluate the transformer: hard if `epsilon` is None, soft otherwise.

        Args:
            x: A point `(dim_in,)` or a batch of points `(n_points, dim_in)` in the box.

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
                f"`x` must lie in the box for which the transformer was compiled; row "
                f"{outside[0]}, {batch.rows[outside[0]].tolist()}, lies outside. Compile for a "
                "larger box."
            )
        return batch

    @property
    def softened(self) -> "CompiledTransformer":
        """A soft transformer that equals this one up to rounding; this one if it is soft already.

        Deep-learning frameworks have no hard heads. However, a softmax mean is smaller than the
        maximum by at most a constant times the temperature, even at ties. At a low enough
        temperature it equals the maximum up to rounding, in float32 too.
        """
        if self.epsilon is not None:
            return self
        layers, last = piece_layers(self.source, self.origins)
        rates = sharpest_rates(layers, last, self.box)
        bounds = propagate(layers, last, self.box, rates)
        soft = build_transformer(self.source, self.box, bounds.worst, bounds.plans, self.origins)
        return replace(soft, assumption=self.assumption)

    @cached_property
    def float32(self) -> Float32Rounding:
        """A proven bound on the float32 error of the exported module, and its unavoidable part.

        It is computed on first access, which takes up to about two seconds.
        """
        soft = self.softened
        layers, last = piece_layers(soft.source, soft.origins)
        return float32_rounding(layers, last, soft.plans, soft.box)

    @property
    def float32_error(self) -> float:
        """A bound on the float32 module minus the network, over all float32 inputs in the box.

        It is infinite if float32 cannot represent the numbers (see `float32`).
        """
        return self.float32.error

    def to_torch(self, *, dtype: Any = "float64") -> Any:
        r"""Return the transformer as a standard `torch.nn` module.

        Attention is a `torch.nn.MultiheadAttention` with the usual scaling $1/\sqrt{d_k}$; the
        temperature is part of $W_Q$. A feed-forward part is `Linear`, `ReLU`, `Linear`. A hard
        transformer is exported as its soft version `softened`. The module can be trained, saved as
        a whole, and scripted.

        Args:
            dtype: The type of all weights: `float64` or `float32` (or `torch.float64`,
                `torch.float32`). In float32 the module differs from the network by at most
                `float32_error`.

        Raises:
            MissingExtraError: If torch is not installed.
            ArgumentError: If a weight is outside the range of `dtype`.
        """
        from hardmax.constructions.compilers.torch_export import token_module

        return token_module(self.softened.token_transformer, dtype)

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float64") -> None:
        """Write the transformer as an ONNX graph with input `x` and output `y`.

        Both are batches, of shapes `(n, dim_in)` and `(n, dim_out)`. A hard transformer is exported
        as its soft version `softened`.

        Args:
            path: The file to write.
            dtype: The type of all weights: `float64` or `float32`.

        Raises:
            MissingExtraError: If onnx is not installed.
            ArgumentError: If a weight is outside the range of `dtype`.
        """
        from hardmax.constructions.compilers.onnx_export import write_onnx

        write_onnx(self.softened.token_transformer, path, dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transformer, the network and the box to a file, for `load_compiled`."""
        from hardmax.constructions.compilers.compiled_files import save_transformer

        save_transformer(self, path)


@np.errstate(under="ignore")
def _enclose_point(point: FloatArray) -> Box:
    """Return the smallest box in float64 whose interior contains a point."""
    return Box(np.nextafter(point, -np.inf), np.nextafter(point, np.inf))


def compile_network(
    source: SourceNetwork,
    box: Box,
    epsilon: float | None,
    origins: Origins | None = None,
    rounding: FloatArray | float = 0.0,
) -> CompiledTransformer:
    """Compile a network whose arguments have been read and checked.

    Args:
        source: The network.
        box: The box.
        epsilon: The largest error, or None for a hard transformer.
        origins: The origins of the tokens or of the units; None if all origins are 0.
        rounding: For each output, the part of `epsilon` that the network itself has used up.
    """
    layers, last = piece_layers(source, origins)
    rates = None if epsilon is None else choose_rates(layers, last, box, epsilon, rounding)
    plans = propagate(layers, last, box, rates).plans
    return build_transformer(source, box, epsilon, plans, origins)


def build_transformer(
    source: SourceNetwork,
    box: Box,
    epsilon: float | None,
    plans: tuple[LayerPlan, ...],
    origins: Origins | None = None,
) -> CompiledTransformer:
    """Build the transformer from the plans of its layers, and certify its error.

    Raises:
        ArgumentError: If the error with these plans exceeds `epsilon`.
    """
    layers, last = piece_layers(source, origins)
    rates = None if epsilon is None else [plan.rate for plan in plans]
    bounds = propagate(layers, last, box, rates, plans)
    model = token_transformer(layers, last, plans)
    if epsilon is not None and not bounds.worst <= epsilon:
        raise ArgumentError(
            f"`plans` must keep the error below {epsilon}; with these plans its bound is "
            f"{bounds.worst}."
        )
    errors = Sizes().floats("errors", bounds.errors, ("dim_out",))
    return CompiledTransformer(
        source, box, epsilon, bounds.plans, model, read_only_copy(errors), origins=origins
    )
