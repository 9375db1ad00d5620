r"""The search for the vertices of a convex hull, with a proof for each decision.

This is the search of `extreme_points` and `active_forms`. Point $p_i$ is a vertex if some direction
$u$ satisfies $\langle p_i - p_j, u \rangle > 0$ for every other point and
$\langle \rho_k, u \rangle > 0$ for every ray. The methods, in order of cost, are:

1. the directions from the centre to each point, all at once;
2. Clarkson's search with the compiled nearest-point kernel, against known vertices only;
3. exact cones, for the few points that 1 and 2 cannot prove because of rounding.

A direction is accepted if the point wins by more than the rounding error of a matrix product. A
combination is accepted if an approximate inverse proves it positive, or if it is solved exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hardmax._ground.progress import Progress
from hardmax.exact.rounding import UNIT_ROUNDOFF, gamma
from hardmax.geometry._hulls.affine_coordinates import AffineCoordinates, flint_matrix
from hardmax.geometry._hulls.hull_searches import CandidateSearch
from hardmax.geometry._hulls.nearest_points import CONTAINED, SEPARATED
from hardmax.geometry.cones import decide_open_cone, positive_dependence
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_ENTRY_ERROR = UNIT_ROUNDOFF + 2.0**-900
"""The maximum error of an entry of `AffineCoordinates.floats`."""
_DIRECTION_BITS = 40
_MAX_SCORES = 2**25
"""The maximum number of scores for the directions from the centre."""
_MAX_TABLE = 2**20
"""The maximum number of scores held in memory at once."""
_SIMPLICES = 16
"""The number of simplices inverted at once, which should fit in the cache."""
_QUALITY = 0.3


@dataclass(frozen=True, eq=False)
class VertexProofs:
    """The result of the search for each point of `coordinates`.

    Attributes:
        is_vertex: Whether a point is a vertex, shape `(n_points,)`.
        directions: For each vertex decided in floats, a direction in which it wins, as whole
            numbers for `coordinates.floats`.
        exact_directions: For each vertex decided in exact arithmetic, a direction as integers for
            `coordinates.points`.
        combinations: For each other point, the support and the positive multipliers of the
            `p_i - p_j` and the rays (ray `k` is listed as `n_points + k`). The multipliers are
            `None` if floating point proved their existence.
    """

    is_vertex: BoolArray
    directions: dict[int, FloatArray] = field(default_factory=dict)
    exact_directions: dict[int, list[int]] = field(default_factory=dict)
    combinations: dict[int, tuple[list[int], list[int] | None]] = field(default_factory=dict)


def search_vertices(
    coordinates: AffineCoordinates, *, solve: bool, progress: Progress[int]
) -> VertexProofs:
    """Decide for each point whether it is a vertex.

    Args:
        coordinates: Distinct points, and rays, in well-conditioned coordinates.
        solve: Whether to compute the exact multipliers of every combination.
        progress: A progress bar, which advances by one for each decided point.
    """
    n_points = coordinates.points.shape[0]
    proofs = VertexProofs(np.zeros(n_points, dtype=bool))
    if n_points == 1 and not coordinates.rays.shape[0]:
        proofs.is_vertex[0] = True
        proofs.directions[0] = np.zeros(coordinates.rank)
        progress.advance()
        return proofs
    white = _whiten_points(coordinates)
    for targets, directions in _iter_central_directions(coordinates, white):
        _accept_winners(coordinates, targets, directions, proofs)
    progress.advance(int(proofs.is_vertex.sum()))
    open_points = np.flatnonzero(~proofs.is_vertex)
    for candidates in _search_candidates(coordinates, white, proofs, open_points):
        _accept_candidates(coordinates, candidates, proofs, solve, progress)
    return proofs


@dataclass(frozen=True, eq=False)
class _Candidates:
    targets: IntArray
    status: IntArray
    supports: list[list[int]]
    directions: FloatArray


def _whiten_points(coordinates: AffineCoordinates) -> tuple[FloatArray, FloatArray]:
    """Return the points and unit rays in the isotropic coordinates of the candidate search."""
    centred = coordinates.floats - coordinates.floats.mean(axis=0)
    points = np.ascontiguousarray(centred @ coordinates.whitening)
    rays = np.ascontiguousarray(coordinates.float_rays @ coordinates.whitening)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    return points, rays


def _iter_central_directions(
    coordinates: AffineCoordinates, white: tuple[FloatArray, FloatArray]
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the directions from the centre to the outermost points as whole numbers, in blocks."""
    points, rays = white
    n_points = points.shape[0]
    outwards = points
    if rays.shape[0]:
        # Over the hyperplane orthogonal to the ray, the points are the graph of a function. If this
        # function is about -(s/2)|x|^2, the form at x wins in direction s x.
        heights = points @ rays[0]
        across = points - np.outer(heights, rays[0])
        squares = (across * across).sum(axis=1)
        spread = float(((squares - squares.mean()) ** 2).sum())
        slope = -2.0 * float(heights @ (squares - squares.mean())) / spread if spread else 0.0
        outwards = across * (slope if slope > 1e-3 else 1.0) + rays[0]
    order = np.argsort(-(points * points).sum(axis=1), kind="stable")
    order = order[: max(_MAX_SCORES // n_points, 4 * coordinates.rank)]
    for block in _split_into_blocks(order, n_points):
        yield block, _round_directions(outwards[block] @ coordinates.whitening.T)


def _split_into_blocks(indices: IntArray, n_points: int) -> Iterator[IntArray]:
    """Split indices into blocks whose scores fit `_MAX_TABLE`."""
    size = max(_MAX_TABLE // n_points, 8)
    for start in range(0, indices.size, size):
        yield indices[start : start + size]


def _round_directions(directions: FloatArray) -> FloatArray:
    """Round each row to whole numbers of at most `_DIRECTION_BITS` bits."""
    sizes = np.abs(directions).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.rint(np.ldexp(directions / sizes, _DIRECTION_BITS))
    return np.asarray(np.where(np.isfinite(whole), whole, 0.0))


def _accept_winners(
    coordinates: AffineCoordinates, targets: IntArray, directions: FloatArray, proofs: VertexProofs
) -> None:
    r"""Mark the points that win in a direction by more than the rounding error.

    A direction is first credited to its target, then to any other winner. The computed product of a
    row of `floats` with whole numbers $u$ differs from the exact product by at most
    $\gamma_{n+2} |u|_1$, because every entry is at most 1 and no product underflows.
    """
    allowed = _are_positive_on_rays(coordinates, directions)
    scores = directions @ coordinates.floats.T
    best = scores.argmax(axis=1)
    rows = np.arange(best.size)
    highest = scores[rows, best]
    scores[rows, best] = -np.inf
    margin = highest - scores.max(axis=1)
    error = 2.02 * (gamma(coordinates.rank + 2) + 2.0**-900) * np.abs(directions).sum(axis=1)
    proven = allowed & (margin > error)
    for own in (True, False):
        for row in np.flatnonzero(proven & ((best == targets) == own)).tolist():
            if not proofs.is_vertex[best[row]]:
                proofs.is_vertex[best[row]] = True
                proofs.directions[int(best[row])] = directions[row]


def _are_positive_on_rays(coordinates: AffineCoordinates, directions: FloatArray) -> BoolArray:
    allowed = np.ones(directions.shape[0], dtype=bool)
    for ray in coordinates.float_rays:
        sizes = np.abs(directions).sum(axis=1)
        allowed &= directions @ ray > 1.01 * (gamma(ray.size + 2) + 2.0**-900) * sizes
    return allowed


def _search_candidates(
    coordinates: AffineCoordinates,
    white: tuple[FloatArray, FloatArray],
    proofs: VertexProofs,
    open_points: IntArray,
) -> Iterator[_Candidates]:
    """Run the compiled search on the open points, in blocks."""
    points, rays = white
    search = CandidateSearch(points, rays, proofs.is_vertex, _QUALITY)
    for targets in _split_into_blocks(open_points, len(points)):
        status, supports, directions = search.find(targets)
        whole = _round_directions(directions @ coordinates.whitening.T)
        yield _Candidates(targets, status, supports, whole)


def _accept_candidates(
    coordinates: AffineCoordinates,
    found: _Candidates,
    proofs: VertexProofs,
    solve: bool,
    progress: Progress[int],
) -> None:
    """Prove the proposals of the compiled search, and decide the remaining points exactly."""
    separated = found.status == SEPARATED
    _accept_winners(coordinates, found.targets[separated], found.directions[separated], proofs)
    contained = np.flatnonzero(found.status == CONTAINED)
    proven = [] if solve else _find_inside_simplices(coordinates, found, contained)
    for k in proven:
        proofs.combinations[int(found.targets[k])] = (found.supports[k], None)
    for k in range(found.targets.size):
        progress.advance()
        i = int(found.targets[k])
        if proofs.is_vertex[i] or i in proofs.combinations:
            continue
        support = found.supports[k]
        multipliers = None
        if found.status[k] == CONTAINED:
            multipliers = positive_dependence(_list_cone_rows(coordinates, i, support))
        if multipliers is not None:
            proofs.combinations[i] = (support, multipliers)
        else:
            _decide_exactly(coordinates, i, support, proofs)


def _find_inside_simplices(
    coordinates: AffineCoordinates, found: _Candidates, contained: IntArray
) -> list[int]:
    """Return the candidates that provably lie strictly inside the simplex of their support."""
    full = [k for k in contained.tolist() if len(found.supports[k]) == coordinates.rank + 1]
    proven: list[int] = []
    for start in range(0, len(full), _SIMPLICES):
        part = full[start : start + _SIMPLICES]
        supports = np.array([found.supports[k] for k in part])
        inside = _prove_inside(coordinates, found.targets[part], supports)
        proven += [k for k, good in zip(part, inside, strict=True) if good]
    return proven


def _prove_inside(
    coordinates: AffineCoordinates, targets: IntArray, supports: IntArray
) -> list[bool]:
    r"""Prove that points lie strictly inside simplices, if rounding errors permit.

    Let $M$ be the matrix with columns $(1, p_i - p_j)$. The weights are $w = M^{-1} e_0$. If $X$ is
    an approximate inverse and $\|I - X M\|_\infty \le \delta < 1$, then $M$ is regular and
    $\|w - X e_0\|_\infty \le \frac{\delta}{1 - \delta} \|X e_0\|_\infty$ [Rum99].
    """
    rank = coordinates.rank
    table = np.concatenate([coordinates.floats, coordinates.float_rays])
    columns = table[supports]
    is_point = supports < coordinates.floats.shape[0]
    own = coordinates.floats[targets][:, None, :]
    matrices = np.ones((targets.size, rank + 1, rank + 1))
    matrices[:, 1:, :] = np.where(is_point[:, :, None], own - columns, columns).transpose(0, 2, 1)
    try:
        inverses = np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        return [False] * targets.size
    with np.errstate(all="ignore"):
        residual = inverses @ matrices
        residual[:, np.arange(rank + 1), np.arange(rank + 1)] -= 1.0
        size = np.abs(inverses).sum(axis=2).max(axis=1)
        rounding = gamma(rank + 3) * np.abs(matrices).sum(axis=2).max(axis=1)
        delta = np.abs(residual).sum(axis=2).max(axis=1)
        delta = 1.01 * (delta + size * (rounding + 4.0 * (rank + 1) * _ENTRY_ERROR))
        weights = inverses[:, :, 0]
        safe = weights.min(axis=1) > 1.2 * delta * np.abs(weights).max(axis=1)
        return list((safe & (delta < 0.1)).tolist())


def _list_cone_rows(coordinates: AffineCoordinates, i: int, support: list[int]) -> WideArray:
    n_points = coordinates.points.shape[0]
    rows = np.empty((len(support), coordinates.rank), dtype=object)
    for k, j in enumerate(support):
        rows[k] = (
            coordinates.points[i] - coordinates.points[j]
            if j < n_points
            else coordinates.rays[j - n_points]
        )
    return rows


def _decide_exactly(
    coordinates: AffineCoordinates, i: int, support: list[int], proofs: VertexProofs
) -> None:
    """Run Clarkson's search for one point in exact integers."""
    n_points = coordinates.points.shape[0]
    rays = list(range(n_points, n_points + coordinates.rays.shape[0]))
    against = [*(j for j in support if j < n_points), *rays]
    while True:
        decision = decide_open_cone(_list_cone_rows(coordinates, i, against))
        if decision.direction is None:
            assert decision.support is not None
            assert decision.multipliers is not None
            support = [against[k] for k in decision.support.tolist()]
            proofs.combinations[i] = (support, list(decision.multipliers))
            return
        scores = (coordinates.matrix * flint_matrix(decision.direction[:, None])).entries()
        own = scores[i]
        beyond = [j for j, score in enumerate(scores) if score >= own and j != i]
        if not beyond:
            proofs.is_vertex[i] = True
            proofs.exact_directions[i] = decision.direction.tolist()
            return
        beyond.sort(key=scores.__getitem__, reverse=True)
        against = [*beyond[: coordinates.rank + 1], *against]
