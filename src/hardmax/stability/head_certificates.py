r"""One head at one query: certified distance to the winning value, and of its Jacobian to zero.

`attention_bounds` knows a margin only; here the scores themselves are known, exactly, and every
number is an enclosure rounded outward. With $p = \mathrm{softmax}(s(x)/\tau)$ and winner $i$,

$$z_\tau(x) - z_0(x) = \sum_{j} p_j (v_j - v_i) W_O, \qquad
  \partial_x z_\tau = \frac1\tau\Bigl[\sum_j p_j\, dv_j\, da_j^\top
  - \bigl(\sum_j p_j\,dv_j\bigr)\bigl(\sum_j p_j\,da_j\bigr)^\top\Bigr],$$

$dv_j = (v_j - v_i)W_O$, $da_j = W_Q(k_j - k_i)$: both are sums of terms as small as the rivals'
weights, so nothing cancels. If several keys tie exactly, $v_i$ is the mean of their values.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx, fmpz

from hardmax._ground.arguments import Sizes, number, owned
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
from hardmax.exact.directed_rounding import PRECISION, norm_bound, rounded_down, rounded_up
from hardmax.models.heads import AttentionHead
from hardmax.models.points import PointBatch
from hardmax.stability.attention_bounds import moment_bound
from hardmax.typing import ArrayLike, FloatArray, IntArray

_MOST_PAIRWISE = 48
"""Up to this many keys diameters are exact; beyond, twice the largest distance from the winner."""


@dataclass(frozen=True, eq=False, repr=False)
class HeadCertificate:
    r"""What is certain about a soft head at some points.

    Attributes:
        tau: The temperature.
        winners: The winning key at each point, the first if several tie; shape `(n_points,)`.
        margins: How far the winner leads every key that is not its copy, rounded down; 0 on a wall,
            `inf` if all keys are copies. Shape `(n_points,)`.
        rival_mass: A bound on the weight of all keys below the largest score; `(n_points,)`.
        distance: A bound on $\|z_\tau(x) - z_0(x)\|_2$ from the scores at hand; `(n_points,)`.
        jacobian: A bound on $\|\partial_x z_\tau\|_2$ from the scores at hand, at most
            $\rho^{1/32}$ times the norm, $\rho$ the rank; `(n_points,)`.
        distance_from_margin: The bound that the margin and the spread of the values give alone.
        jacobian_from_margin: Likewise, with the spread of keys.

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
    r"""Certify how far a soft head is from the hard one, and from being constant.

    Args:
        head: The head.
        x: A point `(dim,)` or a batch `(n_points, dim)`.
        tau: The temperature, above 0.

    Returns:
        The certificate, arrays of shape `(n_points,)`, `(1,)` for a single point.

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
            _certify(geometry, row, unit, arb(temperature)) for row in scores.integers.tolist()
        ]
    columns = np.array(found, dtype=np.float64).reshape(len(points), 7).T
    winners = head.unmasked[columns[0].astype(np.int64)]
    return HeadCertificate(temperature, winners, *map(owned, columns[1:]))


def certify_queries(
    keys: ArrayLike,
    values: ArrayLike,
    queries: ArrayLike,
    tau: float,
    logit_bias: ArrayLike | None = None,
) -> HeadCertificate:
    r"""Certify $Z_\tau(q) = \sum_j p_j v_j$, $p = \mathrm{softmax}(\langle q,k_j\rangle/\tau)$.

    The same in query space: distances are those of the values, derivatives are by the query.

    Args:
        keys: The $k_j$, shape `(n_keys, d_k)`.
        values: The $v_j$, shape `(n_keys, d_v)`.
        queries: The $q$, shape `(d_k,)` or `(n_points, d_k)`.
        tau: The temperature, above 0.
        logit_bias: What is added to the scores, shape `(n_keys,)`; 0 if None.

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
    """Values and slopes of a head as balls, and their differences from each winner."""

    def __init__(self, head: AttentionHead) -> None:
        self.copies = head.score_map.first_equal.tolist()
        self._head = head
        self._from: dict[tuple[int, ...], tuple[list[list[arb]], list[arb]]] = {}
        self._around: dict[int, tuple[arb_mat, arb_mat, arb, arb]] = {}

    @cached_property
    def values(self) -> list[list[arb]]:
        """The $v_j W_O$."""
        chosen = self._head.values[self._head.unmasked]
        return rows_of(ball_matrix(chosen) * ball_matrix(self._head.output_weight))

    @cached_property
    def slopes(self) -> list[list[arb]]:
        """The $a_j = W_Q k_j$."""
        weight = ball_matrix(self._head.query_weight).transpose()
        return rows_of(ball_matrix(self._head.score_map.keys) * weight)

    @cached_property
    def diameters(self) -> tuple[arb, arb] | None:
        """The diameters of values and slopes, if there are few."""
        if len(self.values) > _MOST_PAIRWISE:
            return None
        both = []
        for rows in (self.values, self.slopes):
            both.append(largest([largest(norms(differences(rows, row))) for row in rows]))
        return both[0], both[1]

    def from_mean(self, tied: tuple[int, ...]) -> tuple[list[list[arb]], list[arb]]:
        """Values minus the mean over some keys, and the norms of these differences."""
        if tied not in self._from:
            rows = differences(self.values, mean_row([self.values[j] for j in tied]))
            self._from[tied] = rows, norms(rows)
        return self._from[tied]

    def around(self, winner: int) -> tuple[arb_mat, arb_mat, arb, arb]:
        r"""The $dv_j$ and $da_j$ of a winner, $D_vD_k$ and $\Delta_v\Delta_k$."""
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


def _certify(
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
    jacobian = _covariance(shares, dv, da) * (1 / tau)
    # The most that rivals with this gap could get, together and without the copies of i.
    r = (-(fmpz(gap) * unit) / tau).exp() if below else arb(0)
    odds = len(below) * r
    rivals = (c - 1 + odds) / (c + odds)
    margin = 0.0 if on_wall else (rounded_down(fmpz(gap) * unit) if below else np.inf)
    return (
        winner,
        margin,
        rounded_up(share),
        rounded_up(norm_bound(moved) / total),
        rounded_up(spectral_norm_bound(jacobian)),
        rounded_up(odds / (c + odds) * largest(distances)),
        rounded_up(moment_bound(rivals, near, far) / tau),
    )


def _covariance(shares: arb_mat, dv: arb_mat, da: arb_mat) -> arb_mat:
    r"""Return $\sum_j p_j\,dv_j\,da_j^\top - (\sum_j p_j\,dv_j)(\sum_j p_j\,da_j)^\top$."""
    p = shares.entries()
    weighted = arb_mat([[q * x for x in row] for q, row in zip(p, rows_of(dv), strict=True)])
    return weighted.transpose() * da - (shares * dv).transpose() * (shares * da)
