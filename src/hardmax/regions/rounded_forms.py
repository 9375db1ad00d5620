"""Exact forms rounded to floats, with radii."""

from typing import Any

import numpy as np

from hardmax.algebra.exact.dyadic import lowest_bits
from hardmax.models.recomposition import RationalForms
from hardmax.regions.planar_domains import divided
from hardmax.typing import FloatArray


def rounded_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Return the block `(dim + 2, n)` of rows of exact forms, rounded, with radii."""
    up, down = unit(forms)
    block = np.zeros((forms.matrix.ncols() + 1, len(rows)))
    for i, row in enumerate(rows):
        quotients = [divided(x * up, down) for x in row]
        block[:-1, i] = [value for value, _ in quotients]
        slopes = max(error for _, error in quotients[:-1])
        block[-1, i] = max(scale * slopes, quotients[-1][1])
    return block


def doubled_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Return the block `(2 dim + 3, n)` of rows of exact forms, two floats for each number."""
    up, down = unit(forms)
    n_columns = forms.matrix.ncols()
    block = np.zeros((2 * n_columns + 1, len(rows)))
    for i, row in enumerate(rows):
        radius = 0.0
        for k, x in enumerate(row):
            high = divided(x * up, down)[0]
            p, q = high.as_integer_ratio()
            low, error = divided(int(x) * up * q - p * down, down * q)
            block[[k, n_columns + k], i] = high, low
            radius = max(radius, error * (scale if k < n_columns - 1 else 1.0))
        block[-1, i] = radius
    return block


def unit(forms: RationalForms) -> tuple[int, int]:
    """Return the scale of exact forms as a quotient of integers."""
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    return 1 << up, forms.denominator << down


def finest_grid(floats: FloatArray) -> int:
    """Return the exponent of a grid that holds all coefficients of a block."""
    finite = np.where(np.isfinite(floats[:-1]), floats[:-1], 0.0)
    return min(int(lowest_bits(finite).min(initial=2000)), 2000)
