"""Integer vectors as tuples of Python integers, for the exact geometry.

`double_description` and the modules above it use such vectors. Short tuples are faster than object
arrays, and they can be keys of dictionaries.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from flint import fmpz_mat

from hardmax.typing import FloatArray, WideArray

Vector = tuple[int, ...]


def primitive(vector: Iterable[int]) -> Vector:
    """Divide an integer vector by the greatest common divisor of its entries."""
    entries = tuple(vector)
    divisor = math.gcd(*entries)
    return entries if divisor <= 1 else tuple(entry // divisor for entry in entries)


def dot(a: Vector, b: Vector) -> int:
    """Return the exact inner product of two vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def embed(vector: Vector, positions: list[int], dim: int) -> Vector:
    """Return a vector of length `dim` with the entries at the given positions and 0 elsewhere."""
    full = [0] * dim
    for position, entry in zip(positions, vector, strict=True):
        full[position] = entry
    return tuple(full)


def wide_rows(vectors: Sequence[Sequence[object]], dim: int) -> WideArray:
    """Stack vectors of length `dim` as the rows of an object array, which may have no rows."""
    array = np.empty((len(vectors), dim), dtype=object)
    for i, vector in enumerate(vectors):
        array[i] = vector
    return array


def rounded_directions(vectors: Sequence[Vector], dim: int) -> FloatArray:
    """Scale each integer vector by a power of two to entries of at most 1, and round to floats.

    The division of Python integers is correctly rounded, so the error of every entry is at most a
    relative $2^{-53}$, or an absolute $2^{-1075}$ below the normal range.
    """
    result = np.empty((len(vectors), dim))
    for k, vector in enumerate(vectors):
        scale = 1 << max(max(vector), -min(vector)).bit_length() if vector else 1
        result[k] = [entry / scale for entry in vector]
    return result


def independent_rows(rows: list[Vector], dim: int) -> tuple[list[int], list[int]]:
    """Return indices of the first rows that span the row space, and pivot columns for them."""
    basis: list[int] = []
    pivots: list[int] = []
    reduced: list[Vector] = []
    for i, row in enumerate(rows):
        vector = row
        for echelon, pivot in zip(reduced, pivots, strict=True):
            if vector[pivot]:
                a, b = echelon[pivot], vector[pivot]
                pairs = zip(vector, echelon, strict=True)
                vector = primitive([a * x - b * y for x, y in pairs])
        if any(vector):
            basis.append(i)
            pivots.append(next(c for c in range(dim) if vector[c]))
            reduced.append(vector)
            if len(basis) == dim:
                break
    columns = sorted(pivots)
    return basis, columns


def null_space(rows: list[Vector], dim: int) -> tuple[Vector, ...]:
    """Return a basis of the vectors orthogonal to all rows.

    The basis vectors are primitive, and their first nonzero entry is positive.
    """
    if not rows:
        return tuple(embed((1,), [k], dim) for k in range(dim))
    matrix, nullity = fmpz_mat([list(row) for row in rows]).nullspace()
    return tuple(
        _normalize_sign(primitive(int(matrix[c, k]) for c in range(dim))) for k in range(nullity)
    )


def _normalize_sign(vector: Vector) -> Vector:
    """Return the vector or its negative, whichever has a positive first nonzero entry."""
    leading = next(entry for entry in vector if entry)
    return vector if leading > 0 else tuple(-entry for entry in vector)
