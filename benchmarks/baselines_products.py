"""Max-plus products of matrices in plain numpy."""

import numpy as np

from hardmax.typing import FloatArray


def multiply_by_rows(a: FloatArray, b: FloatArray, block: int = 256) -> FloatArray:
    """Add each row of the left factor to the transposed right factor; take maxima along rows."""
    transposed = np.ascontiguousarray(b.T)
    out, terms = np.empty((len(a), b.shape[1])), np.empty((block, len(b)))
    for start in range(0, len(transposed), block):
        columns = transposed[start : start + block]
        for row, result in zip(a, out, strict=True):
            np.add(columns, row, out=terms[: len(columns)])
            np.maximum.reduce(
                terms[: len(columns)], axis=1, out=result[start : start + len(columns)]
            )
    return out


def multiply_by_outer_sums(a: FloatArray, b: FloatArray, block: int = 32) -> FloatArray:
    """Accumulate an outer sum for each inner index, in blocks of rows that stay in the cache."""
    columns = np.ascontiguousarray(a.T)
    out, terms = np.full((len(a), b.shape[1]), -np.inf), np.empty((block, b.shape[1]))
    for start in range(0, len(a), block):
        result = out[start : start + block]
        for column, row in zip(columns, b, strict=True):
            np.add(column[start : start + block, None], row, out=terms[: len(result)])
            np.maximum(result, terms[: len(result)], out=result)
    return out
