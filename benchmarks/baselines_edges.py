"""A NumPy baseline: the skeleton of a ReLU network in a box, edge by edge, in float64.

Every vertex has a sign for every hyperplane processed so far, the sides of the box first. A unit
splits the edges whose ends have different signs. Each two-dimensional face that is cut gets two new
vertices, which a new edge joins. A face is identified by the sign vector of a split edge in which
one zero is replaced by +1 or -1, so the two vertices are matched by sorting. The result is correct
only for simple arrangements: at most `dim` hyperplanes meet in a point, and no value is zero by
accident.
"""

import itertools

import numpy as np

from hardmax.typing import FloatArray, IntArray


def count_by_edge_subdivision(
    weights: list[FloatArray], biases: list[FloatArray], half_width: float
) -> int:
    """Count the cells of a ReLU network in the box [-half_width, half_width]^dim.

    Args:
        weights: For each hidden layer its weights, acting on row vectors.
        biases: Its biases.
        half_width: Half the side of the box.
    """
    dim = weights[0].shape[0]
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=dim)))
    # Plane 2 k is x_k = -half_width and plane 2 k + 1 is x_k = half_width; inside is positive.
    signs = np.ones((len(corners), 2 * dim), dtype=np.int8)
    signs[:, ::2][corners < 0] = 0
    signs[:, 1::2][corners > 0] = 0
    edges = np.array(
        [
            (i, j)
            for i, j in itertools.combinations(range(len(corners)), 2)
            if (corners[i] != corners[j]).sum() == 1
        ]
    )
    hidden = half_width * corners
    for weight, bias in zip(weights, biases, strict=True):
        values = hidden @ weight + bias
        for unit in range(weight.shape[1]):
            values, signs, edges = _split_edges(values, signs, edges, unit, dim)
        hidden = np.maximum(values, 0.0)
    return _count_cells(signs, 2 * dim, dim)


def _split_edges(
    values: FloatArray, signs: IntArray, edges: IntArray, unit: int, dim: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Split all edges by one unit; return the new values, signs and edges."""
    at = values[:, unit]
    signs = np.column_stack([signs, np.sign(at).astype(np.int8)])
    one, other = edges.T
    is_cut = at[one] * at[other] < 0.0
    if not is_cut.any():
        return values, signs, edges
    one, other = edges[is_cut].T
    share = (at[one] / (at[one] - at[other]))[:, None]
    new = values[one] + share * (values[other] - values[one])
    new[:, unit] = 0.0
    # The sign on an edge is the nonzero sign of one of its ends.
    name = np.where(signs[one] != 0, signs[one], signs[other])
    name[:, -1] = 0
    numbers = len(values) + np.arange(len(new))
    halves = np.stack([np.r_[one, other], np.r_[numbers, numbers]], axis=1)
    across = _connect_vertices(name, numbers, dim)
    edges = np.concatenate([edges[~is_cut], halves, across])
    return np.concatenate([values, new]), np.concatenate([signs, name]), edges


def _connect_vertices(name: IntArray, numbers: IntArray, dim: int) -> IntArray:
    """Return the edges between new vertices that lie on a common face."""
    if dim == 1:
        return np.empty((0, 2), dtype=np.int64)
    rows, zeros = np.nonzero(name[:, :-1] == 0)
    faces, owners = [], []
    for sign in (-1, 1):
        face = name[rows]
        face[np.arange(len(rows)), zeros] = sign
        faces.append(face)
        owners.append(numbers[rows])
    face, owner = np.concatenate(faces), np.concatenate(owners)
    keys = np.ascontiguousarray(face).view(np.dtype((np.void, face.shape[1]))).ravel()
    order = np.argsort(keys, kind="stable")
    keys, owner = keys[order], owner[order]
    first = np.flatnonzero(keys[:-1] == keys[1:])
    return np.stack([owner[first], owner[first + 1]], axis=1)


def _count_cells(signs: IntArray, n_sides: int, dim: int) -> int:
    """Count the sign vectors around all vertices: every zero may become +1 or -1 inside the box."""
    inner = signs[:, n_sides:]
    found = []
    for choice in itertools.product((-1, 1), repeat=dim):
        filled = inner.copy()
        rank = np.cumsum(inner == 0, axis=1) - 1
        rows, columns = np.nonzero(inner == 0)
        place = rank[rows, columns]
        kept = place < dim
        filled[rows[kept], columns[kept]] = np.array(choice, dtype=np.int8)[place[kept]]
        found.append(filled)
    vectors = np.concatenate(found)
    keys = np.ascontiguousarray(vectors).view(np.dtype((np.void, vectors.shape[1]))).ravel()
    return len(np.unique(keys))
