r"""Zigzag functions as feed-forward layers: the folds of the shattering transformers.

The zigzag with $q$ pieces of slope $\pm 1$ is $\zeta(z) = \min_{k \text{ even}} |z - k|$ for
$0 \le z \le q$. As a sum of ReLU units, it is

$$\zeta(z) = z + 2\sum_{k=1}^{q-1} (-1)^k \,\mathrm{relu}(z - k).$$

Lemma F.2 of [SL26] writes the first term as $\mathrm{relu}(z)$, a unit whose kink is an end of the
interval. If a routing wall has the same position and weights are rounded, thin cells appear between
the kink and the wall. Here the first unit is $\mathrm{relu}(y + 1) - 1 = y$, whose kink is far
away.
"""

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.constructions.families.model_sizes import refuse_size
from hardmax.errors import ArgumentError
from hardmax.models.transformers import FeedForward


def sawtooth(n_teeth: int) -> FeedForward:
    r"""Return the sawtooth of Lemma F.2 of [SL26]: $w$ teeth on $[0, 1]$ with $2w$ units.

    The function

    $$s(x) = 2w\,\mathrm{relu}(x) + 4w\sum_{k=1}^{2w-1}(-1)^k\,
      \mathrm{relu}\big(x - \tfrac{k}{2w}\big)$$

    maps each interval $[\frac{k}{2w}, \frac{k+1}{2w}]$ onto $[0, 1]$. The weights are exact in
    float64 if $w$ is a power of two; `folding_layer` is exact for every number of pieces.

    Args:
        n_teeth: The number of teeth $w \ge 1$.

    References:
        [SL26] Lemma F.2; folding as in [MPCB14].

    Examples:
        >>> from hardmax import Block, HardTransformer
        >>> two = HardTransformer([Block([], sawtooth(2), ffn_residual=False)])
        >>> two([[0.0], [0.25], [0.5], [0.75], [1.0]]).ravel()
        array([0., 1., 0., 1., 0.])
    """
    n_pieces = 2 * integer("n_teeth", n_teeth, at_least=1)
    refuse_size(4 * n_pieces, n_teeth=n_teeth)
    k = np.arange(n_pieces)
    heights = np.where(k == 0, n_pieces, 2 * n_pieces * (-1.0) ** k)
    return FeedForward(np.ones((1, n_pieces)), -k / n_pieces, heights[:, None], None)


def folding_layer(
    n_coordinates: int,
    n_pieces: int,
    n_cells: int,
    height: int,
    *,
    dim: int,
    d_ff: int,
    residual: bool,
) -> FeedForward:
    r"""Return a layer that folds $[0, 1/n]$ onto $[0, b]$ in $q$ pieces, coordinate by coordinate.

    On the first coordinates, the output (including the added $y$ if `residual`) is
    $b\, \zeta(q n y_i)$, a combination of the units $\mathrm{relu}(y_i + 1)$ and
    $\mathrm{relu}(q n y_i - k)$ for $0 < k < q$. All weights are integers. The other coordinates do
    not change if `residual`; otherwise they become the constant 1. Unneeded units are always off.

    Args:
        n_coordinates: The number of coordinates that are folded.
        n_pieces: The number of pieces $q \ge 1$.
        n_cells: The number $n \ge 1$, the inverse length of the interval.
        height: The height $b \ge 1$.
        dim: The width of the stream, at least `n_coordinates`.
        d_ff: The number of units, at least `n_coordinates * n_pieces`.
        residual: Whether the layer has a residual connection, that is, the block adds $y$.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is out of range, or so large that float64 would round a weight.

    Examples:
        A fold of $[0, 1]$ into three pieces, with one unneeded unit:

        >>> layer = folding_layer(1, 3, 1, 1, dim=1, d_ff=4, residual=False)
        >>> from hardmax import Block, HardTransformer
        >>> zigzag = HardTransformer([Block([], layer, ffn_residual=False)])
        >>> (3 * zigzag([[0.0], [0.25], [0.5], [0.75], [1.0]])).ravel()
        array([0.  , 2.25, 1.5 , 0.75, 3.  ])
    """
    n_coordinates = integer("n_coordinates", n_coordinates, at_least=1)
    n_pieces = integer("n_pieces", n_pieces, at_least=1)
    n_cells = integer("n_cells", n_cells, at_least=1)
    height = integer("height", height, at_least=1)
    dim = integer("dim", dim, at_least=n_coordinates)
    d_ff = integer("d_ff", d_ff, at_least=n_coordinates * n_pieces)
    largest = max(height * n_pieces * n_cells, 2 * height)
    if largest > 2**53:
        raise ArgumentError(
            "`height`, `n_pieces` and `n_cells` must keep the weights below 2^53, so that they are "
            f"exact in float64; got {height}, {n_pieces} and {n_cells}, which require a weight of "
            f"{largest:.3g}."
        )
    refuse_size(2 * (dim + 1) * d_ff + dim, dim=dim, d_ff=d_ff)
    w_in, b_in = np.zeros((dim, d_ff)), np.full(d_ff, -1.0)
    w_out, b_out = np.zeros((d_ff, dim)), np.full(dim, 0.0 if residual else 1.0)
    slope = height * n_pieces * n_cells - bool(residual)
    k = np.arange(1, n_pieces)
    for i in range(n_coordinates):
        unit = i * n_pieces
        w_in[i, unit], b_in[unit], w_out[unit, i], b_out[i] = 1.0, 1.0, slope, -slope
        w_in[i, unit + k], b_in[unit + k] = n_pieces * n_cells, -k
        w_out[unit + k, i] = 2 * height * (-1.0) ** k
    return FeedForward(w_in, b_in, w_out, b_out)
