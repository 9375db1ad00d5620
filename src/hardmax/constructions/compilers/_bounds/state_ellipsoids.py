r"""Ellipsoids that contain every state that a network, or its transformer, can reach.

Separate intervals for the units ignore that units move together, and their widths grow with the
sums of absolute weights. Therefore the state is also enclosed in an ellipsoid
$\{c + L\xi : |\xi| \le 1\}$ around the network's state at the centre of the box.

**Lemma.** Let $y = F\xi + q$ with $|\xi| \le 1$ and $q_i^2 \le \sum_{r \in R_i} \langle C_r,
\xi\rangle^2$, and let $g_i > 0$ with $S = \sum_i \sum_{r \in R_i} C_r^\top C_r / g_i \prec I$. Then
$y$ lies in the ellipsoid of the matrix $F (I - S)^{-1} F^\top + \mathrm{diag}(g)$.

*Proof.* For any $w$, $\langle w, y\rangle = \langle (I-S)^{-1/2} F^\top w, (I-S)^{1/2}\xi\rangle +
\langle g^{1/2} w, g^{-1/2} q\rangle$, whose square is at most $w^\top (F (I-S)^{-1} F^\top +
\mathrm{diag}(g)) w$ times $|\xi|^2 - \xi^\top S \xi + \sum q_i^2 / g_i \le 1$. $\square$

Here $L$ belongs to the ellipsoid before the layer, $F = \bar A L$, and $C_r = d_r L$ with the rows
of `slope_ranges`. For units with two pieces, more is known. Their maximum is their mean plus $|t|$,
where $t$ is half their difference. It is $t_0$ at the centre and stays within $\rho$ of $t_0$, so
between the centre and any other point $|t|$ changes with a slope between $2|t_0|/\rho - 1$ and 1
times the sign of $t_0$. Hence the row of the mean moves towards the piece that wins at the centre,
and the deviation shrinks by the factor $1 - |t_0|/\rho$.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers._bounds.slope_ranges import SlopeRanges
from hardmax.constructions.compilers._bounds.spectral_bounds import (
    bound_inverse,
    bound_largest_eigenvalue,
)
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.exact.rounding import (
    SMALL_RAISE,
    SQUARES_UNDERFLOW_BELOW,
    UNDERFLOW_ALLOWANCE,
    UNIT_ROUNDOFF,
    rounding_factor,
)
from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, IntArray

_MULTIPLIER = 1.4
_LEAST_SHARE = 2.0**-24


@dataclass(frozen=True, eq=False)
class StateEllipsoid:
    r"""The states $c + \mathrm{diag}(p) K \xi$ with $|\xi| \le 1$.

    Attributes:
        centre: The vector $c$, shape `(n,)`.
        scales: The vector $p \ge 0$, shape `(n,)`; infinite where nothing is known.
        root: The matrix $K$, shape `(n, n)`.
        spread: An upper bound on the largest eigenvalue of $K K^\top$.
    """

    centre: FloatArray
    scales: FloatArray
    root: FloatArray
    spread: float

    @classmethod
    def around(cls, box: Box) -> "StateEllipsoid":
        """Return the smallest ellipsoid around a box, with the same ratio of axes."""
        centre = 0.5 * box.low + 0.5 * box.high
        halves = np.maximum(box.high - centre, centre - box.low) * SMALL_RAISE
        n = len(centre)
        return cls(centre, np.sqrt(n) * halves * SMALL_RAISE, np.eye(n), 1.0)

    @classmethod
    def everything(cls, centre: FloatArray) -> "StateEllipsoid":
        """Return an ellipsoid that contains every state."""
        n = len(centre)
        return cls(np.nan_to_num(centre), np.full(n, np.inf), np.eye(n), 1.0)

    def radii(self, rows: FloatArray) -> FloatArray:
        """Bound how far linear functions deviate from their values at the centre: `(n_rows,)`."""
        return self.images(rows)[1]

    def images(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return rows times $\mathrm{diag}(p) K$, rounded, and bounds on their exact lengths."""
        weighted = rows * self.scales
        weighted[rows == 0.0] = 0.0
        largest = np.abs(weighted).max(axis=1, initial=0.0)
        unit = np.where(largest > 0.0, largest, 1.0)
        weighted = weighted / unit[:, None]
        turned = weighted @ self.root
        # The rows of the root have length 1, up to rounding.
        slack = rounding_factor(rows.shape[1] + 8) * 2.0 * np.abs(weighted).sum(axis=1)
        lengths = np.sqrt((turned**2).sum(axis=1)) * SMALL_RAISE + slack
        return turned * unit[:, None], _nan_to_infinity(lengths * largest * SMALL_RAISE)

    def moduli(self, rows: FloatArray) -> FloatArray:
        r"""Bound $\sum_j |a_j| |h_j - c_j|$ over the states for the rows $a$, shape `(n_rows,)`."""
        weighted = np.abs(rows) * self.scales
        weighted[rows == 0.0] = 0.0
        largest = weighted.max(axis=1, initial=0.0)
        unit = np.where(largest > 0.0, largest, 1.0)[:, None]
        lengths = np.sqrt(self.spread * ((weighted / unit) ** 2).sum(axis=1)) * largest
        return _nan_to_infinity(lengths * SMALL_RAISE)


def ellipsoid_after(
    before: StateEllipsoid, layer: PieceLayer, ranges: SlopeRanges, errors: FloatArray
) -> StateEllipsoid:
    """Propagate an ellipsoid through a layer.

    Args:
        before: The states before the layer.
        layer: The layer.
        ranges: The slopes of the layer that can occur on these states.
        errors: For each unit, a bound on the error that the layer adds, shape `(n_units,)`.
    """
    n_in = ranges.means.shape[1]
    values = layer.slopes @ before.centre + layer.offsets
    scale = np.abs(layer.slopes) @ np.abs(before.centre) + np.abs(layer.offsets)
    rounding = rounding_factor(n_in + 8) * scale * SMALL_RAISE + UNDERFLOW_ALLOWANCE
    centre = np.maximum.reduceat(values, layer.starts)
    # The slopes, the products with the root and the centre are rounded; each adds a small box.
    box = errors + np.maximum.reduceat(rounding, layer.starts)
    box = box + 4.0 * rounding_factor(n_in + 16) * (_weighted_sums(ranges.sizes, before.scales))
    turned, lengths = before.images(ranges.deviations)
    means, _ = before.images(ranges.means)
    factors = np.ones(len(ranges.deviations))
    for_pairs = slice(0, len(ranges.first))
    halves = 0.5 * values[ranges.first] - 0.5 * values[ranges.second]
    doubt = rounding[ranges.first] + rounding[ranges.second]
    known = np.maximum(np.abs(halves) * (2.0 - SMALL_RAISE) - doubt, 0.0)
    reach = np.where(lengths[for_pairs] > 0.0, lengths[for_pairs], 1.0)
    shift = np.minimum(known / reach, 1.0)
    factors[for_pairs] = np.where(shift < 1.0, (1.0 - shift) * SMALL_RAISE + 2.0**-50, 0.0)
    units = ranges.owner[for_pairs]
    means[units] += (np.sign(halves) * shift)[:, None] * turned[for_pairs]
    turned = turned * factors[:, None]
    return _enclose_sum(centre, means, turned, ranges.owner, box * SMALL_RAISE)


def _enclose_sum(
    centre: FloatArray, means: FloatArray, turned: FloatArray, owner: IntArray, box: FloatArray
) -> StateEllipsoid:
    """Enclose the sum of a box and the ellipsoid of the lemma."""
    n_units, n_in = means.shape
    squares = np.zeros(n_units)
    longest = np.maximum(np.abs(means).max(initial=0.0), np.abs(turned).max(initial=0.0))
    longest = float(max(longest, box.max(initial=0.0)))
    if not np.isfinite(longest):
        return StateEllipsoid.everything(centre)
    unit = longest if longest > 0.0 else 1.0
    # Squares below the smallest float vanish. The added constant covers them.
    means, turned, box = means / unit, turned / unit, box / unit + SQUARES_UNDERFLOW_BELOW
    np.add.at(squares, owner, (turned**2).sum(axis=1))
    squares = (squares + np.where(squares > 0.0, 2.0**-400, 0.0)) * SMALL_RAISE
    lengths = np.sqrt(squares)
    moving = lengths[owner] > 0.0
    rows = turned[moving] / lengths[owner[moving], None]
    gram = rows.T @ rows
    gram = 0.5 * (gram + gram.T)
    lost = (len(rows) + 16.0) * UNIT_ROUNDOFF * float((rows**2).sum())
    theta = (bound_largest_eigenvalue(gram) + lost) * SMALL_RAISE
    theta = min(theta, float(n_units)) if len(rows) else 1.0
    multiplier = _MULTIPLIER * theta
    top = 1.0 / _MULTIPLIER + 2.0**-30 + lost
    inverse = bound_inverse(gram / multiplier + lost * np.eye(n_in), top)
    form = means @ inverse @ means.T
    extra = multiplier * squares
    # The sum of the ellipsoids of A and B lies in the ellipsoid of A / (1 - share) + B / share.
    box_squares = n_units * box**2
    ours = np.sqrt(max(float(np.trace(form) + extra.sum()), 0.0))
    theirs = np.sqrt(float(box_squares.sum()))
    share = float(np.clip(theirs / (ours + theirs), _LEAST_SHARE, 0.5))
    form = form / (1.0 - share)
    extra = extra / (1.0 - share) + box_squares / share
    diagonal = np.maximum(np.diagonal(form), 0.0) + extra + 2.0**-400
    scales = np.sqrt(diagonal)
    shape = 0.5 * (form + form.T) / scales / scales[:, None]
    sizes = float(((means / scales[:, None]) ** 2).sum()) * float(np.linalg.norm(inverse))
    error = (2.0 * n_in + n_units + 64.0) * UNIT_ROUNDOFF * (2.0 * sizes + 4.0 * n_units)
    shape[np.diag_indices(n_units)] = 1.0 + 2.0 * error
    try:
        root = np.linalg.cholesky(shape)
    except np.linalg.LinAlgError:
        return StateEllipsoid.everything(centre)
    spread = bound_largest_eigenvalue(shape) + n_units * error
    scales = scales * unit * SMALL_RAISE
    if not (np.isfinite(root).all() and np.isfinite(scales).all() and np.isfinite(centre).all()):
        return StateEllipsoid.everything(centre)
    return StateEllipsoid(centre, scales, root, spread * SMALL_RAISE)


def _weighted_sums(sizes: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the sums of sizes times scales, where 0 times infinity is 0."""
    products = sizes * scales
    products[sizes == 0.0] = 0.0
    return np.asarray(products.sum(axis=1))


def _nan_to_infinity(values: FloatArray) -> FloatArray:
    return np.where(np.isnan(values), np.inf, values)
