r"""Families of heads, and exact facts about the sums of their hulls and about their cells."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np

from hardmax.bounds import cells_bias_free
from hardmax.bounds.sizes import Bias
from hardmax.constructions.families.extremal_points import extremal_heads, extremal_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.typing import FloatArray


def n_vertices(heads: Sequence[FloatArray]) -> int:
    """Count the vertices of the sum of the hulls."""
    return minkowski_vertices(heads).count


@cache
def max_vertices(n_keys: int, n_heads: int, dim: int) -> int:
    """Count the vertices of the sum of extremal points; no heads of these sizes have more."""
    return n_vertices(extremal_points(n_keys, n_heads, dim))


@cache
def extremal_cells(n_keys: int, n_heads: int, dim: int, bias: Bias) -> int:
    """Count the routing cells of extremal heads; no layer of these sizes has more."""
    heads = extremal_heads(n_keys, n_heads, dim, bias=bias)
    return common_refinement([head.forms for head in heads]).count


def tilted_parabolas(n_keys: int, n_heads: int, dim: int, seed: int = 0) -> list[FloatArray]:
    r"""Return $\{(t_i u_h, -t_i^2 + \epsilon_h t_i)\}_i$ with random $u_h$ and $\epsilon_h$.

    The points are dyadic, so they are not rounded.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(n_keys) - (n_keys - 1) / 2
    heads = []
    for _ in range(n_heads):
        u, tilt = rng.integers(-99, 100, size=dim - 1), rng.integers(-2047, 2048) / 4096
        heads.append(np.column_stack([np.outer(t, u), -(t**2) + tilt * t]))
    return heads


def independent_heads(n_keys: int, n_heads: int, head_dim: int) -> list[FloatArray]:
    """Return convex polygons in subspaces of `head_dim` coordinates each, head after head."""
    sets = np.zeros((n_heads, n_keys, n_heads * head_dim))
    t = np.arange(n_keys, dtype=np.float64)
    for h in range(n_heads):
        sets[h, :, h * head_dim] = t
        if head_dim > 1:
            sets[h, :, h * head_dim + 1] = -(t**2)
    return list(sets)


def climb_to_vertices(n_keys: int, n_heads: int, dim: int, n_steps: int) -> int:
    """Return the most vertices found by hill climbing that moves one random key at a time."""
    rng = np.random.default_rng(n_keys + 10 * n_heads + 100 * dim)
    heads = rng.normal(size=(n_heads, n_keys, dim))
    best = n_vertices(list(heads))
    for _ in range(n_steps):
        moved = heads.copy()
        moved[rng.integers(n_heads), rng.integers(n_keys)] += rng.normal(size=dim)
        count = n_vertices(list(moved))
        if count >= best:
            heads, best = moved, count
    return best


def maximum_of_sizes(heads: Sequence[FloatArray]) -> int:
    """Return the largest number of vertices of a sum of polytopes of these sizes."""
    return cells_bias_free([len(head) for head in heads], None, heads[0].shape[1])


def overlay_identity(heads: Sequence[FloatArray]) -> int:
    r"""Return the number of vertices of a sum in space, computed from single and pairwise sums.

    Euler's formula for the overlay of $H$ maps on the sphere gives, in general position [Wei12],
    $f_0 - 2 = \sum_{i<j} (f_0(P_i + P_j) - 2) - (H-2) \sum_i (f_0(P_i) - 2)$.
    """
    single = sum(n_vertices([head]) - 2 for head in heads)
    double = sum(n_vertices(pair) - 2 for pair in combinations(heads, 2))
    return 2 + double - (len(heads) - 2) * single


def are_in_general_position(heads: Sequence[FloatArray]) -> bool:
    """Decide for integer points in space whether every face of the sum is a sum in a unique way.

    Equivalently: no four points of a head lie in a plane, no plane through three of them is
    parallel to an edge of another head, and no three edges of three heads are parallel to a plane.
    """
    points = [head.astype(np.int64) for head in heads]
    edges = [np.array([b - a for a, b in combinations(p, 2)]) for p in points]
    normals = [np.array([np.cross(b - a, c - a) for a, b, c in combinations(p, 3)]) for p in points]
    for h, own in enumerate(points):
        flat = [int(np.cross(b - a, c - a) @ (d - a)) for a, b, c, d in combinations(own, 4)]
        others = [edges[g] for g in range(len(points)) if g != h]
        if 0 in flat or any((normals[h] @ other.T == 0).any() for other in others):
            return False
    for a, b, c in combinations(edges, 3):
        crosses = np.cross(a[:, None], b[None])
        if (crosses @ c.T == 0).any():
            return False
    return True
