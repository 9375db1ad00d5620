r"""Power diagrams of a trained head on a plane through real queries.

For an arbitrary query $q$ and no bias, the cells of a head are cones. On the plane
$q_0 + t_1 u + t_2 v$, the score of key $j$ is
$\langle k_j, q_0\rangle + t_1\langle k_j, u\rangle + t_2\langle k_j, v\rangle$. The cells form a
power diagram of the sites $(\langle k_j, u\rangle, \langle k_j, v\rangle)$, which is composed here
without rounding from the stored $q_0$, $u$ and $v$.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.geometry.domains import Box
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

_AROUND = 0.25
"""The margin around the queries, as a fraction of their extent."""


@dataclass(frozen=True, eq=False, repr=False)
class HeadSlice:
    r"""The cells of a head on a plane in query space.

    Attributes:
        origin: The point $q_0$, shape `(d_k,)`.
        directions: The directions $u$ and $v$, shape `(2, d_k)`, orthonormal up to rounding.
        tokens: The three tokens whose queries span the plane; empty if the plane is the whole query
            space.
        queries: The orthogonal projections of all queries onto the plane, shape `(n, 2)`.
        window: The part of the plane to show.
        diagram: The power diagram on the plane.
        keys: The keys whose cells meet the window, in order.
        polygons: The cells of these keys in the window, with rounded corners.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> q, k, v = rng.normal(size=(3, 1, 20, 5))
        >>> found = query_slice(HeadArrays(q, k, v, is_causal=False), 0)
        >>> found.queries.shape, len(found.keys) == len(found.polygons)
        ((20, 2), True)
    """

    origin: FloatArray
    directions: FloatArray
    tokens: tuple[int, ...]
    queries: FloatArray
    window: Box
    diagram: PowerDiagram
    keys: tuple[int, ...]
    polygons: tuple[FloatArray, ...]

    __repr__ = short_repr
    _repr_html_ = html_card


def query_slice(arrays: HeadArrays, head: int) -> HeadSlice:
    """Return the cells of a head on a plane through three of its queries.

    These are the two queries farthest apart, and the query farthest from the line through them.
    For heads of size 2 the plane is all of the space of queries. The keys are those that the last
    token sees.

    Args:
        arrays: The queries, keys and values of the layer, of at least two tokens.
        head: The head.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> q, k, v = rng.normal(size=(3, 1, 20, 5))
        >>> found = query_slice(HeadArrays(q, k, v, is_causal=False), 0)
        >>> found.directions.shape, len(found.tokens), len(found.keys) == len(found.polygons)
        ((2, 5), 3, True)
    """
    queries = arrays.queries[head]
    d_k = queries.shape[1]
    if d_k == 2:
        tokens: tuple[int, ...] = ()
        origin, directions = np.zeros(2), np.eye(2)
        shadows = queries
    else:
        tokens, directions = _choose_plane(queries)
        origin = queries[tokens[0]]
        shadows = (queries - origin) @ directions.T
    shown = shadows[list(tokens)] if tokens else shadows
    window = _choose_window(shown)
    diagram = arrays.head(head).diagram.pull_back(directions, origin)
    cells = diagram.cells(window)
    return HeadSlice(
        origin,
        directions,
        tokens,
        shadows,
        window,
        diagram,
        tuple(cell.site for cell in cells),
        tuple(cell.polygon for cell in cells),
    )


def _choose_plane(queries: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
    """Return three tokens far apart, and orthonormal directions of the plane of their queries."""
    apart = ((queries[:, None] - queries) ** 2).sum(axis=2)
    first, second = (int(i) for i in np.unravel_index(apart.argmax(), apart.shape))
    moved = queries - queries[first]
    along = _normalize(moved[second], np.zeros_like(moved[:0]))
    beside = moved - np.outer(moved @ along, along)
    third = int((beside**2).sum(axis=1).argmax())
    across = _normalize(beside[third], along[None])
    return (first, second, third), np.array([along, across])


def _normalize(vector: FloatArray, others: FloatArray) -> FloatArray:
    """Normalize a vector orthogonal to others; if it is 0, use an axis, or 0 if there is none."""
    candidates = [vector, *np.eye(len(vector))]
    for candidate in candidates:
        rest = candidate - (candidate @ others.T) @ others
        length = float(np.sqrt(rest @ rest))
        if length > 1e-9 * max(1.0, float(np.abs(candidate).max())):
            return np.asarray(rest / length)
    return np.zeros_like(vector)


def _choose_window(points: FloatArray) -> Box:
    """Return a square that contains points and a margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = (high - low).max() * (0.5 + _AROUND) or 1.0
    centre = (low + high) / 2
    return Box(centre - half, centre + half)
