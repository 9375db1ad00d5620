r"""Power diagrams of a trained head on a plane through real queries.

With a free query $q$ and no bias the cells of a head are cones. On the plane $q_0 + t_1 u + t_2 v$
key $j$ scores $\langle k_j, q_0\rangle + t_1\langle k_j, u\rangle + t_2\langle k_j, v\rangle$: a
power diagram of the sites $(\langle k_j, u\rangle, \langle k_j, v\rangle)$, composed here without
rounding from the stored $q_0$, $u$ and $v$.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.geometry.domains import Box
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

_AROUND = 0.25
"""How much of the extent of the queries is shown around them."""


@dataclass(frozen=True, eq=False, repr=False)
class HeadSlice:
    r"""The cells of a head on a plane in the space of queries.

    Attributes:
        origin: The $q_0$, shape `(d_k,)`.
        directions: The $u$ and $v$, shape `(2, d_k)`; of length 1 and orthogonal, up to rounding.
        tokens: The three tokens whose queries span the plane; empty if the plane is all of the
            space of queries.
        queries: The queries of all tokens on the plane, or their shadows on it, shape `(n, 2)`.
        window: What is shown.
        diagram: The diagram on the plane.
        keys: The keys whose cells meet the window, in order.
        polygons: Their cells in the window, the corners rounded.

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
    """Cut the cells of a head along a plane through three of its queries.

    The three are the two that are farthest apart, and the one farthest from the line through them.
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
        tokens, directions = _spanning(queries)
        origin = queries[tokens[0]]
        shadows = (queries - origin) @ directions.T
    shown = shadows[list(tokens)] if tokens else shadows
    window = _window(shown)
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


def _spanning(queries: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
    """Three tokens far apart, and orthogonal directions of the plane through their queries."""
    apart = ((queries[:, None] - queries) ** 2).sum(axis=2)
    first, second = (int(i) for i in np.unravel_index(apart.argmax(), apart.shape))
    moved = queries - queries[first]
    along = _unit(moved[second], np.zeros_like(moved[:0]))
    beside = moved - np.outer(moved @ along, along)
    third = int((beside**2).sum(axis=1).argmax())
    across = _unit(beside[third], along[None])
    return (first, second, third), np.array([along, across])


def _unit(vector: FloatArray, others: FloatArray) -> FloatArray:
    """A vector at length 1; if it is 0, an axis made orthogonal to others, 0 if there is none."""
    candidates = [vector, *np.eye(len(vector))]
    for candidate in candidates:
        rest = candidate - (candidate @ others.T) @ others
        length = float(np.sqrt(rest @ rest))
        if length > 1e-9 * max(1.0, float(np.abs(candidate).max())):
            return np.asarray(rest / length)
    return np.zeros_like(vector)


def _window(points: FloatArray) -> Box:
    """A square around points, with some space."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = (high - low).max() * (0.5 + _AROUND) or 1.0
    centre = (low + high) / 2
    return Box(centre - half, centre + half)
