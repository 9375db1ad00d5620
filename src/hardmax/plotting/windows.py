"""Choose the window of a picture: all of a bounded domain, or the surroundings of the origin.

The outermost vertices of an unbounded partition may be a thousand times farther away than the
interesting cells, so a window around all vertices would only show a star. The explorer uses the
same rule.
"""

from fractions import Fraction

import numpy as np

from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.domains import Box
from hardmax.regions.charted_domains import ChartedDomain, enclosing_box, intersect_rows
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray, IntArray

HALF_SIDE = 4.0
"""Half the side of the default window of an unbounded domain, from -4 to 4."""
_LEAST_SPREAD, _MOST_SPREAD = 0.2, 8.0
"""The limits of the median spread and the median distance of vertices for the default window."""


def choose_default_window(domain: ChartedDomain, points: FloatArray | None = None) -> Box:
    """Return the part of a domain that is shown by default.

    A bounded domain is shown whole. An unbounded domain is shown from -4 to 4 in every coordinate,
    within its bounds on single coordinates. If that scale is wrong for half of the vertices, the
    window is instead twice as wide as the half of the vertices nearest to their median.

    Args:
        domain: The domain.
        points: The finite vertices of the cells, shape `(n, dim)`. Without vertices, the window is
            around the origin if the domain extends into that window.

    Examples:
        >>> from hardmax import Polytope, WholeSpace
        >>> from hardmax.regions.charted_domains import charted
        >>> plane, half = WholeSpace(2), Polytope([[-1.0, 0.0]], [-1.0])
        >>> choose_default_window(charted(plane, 2)), choose_default_window(charted(half, 2))
        (Box(low=[-4.0, -4.0], high=[4.0, 4.0]), Box(low=[1.0, -4.0], high=[4.0, 4.0]))
        >>> pixels = [[90.0, 100.0], [110.0, 100.0], [100.0, 90.0], [9000.0, 0.0]]
        >>> choose_default_window(charted(plane, 2), np.array(pixels))
        Box(low=[85.0, 75.0], high=[125.0, 115.0])
    """
    whole = enclosing_box(domain)
    if whole is not None:
        return Box(whole.low, whole.high)
    low, high = _coordinate_bounds(domain)
    around_origin = np.maximum(low, -HALF_SIDE), np.minimum(high, HALF_SIDE)
    reaches = bool((around_origin[0] < around_origin[1]).all())
    if points is None or not len(points):
        points = np.clip(np.zeros((1, domain.dim)), low, high)
    if reaches and _has_default_scale(points):
        return Box(*around_origin)
    return _window_around_median(points, low, high)


def fit_window(points: FloatArray) -> Box:
    """Return the default window for given vertices in an unbounded space.

    Examples:
        >>> fit_window(np.array([[1.0, 0.0], [-1.0, 2.0]]))
        Box(low=[-4.0, -4.0], high=[4.0, 4.0])
    """
    if _has_default_scale(points):
        return Box(*np.multiply.outer([-HALF_SIDE, HALF_SIDE], np.ones(points.shape[1])))
    free = np.full(points.shape[1], np.inf)
    return _window_around_median(points, -free, free)


def choose_window(partition: Partition) -> Box:
    """Return the default window of a partition; for a bounded domain, the part searched.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> relu = ReluNetwork([[[1.0]], [[1.0]]])
        >>> choose_window(enumerate_regions(relu, WholeSpace(1)))
        Box(low=[-4.0], high=[4.0])
    """
    vertices = finite_vertices(partition)
    if enclosing_box(partition.domain) is not None:
        return Box(vertices.min(axis=0), vertices.max(axis=0))
    return choose_default_window(partition.domain, vertices)


def describe_outside(partition: Partition, window: Box) -> str:
    """Return a text with the number of cells outside a window; empty if there are none.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> relu = ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]]], [[0.0, -9.0], None])
        >>> describe_outside(enumerate_regions(relu, WholeSpace(1)), Box([-4], [4]))
        '1 of 3 cells lies outside this window'
    """
    n = count_cells_outside(partition, window) if enclosing_box(partition.domain) is None else 0
    some, lie = "" if partition.is_complete else "at least ", "lies" if n == 1 else "lie"
    return f"{some}{n} of {partition.n_found} cells {lie} outside this window" if n else ""


def count_cells_outside(partition: Partition, window: Box) -> int:
    """Count the cells that do not reach into a window, exactly.

    The cells inside are counted by a search of the window. If the search of the partition was
    stopped early, only cells with all vertices beyond one side of the window count, which may leave
    out some.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> relu = ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]]], [[0.0, -9.0], None])
        >>> count_cells_outside(enumerate_regions(relu, WholeSpace(1)), Box([-4], [4]))
        1
    """
    if not partition.is_complete:
        return _count_surely_outside(partition, window)
    domain = intersect_rows(partition.domain, window.exact_rows)
    inside = enumerate_regions(partition.network, domain, count_only=True)
    return int(partition.n_found - inside.n_found)


def finite_vertices(partition: Partition) -> FloatArray:
    """Return the rounded vertices of all cells, with repetitions, or witnesses if there are none.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> absolute = ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]], [[-1.0, 1.0], None])
        >>> finite_vertices(enumerate_regions(absolute, WholeSpace(1))).tolist()
        [[1.0], [1.0]]
    """
    cells = partition.cells
    if cells.vertices is None:
        polytopes = [partition.polytope(i) for i in range(partition.n_found)]
        corners = [cell.vertices for cell in polytopes if not len(cell.lineality)]
        vertices = np.concatenate([np.zeros((0, partition.domain.dim)), *corners])
    elif cells.directions is None:
        vertices = cells.vertices
    else:
        vertices = cells.vertices[~cells.directions.any(axis=1)]
    return vertices if len(vertices) else partition.witnesses


def _has_default_scale(points: FloatArray) -> bool:
    """Return whether the window around the origin has the right scale for some points."""
    reach = np.median(np.abs(points).max(axis=1))
    spread = np.median(np.abs(points - np.median(points, axis=0)).max(axis=1))
    return bool(reach <= _MOST_SPREAD and (spread >= _LEAST_SPREAD or spread == 0.0))


def _window_around_median(points: FloatArray, low: FloatArray, high: FloatArray) -> Box:
    """Return a window around the median of points, within given bounds."""
    with np.errstate(over="ignore", invalid="ignore"):
        centre = np.median(points, axis=0)
        half = 2.0 * float(np.median(np.abs(points - centre).max(axis=1)))
        # A single point, or numbers near the largest float.
        half = half if 0.0 < half < np.inf else max(HALF_SIDE, float(np.abs(centre).max()))
        ends = np.maximum(low, centre - half), np.minimum(high, centre + half)
    largest = np.finfo(float).max / 8.0
    return Box(*np.clip(ends, -largest, largest))


def _coordinate_bounds(domain: ChartedDomain) -> tuple[FloatArray, FloatArray]:
    """Return the bounds from inequalities on single coordinates; infinite if there are none."""
    low, high = np.full(domain.dim, -np.inf), np.full(domain.dim, np.inf)
    for row in domain.exact_rows.tolist():
        used = [k for k, entry in enumerate(row[:-1]) if entry]
        if len(used) == 1:
            k = used[0]
            end = float(nearest_floats(np.array([Fraction(row[-1], row[k])], dtype=object))[0])
            if row[k] > 0:
                high[k] = min(high[k], end)
            else:
                low[k] = max(low[k], end)
    return low, high


def _count_surely_outside(partition: Partition, window: Box) -> int:
    cells = partition.cells
    if cells.vertices is None or cells.starts is None:
        return 0
    corners = cells.vertices
    if cells.directions is not None:
        corners = np.where(cells.directions == 0.0, corners, np.copysign(np.inf, cells.directions))
    return partition.n_found - len(find_cells_in_window(corners, cells.starts, window))


def find_cells_in_window(corners: FloatArray, starts: IntArray, window: Box) -> IntArray:
    """Return the indices of the cells whose bounding boxes meet the window."""
    low = np.minimum.reduceat(corners, starts[:-1])
    high = np.maximum.reduceat(corners, starts[:-1])
    return np.flatnonzero(((high > window.low) & (low < window.high)).all(axis=1))
