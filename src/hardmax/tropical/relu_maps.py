r"""ReLU layers and networks as tropical rational maps, exactly.

If the channels of a layer's input are $P_c - Q$, an affine map with weights split by sign gives
$z = (P W^+ + Q W^-) - (Q W^+ + P W^-)$, and $\mathrm{relu}(N - D) = \max(N, D) - D$. Hence a hidden
layer is a rational map, and in general not a polynomial. Every unit of every layer multiplies the
number of terms, so these functions are meant for small networks; `max_terms` limits the size.
"""

from collections.abc import Sequence

from hardmax._ground.arguments import Sizes, integer
from hardmax.errors import EmptyInputError, ShapeMismatchError, SizeLimitError
from hardmax.tropical.polynomials import MAX_TERMS
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.typing import ArrayLike, FloatArray


def relu_layer_map(weight: ArrayLike, bias: ArrayLike | None = None) -> TropicalRationalMap:
    r"""Return $x \mapsto \max(x W + b, 0)$ as a tropical rational map.

    The map is exact. Its denominator is 0, the tropical one, because a ReLU of an affine form is
    convex.

    Args:
        weight: The matrix $W$, shape `(dim_in, dim_out)`.
        bias: The vector $b$, shape `(dim_out,)`. By default, zero.

    Examples:
        >>> print(relu_layer_map([[1.0, 0.0], [1.0, 0.0]], [-1.0, 0.0]))
        (max(x + y - 1, 0), 0)
    """
    return TropicalRationalMap.from_affine(weight, bias).relu()


def relu_network_map(
    weights: Sequence[ArrayLike], biases: Sequence[ArrayLike], *, max_terms: int = MAX_TERMS
) -> TropicalRationalMap:
    r"""Return a ReLU network with an affine last layer as a tropical rational map.

    The map is exact for all float64 weights, because coefficients are scaled integers.

    Args:
        weights: One matrix per layer, with shapes `(dim_in, n_1), (n_1, n_2), ...`.
        biases: One vector per layer, with shapes `(n_1,), (n_2,), ...`.
        max_terms: The maximum number of terms that a product of polynomials may form.

    Raises:
        SizeLimitError: Before a product of more than `max_terms` terms is formed. The message
            names the layer.

    References:
        [ZNL18], for integer weights. Real exponents make their scaling of weights unnecessary.

    Examples:
        The negative absolute value, computed by two units:

        >>> F = relu_network_map([[[1.0, -1.0]], [[-1.0], [-1.0]]], [[0.0, 0.0], [0.0]])
        >>> print(F)
        x - max(2x, 0)
        >>> F([[-3.0], [2.0]]).ravel().tolist()
        [-3.0, -2.0]
    """
    layers = _read_layers(weights, biases)
    limit = integer("max_terms", max_terms, at_least=1)
    rational = TropicalRationalMap.from_affine(*layers[0])
    for index, (weight, bias) in enumerate(layers[1:], start=1):
        try:
            rational = rational.relu().affine(weight, bias, max_terms=limit)
        except SizeLimitError as refused:
            raise SizeLimitError(f"layer {index}: {refused}") from None
    return rational


def _read_layers(
    weights: Sequence[ArrayLike], biases: Sequence[ArrayLike]
) -> list[tuple[FloatArray, FloatArray]]:
    if len(weights) == 0:
        raise EmptyInputError("`weights` must hold at least one matrix; got none.")
    if len(biases) != len(weights):
        raise ShapeMismatchError(
            f"`biases` must hold one vector for each of the {len(weights)} matrices in `weights`; "
            f"got {len(biases)}."
        )
    sizes = Sizes()
    layers = []
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        matrix = sizes.floats(f"weights[{k}]", weight, (f"width_{k}", f"width_{k + 1}"))
        layers.append((matrix, sizes.floats(f"biases[{k}]", bias, (f"width_{k + 1}",))))
    return layers
