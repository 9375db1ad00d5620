r"""Universal approximation in practice: compile a continuous function to a transformer.

Continuous functions on a box are limits of continuous piecewise linear functions, which
transformers compute. Here the piecewise linear function interpolates on an adaptive mesh. For a
smooth function, the error decreases like $n^{-2/d}$ with the number $n$ of pieces.

**Adaptive conforming meshes of a box: bisection of longest edges.**

A cube is divided into the $d!$ Kuhn simplices, one for each order of the coordinates. A simplex is
refined by halving its longest edge, together with *every* simplex around that edge; if one of these
has a longer edge, that edge is halved first [Riv84]. The mesh stays face to face. Because each step
is a stellar subdivision, it also stays regular, so that its convex differences need no new pieces.
Lengths are relative to the sides of the box, and ties are broken by the numbers of the vertices, so
all simplices around an edge agree on which of their edges is longest.

**Probes: points spread over the box, so that large simplices hide no narrow feature.**

A mesh can only be refined where samples show an error. Samples at a few places of each simplex may
miss a peak between them, and the mesh would then never be refined there. Probes are evaluated once,
before the mesh exists, and the error of a simplex is also measured at the probes in it. This
detects every feature wider than about $n^{-1/d}$ of the box, where $n$ is the number of probes.

**The distance between a function and its interpolant: measured, and bounded.**

Let $x = \sum_i b_i v_i$ lie in a simplex whose smallest enclosing ball has radius $r$ and centre
$c$. Then $\sum_i b_i |v_i - x|^2 = \sum_i b_i |v_i - c|^2 - |x - c|^2 \le r^2$. A Taylor expansion
at $x$ bounds the error of linear interpolation by $\tfrac{M}{2} r^2$ where the Hessian has norm at
most $M$, and the triangle inequality by $L r$ where $f$ has the Lipschitz constant $L$ [Wal98].
By Jung's theorem $r^2 \le \frac{d}{2(d+1)} \mathrm{diam}^2$.

**Jumps of a function given by its values: found by bisection, down to neighbouring floats.**

Halve the segment between two points repeatedly, and always keep the half with the larger unexpected
change of the values. The expected change is the change, relative to length, across the half that
was discarded in the previous step. If the function is continuous, the unexpected change tends to 0
with the length, like the modulus of continuity; at a jump it does not. When the ends are
neighbouring floats, nothing more can be known. The function is considered to jump if the unexpected
change is then still about as large as when the ends were $2^{20}$ times further apart.

This finds jumps that have samples on both sides. It does not prove that a function is continuous.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, permutations
from math import factorial
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax.constructions.compilers.cpwl_compiler import CompiledFunction, compile_cpwl
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.maxout_assembly import read_box
from hardmax.errors import ArgumentError, DiscontinuityError, DtypeError
from hardmax.exact.rounding import SMALL_RAISE
from hardmax.geometry.domain_text import read_domain
from hardmax.geometry.domains import Box
from hardmax.typing import ArrayLike, FloatArray, IntArray

_MANY_FLOATS = 2.0**12

Edge = tuple[int, int]

Indicator = Callable[[FloatArray], FloatArray]
"""A function that returns errors of simplices from their corners `(n_simplices, dim + 1, dim)`."""


class BisectionMesh:
    """A growing mesh of a box.

    Attributes:
        points: The vertices created so far.
        simplices: The simplices of the current mesh, by number.
    """

    def __init__(self, box: Box) -> None:
        dim = box.dim
        corners = np.array(np.meshgrid(*[[0, 1]] * dim, indexing="ij")).reshape(dim, -1).T
        self.points: list[FloatArray] = [np.where(c, box.high, box.low) for c in corners]
        self._places: list[FloatArray] = [c.astype(np.float64) for c in corners]
        self.simplices: dict[int, tuple[int, ...]] = {}
        self._around: dict[Edge, set[int]] = {}
        self._longest: dict[int, Edge] = {}
        self._next = 0
        weights = 2 ** np.arange(dim)[::-1]
        for order in permutations(range(dim)):
            path = np.cumsum(
                np.vstack([np.zeros(dim, int), np.eye(dim, dtype=int)[list(order)]]), axis=0
            )
            self._add(tuple(int(x) for x in path @ weights))

    def corners(self, numbers: list[int]) -> FloatArray:
        """Return the corners of simplices: `(n, dim + 1, dim)`."""
        return np.array([[self.points[v] for v in self.simplices[k]] for k in numbers])

    def terminal_edge(self, simplex: int) -> Edge:
        """Follow longest edges from a simplex to an edge that is longest in all simplices at it."""
        edge = self._longest[simplex]
        while True:
            longer = max((self._longest[k] for k in self._around[edge]), key=self._length)
            if longer == edge:
                return edge
            edge = longer

    def count_around(self, edge: Edge) -> int:
        """Return the number of simplices around an edge."""
        return len(self._around[edge])

    def can_halve(self, edge: Edge) -> bool:
        """Return whether an edge is still long compared with the spacing of floats around it."""
        a, b = (self.points[v] for v in edge)
        step = np.abs(a / 2 - b / 2)
        near = np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return bool(np.all((step == 0.0) | (step > _MANY_FLOATS * near)))

    def bisect(self, edge: Edge) -> list[int]:
        """Halve an edge with all simplices around it, and return the numbers of the new ones."""
        a, b = edge
        middle = len(self.points)
        self.points.append(self.points[a] / 2 + self.points[b] / 2)
        self._places.append((self._places[a] + self._places[b]) / 2)
        fresh = []
        for k in sorted(self._around[edge]):
            simplex = self.simplices.pop(k)
            del self._longest[k]
            for own in combinations(sorted(simplex), 2):
                self._around[own].discard(k)
            for gone in edge:
                fresh.append(self._add(tuple(middle if v == gone else v for v in simplex)))
        return fresh

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Return vertices `(n_vertices, dim)` and simplices `(n_simplices, dim + 1)`."""
        return np.array(self.points), np.array([self.simplices[k] for k in sorted(self.simplices)])

    def _add(self, simplex: tuple[int, ...]) -> int:
        number, self._next = self._next, self._next + 1
        self.simplices[number] = simplex
        edges = list(combinations(sorted(simplex), 2))
        for edge in edges:
            self._around.setdefault(edge, set()).add(number)
        self._longest[number] = max(edges, key=self._length)
        return number

    def _length(self, edge: Edge) -> tuple[float, Edge]:
        # Places are dyadic with few bits, so ties are exact. If rounding finally occurs, it is the
        # same for all simplices.
        a, b = edge
        return float(((self._places[a] - self._places[b]) ** 2).sum()), edge


def adaptive_mesh(box: Box, n_pieces: int, indicator: Indicator) -> tuple[FloatArray, IntArray]:
    """Refine a mesh where an indicator is largest, up to `n_pieces` simplices.

    Args:
        box: The box to cover.
        n_pieces: The maximum number of simplices, at least the factorial of the dimension.
        indicator: The error of each simplex.

    Returns:
        Vertices and simplices.
    """
    mesh = BisectionMesh(box)
    queue: list[tuple[float, int]] = []

    def enqueue(numbers: list[int]) -> None:
        for member, error in zip(numbers, indicator(mesh.corners(numbers)).tolist(), strict=True):
            heappush(queue, (-error, member))

    enqueue(sorted(mesh.simplices))
    while queue:
        error, worst = queue[0]
        if worst not in mesh.simplices:
            heappop(queue)
            continue
        edge = mesh.terminal_edge(worst)
        if not mesh.can_halve(edge):
            heappop(queue)
            continue
        if error == 0.0 or len(mesh.simplices) + mesh.count_around(edge) > n_pieces:
            break
        enqueue(mesh.bisect(edge))
    return mesh.arrays()


_N_PROBES = 4096
_AT_ONCE = 64
_INSIDE = -(2.0**-30)
_NOTHING = 2.0**-40
"""Errors below this fraction of the largest value are attributed to rounding."""


_IGNORE_FLOAT_ERRORS = np.errstate(all="ignore")
"""For differences of values near the largest float, which only guide the refinement."""


@dataclass(frozen=True, eq=False)
class Probes:
    """A function at points of a box.

    Attributes:
        box: The box.
        places: The points relative to the box, from 0 to 1, shape `(n_probes, dim)`.
        values: The values of the function at the points, shape `(n_probes, dim_out)`.
    """

    box: Box
    places: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, f: Callable[[FloatArray], FloatArray], box: Box) -> "Probes":
        r"""Evaluate a function at evenly spread points that are not vertices of any bisection.

        The points are the fractional parts $\{k\alpha_i + \frac12\}$ with $\alpha_i = g^{-i}$,
        where $g > 1$ is the root of $g^{d+1} = g + 1$ (the golden ratio if $d = 1$).

        Examples:
            >>> probes = Probes.of(lambda x: x[:, :1] ** 2, Box([2.0], [4.0]))
            >>> probes.values.shape, bool(np.diff(np.sort(probes.places[:, 0])).max() < 0.001)
            ((4096, 1), True)
        """
        roots = np.roots([1.0, *[0.0] * (box.dim - 1), -1.0, -1.0])
        root = float(roots[np.abs(roots.imag) < 1e-9].real.max())
        steps = root ** -np.arange(1.0, box.dim + 1.0)
        places = (np.arange(_N_PROBES)[:, None] * steps + 0.5) % 1.0
        points = box.low * (1.0 - places) + box.high * places
        return cls(box, places, f(np.clip(points, box.low, box.high)))

    @_IGNORE_FLOAT_ERRORS
    def errors(self, corners: FloatArray, at_corners: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest error of interpolation at the probes in each simplex, and its probe.

        Args:
            corners: The simplices, shape `(n, dim + 1, dim)`.
            at_corners: The values of the function at the corners, shape `(n, dim + 1, dim_out)`.

        Returns:
            The errors, shape `(n,)`, which are 0 if the simplex has no probe or the error is due to
            rounding; and the barycentric coordinates of the worst probes, shape `(n, dim + 1)`.
        """
        worst, where = np.zeros(len(corners)), np.zeros(corners.shape[:2])
        for start in range(0, len(corners), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            weights = self._weights(corners[part])
            errors = np.abs(self.values - weights @ at_corners[part]).max(axis=2)
            errors[(weights < _INSIDE).any(axis=2)] = 0.0
            rows, best = np.arange(len(errors)), errors.argmax(axis=1)
            worst[part] = errors[rows, best]
            where[part] = np.maximum(weights[rows, best], 0.0)
        worst[worst <= _NOTHING * np.abs(self.values).max()] = 0.0
        where[worst == 0.0, 0] = 1.0
        return worst, where / where.sum(axis=1, keepdims=True)

    def _weights(self, corners: FloatArray) -> FloatArray:
        """Return the barycentric coordinates of all probes: shape `(n, n_probes, dim + 1)`."""
        side = self.box.high - self.box.low
        relative = (corners - self.box.low) / side
        frames = np.linalg.inv(relative[:, 1:] - relative[:, :1])
        inner = (self.places - relative[:, :1]) @ frames
        return np.concatenate([1.0 - inner.sum(axis=2, keepdims=True), inner], axis=2)


Sampled = Callable[[FloatArray], FloatArray]
"""A checked function from `(n_points, dim)` to finite values `(n_points, dim_out)`."""

_LATTICE = {1: 32, 2: 8, 3: 6}
_COARSE = {1: 4, 2: 4, 3: 4}
_N_SEARCHES = 64
_LEAST_SIDE, _LARGEST_SIDE = 2.0**-1000, 2.0**1000
_N_STEPS = 60


def checked_function(f: Any, dim: int) -> Sampled:
    """Wrap a function so that its return values are checked.

    If `dim` is 1, a function of a single number, such as `math.sin`, is accepted too. It is then
    called for each point separately.

    Raises:
        DtypeError: If `f` is not callable, or does not return real numbers.
        ArgumentError: When the result is called, if `f` does not accept arrays, returns the wrong
            number of values, or returns a value that is not finite. The message states the point.
    """
    if not callable(f):
        raise DtypeError(f"`f` must be a function of an array of points; got {type(f).__name__}.")
    evaluate = _make_evaluator(f, dim)

    def sample(points: FloatArray) -> FloatArray:
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

    return sample


def _make_evaluator(f: Any, dim: int) -> Callable[[FloatArray], Any]:
    """Return a function that passes arrays to `f` or, after arrays have failed, single numbers."""
    takes_numbers = False

    def evaluate_each(points: FloatArray) -> Any:
        return [f(float(x)) for x in points[:, 0]]

    def evaluate(points: FloatArray) -> Any:
        nonlocal takes_numbers
        if takes_numbers:
            return evaluate_each(points)
        try:
            return f(points)
        except (TypeError, ValueError) as error:
            failure = error
        try:
            if dim == 1:
                values = evaluate_each(points)
                takes_numbers = True
                return values
        except (TypeError, ValueError, IndexError):
            pass
        raise ArgumentError(
            f"`f` must accept an array of points of shape (n_points, {dim}); called with such an "
            f"array, it raised {type(failure).__name__}: {failure!s:.120}"
        ) from failure

    return evaluate


def find_worst_samples(f: Sampled, corners: FloatArray, probes: Probes) -> FloatArray:
    """Return the sample in each simplex with the largest interpolation error: `(n, dim)`."""
    weights = barycentric_lattice(corners.shape[2], _COARSE[corners.shape[2]])
    errors = _errors(f, corners, weights)
    seen, where = probes.errors(corners, _at_corners(f, corners))
    best = np.where((seen > errors.max(axis=1))[:, None], where, weights[errors.argmax(axis=1)])
    return np.asarray(np.einsum("ni,nid->nd", best, corners))


def barycentric_lattice(dim: int, order: int) -> FloatArray:
    """Return all barycentric coordinates with denominator `order`: shape `(n, dim + 1)`.

    Examples:
        >>> barycentric_lattice(1, 2).tolist()
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    bars = np.array(list(combinations(range(order + dim), dim)))
    ends = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), order + dim)])
    return np.asarray((np.diff(ends, axis=1) - 1) / order)


@_IGNORE_FLOAT_ERRORS
def estimate_errors(f: Sampled, corners: FloatArray, probes: Probes | None = None) -> FloatArray:
    """Return coarsely sampled interpolation errors `(n,)` on simplices `(n, dim + 1, dim)`."""
    weights = barycentric_lattice(corners.shape[2], _COARSE[corners.shape[2]])
    errors = np.asarray(_errors(f, corners, weights).max(axis=1))
    if probes is None:
        return errors
    return np.asarray(np.maximum(errors, probes.errors(corners, _at_corners(f, corners))[0]))


@_IGNORE_FLOAT_ERRORS
def measure_error(
    f: Sampled, corners: FloatArray, probes: Probes | None = None
) -> tuple[float, FloatArray]:
    """Search for the largest interpolation error, on a lattice and by local search from it.

    Args:
        f: The function.
        corners: All simplices, shape `(n, dim + 1, dim)`.
        probes: Further points to search, spread over all simplices.

    Returns:
        The largest error found (a lower bound on the supremum) and its point.
    """
    dim = corners.shape[2]
    weights = barycentric_lattice(dim, _LATTICE[dim])
    errors = _errors(f, corners, weights)
    starts, reached = weights[errors.argmax(axis=1)], errors.max(axis=1)
    if probes is not None:
        seen, where = probes.errors(corners, _at_corners(f, corners))
        starts = np.where((seen > reached)[:, None], where, starts)
        reached = np.maximum(reached, seen)
    # One start in each simplex; several starts in one simplex would lead to the same maximum.
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
        # Move towards each corner, away from it, and along each edge, within the simplex.
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
    """Return an upper bound on the radius of the smallest enclosing ball of any simplex."""
    dim = corners.shape[2]
    scale = float(np.ldexp(1.0, int(np.frexp(np.ptp(corners, axis=(0, 1)).max())[1])))
    pairs = combinations(range(dim + 1), 2)
    squares = max(
        float((((corners[:, i] - corners[:, k]) / scale) ** 2).sum(axis=1).max()) for i, k in pairs
    )
    # Far more than the error of the few roundings above.
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


_HALVINGS = 120
"""More than the halvings between two floats of similar size; towards 0 there could be 1100."""
_SMALLEST = 2.0**-16
"""Jumps below this fraction of the range of values are ignored, because functions evaluated in
float32 have many jumps of about $2^{-24}$."""
_APART, _NEAR, _KEPT = 2.0**20, 2.0**16, 0.75


@dataclass(frozen=True, eq=False)
class Jump:
    """Two neighbouring points at which the values of a function differ substantially.

    Attributes:
        before: One point, shape `(dim,)`.
        after: The other point, shape `(dim,)`.
        value_before: The value at `before`, shape `(dim_out,)`.
        value_after: The value at `after`, shape `(dim_out,)`.
    """

    before: FloatArray
    after: FloatArray
    value_before: FloatArray
    value_after: FloatArray

    @property
    def size(self) -> float:
        """The largest difference of the values over all outputs."""
        return float(np.abs(self.value_after - self.value_before).max())


def find_jump(
    f: Callable[[FloatArray], FloatArray], starts: FloatArray, ends: FloatArray
) -> Jump | None:
    """Return the largest jump that bisection finds on segments; None if it finds none.

    Args:
        f: The function, from `(n_points, dim)` to `(n_points, dim_out)`.
        starts: One end of each segment, shape `(n_segments, dim)`.
        ends: The other end of each segment, same shape.

    Examples:
        >>> step = find_jump(lambda x: np.floor(x), np.array([[0.25]]), np.array([[1.75]]))
        >>> step.before.item(), step.after.item(), step.size
        (0.9999999999999999, 1.0, 1.0)
        >>> find_jump(lambda x: np.cbrt(x - 1.0), np.array([[0.25]]), np.array([[1.75]]))
    """
    if not len(starts):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return _largest_jump(f, np.array(starts), np.array(ends))


def _largest_jump(
    f: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> Jump | None:
    values = [f(low * (1.0 - t) + high * t) for t in (0.0, 0.25, 0.5, 0.75, 1.0)]
    least = _SMALLEST * float(np.ptp(np.concatenate(values), axis=0).max())
    at_low, at_high = values[0], values[-1]
    # The typical change over a quarter of the segment, unaffected by one quarter with a jump.
    expected = 4.0 * np.median(np.diff(values, axis=0), axis=0)
    lengths = [np.abs(high - low).max(axis=1)]
    drops = [np.abs(np.diff(values, axis=0) - expected / 4.0).max(axis=(0, 2))]
    found: list[Jump] = []
    for halving in range(_HALVINGS + 1):
        middle = low / 2 + high / 2
        ended = ((middle == low) | (middle == high)).all(axis=1) | (halving == _HALVINGS)
        for k in np.flatnonzero(ended & _is_jump(lengths, drops)):
            found.append(Jump(low[k], high[k], at_low[k], at_high[k]))
        going = np.flatnonzero(~ended & (drops[-1] > least))
        if not len(going):
            break
        low, high, middle = low[going], high[going], middle[going]
        at_low, at_high, half = at_low[going], at_high[going], expected[going] / 2.0
        at_middle = f(middle)
        changes = at_middle - at_low, at_high - at_middle
        surprise = [np.abs(change - half).max(axis=1) for change in changes]
        left = surprise[0] >= surprise[1]
        side = left[:, None]
        low, high = np.where(side, low, middle), np.where(side, middle, high)
        at_low, at_high = np.where(side, at_low, at_middle), np.where(side, at_middle, at_high)
        expected = np.where(side, changes[1], changes[0])
        lengths = [*(past[going] for past in lengths), np.abs(high - low).max(axis=1)]
        drops = [*(past[going] for past in drops), np.maximum(*surprise)]
    return max(found, key=lambda jump: jump.size, default=None)


def mesh_segments(corners: FloatArray, inside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return segments of a mesh: the quarters of its edges, and segments from points to corners.

    Args:
        corners: The simplices, shape `(n, dim + 1, dim)`.
        inside: A point in each simplex, shape `(n, dim)`.
    """
    n_corners = corners.shape[1]
    starts, ends = [], []
    for i, k in combinations(range(n_corners), 2):
        points = [corners[:, i] + t * (corners[:, k] - corners[:, i]) for t in np.arange(5) / 4]
        starts += points[:-1]
        ends += points[1:]
    for i in range(n_corners):
        starts.append(inside)
        ends.append(corners[:, i])
    return np.concatenate(starts), np.concatenate(ends)


def line_segments(places: FloatArray, knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the segments between neighbouring points on a line, and from knots to neighbours.

    Args:
        places: The points, shape `(n_places,)`.
        knots: The knots, shape `(n_knots,)`.
    """
    ordered = np.unique(places)
    position = np.clip(np.searchsorted(ordered, knots), 1, len(ordered) - 1)
    starts = np.concatenate([ordered[:-1], knots, knots])
    ends = np.concatenate([ordered[1:], ordered[position - 1], ordered[position]])
    different = starts != ends
    return starts[different, None], ends[different, None]


def _is_jump(lengths: list[FloatArray], drops: list[FloatArray]) -> FloatArray:
    """Return whether segments that reached neighbouring floats kept their unexpected change."""
    past, length = np.array(drops), np.array(lengths)
    far = length >= _APART * length[-1]
    # The last step at which the ends were still far apart; for few steps, the first.
    step = np.where(far.any(axis=0), len(far) - 1 - far[::-1].argmax(axis=0), 0)
    columns = np.arange(past.shape[1])
    long_enough = length[0] >= _NEAR * length[-1]
    kept = past[-1] >= _KEPT * past[step, columns]
    return np.asarray(long_enough & kept & (past[-1] > 0.0))


MOST_PIECES = 2_000
"""Maximum number of pieces. The transformer has one token per piece, and its size grows with the
square of the number of pieces."""

_MOST_DIM = 3
_UNCERTAIN = 2.0**-40
"""Possible contribution of rounding to a measured error, as a fraction of the largest value."""


@dataclass(frozen=True, eq=False)
class Approximation:
    r"""A transformer that approximates a continuous function, with its interpolant and errors.

    Attributes:
        interpolant: The piecewise linear function that interpolates the given function.
        compiled: The transformer, which differs from the interpolant by at most
            `compiled.certified_error`.
        n_pieces: The number of simplices of the mesh.
        measured_error: The largest difference between function and interpolant that was *found*: on
            a lattice in every simplex, at 4096 points spread over the box, and by local search. It
            is a lower bound on the supremum, not an upper bound.
        worst_point: The point of the measured error, shape `(dim,)`.
        certified_error: A bound on $|T(x) - f(x)|$ for the transformer $T$ on the whole box, proven
            under the assumption that the `lipschitz` or `second_derivative` passed by the caller is
            correct; None if neither was passed.

    Examples:
        >>> from hardmax import Box
        >>> square = approximate(lambda x: x[:, 0] ** 2, Box([-1], [1]), 8, second_derivative=2.0)
        >>> square.n_pieces, square.measured_error <= square.certified_error
        (8, True)
    """

    interpolant: Knots | Mesh
    compiled: CompiledFunction
    n_pieces: int
    measured_error: float
    worst_point: FloatArray
    certified_error: float | None

    _repr_html_ = html_card

    def __repr__(self) -> str:
        proved = "" if self.certified_error is None else f", certified {self.certified_error:.3g}"
        errors = f"measured error {self.measured_error:.3g}{proved}"
        return f"Approximation({self.n_pieces} pieces, {errors})"

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the transformer at a point `(dim,)` or a batch `(n_points, dim)`."""
        return self.compiled.transformer(x)


def approximate(
    f: Any,
    box: Box | str,
    n_pieces: int,
    *,
    epsilon: float | None = None,
    lipschitz: float | None = None,
    second_derivative: float | None = None,
) -> Approximation:
    r"""Approximate a continuous function by a transformer.

    The mesh starts with the $d!$ simplices of a cube. The function repeatedly halves longest edges
    where the sampled interpolation error is largest. It samples every simplex and 4096 points
    spread over the box, so that a narrow peak is found even if `f` is flat everywhere else.

    A discontinuous function cannot be approximated by continuous functions. Therefore, a jump that
    has samples on both sides, and is at least $2^{-16}$ of the range of values, raises an error.

    Args:
        f: A function that maps an array of points, of shape `(n_points, dim)`, to values of shape
            `(n_points,)` or `(n_points, dim_out)`. In dimension 1, a function of a single number,
            such as `math.sin`, is accepted too.
        box: The box, of dimension 1, 2 or 3: a `Box`, or its text.
        n_pieces: The maximum number of simplices of the mesh, from $d!$ to 2000.
        epsilon: None for a hard transformer. A positive number for a soft transformer, which
            differs from the interpolant by at most `epsilon`.
        lipschitz: A Lipschitz constant $L$ of every output in the Euclidean norm, if known.
        second_derivative: A bound $M$ on the norm of the Hessian of every output, if known.

    Returns:
        The transformer and its errors. If $r$ is the radius of the smallest ball around the largest
        simplex, the interpolant differs from `f` by at most $L r$ and at most $\tfrac12 M r^2$.

    Raises:
        DiscontinuityError: If `f` jumps. The message states the point and both values.
        DtypeError: If `f` is not callable or does not return real numbers.
        ArgumentError: If the dimension or the number of pieces is out of range; if `f` does not
            return one row of finite values for each point; or if `f` differs from its interpolant
            by more than `lipschitz` or `second_derivative` allows.

    Examples:
        >>> import numpy as np
        >>> bump = approximate(lambda x: np.exp(-x[:, 0] ** 2), Box([-2], [2]), 32,
        ...                    second_derivative=2.0)
        >>> bump.n_pieces
        32
        >>> bump.measured_error < bump.certified_error < 0.02
        True
        >>> bool(abs(bump([0.3]) - np.exp(-0.09)) < 0.01)
        True
    """
    given = read_domain(box, "box")
    dim = given.dim if isinstance(given, Box) else 0
    box = read_box(given, dim)
    if dim > _MOST_DIM:
        raise ArgumentError(f"`box` must have dimension at most {_MOST_DIM}; got {dim}.")
    with np.errstate(over="ignore"):
        sides = box.high - box.low
    if not ((sides >= _LEAST_SIDE) & (sides <= _LARGEST_SIDE)).all():
        raise ArgumentError(
            "The sides of `box` must be between 2^-1000 and 2^1000, so that it can be subdivided "
            f"in float64; got sides from {sides.min():.3g} to {sides.max():.3g}. Rescale the "
            "input of `f`."
        )
    limit = integer("n_pieces", n_pieces, at_least=factorial(dim), at_most=MOST_PIECES)
    constants = [
        None if given is None else number(name, given, at_least=0.0)
        for name, given in (("lipschitz", lipschitz), ("second_derivative", second_derivative))
    ]
    sampled = checked_function(f, dim)
    probes = Probes.of(sampled, box)
    vertices, simplices = adaptive_mesh(box, limit, lambda c: estimate_errors(sampled, c, probes))
    _refuse_jumps(sampled, vertices[simplices], probes)
    values = sampled(vertices)
    interpolant = Knots(vertices[:, 0], values) if dim == 1 else Mesh(vertices, simplices, values)
    compiled = compile_cpwl(interpolant, box, epsilon)
    found, where = measure_error(sampled, vertices[simplices], probes)
    radius = enclosing_radius(vertices[simplices])
    allowed = {
        "lipschitz": None if constants[0] is None else constants[0] * radius,
        "second_derivative": None if constants[1] is None else constants[1] * radius * radius / 2.0,
    }
    bounds = {name: bound * SMALL_RAISE for name, bound in allowed.items() if bound is not None}
    for name, bound in bounds.items():
        if found > bound + _UNCERTAIN * float(np.abs(values).max()):
            raise ArgumentError(
                f"`{name}` is too small for `f`: it allows an error of at most {bound:.6g} on the "
                f"mesh, but the error at {where.tolist()} is {found:.6g}."
            )
    certified = (min(bounds.values()) + compiled.certified_error) * SMALL_RAISE if bounds else None
    return Approximation(interpolant, compiled, len(simplices), found, where, certified)


def _refuse_jumps(f: Sampled, corners: FloatArray, probes: Probes) -> None:
    """Raise an error if a function jumps between sampled points."""
    segments = mesh_segments(corners, find_worst_samples(f, corners, probes))
    if corners.shape[2] == 1:
        box = probes.box
        places = box.low + probes.places * (box.high - box.low)
        along = line_segments(np.concatenate([places[:, 0], box.low, box.high]), np.unique(corners))
        segments = (
            np.concatenate([segments[0], along[0]]),
            np.concatenate([segments[1], along[1]]),
        )
    jump = find_jump(f, *segments)
    if jump is not None:
        raise DiscontinuityError(
            f"`f` must be continuous; it jumps by {jump.size:.6g}, from "
            f"{jump.value_before.tolist()} at {jump.before.tolist()} to "
            f"{jump.value_after.tolist()} at {jump.after.tolist()}. No continuous function is "
            f"closer to it than {jump.size / 2:.6g}."
        )
