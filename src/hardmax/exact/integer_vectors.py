"""Integer vectors as tuples of Python integers: the small change of the exact geometry.

`double_description` and everything above it compute with these. Tuples are faster than object
arrays at the lengths that occur, and they can be keys of dictionaries.
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
    """Return the exact inner product."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def embed(vector: Vector, positions: list[int], dim: int) -> Vector:
    """Place the entries at the given positions of a zero vector."""
    full = [0] * dim
    for position, entry in zip(positions, vector, strict=True):
        full[position] = entry
    return tuple(full)


def wide_rows(vectors: Sequence[Sequence[object]], dim: int) -> WideArray:
    """Pack vectors of length `dim` as the rows of an object array, also when there are none."""
    array = np.empty((len(vectors), dim), dtype=object)
    for i, vector in enumerate(vectors):
        array[i] = vector
    return array


def rounded_directions(vectors: Sequence[Vector], dim: int) -> FloatArray:
    """Scale each integer vector by its own power of two to at most 1, and round each entry.

    Python's integer division rounds correctly, so every entry is right to a relative $2^{-53}$,
    or to an absolute $2^{-1075}$ below the normal range.
    """
    result = np.empty((len(vectors), dim))
    for k, vector in enumerate(vectors):
        scale = 1 << max(max(vector), -min(vector)).bit_length() if vector else 1
        result[k] = [entry / scale for entry in vector]
    return result


def independent_rows(rows: list[Vector], dim: int) -> tuple[list[int], list[int]]:
    """Return the first rows that span the row space, and as many pivot columns, by elimination."""
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
    """Return a basis of the vectors orthogonal to all rows: primitive, first entry positive."""
    if not rows:
        return tuple(embed((1,), [k], dim) for k in range(dim))
    matrix, nullity = fmpz_mat([list(row) for row in rows]).nullspace()
    return tuple(
        _sign_normalised(primitive(int(matrix[c, k]) for c in range(dim))) for k in range(nullity)
    )


def _sign_normalised(vector: Vector) -> Vector:
    """Return the vector or its negative, whichever has a positive first non-zero entry."""
    leading = next(entry for entry in vector if entry)
    return vector if leading > 0 else tuple(-entry for entry in vector)
