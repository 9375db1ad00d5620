r"""Extreme points: the keys that can win, with a proof for every key.

A key $k_i$ wins the hard attention of some query exactly if it is a vertex of the convex hull of
the keys. With offsets, a form wins on an open set exactly if its lift is a vertex of the upper
hull. This module decides both exactly, for thousands of keys in the dimension of a typical head.
"""

from collections import Counter
from dataclasses import dataclass
from math import lcm

import numpy as np
from flint import fmpz_mat

from hardmax._ground.arguments import floats
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.progress import track
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.geometry._hulls.affine_coordinates import AffineCoordinates, affine_coordinates
from hardmax.geometry._hulls.planar_hulls import MOST_COLUMNS, hull_corners
from hardmax.geometry._hulls.vertex_search import VertexProofs, search_vertices
from hardmax.geometry.convex_hulls import DIMENSIONS, convex_hull, extreme_corners
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, WideArray

_FEW_POINTS, _N_TRIED, _MOST_LEADERS = 128, 32, 0.5


@dataclass(frozen=True, eq=False)
class ExtremePointCertificates:
    r"""A proof for every point that it is, or is not, an extreme point of the convex hull.

    Attributes:
        is_extreme: True at the first index of every distinct vertex, shape `(n_points,)`.
        first: For each point, the first index of an equal point (its own index if it is the first),
            shape `(n_points,)`.
        directions: Python integers, shape `(n_extreme, dim)`. Row `t` is a direction $u$ for the
            `t`-th extreme point $k_i$, with
            $\langle k_i, u \rangle > \langle k_j, u \rangle$ for every point $k_j \ne k_i$.
        supports: For every point that is neither extreme nor a repetition, in order, the indices
            $j$ of the points $k_j$ between which it lies.
        weights: For the same points $k_i$, positive integers $w_j$ with
            $\sum_j w_j k_j = \left(\sum_j w_j\right) k_i$.

    Examples:
        >>> proofs = certify_extreme_points([[0, 0], [4, 0], [1, 0]])
        >>> proofs.is_extreme.tolist(), proofs.supports[0].tolist(), proofs.weights[0]
        ([True, True, False], [0, 1], (3, 1))
    """

    is_extreme: BoolArray
    first: IntArray
    directions: WideArray
    supports: tuple[IntArray, ...]
    weights: tuple[tuple[int, ...], ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    def verify(self, points: ArrayLike) -> bool:
        """Check every proof (see `verify_extreme_points`)."""
        return verify_extreme_points(points, self)


def extreme_points(points: ArrayLike) -> BoolArray:
    r"""Tell which points are vertices of $\operatorname{conv}\{k_1, \dots, k_N\}$.

    The result is exact for the given float64 numbers. Points in the relative interior of an edge or
    facet are not vertices. Of equal vertices, only the first is marked. In the plane,
    the cost is $O(N \log N)$.

    Args:
        points: The points $k_i$, shape `(n_points, dim)` with at least one point.

    Returns:
        A Boolean mask with one True per distinct vertex, shape `(n_points,)`.

    Raises:
        HardmaxError: If `points` is not a finite real matrix with at least one row.

    References:
        [And79], [Cla94], [Wol76].

    Examples:
        >>> extreme_points([[0, 0], [2, 0], [1, 0], [0, 2], [1, 1], [0, 0]]).tolist()
        [True, True, False, True, False, False]
        >>> extreme_points([[0.1], [0.1], [0.1]]).tolist()
        [True, False, False]
    """
    array = floats("points", points, ("n_points", "dim"), nonempty=("n_points",))
    mask = np.zeros(array.shape[0], dtype=bool)
    if 0 < array.shape[1] <= MOST_COLUMNS:
        mask[hull_corners(array)] = True
        return mask
    hull = convex_hull(array) if _has_few_facets(array) else None
    if hull is not None:
        mask[extreme_corners(hull)] = True
        return mask
    distinct, _ = _distinct_rows(array)
    _, proofs = _decide(array[distinct], upward=False, solve=False)
    mask[distinct] = proofs.is_vertex
    return mask


def active_forms(forms: AffineForms) -> BoolArray:
    r"""Tell which forms $\langle a_j, x \rangle + c_j$ win alone on an open set of $\mathbb{R}^d$.

    Form $i$ wins on an open set exactly if the open cone $\{(x, t) : t > 0,\ \langle a_i - a_j, x
    \rangle + (c_i - c_j) t > 0 \text{ for all } j \ne i\}$ is nonempty, that is, if $(a_i, c_i)$ is
    a vertex of the upper hull. Of coinciding forms, only the first is considered.

    Returns:
        A Boolean mask, shape `(n_forms,)`.

    Examples:
        The second of three forms attains the maximum only at one point.

        >>> active_forms(AffineForms([[-1.0], [0.0], [1.0]], [0.0, 0.0, 0.0])).tolist()
        [True, False, True]
        >>> active_forms(AffineForms([[-1.0], [0.0], [1.0], [0.0]], [0.0, 0.5, 0.0, 0.5])).tolist()
        [True, True, True, False]
    """
    lifted = np.concatenate([forms.slopes, forms.offsets[:, None]], axis=1)
    mask = np.zeros(forms.n_forms, dtype=bool)
    if lifted.shape[1] == MOST_COLUMNS:
        mask[hull_corners(lifted, is_upper=True)] = True
        return mask
    distinct, _ = _distinct_rows(lifted)
    _, proofs = _decide(lifted[distinct], upward=True, solve=False)
    mask[distinct] = proofs.is_vertex
    return mask


def certify_extreme_points(points: ArrayLike) -> ExtremePointCertificates:
    r"""Prove for every point that it is, or is not, a vertex of the convex hull.

    In addition to the work of `extreme_points`, this solves an exact linear system of at most
    `dim + 1` equations for every point that is not extreme.

    Args:
        points: The points, shape `(n_points, dim)` with at least one point.

    Examples:
        >>> proofs = certify_extreme_points([[0, 0], [4, 0], [1, 0], [4, 0]])
        >>> proofs.is_extreme.tolist(), proofs.first.tolist()
        ([True, True, False, False], [0, 1, 2, 1])
        >>> proofs.supports[0].tolist(), proofs.weights[0]
        ([0, 1], (3, 1))
        >>> proofs.verify([[0, 0], [4, 0], [1, 0], [4, 0]])
        True
    """
    array = floats("points", points, ("n_points", "dim"), nonempty=("n_points",))
    distinct, first = _distinct_rows(array)
    coordinates, proofs = _decide(array[distinct], upward=False, solve=True)
    is_extreme = np.zeros(array.shape[0], dtype=bool)
    is_extreme[distinct] = proofs.is_vertex
    supports, weights = [], []
    for i in sorted(proofs.combinations):
        support, multipliers = proofs.combinations[i]
        assert multipliers is not None
        order = np.argsort(distinct[support])
        supports.append(distinct[support][order])
        weights.append(tuple(multipliers[k] for k in order.tolist()))
    directions = _to_original_directions(coordinates, proofs)
    for array_ in (is_extreme, first, directions, *supports):
        array_.setflags(write=False)
    return ExtremePointCertificates(is_extreme, first, directions, tuple(supports), tuple(weights))


def verify_extreme_points(points: ArrayLike, certificates: ExtremePointCertificates) -> bool:
    """Check every proof in exact integers, independently of the code of the search.

    Returns:
        True if all proofs are valid for `points`.

    Examples:
        >>> square = [[0, 0], [1, 0], [0, 1], [1, 1]]
        >>> verify_extreme_points(square, certify_extreme_points(square))
        True
        >>> verify_extreme_points([[0, 0], [1, 0], [0, 1], [0, 0]], certify_extreme_points(square))
        False
    """
    array = floats("points", points, ("n_points", "dim"), nonempty=("n_points",))
    n_points, dim = array.shape
    proofs = certificates
    if proofs.is_extreme.shape != (n_points,) or proofs.first.shape != (n_points,):
        return False
    names: dict[tuple[float, ...], int] = {}
    first = [names.setdefault(tuple(row), i) for i, row in enumerate(array.tolist())]
    if proofs.first.tolist() != first:
        return False
    extreme = np.flatnonzero(proofs.is_extreme).tolist()
    between = [i for i in range(n_points) if first[i] == i and not proofs.is_extreme[i]]
    if any(first[i] != i for i in extreme) or proofs.directions.shape != (len(extreme), dim):
        return False
    if not len(between) == len(proofs.supports) == len(proofs.weights):
        return False
    table = _to_integer_table(array)
    keys = fmpz_mat(n_points, dim, [x for row in table for x in row])
    return _directions_select(keys, first, extreme, proofs.directions) and all(
        _lies_between(table, first, i, support.tolist(), weights)
        for i, support, weights in zip(between, proofs.supports, proofs.weights, strict=True)
    )


def _has_few_facets(points: FloatArray) -> bool:
    """Guess whether computing all facets is faster than finding a direction for each vertex.

    In five dimensions, random points on a sphere have 27 facets per point, and nearly every point
    wins in the direction from the centre. Of a Gaussian cloud, few points are vertices.
    """
    n_points, dim = points.shape
    if dim != DIMENSIONS[-1] or n_points <= _FEW_POINTS:
        return dim in DIMENSIONS
    sample = np.arange(0, n_points, n_points // _N_TRIED)
    with np.errstate(over="ignore", invalid="ignore"):
        outwards = points[sample] - points.mean(axis=0)
        leaders = (outwards @ points.T).argmax(axis=1)
    return bool((leaders == sample).mean() < _MOST_LEADERS)


def _distinct_rows(array: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first indices of the distinct rows, in order, and for each row its first index."""
    # A column of zeros, because np.unique cannot sort rows without columns.
    rows = np.concatenate([array, np.zeros((array.shape[0], 1))], axis=1)
    _, index, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.sort(index).astype(np.int64), index[inverse.ravel()].astype(np.int64)


def _decide(
    distinct: FloatArray, *, upward: bool, solve: bool
) -> tuple[AffineCoordinates, VertexProofs]:
    """Search the vertices of distinct points, of their upper hull if `upward`."""
    integers = scaled_integers(distinct).integers
    rays = np.zeros((int(upward), distinct.shape[1]), dtype=object)
    rays[:, -1:] = 1
    coordinates = affine_coordinates(integers, rays)
    with track(distinct.shape[0], "extreme points") as progress:
        return coordinates, search_vertices(coordinates, solve=solve, progress=progress)


def _to_original_directions(coordinates: AffineCoordinates, proofs: VertexProofs) -> WideArray:
    """Return the directions of all vertices as integers in the original coordinates."""
    rounded = sorted(proofs.directions)
    stacked = np.empty((len(rounded), coordinates.rank))
    for row, i in enumerate(rounded):
        stacked[row] = proofs.directions[i]
    by_point = dict(zip(rounded, coordinates.original_directions(stacked), strict=True))
    for i, direction in proofs.exact_directions.items():
        by_point[i] = coordinates.transform @ np.array(direction, dtype=object)
    result = np.empty((len(by_point), coordinates.transform.shape[0]), dtype=object)
    for row, i in enumerate(sorted(by_point)):
        result[row] = by_point[i]
    return result


def _to_integer_table(array: FloatArray) -> list[list[int]]:
    """Write the points over one common denominator."""
    ratios = [[x.as_integer_ratio() for x in row] for row in array.tolist()]
    common = lcm(*(q for row in ratios for _, q in row))
    return [[p * (common // q) for p, q in row] for row in ratios]


def _directions_select(
    keys: fmpz_mat, first: list[int], extreme: list[int], directions: WideArray
) -> bool:
    """Check that each direction is won only by the point it is listed for, and its repetitions."""
    block = 256
    repeats = Counter(first)
    for start in range(0, len(extreme), block):
        part = directions[start : start + block]
        columns = fmpz_mat(part.shape[0], part.shape[1], part.ravel().tolist()).transpose()
        scores = (keys * columns).transpose().tolist()
        for i, row in zip(extreme[start : start + block], scores, strict=True):
            if row[i] != max(row) or row.count(row[i]) != repeats[i]:
                return False
    return True


def _lies_between(
    table: list[list[int]],
    first: list[int],
    i: int,
    support: list[int],
    weights: tuple[int, ...],
) -> bool:
    """Check that point `i` is a positive combination of points that differ from it."""
    n_points = len(table)
    if not len(support) == len(weights) > 0:
        return False
    if not all(0 <= j < n_points and first[j] != i for j in support):
        return False
    if not all(isinstance(w, int) and w > 0 for w in weights):
        return False
    total = sum(weights)
    rows = fmpz_mat([table[j] for j in support])
    combination = (fmpz_mat([list(weights)]) * rows).entries()
    return all(c == total * x for c, x in zip(combination, table[i], strict=True))
