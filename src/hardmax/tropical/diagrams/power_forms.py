r"""The exact affine forms of a power diagram: conversion, composition and evaluation.

A form is a row $(a_j, c_j)$ of integers on one common scale. `power_diagrams` stores these rows,
and derives sites and weights from them.
"""

from fractions import Fraction

import numpy as np
from flint import fmpz_mat

from hardmax.exact.dyadic import ScaledIntegers, round_scaled_integers, scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.exact.rounding import FEW_UNDERFLOWS, rounding_factor
from hardmax.exact.winners import Winners, winners
from hardmax.tropical.coefficients import align, reduce_twos
from hardmax.tropical.winning_terms import winning_terms
from hardmax.typing import FloatArray, WideArray

BLOCK = 2**18
"""The maximum number of scores held in memory at once."""


def forms_of_sites(sites: FloatArray, weights: FloatArray) -> ScaledIntegers:
    r"""Return the rows $(s_j,\ \tfrac12 (w_j - \|s_j\|^2))$, shape `(n_sites, dim + 1)`.

    Examples:
        >>> forms = forms_of_sites(np.array([[3.0, 1.0]]), np.array([4.0]))
        >>> forms.integers.tolist(), forms.exponent
        ([[3, 1, -3]], 0)
    """
    site = scaled_integers(sites)
    norms = ScaledIntegers(-(site.integers**2).sum(axis=1), 2 * site.exponent)
    (powers, squares), exponent = align((scaled_integers(weights), norms))
    halves = ScaledIntegers((powers + squares)[:, None], exponent - 1)
    columns, exponent = align((site, halves))
    return reduce_twos(np.concatenate(columns, axis=1), exponent)


def weights_of_forms(forms: ScaledIntegers) -> ScaledIntegers:
    r"""Return the weights $\|a_j\|^2 + 2 c_j$ of the sites $a_j$, shape `(n_sites,)`."""
    slopes, offsets = forms.integers[:, :-1], forms.integers[:, -1]
    norms = ScaledIntegers((slopes**2).sum(axis=1), 2 * forms.exponent)
    (squares, doubled), exponent = align((norms, ScaledIntegers(offsets, forms.exponent + 1)))
    return ScaledIntegers(squares + doubled, exponent)


def compose(forms: ScaledIntegers, weight: FloatArray, bias: FloatArray) -> ScaledIntegers:
    r"""Return the forms $x \mapsto \langle a_j, x W + b\rangle + c_j$.

    Args:
        forms: The vectors $(a_j, c_j)$, shape `(n_forms, dim + 1)`.
        weight: The matrix $W$, shape `(dim_in, dim)`.
        bias: The vector $b$, shape `(dim,)`.
    """
    homogeneous = np.zeros((weight.shape[1] + 1, weight.shape[0] + 1))
    homogeneous[:-1] = np.column_stack([weight.T, bias])
    homogeneous[-1, -1] = 1.0
    scaled = scaled_integers(homogeneous)
    return reduce_twos(forms.integers @ scaled.integers, forms.exponent + scaled.exponent)


def largest_forms(forms: ScaledIntegers, points: FloatArray) -> Winners:
    r"""Find exactly the first largest form at each point, and the number of largest forms.

    Args:
        forms: The vectors $(a_j, c_j)$, shape `(n_forms, dim + 1)`.
        points: The finite points, shape `(n_points, dim)`.
    """
    rows, fits = round_scaled_integers(forms)
    if fits:
        return winners(AffineForms(rows[:, :-1], rows[:, -1]), points)
    form = np.empty(len(points), dtype=np.int64)
    n_tied = np.ones(len(points), dtype=np.int64)
    step = max(1, BLOCK // len(rows))
    for start in range(0, len(points), step):
        block = slice(start, start + step)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            scores, radius = rounded_scores(rows, points[block])
            best = scores.argmax(axis=1)
            threshold = scores[np.arange(len(scores)), best] - 2 * radius
            close = (scores >= threshold[:, None]).sum(axis=1)
        form[block] = best
        unclear = start + np.flatnonzero((close != 1) | ~np.isfinite(threshold))
        mask = winning_terms(forms, points[unclear])
        form[unclear] = mask.argmax(axis=1)
        n_tied[unclear] = mask.sum(axis=1)
    return Winners(form, n_tied)


def rounded_scores(rows: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Evaluate rounded forms at points, and return twice an error bound for each point.

    With $M = \sum_k |x_k| \max_j |a_{jk}| + \max_j |c_j|$, rounding the coefficients and the dot
    products changes each score at $x$ by at most $\gamma_{d+3} M + 2^{-1074} (\|x\|_1 + d + 1)$.
    The factor 2 covers the rounding of the bound and of a comparison that uses it.

    Args:
        rows: The vectors $(a_j, c_j)$ rounded to the nearest float64, shape `(n_forms, dim + 1)`.
        points: The points, shape `(n_points, dim)`.

    Returns:
        The scores, shape `(n_points, n_forms)`, and the radii, shape `(n_points,)`. A radius is
        infinite or NaN if an intermediate result overflowed.
    """
    dim = points.shape[1]
    sizes = np.abs(points) @ np.abs(rows[:, :-1]).max(axis=0) + np.abs(rows[:, -1]).max()
    radius = rounding_factor(dim) * sizes
    radius += FEW_UNDERFLOWS * (np.abs(points).sum(axis=1) + dim + 1)
    return points @ rows[:, :-1].T + rows[:, -1], radius


def difference_rank(rows: WideArray) -> int:
    r"""Return the dimension of the affine hull of the slopes $a_j$ of integer rows $(a_j, c_j)$."""
    differences = rows[1:, :-1] - rows[0, :-1]
    return int(fmpz_mat(differences.tolist()).rank()) if differences.size else 0


def find_common_tie(rows: WideArray) -> WideArray | None:
    r"""Find a point where all forms $(a_j, c_j)$ tie, as fractions, or return `None`.

    Examples:
        >>> find_common_tie(np.array([[0, 0], [2, -3]], dtype=object)).tolist()
        [Fraction(3, 2)]
        >>> find_common_tie(np.array([[0, 0], [1, 0], [2, 1]], dtype=object)) is None
        True
    """
    dim = rows.shape[1] - 1
    point = np.full(dim, Fraction(0), dtype=object)
    differences = rows[1:] - rows[0]
    if not differences.size:
        return point
    echelon, denominator, rank = fmpz_mat(differences.tolist()).rref()
    for i in range(rank):
        pivot = next(c for c in range(dim + 1) if echelon[i, c] != 0)
        if pivot == dim:
            return None
        # The free coordinates are 0. The equation is <a_j - a_0, x> = -(c_j - c_0).
        point[pivot] = Fraction(-int(echelon[i, dim]), int(denominator))
    return point
