r"""The sensitivity of outputs to small changes of a hidden layer, for all inputs.

Let layer $l$ add the error $\delta_l$ to its state. Then the output has the error
$\sum_l \langle v_l, \delta_l\rangle$, where $v_l = w M_L \cdots M_{l+1}$ and the rows of each $M$
lie in the hulls of `slope_ranges`. The rows are not known, so $v_l$ ranges over a set. This set is
bounded in two ways, from the output backwards:

- by an interval for each entry, which is sharp close to the output;
- by a quadratic form, $\langle v_l, \delta\rangle^2 \le \delta^\top Q_l \delta$.

**Lemma.** Let $\langle v, y\rangle^2 \le y^\top Q y$, and $y = \bar A\delta + q$ with $q_i^2 \le
\sum_{r \in R_i} \langle d_r, \delta\rangle^2$, where $q_i = 0$ for units without deviations. Let
$T$ be diagonal with $T \succ Q_{uu}$ on the units $u$ with deviations. Then
$\langle v, y\rangle^2 \le \delta^\top Q' \delta$ for

$$Q' = \bar A^\top \big(Q + Q_{\cdot u} (T - Q_{uu})^{-1} Q_{u \cdot}\big) \bar A
  + \sum_i T_i \sum_{r \in R_i} d_r d_r^\top.$$

*Proof.* $\delta^\top Q' \delta \ge \delta^\top Q' \delta - \sum_i T_i (\sum_r \langle d_r,
\delta\rangle^2 - q_i^2) = y^\top Q y + |(T - Q_{uu})^{1/2} q - (T - Q_{uu})^{-1/2} Q_{u\cdot}
\bar A\delta|^2$. $\square$

This is the bound of semidefinite programming for Lipschitz constants [FRHMP19], with the
multipliers $T = 1.4\,\theta\,\mathrm{diag}(Q)$ instead of the optimal ones. Here $\theta$ is the
largest eigenvalue of $Q$ scaled to ones on its diagonal. Where units are linear, signs are kept.
Where units switch, a layer of $n$ units with Gaussian weights of variance $2/n$ increases the bound
by a factor of about 2, compared with $0.8\sqrt{2n}$ for sums of absolute values and 2.8 for norms
of matrices.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers._bounds.slope_ranges import SlopeRanges
from hardmax.constructions.compilers._bounds.spectral_bounds import (
    bound_inverse,
    bound_largest_eigenvalue,
)
from hardmax.exact.rounding import SMALL_RAISE, UNIT_ROUNDOFF, rounding_factor
from hardmax.typing import FloatArray

_MULTIPLIER = 1.4


@dataclass(frozen=True, eq=False)
class Sensitivity:
    r"""Bounds on the vector $v$ of one layer, for one output or for several at once.

    Attributes:
        low, high: Bounds on the entries of $v$, shape `(n_outputs, n_units)`.
        scales: The numbers $\sqrt{Q_{ii}}$, rounded up, shape `(n_units,)`.
        shape: The numbers $Q_{ij} / \sqrt{Q_{ii} Q_{jj}}$, shape `(n_units, n_units)`.
        spread: A number $\theta$ with $Q \preceq \theta\,\mathrm{diag}(Q)$.
    """

    low: FloatArray
    high: FloatArray
    scales: FloatArray
    shape: FloatArray
    spread: float

    def bound_products(self, below: FloatArray, above: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Bound $\langle v, \delta\rangle$ for all $-below \le \delta \le above$.

        Args:
            below: Nonnegative numbers, shape `(n_units,)`.
            above: Nonnegative numbers, shape `(n_units,)`.

        Returns:
            Bounds on the negative and on the positive part for each output, both of shape
            `(n_outputs,)`.
        """
        kappa = 1.0 + rounding_factor(len(below) + 8)
        up = np.maximum(self.high * above, -self.low * below).sum(axis=1) * kappa
        down = np.maximum(self.high * below, -self.low * above).sum(axis=1) * kappa
        errors = np.maximum(below, above)
        parts = np.where(errors > 0.0, self.scales * errors, 0.0)
        largest = float(parts.max(initial=0.0))
        norm = 0.0
        if largest > 0.0:
            squares = ((parts / largest) ** 2).sum()
            norm = largest * np.sqrt(self.spread * squares) * kappa * SMALL_RAISE
        norm = np.inf if np.isnan(norm) else float(norm)
        return _smaller_bound(down, norm), _smaller_bound(up, norm)


def last_sensitivity(weight: FloatArray) -> Sensitivity:
    """Return the sensitivity of outputs to the last hidden layer.

    Args:
        weight: The columns of the last layer for these outputs, shape `(n_units, n_outputs)`.
    """
    rows = np.array(weight.T)
    largest = np.abs(weight).max(axis=1)
    scaled = weight / np.where(largest > 0.0, largest, 1.0)[:, None]
    form = scaled @ scaled.T
    error = (weight.shape[1] + 16.0) * UNIT_ROUNDOFF * float((scaled**2).sum())
    return _normalize(rows, rows, largest, form, error)


def sensitivity_before(after: Sensitivity, ranges: SlopeRanges) -> Sensitivity:
    """Propagate a sensitivity backwards through a layer."""
    n_units = len(ranges.means)
    low, high = _bound_entries(after, ranges)
    moving = np.unique(ranges.owner)
    part = after.shape[np.ix_(moving, moving)]
    theta = after.spread if len(moving) == n_units else bound_largest_eigenvalue(part)
    multiplier = _MULTIPLIER * theta
    inner = after.shape
    error = 0.0
    if len(moving) and theta > 0.0 and np.isfinite(theta):
        # The term added to the diagonal more than covers the rounding of the divisions.
        divided = part / multiplier + 4.0 * n_units * UNIT_ROUNDOFF * np.eye(len(moving))
        inverse = bound_inverse(divided, 1.0 / _MULTIPLIER + 2.0**-30)
        rows = after.shape[moving]
        inner = inner + rows.T @ inverse @ rows / multiplier
        sizes = float((rows**2).sum()) * float(np.linalg.norm(inverse)) / multiplier
        error = (2.0 * n_units + 32.0) * UNIT_ROUNDOFF * (sizes + n_units)
        inner = inner + error * np.eye(n_units)
    # Scale columns to entries of at most 1, so that squares neither overflow nor vanish.
    columns = (after.scales[:, None] * ranges.sizes).max(axis=0)
    unit = np.where(columns > 0.0, columns, 1.0)
    means = after.scales[:, None] * ranges.means / unit
    sizes_in = after.scales[:, None] * ranges.sizes / unit
    deviations = after.scales[ranges.owner, None] * ranges.deviations / unit
    form = means.T @ inner @ means + multiplier * (deviations.T @ deviations)
    weight = float(np.linalg.norm(inner)) + 2.0 * multiplier
    lengths = float((sizes_in**2).sum())
    error = (2.0 * n_units + len(deviations) + 64.0) * UNIT_ROUNDOFF * lengths * weight
    return _normalize(low, high, columns, form, error * SMALL_RAISE)


def _bound_entries(after: Sensitivity, ranges: SlopeRanges) -> tuple[FloatArray, FloatArray]:
    """Bound the entries by products of intervals, summed over the units and rounded outward."""
    ends = [(c, s) for c in (after.low, after.high) for s in (ranges.low, ranges.high)]
    if ranges.owner.size == 0:
        ends = ends[::2]
    low, high = (np.empty((len(after.low), ranges.means.shape[1])) for _ in range(2))
    kappa = rounding_factor(len(ranges.means) + 8)
    for row in range(len(low)):
        products = [c[row][:, None] * s for c, s in ends]
        least, most = np.minimum.reduce(products), np.maximum.reduce(products)
        slack = kappa * np.maximum(np.abs(least), np.abs(most)).sum(axis=0)
        low[row], high[row] = least.sum(axis=0) - slack, most.sum(axis=0) + slack
    return low, high


def _normalize(
    low: FloatArray, high: FloatArray, columns: FloatArray, form: FloatArray, error: float
) -> Sensitivity:
    """Write a form as scales and a matrix with unit diagonal, and tighten the bounds on entries."""
    n = len(columns)
    form = 0.5 * (form + form.T)
    # Relative to the largest column, underflow errors are far below the added constant.
    diagonal = np.diagonal(form) + (error + 2.0**-400)
    roots = np.sqrt(np.where(diagonal > 0.0, diagonal, np.inf))
    shape = form / roots / roots[:, None]
    shape[np.diag_indices(n)] = 1.0 + 8.0 * n * UNIT_ROUNDOFF
    scales = columns * roots * SMALL_RAISE
    if not (np.isfinite(shape).all() and np.isfinite(scales).all()):
        scales, shape = np.full(n, np.inf), np.eye(n)
    scales = np.where(columns > 0.0, scales, 0.0)
    limit = np.sqrt(1.0 + 8.0 * n * UNIT_ROUNDOFF) * scales * SMALL_RAISE
    return Sensitivity(
        np.maximum(_replace_nan(low, -np.inf), -limit),
        np.minimum(_replace_nan(high, np.inf), limit),
        scales,
        shape,
        bound_largest_eigenvalue(shape),
    )


def _replace_nan(values: FloatArray, otherwise: float) -> FloatArray:
    return np.where(np.isnan(values), otherwise, values)


def _smaller_bound(values: FloatArray, norm: float) -> FloatArray:
    return np.maximum(np.minimum(_replace_nan(values, np.inf), norm), 0.0)
