r"""Scores of a head: affine in the input, computed in floats where those decide, else exactly.

A score is $s_j(x) = \langle x W_Q + b_Q, k_j \rangle + \beta_j$. Its slopes $W_Q k_j$ are in
general not float64 numbers, so rounded slopes are never used. Floats carry a proven error radius;
where the radius leaves a question open, the same product is computed in integers (`exact`). `heads`
and the variants of attention are built on this module.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from flint import fmpz_mat

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import (
    ScaledIntegers,
    integer_matrix,
    matrix_integers,
    nearest_quotients,
    scaled_integers,
)
from hardmax.exact.rounding import EXP_UNDERFLOWS_BELOW, UNDERFLOW_ALLOWANCE, rounding_factor
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.exact.exact_forms import ExactForms

_ENTRIES_AT_ONCE = 1 << 21
_LARGEST_TRUSTED_SIZE = 2.0**13
"""The largest terms of a score, relative to the temperature, for which floats are used."""


class LogWeights(NamedTuple):
    r"""Logarithms of unnormalised attention weights.

    Attributes:
        logs: The $(s_j - s_{\max}) / \tau$, shape `(n_points, n_keys)`, with maximum 0 in each row.
        largest: The $s_{\max}$, rounded, shape `(n_points,)`.
        errors: A bound on the error of the entries of each row of `logs` that are above -746, shape
            `(n_points,)`. Smaller entries stand for weights that underflow.

    Examples:
        >>> scores = ScoreMap(np.eye(1), np.zeros(1), np.array([[-1.0], [1.0]]), np.zeros(2))
        >>> scores.log_weights(np.array([[2.0]]), 1.0).logs.tolist()
        [[-4.0, 0.0]]
    """

    logs: FloatArray
    largest: FloatArray
    errors: FloatArray

    def __repr__(self) -> str:
        return short_repr(self)


class ScaledScores(NamedTuple):
    r"""Scores $s_j / u$ and gaps $(s_j - s_{\max}) / u$, both rounded, shape `(n_points, n_keys)`.

    Examples:
        >>> scores = ScoreMap(np.eye(1), np.zeros(1), np.array([[-1.0], [1.0]]), np.zeros(2))
        >>> scores.scaled(np.array([[2.0]]), 1.0, 1e-9).gaps.tolist()
        [[-4.0, 0.0]]
    """

    scores: FloatArray
    gaps: FloatArray

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, eq=False)
class ScoreMap:
    r"""The scores $x \mapsto \langle x W_Q + b_Q, k_j\rangle + \beta_j$ of unmasked keys.

    In homogeneous form $s(x) = (x, 1)\, \hat W \hat K^\top$ with
    $\hat W = \begin{pmatrix} W_Q & 0 \\ b_Q & 1 \end{pmatrix}$ and $\hat K = (K, \beta)$. The
    arrays are finite and have consistent shapes; the caller has checked them.

    Attributes:
        query_weight: The $W_Q$, shape `(dim, d_k)`.
        query_bias: The $b_Q$, shape `(d_k,)`.
        keys: The $k_j$, shape `(n_keys, d_k)`.
        logit_bias: The $\beta_j$, shape `(n_keys,)`.

    Examples:
        >>> scores = ScoreMap(np.eye(1), np.zeros(1), np.array([[-1.0], [1.0]]), np.zeros(2))
        >>> scores.tied_winners(np.array([[-2.0], [0.0]])).tolist()
        [[True, False], [True, True]]
    """

    query_weight: FloatArray
    query_bias: FloatArray
    keys: FloatArray
    logit_bias: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_keys(self) -> int:
        """The number of unmasked keys."""
        return int(self.keys.shape[0])

    @property
    def weight_error(self) -> float:
        r"""The accepted error $\kappa\,2^{13}$ of a logarithmic weight that does not underflow.

        It is about $10^{-11}$ in small dimensions and $10^{-9}$ in dimension 768. It grows with the
        dimensions like the proven bound; the actual rounding errors hardly grow.
        """
        return rounding_factor(sum(self.query_weight.shape) + 4) * _LARGEST_TRUSTED_SIZE

    @cached_property
    def forms(self) -> "ExactForms":
        r"""The exact forms $(a_j, c_j)$ of the scores, one per key, on the space of $x$."""
        from hardmax.exact.exact_forms import ExactForms

        weight, weight_exponent = self._integer_weight
        keys, keys_exponent = self._integer_keys
        return ExactForms((weight * keys).transpose(), weight_exponent + keys_exponent)

    @cached_property
    def first_equal(self) -> IntArray:
        """For each key, the first key with the same form as a function of x, shape `(n_keys,)`."""
        return self.forms.first_coinciding()

    def enclose(self, points: FloatArray) -> Enclosed:
        r"""Evaluate the scores in floats, each with a radius that covers all rounding errors.

        By Lemma 1 of `exact.rounding`, the query is within $\gamma_{d+1}(|x||W_Q| + |b_Q|) + d\eta$
        of the true query, and its score is within $\gamma_{d_k+1}$ times the sum of the absolute
        terms. With $S = (|x||W_Q| + |b_Q|)|K|^\top + |\beta|$, both errors together are at most
        $\gamma_{d+d_k+4}\, S$ plus underflows, of which those in the query are multiplied by
        $\sum_i |k_{ji}|$. The radius is $\kappa_{d+d_k+4} S + T (1 + \sum_i |k_{ji}|)$ as in Lemma
        2, whose slack covers the rounding of the radius itself and of one sum or difference with
        it.
        """
        dim, d_k = self.query_weight.shape
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            values = (points @ self.query_weight + self.query_bias) @ self.keys.T + self.logit_bias
            size = np.abs(points) @ np.abs(self.query_weight) + np.abs(self.query_bias)
            size = size @ np.abs(self.keys).T + np.abs(self.logit_bias)
            underflow = UNDERFLOW_ALLOWANCE * (1.0 + np.abs(self.keys).sum(axis=1))
            radii = rounding_factor(dim + d_k + 4) * size + underflow
        radii[~(np.isfinite(values) & np.isfinite(radii))] = np.inf
        return Enclosed(values, radii)

    def exact(self, points: FloatArray) -> ScaledIntegers:
        """Evaluate the scores exactly: integers `(n_points, n_keys)` times a power of two."""
        if not len(points):
            return ScaledIntegers(np.empty((0, self.n_keys), dtype=object), 0)
        homogeneous = np.column_stack([points, np.ones(len(points))])
        inputs, inputs_exponent = integer_matrix(homogeneous)
        weight, weight_exponent = self._integer_weight
        keys, keys_exponent = self._integer_keys
        product = inputs * weight * keys
        return matrix_integers(product, inputs_exponent + weight_exponent + keys_exponent)

    def tied_winners(self, points: FloatArray) -> BoolArray:
        """Return the mask of the keys with the largest exact score, shape `(n_points, n_keys)`."""
        distinct, copy_of = self._distinct_scores
        tied = np.empty((len(points), self.n_keys), dtype=bool)
        for chunk in self._iter_chunks(len(points)):
            tied[chunk] = distinct._mark_tied_winners(points[chunk])[:, copy_of]
        return tied

    def log_weights(self, points: FloatArray, tau: float) -> LogWeights:
        r"""Compute $(s_j - s_{\max})/\tau$ for any $\tau > 0$.

        Rounded scores are used if their radius is below `weight_error` times $\tau$ for every key
        whose weight does not underflow. Otherwise the differences and the quotient are computed in
        integers and rounded once, so no accuracy is lost as $\tau \to 0$.
        """
        shape = len(points), self.n_keys
        result = LogWeights(np.empty(shape), np.empty(len(points)), np.empty(len(points)))
        for chunk in self._iter_chunks(len(points)):
            for whole, part in zip(
                result, self._compute_log_weights(points[chunk], tau), strict=True
            ):
                whole[chunk] = part
        return result

    def scaled(self, points: FloatArray, unit: float, error: float) -> ScaledScores:
        """Compute scores and gaps divided by a positive `unit`, rounded.

        Floats are used if their radius is at most `error`. Otherwise scores and gaps are computed
        in integers and rounded once.
        """
        values, radii = self.enclose(points)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gaps = (values - values.max(axis=1, keepdims=True)) / unit
            scores = values / unit
        open_ = np.flatnonzero((radii > error).any(axis=1))
        if len(open_):
            exact = self.exact(points[open_])
            below = exact.integers - exact.integers.max(axis=1, keepdims=True)
            scores[open_] = round_quotients(exact.integers, exact.exponent, unit)
            gaps[open_] = round_quotients(below, exact.exponent, unit)
        return ScaledScores(scores, gaps)

    def largest(self, points: FloatArray) -> FloatArray:
        """Compute the largest score at every point, rounded: shape `(n_points,)`."""
        largest = np.empty(len(points))
        for chunk in self._iter_chunks(len(points)):
            values, radii = self.enclose(points[chunk])
            largest[chunk] = values.max(axis=1)
            lost = np.flatnonzero(~np.isfinite(radii).all(axis=1))
            scores = self.exact(points[chunk][lost])
            largest[chunk][lost] = round_quotients(
                scores.integers.max(axis=1), scores.exponent, 1.0
            )
        return largest

    @cached_property
    def _distinct_scores(self) -> "tuple[ScoreMap, IntArray]":
        """The scores of the distinct keys, and the index of each key among them."""
        rows = np.column_stack([self.keys, self.logit_bias]) + 0.0  # No negative zeros.
        unique, copy_of = np.unique(rows, axis=0, return_inverse=True)
        if len(unique) == self.n_keys:
            return self, np.arange(self.n_keys)
        single = ScoreMap(self.query_weight, self.query_bias, unique[:, :-1], unique[:, -1])
        return single, copy_of.ravel()

    @cached_property
    def _integer_weight(self) -> tuple[fmpz_mat, int]:
        dim, d_k = self.query_weight.shape
        homogeneous = np.zeros((dim + 1, d_k + 1))
        homogeneous[:dim, :d_k] = self.query_weight
        homogeneous[dim, :d_k] = self.query_bias
        homogeneous[dim, d_k] = 1.0
        return integer_matrix(homogeneous)

    @cached_property
    def _integer_keys(self) -> tuple[fmpz_mat, int]:
        return integer_matrix(np.vstack([self.keys.T, self.logit_bias]))

    def _iter_chunks(self, n_points: int) -> Iterator[slice]:
        step = max(1, _ENTRIES_AT_ONCE // self.n_keys)
        return (slice(start, start + step) for start in range(0, n_points, step))

    def _mark_tied_winners(self, points: FloatArray) -> BoolArray:
        values, radii = self.enclose(points)
        with np.errstate(over="ignore", invalid="ignore"):
            surely = np.max(values - radii, axis=1, keepdims=True)
            tied: BoolArray = values + radii >= surely
        settled = np.isfinite(radii).all(axis=1) & (tied.sum(axis=1) == 1)
        open_ = np.flatnonzero(~settled)
        scores = self.exact(points[open_]).integers
        if len(open_):
            tied[open_] = scores == scores.max(axis=1, keepdims=True)
        return tied

    def _compute_log_weights(self, points: FloatArray, tau: float) -> LogWeights:
        values, radii = self.enclose(points)
        rows = np.arange(len(points))
        top = values.argmax(axis=1)
        largest = values[rows, top]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gaps = values - largest[:, None]
            spread = radii + radii[rows, top][:, None]
            logs = gaps / tau
            matters = (gaps + spread) / tau >= EXP_UNDERFLOWS_BELOW
            error = np.where(matters, spread / tau, 0.0).max(axis=1)
        # Add the rounding errors of the gap and of the quotient, both at most 746 in size.
        error = error + 746 * 2.0**-51
        known = np.isfinite(radii).all(axis=1)
        error[known & (matters.sum(axis=1) == 1)] = 0.0
        open_ = np.flatnonzero(~known | (error > self.weight_error))
        if len(open_):
            scores = self.exact(points[open_])
            best = scores.integers.max(axis=1)
            gaps_exact = scores.integers - best[:, None]
            logs[open_] = round_quotients(gaps_exact, scores.exponent, tau)
            largest[open_] = round_quotients(best, scores.exponent, 1.0)
            error[open_] = 746 * 2.0**-52
        return LogWeights(logs, largest, error)


def round_quotients(integers: WideArray, exponent: int, divisor: float) -> FloatArray:
    """Return integers times 2**exponent over a positive float, each rounded once.

    Examples:
        >>> round_quotients(np.array([3, -(2**2000)], dtype=object), -1, 3.0).tolist()
        [0.5, -inf]
    """
    scaled = scaled_integers(np.array([divisor]))
    shift = exponent - scaled.exponent
    factor = 1 << max(shift, 0)
    denominator = int(scaled.integers[0]) << max(-shift, 0)
    return nearest_quotients(integers * factor, denominator)
