r"""Measured and certified distance of the soft model from the hard one, by temperature."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.arguments import number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import EmptyInputError, ShapeMismatchError
from hardmax.exact.directed_rounding import read_broadcast
from hardmax.exact.norms import enclose_norms
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model
from hardmax.models.points import PointBatch
from hardmax.stability.head_certificates import certify_head
from hardmax.stability.models import read_soft_model
from hardmax.stability.networks.soft_certificates import certify_soft
from hardmax.typing import ArrayLike, FloatArray, ModelLike


@dataclass(frozen=True, eq=False, repr=False)
class ErrorCurves:
    r"""The maximum of $\|soft - hard\|_2$ over given points, for each temperature.

    All arrays have shape `(n_taus,)`.

    Attributes:
        taus: The temperatures, in increasing order.
        measured: The error evaluated in floats, which cannot resolve errors below the rounding
            errors of the outputs.
        certified: The bound of `certify_soft` at the points.
        on_cubes: The bound on the cubes around the points that no wall meets. NaN if `radius` is 0
            or if every cube meets a wall.
        from_margin: For a head, the bound from the margin and the spread of the values alone; NaN
            for other models.
        radius: The radius of the cubes.
        n_points: The number of points.

    Examples:
        >>> from hardmax import AttentionHead
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> curves = error_curves(sign, [[0.5], [2.0]], [1.0, 0.1])
        >>> curves.certified.shape, bool(curves.measured[0] < curves.measured[1])
        ((2,), True)
    """

    taus: FloatArray
    measured: FloatArray
    certified: FloatArray
    on_cubes: FloatArray
    from_margin: FloatArray
    radius: float
    n_points: int

    _repr_html_ = html_card

    def __repr__(self) -> str:
        n, where = len(self.taus), f"{self.n_points} point{'s' * (self.n_points != 1)}"
        if n == 1:
            return f"ErrorCurves({where}, one temperature {self.taus[0]:g})"
        low, high = self.taus[[0, -1]]
        return f"ErrorCurves({where}, {n} temperatures from {low:g} to {high:g})"


def error_curves(
    model: ModelLike, x: ArrayLike, taus: ArrayLike, radius: float = 0.0
) -> ErrorCurves:
    """Measure and certify the maximum error over given points at several temperatures.

    Args:
        model: A head, a block, or a model with a method `soft`.
        x: A point of shape `(dim_in,)`, or a batch of shape `(n_points, dim_in)`.
        taus: The temperatures, above 0, shape `(n_taus,)`.
        radius: The radius of cubes around the points on which the error is certified as well; 0 for
            no cubes.

    Examples:
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> curves = error_curves(sign, [[0.5], [2.0]], [1.0, 0.1])
        >>> curves
        ErrorCurves(2 points, 2 temperatures from 0.1 to 1)
        >>> bool((curves.certified >= curves.measured * (1 - 1e-12)).all())
        True
    """
    given = read_model(model)
    network = read_soft_model(given)
    points = PointBatch.read("x", x, network.dim_in).rows
    reach = number("radius", radius, at_least=0.0)
    (read,) = read_broadcast({"taus": (taus, 0, False)})
    if read.ndim > 1:
        raise ShapeMismatchError(f"`taus` must have shape (n_taus,); got {read.shape}.")
    for name, array in (("x", points), ("taus", read)):
        if not array.size:
            raise EmptyInputError(f"`{name}` must have at least one entry; got none.")
    temperatures = np.sort(np.atleast_1d(read))
    measured, certified, cubes, margins = np.full((4, len(temperatures)), np.nan)
    soft = given if hasattr(given, "soft") else _NetworkModel(network)
    with np.errstate(over="ignore", invalid="ignore"):
        hard = soft(points)
    for i, tau in enumerate(temperatures.tolist()):
        with np.errstate(over="ignore", invalid="ignore"):
            difference = soft.soft(points, tau) - hard
        measured[i] = enclose_norms(difference)[1].max()
        certified[i] = certify_soft(given, points, tau).error.max()
        if reach:
            found = certify_soft(given, points, tau, reach)
            if found.is_covered.any():
                cubes[i] = found.error[found.is_covered].max()
        if isinstance(given, AttentionHead):
            margins[i] = certify_head(given, points, tau).distance_from_margin.max()
    return ErrorCurves(
        read_only_copy(temperatures),
        read_only_copy(measured),
        read_only_copy(certified),
        read_only_copy(cubes),
        read_only_copy(margins),
        reach,
        len(points),
    )


class _NetworkModel:
    """The interface of a model for a network."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def __call__(self, points: FloatArray) -> FloatArray:
        from hardmax.models.evaluation import forward

        return forward(self.network, points)

    def soft(self, points: FloatArray, tau: float) -> FloatArray:
        from hardmax.models.evaluation import soft

        return soft(self.network, points, tau)
