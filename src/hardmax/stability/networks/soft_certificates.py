r"""Certified distance of a soft network from the hard one, layer by layer.

Let $z_l$ be the stream of the hard network and $z_l + e_l$ the stream of the soft network at the
same input. The hard stream is known exactly (`hard_traces`), and the error $e_l$ is enclosed in
balls. A score $s_j$ with slope $S_j$ in the stream has error $\langle S_j, e\rangle$, so the winner
$w$ of a group leads form $j$ in the soft network by

$$G_j = g_j + \langle S_w - S_j, e\rangle, \qquad g_j = s_w - s_j \ge 0 .$$

* A head has weights $p_j = e^{-G_j/\tau}/\sum_l e^{-G_l/\tau}$ and an error $\sum_j p_j (v_j -
  v_w)$. Each $p_j$ is enclosed between its values at the most and the least favourable ends of the
  $G$. The error is always in the convex hull of the $v_j - v_w$, so a certificate is finite at
  every temperature.
* A ReLU or maxout unit stays hard, and the error of its output is exactly $\langle S_w, e\rangle +
  \max_j (-G_j)$. If the same form still wins, this is $\langle S_w, e \rangle$.

All results are rounded outward. At a point the balls contain only rounding errors, so the bound is
the error itself to many digits. On a cube of inputs they also contain the range of the margins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import ctx

from hardmax._ground.arguments import number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.exact.directed_rounding import PRECISION, norm_bound, round_down, round_up
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.evaluation import cell_signature, read_temperatures
from hardmax.models.model_arguments import read_model
from hardmax.models.points import PointBatch
from hardmax.models.transformers import HardTransformer
from hardmax.stability.models import head_names, read_soft_model
from hardmax.stability.networks.hard_traces import HardLayer, cube_trace, point_trace
from hardmax.stability.networks.soft_errors import ErrorPass
from hardmax.typing import ArrayLike, BoolArray, FloatArray, ModelLike


@dataclass(frozen=True, eq=False, repr=False)
class SoftCertificate:
    r"""Certified bounds for a soft network at given points, or on cubes around them.

    Attributes:
        taus: The temperature of each layer of the network; layers of units ignore it.
        radius: Half the edge length of the cubes; 0 if the bounds hold only at the points.
        lower: Lower bounds on the soft output minus the hard output; shape `(n_points, dim_out)`.
        upper: Upper bounds on the soft output minus the hard output; shape `(n_points, dim_out)`.
        error: A bound on the Euclidean norm of the soft output minus the hard output; shape
            `(n_points,)`.
        log_error: The logarithm of `error`, which does not underflow; -inf if both outputs are
            equal. Shape `(n_points,)`.
        heads: The pair `(layer, group)` of every head of the network.
        rival_masses: Upper bounds on the weight that each head of the soft network gives to keys
            other than the winner of the hard network and the keys that tie with it; shape
            `(n_points, n_heads)`.
        margins: The margin of this winner in the hard network, rounded down. It is 0 on a wall, and
            `inf` if there are no rivals. Shape `(n_points, n_heads)`.
        units_agree: Whether every unit certainly has the same winner in both networks; shape
            `(n_points,)`.
        is_covered: False if a wall meets the cube; in this case nothing is certified. Shape
            `(n_points,)`.

    Examples:
        >>> from hardmax import AttentionHead
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = certify_soft(sign, [2.0], tau=1.0)
        >>> found.margins.tolist(), bool(found.is_covered.all())
        ([[4.0]], True)
    """

    taus: tuple[float, ...]
    radius: float
    lower: FloatArray
    upper: FloatArray
    error: FloatArray
    log_error: FloatArray
    heads: tuple[tuple[int, int], ...]
    rival_masses: FloatArray
    margins: FloatArray
    units_agree: BoolArray
    is_covered: BoolArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        n = len(self.error)
        where = f"{n} point{'s' * (n != 1)}"
        if self.radius:
            where = f"{n} cube{'s' * (n != 1)} of radius {self.radius:g}"
        return (
            f"SoftCertificate({where}, error <= {self.error.max(initial=0.0):.3g}, "
            f"rival masses <= {self.rival_masses.max(initial=0.0):.3g})"
        )

    @property
    def masses(self) -> FloatArray:
        """Lower bounds on the weight of the hard winner in each head: `(n_points, n_heads)`."""
        return np.maximum(np.nextafter(1.0 - self.rival_masses, 0.0), 0.0)

    @property
    def bound(self) -> FloatArray:
        """A bound on |soft - hard| for each output; shape `(n_points, dim_out)`."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))


def certify_soft(
    model: ModelLike, x: ArrayLike, tau: float | Sequence[float], radius: float = 0.0
) -> SoftCertificate:
    r"""Certify the distance of the soft model from the hard one.

    Args:
        model: A model, as for `enumerate_regions`.
        x: A point of shape `(dim_in,)`, or a batch of shape `(n_points, dim_in)`.
        tau: The temperature, as for the method `soft` of the model: one number, or one number per
            block of a `HardTransformer` (per layer of any other network).
        radius: The radius $\rho \ge 0$. The certificate holds for all inputs $y$ with
            $\|y - x\|_\infty \le \rho$, provided that they lie in one cell.

    Returns:
        The certificate. Its arrays have one row for each point.

    Examples:
        >>> from hardmax import AttentionHead, Block
        >>> head = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> model = HardTransformer([Block([head]), Block([head])])
        >>> point = certify_soft(model, [2.0], tau=1.0)
        >>> point.upper - (model.soft([2.0], 1.0) - model([2.0])) < 1e-15
        array([[ True]])
        >>> certify_soft(model, [2.0], tau=1.0, radius=0.5)
        SoftCertificate(1 cube of radius 0.5, error <= 0.111, rival masses <= 0.0474)
        >>> certify_soft(model, [2.0], tau=1.0, radius=3.0).is_covered
        array([False])
    """
    model = read_model(model)
    network = read_soft_model(model)
    taus = layer_temperatures(model, network, tau)
    reach = number("radius", radius, at_least=0.0)
    points = PointBatch.read("x", x, network.dim_in).rows
    heads = head_names(network)
    n = len(points)
    lower, upper = np.full((n, network.dim_out), -np.inf), np.full((n, network.dim_out), np.inf)
    error, log_error = np.full((2, n), np.inf)
    rivals, margins = np.ones((n, len(heads))), np.zeros((n, len(heads)))
    agree, covered = np.zeros((2, n), dtype=bool)
    with ctx.workprec(PRECISION):
        passes = ErrorPass(network, taus)
        for i, trace in enumerate(_iter_traces(network, points, reach)):
            result = passes(trace)
            if result is None:
                continue
            lower[i] = [round_down(ball) for ball in result.output]
            upper[i] = [round_up(ball) for ball in result.output]
            size = norm_bound(result.output)
            error[i] = round_up(size)
            log_error[i] = -np.inf if size == 0 else round_up(size.log())
            rivals[i] = [round_up(ball) for ball in result.rivals]
            margins[i] = [np.inf if m is None else round_down(m) for m in result.margins]
            agree[i], covered[i] = result.units_agree, True
    return SoftCertificate(
        tuple(taus),
        reach,
        read_only_copy(lower),
        read_only_copy(upper),
        read_only_copy(error),
        read_only_copy(log_error),
        heads,
        read_only_copy(rivals),
        read_only_copy(margins),
        agree,
        covered,
    )


def _iter_traces(
    network: ArgmaxNetwork, points: FloatArray, radius: float
) -> Iterator[Iterator[HardLayer | None]]:
    if radius == 0.0:
        for point in points:
            yield point_trace(network, point)
        return
    signatures, inside = cell_signature(network, points)
    for point, name, is_inside in zip(points, signatures.tolist(), inside.tolist(), strict=True):
        yield cube_trace(network, point, radius, name) if is_inside else iter([None])


def layer_temperatures(
    model: Any, network: ArgmaxNetwork, tau: float | Sequence[float]
) -> list[float]:
    """Return the temperature of each layer of a network, read as `soft` of the model reads it."""
    if not isinstance(model, HardTransformer):
        return read_temperatures(tau, len(network.layers), "layer")
    taus = read_temperatures(tau, len(model.blocks), "block")
    return [
        temperature
        for temperature, block in zip(taus, model.blocks, strict=True)
        for _ in range(bool(block.heads) + (block.ffn is not None))
    ]
