r"""Evaluation of a network: hard or soft output, signatures, and the affine map of a cell.

The stored weights and the given point are exact dyadic rationals, and winners are decided for these
numbers: by floats with proven radii where these suffice (`run_float_pass`), otherwise in integers
(`run_exact_pass`). At a point where several forms of a group tie, a hard network returns their
mean, which is the limit of the soft network.
"""

from collections.abc import Sequence

import numpy as np

from hardmax._ground.arguments import Sizes, floats_any_shape
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models._arithmetic.exact_pass import run_exact_pass
from hardmax.models._arithmetic.float_pass import run_float_pass
from hardmax.models._arithmetic.plain_pass import is_continuous, run_plain_pass
from hardmax.models._arithmetic.point_winners import (
    TieClassifier,
    find_point_winners,
    split_into_chunks,
)
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models._arithmetic.soft_pass import run_soft_pass
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.points import PointBatch
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray


def forward(network: ArgmaxNetwork, x: ArrayLike) -> FloatArray:
    """Evaluate the hard network.

    Every head's winner is exact. The arithmetic between the decisions is rounded. At points where a
    decision required integers, the output is the exact output, rounded once.

    Args:
        network: The network.
        x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.

    Returns:
        The output, shape `(dim_out,)` or `(n_points, dim_out)`.

    Examples:
        A head that returns the sign of its input, and 0 at the tie:

        >>> from hardmax.models import ArgmaxLayer
        >>> identity = AffineMap.identity(1)
        >>> sign = ArgmaxLayer(identity, [[-1.0], [1.0]], [0.0, 0.0], [0, 2], [0], [0.0, 0.0],
        ...                    [[-1.0], [1.0]], identity, False)
        >>> forward(ArgmaxNetwork((sign,), identity, identity), [[-5e-324], [0.0], [2.0]]).tolist()
        [[-1.0], [0.0], [1.0]]
    """
    batch = PointBatch.read("x", x, network.dim_in)
    output = np.empty((len(batch.rows), network.dim_out))
    for chunk in split_into_chunks(network, len(batch.rows)):
        points = batch.rows[chunk]
        output[chunk], is_open = _evaluate_in_floats(network, points)
        open_ = np.flatnonzero(is_open)
        output[chunk][open_] = run_exact_pass(network, points[open_]).rounded_output()
    return batch.unpack(output)


def signature(network: ArgmaxNetwork, x: ArrayLike) -> IntArray:
    """Return the index of the exact winner in every group; if several tie, of the first.

    Args:
        network: The network.
        x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.

    Returns:
        Indices within the groups, shape `(n_groups,)` or `(n_points, n_groups)`. On a wall the
        indices may not be the signature of a cell, and `affine_map` may then disagree with
        `forward`.
    """
    batch = PointBatch.read("x", x, network.dim_in)
    return batch.unpack(find_point_winners(network, batch.rows).first)


def cell_signature(
    network: ArgmaxNetwork, t: ArrayLike, chart: AffineMap | None = None
) -> tuple[IntArray, BoolArray]:
    r"""Return the winners of all groups, and whether the point is in the interior of their cell.

    A point is in the interior if all forms that tie with a winner there coincide with it on the
    whole domain; otherwise the point is on a wall. Both results are exact.

    Args:
        network: The network.
        t: Coordinates of a point, `(dim,)`, or of a batch, `(n_points, dim)`.
        chart: The map from coordinates to inputs, $x = t W + b$, if the domain is a slice; it is
            applied exactly. None means the whole input space.

    Returns:
        The indices within the groups, shape `(n_groups,)` or `(n_points, n_groups)`; and a boolean,
        or a boolean array of shape `(n_points,)`.
    """
    over = AffineMap.identity(network.dim_in) if chart is None else chart
    if over.dim_out != network.dim_in:
        raise ArgumentError(
            f"`chart` must return vectors of width {network.dim_in}, the input width of the "
            f"network; got {over.dim_out}."
        )
    batch = PointBatch.read("t", t, over.dim_in)
    found = find_point_winners(network, batch.rows, over)
    inside = np.ones(len(batch.rows), dtype=bool)
    coincidences = TieClassifier(network, over)
    for i, n_tied in zip(found.tied.tolist(), found.n_tied, strict=True):
        inside[i] = coincidences.holds_on_cell(found.first[i], n_tied)
    return batch.unpack(found.first), batch.unpack(inside)


def soft(network: ArgmaxNetwork, x: ArrayLike, tau: float | Sequence[float]) -> FloatArray:
    r"""Evaluate the network with softmax heads.

    A group whose forms contribute constants (a head) contributes $\sum_j p_j v_j$ with
    $p = \mathrm{softmax}(s/\tau)$. Groups that contribute scores (ReLU and maxout units) stay hard,
    as in a transformer. As $\tau \to 0$ the output tends to the hard output. Where rounded scores
    do not determine the weights, interval arithmetic does, so small temperatures and ties do not
    reduce the accuracy.

    Args:
        network: The network.
        x: A point `(dim_in,)` or a batch `(n_points, dim_in)`.
        tau: The temperature, at least 0, or a sequence with one temperature per layer of the
            network. Layers without heads ignore theirs.

    Returns:
        The output, shape `(dim_out,)` or `(n_points, dim_out)`.
    """
    batch = PointBatch.read("x", x, network.dim_in)
    taus = read_temperatures(tau, len(network.layers), "layer")
    if not any(taus) or is_continuous(network):
        return forward(network, x)
    output = np.empty((len(batch.rows), network.dim_out))
    for chunk in split_into_chunks(network, len(batch.rows)):
        points = batch.rows[chunk]
        result = run_float_pass(network, points, taus, named=False)
        output[chunk] = result.output.values
        for i in np.flatnonzero(result.is_open):
            output[chunk][i] = run_soft_pass(network, points[i], taus)
    return batch.unpack(output)


def affine_map(
    network: ArgmaxNetwork, signature: Sequence[int] | IntArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the affine map $x \mapsto x A + b$ of the network on the cell of a signature.

    If forms coincide with a winner on the whole input space, they tie on the whole cell and the map
    is their mean. The map is composed exactly, and each coefficient is rounded once.

    Args:
        network: The network.
        signature: For each group, the winner's index within the group, shape `(n_groups,)`.

    Returns:
        The matrix $A$, shape `(dim_in, dim_out)`, and the vector $b$, shape `(dim_out,)`.

    Raises:
        ArgumentError: If an index is outside its group.
    """
    winners = read_signature(network, signature)
    chart = AffineMap.identity(network.dim_in)
    rounded = exact_affine_map(network, chart, winners).rounded()
    return np.ascontiguousarray(rounded[:, :-1].T), np.ascontiguousarray(rounded[:, -1])


def read_signature(network: ArgmaxNetwork, signature: Sequence[int] | IntArray) -> IntArray:
    """Read a signature of the network, and check that every index is within its group."""
    sizes = Sizes(n_groups=network.n_groups)
    winners = sizes.ints("signature", signature, ("n_groups",), nonempty=())
    ranks = np.concatenate([np.diff(layer.starts) for layer in network.layers] or [winners])
    bad = np.flatnonzero((winners < 0) | (winners >= ranks))
    if len(bad):
        raise ArgumentError(
            f"`signature` must hold indices within the groups: entry {bad[0]} must be at least 0 "
            f"and below {ranks[bad[0]]}; got {winners[bad[0]]}."
        )
    return winners


def read_temperatures(tau: float | Sequence[float], n: int, what: str) -> list[float]:
    """Read one temperature, or one for each of `n` parts; all must be at least 0."""
    taus = floats_any_shape("tau", tau)
    if taus.ndim > 1 or (taus.ndim == 1 and len(taus) != n):
        raise ShapeMismatchError(
            f"`tau` must be one number, or one for each {what} with shape ({n},); got shape "
            f"{taus.shape}."
        )
    if (taus < 0.0).any():
        raise ArgumentError(f"`tau` must be at least 0; got {float(taus.min())}.")
    return [float(t) for t in np.broadcast_to(taus, (n,))]


def _evaluate_in_floats(network: ArgmaxNetwork, points: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Evaluate in floats, and return the mask of the points that floats leave open."""
    if is_continuous(network):
        return run_plain_pass(network, points)
    result = run_float_pass(network, points, None, named=False)
    return result.output.values, result.is_open
