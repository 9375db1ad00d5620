r"""Process many convex polygons at once, with enclosed corners.

Coordinates are homogeneous: a corner is a vector $(x, y, w)$ with $w \ge 0$, at infinity if
$w = 0$, and positive multiples represent the same corner. A rounded corner $p$ with *radius* $r$
encloses the true corner: some positive multiple $p'$ of the true corner satisfies
$|p_k - p'_k| \le r$ for every $k$. The largest entry is 1 up to rounding. All corners of a polygon
lie in one quadrant, so corresponding entries have the same sign, and positive combinations of
corners have no cancellation.

Corners are also known exactly, as intersections of two lines: the edges of a polygon record the
numbers of their lines (`exact_plane`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hardmax.typing import AnyArray, FloatArray, IntArray

QUADRANTS = ((1, 1), (-1, 1), (-1, -1), (1, -1))
ROUNDED, _ROUNDING = 2.0**-51, 2.0**-49
# The largest useful radius of a corner. Below it, the signs of the corner's entries are certain;
# above it, too many other signs stay open.
_VAGUE = 2.0**-20
_ROUND = np.array([0, 1, 2, 0, 1])
Vector = tuple[int, ...]


class Polygons:
    """A concatenated list of polygons, each with its corners in order.

    Attributes:
        starts: The first corner of each polygon, and the end, shape `(n + 1,)`.
        points: The corners, shape `(3, n_corners)`.
        radii: The radii of the corners, shape `(n_corners,)`.
        edges: The line from each corner to the next corner of its polygon, shape `(n_corners,)`.
        sizes: The number of corners of each polygon, shape `(n,)`.
        owners: The polygon of each corner, shape `(n_corners,)`.
    """

    __slots__ = ("edges", "owners", "points", "radii", "sizes", "starts")

    def __init__(
        self, starts: IntArray, points: FloatArray, radii: FloatArray, edges: IntArray
    ) -> None:
        self.starts, self.points, self.radii, self.edges = starts, points, radii, edges
        self.sizes: IntArray = starts[1:] - starts[:-1]
        self.owners: IntArray = np.arange(len(self.sizes)).repeat(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def following(self) -> IntArray:
        """Return the next corner of the same polygon, for each corner."""
        following = np.arange(1, len(self.edges) + 1)
        following[self.starts[1:] - 1] = self.starts[:-1]
        return following

    def before(self, corner: int, polygon: int) -> int:
        """Return the previous corner of a polygon."""
        start, end = self.starts[polygon : polygon + 2].tolist()
        return int(corner - 1 if corner > start else end - 1)

    def take(self, chosen: IntArray) -> "Polygons":
        """Return some of the polygons, possibly with repetitions."""
        sizes = self.sizes[chosen]
        starts = _accumulate_sizes(sizes)
        places = (self.starts[chosen] - starts[:-1]).repeat(sizes)
        places += np.arange(starts[-1])
        return Polygons(
            starts, self.points.take(places, axis=1), self.radii[places], self.edges[places]
        )


def _accumulate_sizes(sizes: IntArray) -> IntArray:
    """Return the starts of consecutive parts of given sizes, and the end."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    sizes.cumsum(out=ends[1:])
    return ends


def join_polygons(parts: Sequence[Polygons]) -> Polygons:
    """Concatenate lists of polygons."""
    return Polygons(
        _accumulate_sizes(np.concatenate([part.sizes for part in parts])),
        np.concatenate([part.points for part in parts], axis=1),
        np.concatenate([part.radii for part in parts]),
        np.concatenate([part.edges for part in parts]),
    )


class Lines:
    """Numbered lines, each the zero set of an enclosed form scaled so that no entry exceeds 1.

    Args:
        rows: The integer forms of the first lines.
    """

    def __init__(self, rows: Sequence[Vector]) -> None:
        self.n_lines = len(rows)
        # The centres with the first two entries repeated, then the radii likewise (see `meet`).
        self._table = np.zeros((10, max(64, len(rows))))
        if rows:
            self._table[:5, : len(rows)] = round_corners(rows)[_ROUND]
            self._table[5:, : len(rows)] = ROUNDED

    def add(self, centres: FloatArray, radii: FloatArray) -> IntArray:
        """Add lines given by enclosed forms of shape `(3, n)`, and return their numbers."""
        first, self.n_lines = self.n_lines, self.n_lines + centres.shape[1]
        if self.n_lines > self._table.shape[1]:
            larger = np.zeros((10, 2 * self.n_lines))
            larger[:, :first] = self._table[:, :first]
            self._table = larger
        size = np.abs(centres).max(axis=0)
        new = self._table[:, first : self.n_lines]
        np.divide(centres, size, out=new[:3])
        new[5:8] = (1.0 + _ROUNDING) * radii / size + _ROUNDING
        new[3:5], new[8:] = new[:2], new[5:7]
        return np.arange(first, self.n_lines)

    def meet(
        self, one: IntArray, other: IntArray, near: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return the intersections of lines, and their radii.

        With centres $l, m$ at most 1 and radii $R, S$, the error of an entry $l_i m_j - l_j m_i$ is
        at most $|l_i| S_j + R_i |m_j| + R_i S_j + |l_j| S_i + R_j |m_i| + R_j S_i$ plus rounding.
        The rounding is less than $4 u$ times the entry, with $u = 2^{-53}$, plus $8 u$ times this
        bound, together below $16 u$.

        Args:
            one: Numbers of lines, shape `(n,)`.
            other: Numbers of lines, shape `(n,)`.
            near: Points whose inner products with the intersections are positive.
        """
        first, second = self._table.take(one, axis=1), self._table.take(other, axis=1)
        wide, broad = (np.abs(table[:5]) + table[5:] for table in (first, second))
        up, down = slice(1, 4), slice(2, 5)
        plus, minus = first[up] * second[down], first[down] * second[up]
        points = plus - minus
        wrong = wide[up] * broad[down] - np.abs(plus) + (wide[down] * broad[up] - np.abs(minus))
        size = np.abs(points).max(axis=0)
        radii = (wrong.max(axis=0) + _ROUNDING) * (1.0 + _ROUNDING) / size + _ROUNDING
        return points / np.where((points * near).sum(axis=0) < 0.0, -size, size), radii


class ClipResult(NamedTuple):
    """The remaining parts of polygons, each cut by one line.

    Attributes:
        polygons: The parts with interior.
        kept: The indices of their polygons, in increasing order.
        vague: The corners whose radius is too large, as pairs (polygon, corner).
    """

    polygons: Polygons
    kept: IntArray
    vague: list[tuple[int, int]]


def clip(polygons: Polygons, signs: AnyArray, numbers: IntArray, lines: Lines) -> ClipResult:
    r"""Cut polygons to the parts where a form is nonnegative.

    Args:
        polygons: The polygons.
        signs: The exact sign of the polygon's form at each corner, shape `(n_corners,)`.
        numbers: For each polygon, the number of the line where its form is 0.
        lines: The lines.
    """
    starts, following = polygons.starts[:-1], polygons.following()
    lowest = np.minimum.reduceat(signs, starts)
    kept = np.maximum.reduceat(signs, starts) > 0
    if not (kept & (lowest < 0)).any():
        chosen = kept.nonzero()[0]
        return ClipResult(polygons if kept.all() else polygons.take(chosen), chosen, [])
    owners = polygons.owners
    after = signs[following]
    # Two entries per corner: the corner itself, and the crossing of the edge that begins there.
    places = np.empty((len(signs), 2), dtype=np.bool_)
    places[:, 0], places[:, 1] = signs >= 0, signs * after < 0
    if not kept.all():
        places &= kept[owners][:, np.newaxis]
    crossed = places[:, 1].nonzero()[0]
    new = numbers[owners]
    points, radii = polygons.points.repeat(2, axis=1), polygons.radii.repeat(2)
    # The crossing is a positive combination of the two corners, so its inner product with their sum
    # is positive.
    near = polygons.points.take(crossed, axis=1)
    near += polygons.points.take(following[crossed], axis=1)
    meets, wrong = lines.meet(polygons.edges[crossed], new[crossed], near)
    # Corners with too large radii are recomputed in integers, and need only the right signs here.
    points[:, 2 * crossed + 1] = np.where(wrong <= _VAGUE, meets, near)
    radii[2 * crossed + 1] = wrong
    # The new edge begins where the boundary leaves the part: at a corner on the line, or after the
    # last corner inside.
    edges = polygons.edges.repeat(2)
    edges[::2] = np.where((signs == 0) & (after < 0), new, polygons.edges)
    edges[1::2] = np.where(signs > 0, new, polygons.edges)
    counts = np.add.reduceat(places.sum(axis=1), starts)[kept]
    flat = places.ravel().nonzero()[0]
    result = Polygons(
        _accumulate_sizes(counts), points.take(flat, axis=1), radii[flat], edges[flat]
    )
    vague = (~(result.radii <= _VAGUE)).nonzero()[0]
    of = result.owners[vague]
    return ClipResult(
        result, kept.nonzero()[0], list(zip(of.tolist(), vague.tolist(), strict=True))
    )


def round_corners(corners: Sequence[Sequence[int]]) -> FloatArray:
    """Scale integer vectors so that their largest entries are 1, and round.

    Returns:
        The vectors as columns, shape `(n_columns, n)`. The error of each entry is less than
        `ROUNDED`, because two numbers and their quotient are rounded.
    """
    try:
        table = np.array(corners, dtype=np.float64).T
    except OverflowError:
        return np.array([round_corner(corner) for corner in corners]).T
    return np.asarray(table / np.abs(table).max(axis=0))


def round_corner(corner: Sequence[int]) -> list[float]:
    """Scale an integer vector so that its largest entry is 1, and round."""
    largest = max(abs(x) for x in corner)
    return [x / largest for x in corner]


def domain_polygons(sides: Sequence[Vector]) -> tuple[Polygons, list[Vector]]:
    """Cut a domain into its parts in the four quadrants.

    Args:
        sides: Integer rows, positive in the interior of the domain.

    Returns:
        The parts with interior, and the lines to which the numbers of their edges refer.
    """
    lines: list[Vector] = [(1, 0, 0), (0, 1, 0), (0, 0, 1), *sides]
    corners: list[Vector] = []
    edges: list[int] = []
    starts = [0]
    for across, up in QUADRANTS:
        # The edges run from the origin along x, then at infinity, then back along y.
        polygon: list[tuple[Vector, int]] = [((0, 0, 1), 1), ((across, 0, 0), 2), ((0, up, 0), 0)]
        for number, side in enumerate(sides, 3):
            polygon = _clip_exactly(polygon, side, number)
        if polygon:
            corners += [corner for corner, _ in polygon]
            edges += [edge for _, edge in polygon]
            starts.append(len(corners))
    points = round_corners(corners) if corners else np.zeros((3, 0))
    radii = np.full(len(corners), ROUNDED)
    return Polygons(np.array(starts), points, radii, np.array(edges, dtype=np.int64)), lines


def _clip_exactly(
    polygon: list[tuple[Vector, int]], side: Vector, number: int
) -> list[tuple[Vector, int]]:
    """Cut one polygon in integers; return an empty list if the part has no interior."""
    values = [sum(x * y for x, y in zip(side, corner, strict=True)) for corner, _ in polygon]
    if max(values, default=0) <= 0:
        return []
    part: list[tuple[Vector, int]] = []
    for i, (corner, edge) in enumerate(polygon):
        value, after = values[i], values[(i + 1) % len(polygon)]
        following, _ = polygon[(i + 1) % len(polygon)]
        if value >= 0:
            part.append((corner, number if value == 0 > after else edge))
        if value * after < 0:
            pairs = zip(corner, following, strict=True)
            crossing = tuple(abs(after) * x + abs(value) * y for x, y in pairs)
            part.append((crossing, number if value > 0 else edge))
    return part


def meet(one: Vector, other: Vector) -> Vector:
    """Return the intersection of two lines, up to its sign."""
    a, b, c = one
    d, e, f = other
    return (b * f - c * e, c * d - a * f, a * e - b * d)
