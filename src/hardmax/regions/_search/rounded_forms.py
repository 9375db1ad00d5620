"""Exact forms rounded to floats, with radii; the stream before the first layer."""

from functools import cache
from typing import Any

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.exact.dyadic import lowest_bits
from hardmax.exact.rounding import enclosed_quotient
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._search.searches import FirstStream
from hardmax.typing import FloatArray


def first_stream(
    network: ArgmaxNetwork, coordinates: RationalForms | None, scale: float
) -> FirstStream:
    """Return the embedding on a domain; the last result for a network is cached.

    Args:
        network: The network.
        coordinates: The inputs as forms on the domain; None if they are its coordinates.
        scale: The scale of the domain.
    """
    embedding = network.embedding
    if coordinates is None and embedding.is_identity:
        return _identity_stream(embedding.dim_in)
    known: tuple[RationalForms | None, float, FirstStream] | None
    known = network.kept.get("first stream")
    if known is None or known[0] is not coordinates or known[1] != scale:
        stream = _round_stream(embedding, coordinates, scale)
        known = network.kept["first stream"] = coordinates, scale, stream
    return known[2]


def _round_stream(
    embedding: AffineMap, coordinates: RationalForms | None, scale: float
) -> FirstStream:
    if coordinates is not None:
        forms = coordinates.compose(embedding)
        block = round_forms(forms, forms.rows, scale)
        doubled = doubled_forms(forms, forms.rows, scale)
        return FirstStream(block, doubled, finest_grid(block), not block[-1].any())
    dim = embedding.dim_in
    block = np.zeros((dim + 2, embedding.dim_out))
    doubled = np.zeros((2 * dim + 3, embedding.dim_out))
    block[:dim], block[dim] = embedding.weight, embedding.bias
    doubled[: dim + 1] = block[: dim + 1]
    return FirstStream(block, doubled, finest_grid(block), True)


@cache
def _identity_stream(dim: int) -> FirstStream:
    return FirstStream(np.eye(dim + 2, dim), np.eye(2 * dim + 3, dim), 0, True)


def round_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Round rows of exact forms to a block `(dim + 2, n)`, with radii."""
    up, down = scale_ratio(forms)
    block = np.zeros((forms.matrix.ncols() + 1, len(rows)))
    for i, row in enumerate(rows):
        check_time()
        quotients = [enclosed_quotient(x * up, down) for x in row]
        block[:-1, i] = [value for value, _ in quotients]
        slopes = max(error for _, error in quotients[:-1])
        block[-1, i] = max(scale * slopes, quotients[-1][1])
    return block


def doubled_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Round rows of exact forms to a block `(2 dim + 3, n)` with two floats for each number."""
    up, down = scale_ratio(forms)
    n_columns = forms.matrix.ncols()
    block = np.zeros((2 * n_columns + 1, len(rows)))
    for i, row in enumerate(rows):
        check_time()
        radius = 0.0
        for k, x in enumerate(row):
            high = enclosed_quotient(x * up, down)[0]
            p, q = high.as_integer_ratio()
            low, error = enclosed_quotient(int(x) * up * q - p * down, down * q)
            block[[k, n_columns + k], i] = high, low
            radius = max(radius, error * (scale if k < n_columns - 1 else 1.0))
        block[-1, i] = radius
    return block


def scale_ratio(forms: RationalForms) -> tuple[int, int]:
    """Return the scale of exact forms as a quotient of integers."""
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    return 1 << up, forms.denominator << down


def finest_grid(floats: FloatArray) -> int:
    """Return the exponent of a grid that contains all coefficients of a block."""
    finite = np.where(np.isfinite(floats[:-1]), floats[:-1], 0.0)
    return min(int(lowest_bits(finite).min(initial=2000)), 2000)
