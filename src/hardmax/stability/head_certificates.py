r"""Certified bounds for one head at given points: distance to the winning value, and Jacobian.

`attention_bounds` uses only a margin. This module uses the exact scores, and every number is an
enclosure rounded outward. With $p = \mathrm{softmax}(s(x)/\tau)$ and winner $i$,

$$z_\tau(x) - z_0(x) = \sum_{j} p_j (v_j - v_i) W_O, \qquad
  \partial_x z_\tau = \frac1\tau\Bigl[\sum_j p_j\, dv_j\, da_j^\top
  - \bigl(\sum_j p_j\,dv_j\bigr)\bigl(\sum_j p_j\,da_j\bigr)^\top\Bigr],$$

where $dv_j = (v_j - v_i)W_O$ and $da_j = W_Q(k_j - k_i)$. Both expressions are sums of terms of the
order of the rivals' weights, so no cancellation occurs. If several keys tie exactly, $v_i$ is the
mean of their values.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx, fmpz

from hardmax._ground.arguments import Sizes, number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import DtypeError
from hardmax.exact.ball_matrices import (
    ball_matrix,
    differences,
    largest,
    mean_row,
    norms,
    row_vector,
    rows_of,
    spectral_norm_bound,
)
from hardmax.exact.directed_rounding import PRECISION, norm_bound, round_down, round_up
from hardmax.models.heads import AttentionHead
from hardmax.models.points import PointBatch
from hardmax.stability.attention_bounds import moment_bound
from hardmax.typing import ArrayLike, FloatArray, IntArray

_MOST_PAIRWISE = 48
"""Maximum number of keys for exact diameters; for more keys, twice the maximum distance from the
winner is used instead."""


@dataclass(frozen=True, eq=False, repr=False)
class HeadCertificate:
    r"""Certified bounds for a soft head at given points.

    Attributes:
        tau: The temperature.
        winners: The winning key at each point, or the first of several tied keys; shape
            `(n_points,)`.
        margins: The margin by which the winner leads every key that is not a copy of it, rounded
            down. It is 0 on a wall, and `inf` if all keys are copies. Shape `(n_points,)`.
        rival_mass: A bound on the total weight of the keys below the largest score; shape
            `(n_points,)`.
        distance: A bound on $\|z_\tau(x) - z_0(x)\|_2$, computed from the scores; shape
            `(n_points,)`.
        jacobian: A bound on $\|\partial_x z_\tau\|_2$, computed from the scores. It is at most
            $\rho^{1/32}$ times the norm, where $\rho$ is the rank. Shape `(n_points,)`.
        distance_from_margin: The bound on the distance that follows from the margin and the spread
            of the values alone; shape `(n_points,)`.
        jacobian_from_margin: The bound on the Jacobian that follows from the margin and the spread
            of values and keys alone; shape `(n_points,)`.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = certify_head(sign, [[2.0], [0.0]], tau=0.5)
        >>> found.margins.tolist(), found.winners.tolist()
        ([4.0, 0.0], [1, 0])
    """

    tau: float
    winners: IntArray
    margins: FloatArray
    rival_mass: FloatArray
    distance: FloatArray
    jacobian: FloatArray
    distance_from_margin: FloatArray
    jacobian_from_margin: FloatArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        n = len(self.winners)
        return (
            f"HeadCertificate(tau={self.tau:g}, {n} point{'s' * (n != 1)}, "
            f"distance <= {self.distance.max(initial=0.0):.3g}, "
            f"jacobian <= {self.jacobian.max(initial=0.0):.3g})"
        )


def certify_head(head: AttentionHead, x: ArrayLike, tau: float) -> HeadCertificate:
    r"""Certify the distance of a soft head from the hard one, and the norm of its Jacobian.

    Args:
        head: The attention head.
        x: A point of shape `(dim,)`, or a batch of shape `(n_points, dim)`.
        tau: The temperature, above 0.

    Returns:
        The certificate. Its arrays have shape `(n_points,)`, or `(1,)` for a single point.

    Examples:
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> certificate = certify_head(sign, [[2.0], [0.0]], tau=0.5)
        >>> certificate.margins.tolist(), certificate.winners.tolist()
        ([4.0, 0.0], [1, 0])
        >>> certificate.distance - (1 - np.tanh(4.0)) < 1e-16
        array([ True,  True])
        >>> certificate.jacobian.round(6).tolist(), float(2 / np.cosh(4.0) ** 2).__round__(6)
        ([0.002682, 2.0], 0.002682)
    """
    if not isinstance(head, AttentionHead):
        raise DtypeError(f"`head` must be an AttentionHead; got {type(head).__name__}.")
    points = PointBatch.read("x", x, head.dim).rows
    temperature = number("tau", tau, above=0.0)
    with ctx.workprec(PRECISION):
        geometry = _Geometry(head)
        scores = head.score_map.exact(points)
        unit = arb(2) ** scores.exponent
        found = [
            _certify_point(geometry, row, unit, arb(temperature))
            for row in scores.integers.tolist()
        ]
    columns = np.array(found, dtype=np.float64).reshape(len(points), 7).T
    winners = head.unmasked[columns[0].astype(np.int64)]
    return HeadCertificate(temperature, winners, *map(read_only_copy, columns[1:]))


def certify_queries(
    keys: ArrayLike,
    values: ArrayLike,
    queries: ArrayLike,
    tau: float,
    logit_bias: ArrayLike | None = None,
) -> HeadCertificate:
    r"""Certify $Z_\tau(q) = \sum_j p_j v_j$, $p = \mathrm{softmax}(\langle q,k_j\rangle/\tau)$.

    This is `certify_head` in query space: distances are between values, and derivatives are with
    respect to the query.

    Args:
        keys: The keys $k_j$, shape `(n_keys, d_k)`.
        values: The values $v_j$, shape `(n_keys, d_v)`.
        queries: The queries $q$, shape `(d_k,)` or `(n_points, d_k)`.
        tau: The temperature, above 0.
        logit_bias: The bias added to the scores, shape `(n_keys,)`; 0 if None.

    Examples:
        >>> certify_queries(np.eye(2), np.eye(2), [[3.0, 0.0]], tau=1.0)
        HeadCertificate(tau=1, 1 point, distance <= 0.0671, jacobian <= 0.0904)
    """
    sizes = Sizes()
    key_array = sizes.floats("keys", keys, ("n_keys", "d_k"))
    value_array = sizes.floats("values", values, ("n_keys", "d_v"))
    bias = None
    if logit_bias is not None:
        bias = sizes.floats("logit_bias", logit_bias, ("n_keys",), infinity="negative")
    query_weight, output_weight = np.eye(key_array.shape[1]), np.eye(value_array.shape[1])
    head = AttentionHead(query_weight, key_array, value_array, output_weight, logit_bias=bias)
    points = PointBatch.read("queries", queries, head.dim).rows
    return certify_head(head, points, tau)


class _Geometry:
    """Values and slopes of a head in balls, and their differences from each winner."""

    def __init__(self, head: AttentionHead) -> None:
        self.copies = head.score_map.first_equal.tolist()
        self._head = head
        self._from: dict[tuple[int, ...], tuple[list[list[arb]], list[arb]]] = {}
        self._around: dict[int, tuple[arb_mat, arb_mat, arb, arb]] = {}

    @cached_property
    def values(self) -> list[list[arb]]:
        """The transformed values $v_j W_O$."""
        chosen = self._head.values[self._head.unmasked]
        return rows_of(ball_matrix(chosen) * ball_matrix(self._head.output_weight))

    @cached_property
    def slopes(self) -> list[list[arb]]:
        """The slopes $a_j = W_Q k_j$."""
        weight = ball_matrix(self._head.query_weight).transpose()
        return rows_of(ball_matrix(self._head.score_map.keys) * weight)

    @cached_property
    def diameters(self) -> tuple[arb, arb] | None:
        """The diameters of the values and of the slopes, or None if there are too many."""
        if len(self.values) > _MOST_PAIRWISE:
            return None
        both = []
        for rows in (self.values, self.slopes):
            both.append(largest([largest(norms(differences(rows, row))) for row in rows]))
        return both[0], both[1]

    def from_mean(self, tied: tuple[int, ...]) -> tuple[list[list[arb]], list[arb]]:
        """Return the values minus their mean over some keys, and the norms of the differences."""
        if tied not in self._from:
            rows = differences(self.values, mean_row([self.values[j] for j in tied]))
            self._from[tied] = rows, norms(rows)
        return self._from[tied]

    def around(self, winner: int) -> tuple[arb_mat, arb_mat, arb, arb]:
        r"""Return $dv_j$ and $da_j$ of a winner, $D_vD_k$ and $\Delta_v\Delta_k$."""
        if winner not in self._around:
            moved = [differences(rows, rows[winner]) for rows in (self.values, self.slopes)]
            near = [largest(norms(rows)) for rows in moved]
            wide = self.diameters or (2 * near[0], 2 * near[1])
            self._around[winner] = (
                arb_mat(moved[0]),
                arb_mat(moved[1]),
                near[0] * near[1],
                wide[0] * wide[1],
            )
        return self._around[winner]


def _certify_point(
    geometry: _Geometry, scores: list[int], unit: arb, tau: arb
) -> tuple[float, float, float, float, float, float, float]:
    n, top = len(scores), max(scores)
    tied = tuple(j for j, s in enumerate(scores) if s == top)
    winner, c = tied[0], len(tied)
    below = [j for j in range(n) if scores[j] != top]
    gap = min((top - scores[j] for j in below), default=0)
    on_wall = any(geometry.copies[j] != geometry.copies[winner] for j in tied)
    weights = [arb(1) if s == top else (-(fmpz(top - s) * unit) / tau).exp() for s in scores]
    total = sum(weights, arb(0))
    share = sum((weights[j] for j in below), arb(0)) / total
    shares = row_vector([w / total for w in weights])
    rows, distances = geometry.from_mean(tied)
    moved = [sum((weights[j] * rows[j][k] for j in below), arb(0)) for k in range(len(rows[0]))]
    dv, da, near, far = geometry.around(winner)
    jacobian = _enclose_covariance(shares, dv, da) * (1 / tau)
    # The maximum total weight of rivals with this gap, without the copies of the winner.
    r = (-(fmpz(gap) * unit) / tau).exp() if below else arb(0)
    odds = len(below) * r
    rivals = (c - 1 + odds) / (c + odds)
    margin = 0.0 if on_wall else (round_down(fmpz(gap) * unit) if below else np.inf)
    return (
        winner,
        margin,
        round_up(share),
        round_up(norm_bound(moved) / total),
        round_up(spectral_norm_bound(jacobian)),
        round_up(odds / (c + odds) * largest(distances)),
        round_up(moment_bound(rivals, near, far) / tau),
    )


def _enclose_covariance(shares: arb_mat, dv: arb_mat, da: arb_mat) -> arb_mat:
    r"""Return $\sum_j p_j\,dv_j\,da_j^\top - (\sum_j p_j\,dv_j)(\sum_j p_j\,da_j)^\top$."""
    p = shares.entries()
    weighted = arb_mat([[q * x for x in row] for q, row in zip(p, rows_of(dv), strict=True)])
    return weighted.transpose() * da - (shares * dv).transpose() * (shares * da)
