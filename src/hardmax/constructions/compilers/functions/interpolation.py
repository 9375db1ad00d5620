r"""How far a function is from its interpolant on a mesh: measured, and bounded.

Let $x = \sum_i b_i v_i$ lie in a simplex whose smallest enclosing ball has radius $r$ and centre
$c$. Then $\sum_i b_i |v_i - x|^2 = \sum_i b_i |v_i - c|^2 - |x - c|^2 \le r^2$. A Taylor expansion
at $x$ bounds the error of linear interpolation by $\tfrac{M}{2} r^2$ where the Hessian has norm at
most $M$, and the triangle inequality by $L r$ where $f$ has the Lipschitz constant $L$ [Wal98].
By Jung's theorem $r^2 \le \frac{d}{2(d+1)} \mathrm{diam}^2$.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from hardmax.constructions.compilers.functions.probes import Probes
from hardmax.errors import ArgumentError, DtypeError
from hardmax.typing import FloatArray

Sampled = Callable[[FloatArray], FloatArray]
"""A function that was checked: `(n_points, dim)` to `(n_points, dim_out)`, finite."""

_LATTICE = {1: 32, 2: 8, 3: 6}
_COARSE = {1: 4, 2: 4, 3: 4}
_N_SEARCHES = 64
_N_STEPS = 60


def checked_function(f: Any, dim: int) -> Sampled:
    """Wrap a callable so that whatever it returns is checked.

    A function of one number, such as `math.sin`, is taken too, if `dim` is 1: it is called for one
    point after another.

    Raises:
        DtypeError: If it is not callable, or does not return real numbers.
        ArgumentError: When called, if it takes no arrays, or returns another number of values than
            points, or a value that is not finite; the message names the point.
    """
    if not callable(f):
        raise DtypeError(f"`f` must be a function of arrays of points; got {type(f).__name__}.")
    evaluate = _evaluation(f, dim)

    def sampled(points: FloatArray) -> FloatArray:
        values = np.asarray(evaluate(points.copy()))
        if values.dtype.kind not in "biuf":
            raise DtypeError(f"`f` must return real numbers; got dtype {values.dtype}.")
        if values.ndim not in (1, 2) or len(values) != len(points) or values.shape[1:] == (0,):
            raise ArgumentError(
                f"`f` must map points of shape (n_points, {dim}) to values of shape (n_points,) or "
                f"(n_points, dim_out); got {values.shape} for {len(points)} points."
            )
        columns = np.asarray(values.reshape(len(points), -1), dtype=np.float64)
        bad = ~np.isfinite(columns).all(axis=1)
        if bad.any():
            k = int(bad.argmax())
            raise ArgumentError(
                f"`f` must be finite on the box; got {columns[k].tolist()} at {points[k].tolist()}."
            )
        return columns

    return sampled


def _evaluation(f: Any, dim: int) -> Callable[[FloatArray], Any]:
    """Call a function with arrays, or for one number after another once arrays have failed."""
    takes_numbers = False

    def by_numbers(points: FloatArray) -> Any:
        return [f(float(x)) for x in points[:, 0]]

    def evaluate(points: FloatArray) -> Any:
        nonlocal takes_numbers
        if takes_numbers:
            return by_numbers(points)
        try:
            return f(points)
        except (TypeError, ValueError) as error:
            failure = error
        try:
            if dim == 1:
                values = by_numbers(points)
                takes_numbers = True
                return values
        except (TypeError, ValueError, IndexError):
            pass
        raise ArgumentError(
            f"`f` must take an array of points, shape (n_points, {dim}); called with one it raised "
            f"{type(failure).__name__}: {failure!s:.120}"
        ) from failure

    return evaluate


def sampled_worst(f: Sampled, corners: FloatArray, probes: Probes) -> FloatArray:
    """Return the point of each simplex where interpolation errs most, among samples: `(n, dim)`."""
    weights = lattice(corners.shape[2], _COARSE[corners.shape[2]])
    errors = _errors(f, corners, weights)
    seen, where = probes.errors(corners, _at_corners(f, corners))
    best = np.where((seen > errors.max(axis=1))[:, None], where, weights[errors.argmax(axis=1)])
    return np.asarray(np.einsum("ni,nid->nd", best, corners))


def lattice(dim: int, order: int) -> FloatArray:
    """Return the barycentric coordinates with denominators `order`: `(n, dim + 1)`.

    Examples:
        >>> lattice(1, 2).tolist()
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    bars = np.array(list(combinations(range(order + dim), dim)))
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), order + dim)])
    return np.asarray((np.diff(ends, axis=1) - 1) / order)


def indicated_errors(f: Sampled, corners: FloatArray, probes: Probes | None = None) -> FloatArray:
    """Sample the error of interpolation on simplices `(n, dim + 1, dim)`, coarsely: `(n,)`."""
    weights = lattice(corners.shape[2], _COARSE[corners.shape[2]])
    errors = np.asarray(_errors(f, corners, weights).max(axis=1))
    if probes is None:
        return errors
    return np.asarray(np.maximum(errors, probes.errors(corners, _at_corners(f, corners))[0]))


def measured_error(
    f: Sampled, corners: FloatArray, probes: Probes | None = None
) -> tuple[float, FloatArray]:
    """Look for the largest error of interpolation: on a lattice, and from its worst points on.

    Args:
        f: The function.
        corners: All simplices, shape `(n, dim + 1, dim)`.
        probes: Points spread over all of them, which count as well.

    Returns:
        The largest error found (a lower bound on the supremum) and where it is.
    """
    dim = corners.shape[2]
    weights = lattice(dim, _LATTICE[dim])
    errors = _errors(f, corners, weights)
    starts, reached = weights[errors.argmax(axis=1)], errors.max(axis=1)
    if probes is not None:
        seen, where = probes.errors(corners, _at_corners(f, corners))
        starts = np.where((seen > reached)[:, None], where, starts)
        reached = np.maximum(reached, seen)
    # One start in each simplex: several in one would climb the same hill.
    simplex = np.argsort(reached)[-_N_SEARCHES:]
    own, best = corners[simplex], starts[simplex]
    at_corners = _at_corners(f, own)
    values = np.abs(
        f(np.einsum("ni,nid->nd", best, own)) - np.einsum("ni,nic->nc", best, at_corners)
    ).max(axis=1)
    targets = np.eye(dim + 1)
    edges = (targets[:, None] - targets)[~np.eye(dim + 1, dtype=bool)]
    steps = np.full(len(own), 1.0 / _LATTICE[dim])
    for _ in range(_N_STEPS):
        # Towards each corner, away from it, and along each edge, as far as the simplex goes.
        towards = targets - best[:, None, :]
        along = np.broadcast_to(edges, (len(best), *edges.shape))
        move = steps[:, None, None] * np.concatenate([towards, -towards, along], axis=1)
        trials = best[:, None] + move
        trials = np.maximum(trials, 0.0)
        trials /= trials.sum(axis=2, keepdims=True)
        n, m, _ = trials.shape
        points = np.einsum("nmi,nid->nmd", trials, own).reshape(n * m, dim)
        found = np.abs(f(points).reshape(n, m, -1) - trials @ at_corners).max(axis=2)
        choice = found.argmax(axis=1)
        rows = np.arange(n)
        better = found[rows, choice] > values
        best = np.where(better[:, None], trials[rows, choice], best)
        values = np.where(better, found[rows, choice], values)
        steps = np.where(better, steps, steps / 2)
    k = int(values.argmax())
    return float(values[k]), np.asarray(best[k] @ own[k])


def enclosing_radius(corners: FloatArray) -> float:
    """Bound the radius of the smallest balls around simplices `(n, dim + 1, dim)`, from above."""
    dim = corners.shape[2]
    scale = float(np.ldexp(1.0, int(np.frexp(np.ptp(corners, axis=(0, 1)).max())[1])))
    pairs = combinations(range(dim + 1), 2)
    squares = max(
        float((((corners[:, i] - corners[:, k]) / scale) ** 2).sum(axis=1).max()) for i, k in pairs
    )
    # Far more than the few roundings above.
    slack = 1.0 + 2.0**-40
    return float(np.sqrt(squares * dim / (2.0 * (dim + 1.0))) * slack) * scale


def _errors(f: Sampled, corners: FloatArray, weights: FloatArray) -> FloatArray:
    n, m, dim = len(corners), len(weights), corners.shape[2]
    points = np.einsum("mi,nid->nmd", weights, corners).reshape(n * m, dim)
    interpolated = np.einsum("mi,nic->nmc", weights, _at_corners(f, corners))
    return np.asarray(np.abs(f(points).reshape(n, m, -1) - interpolated).max(axis=2))


def _at_corners(f: Sampled, corners: FloatArray) -> FloatArray:
    n, n_corners, dim = corners.shape
    return f(corners.reshape(-1, dim)).reshape(n, n_corners, -1)
