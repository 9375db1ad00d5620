r"""How close attention is to its winner, certified for every row of a head at once.

With $p = \mathrm{softmax}(s_i/\tau)$ for row $i$, and $w$ the key of largest score, the head
returns $\sum_j p_j v_j$, and the hard head $v_w$, or the mean over tied keys. The numbers hold for
the queries, keys and values as stored in float64: scores are exact integers; all other quantities
are balls, whose bounds are finally rounded outward to floats.
"""

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat, ctx, fmpz

from hardmax._ground.arguments import read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.exact.ball_matrices import ball_matrix, mean_row, rows_of
from hardmax.exact.directed_rounding import norm_bound, round_down, round_up
from hardmax.exact.dyadic import integer_matrix
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.typing import FloatArray, IntArray

_BITS = 96
"""Scores are exact, and sums of weights do not cancel, so the error is far below the last bit."""


@dataclass(frozen=True, eq=False, repr=False)
class RowCertificates:
    r"""What is certain about the rows of a head; arrays of shape `(n,)`.

    Attributes:
        winners: The key with the largest exact score in each row; if several tie, the first.
        masses: A lower bound on the attention weight of the winner, or of all tied winners
            together.
        distances: An upper bound on $\|\sum_j p_j v_j - v_w\|$, divided by the largest distance of
            a visible value from $v_w$. It is 0 for a hard head, and exceeds 1 by rounding at most.

    Examples:
        >>> arrays = HeadArrays(np.eye(2)[None], 9 * np.eye(2)[None], np.eye(2)[None], False)
        >>> certify_rows(arrays, 0).winners.tolist()
        [0, 1]
    """

    winners: IntArray
    masses: FloatArray
    distances: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card


def certify_rows(
    arrays: HeadArrays, head: int, queries: FloatArray | None = None
) -> RowCertificates:
    """Certify how close each row of a head is to hard attention.

    Args:
        arrays: The queries, keys and values of a layer.
        head: The index of the head.
        queries: Other queries to use instead of the head's own, shape `(n, d_k)`.

    Examples:
        >>> arrays = HeadArrays(np.eye(2)[None], 9 * np.eye(2)[None], np.eye(2)[None], False)
        >>> found = certify_rows(arrays, 0)
        >>> found.winners.tolist(), found.masses.round(4).tolist()
        ([0, 1], [0.9983, 0.9983])
        >>> found.distances.round(4).tolist()
        [0.0017, 0.0017]
    """
    kv = arrays.key_head(head)
    asked, q_exponent = integer_matrix(arrays.queries[head] if queries is None else queries)
    keys, k_exponent = integer_matrix(arrays.keys[kv])
    scores = (asked * keys.transpose()).tolist()
    seen = [np.flatnonzero(row).tolist() for row in arrays.seen]
    values = arrays.values[kv]
    with ctx.workprec(_BITS):
        unit = arb(2) ** (q_exponent + k_exponent) / arb(float(arrays.temperature or 0.0))
        weights, tied = [], []
        for row, shown in zip(scores, seen, strict=True):
            top = max(row[j] for j in shown)
            tied.append([j for j in shown if row[j] == top])
            weights.append(_softmax_weights(row, shown, top, unit))
        mixed = rows_of(arb_mat(weights) * ball_matrix(values))
        exact_values = rows_of(ball_matrix(values))
        masses, distances = [], []
        for i, (shown, best) in enumerate(zip(seen, tied, strict=True)):
            masses.append(max(0.0, round_down(sum((weights[i][j] for j in best), arb(0)))))
            home = mean_row([exact_values[j] for j in best])
            far = shown[_farthest_row(values[shown], values[best[0]])]
            if (values[far] == values[best[0]]).all():
                distances.append(0.0)  # All visible values are equal.
                continue
            # The distance of any single value is at most the largest, so the quotient is a bound.
            apart = _subtract(exact_values[far], exact_values[best[0]])
            length = sum((x * x for x in apart), arb(0)).sqrt()
            bound = round_up(norm_bound(_subtract(mixed[i], home)) / length)
            # If the difference cancels all digits of the mean, the hull of the values bounds it.
            distances.append(min(bound, 1.0 if len(best) == 1 else 2.0))
    winners = np.array([best[0] for best in tied], dtype=np.int64)
    return RowCertificates(
        winners, read_only_copy(np.array(masses)), read_only_copy(np.array(distances))
    )


def _softmax_weights(row: list[fmpz], shown: list[int], top: fmpz, unit: arb) -> list[arb]:
    """Return the softmax of the visible scores, and 0 for the others."""
    shares = [arb(0)] * len(row)
    for j in shown:
        shares[j] = arb(1) if row[j] == top else ((row[j] - top) * unit).exp()
    total = sum(shares, arb(0))
    return [share / total for share in shares]


def _farthest_row(rows: FloatArray, origin: FloatArray) -> int:
    """Return the row farthest from the origin, up to rounding."""
    with np.errstate(over="ignore"):
        differences = rows - origin
    if not np.isfinite(differences).all():
        differences = rows / 2.0 - origin / 2.0
    # Norms beyond the largest float are compared by an upper bound, too.
    largest = np.abs(differences).max() or 1.0
    return int(((differences / largest) ** 2).sum(axis=1).argmax())


def _subtract(row: list[arb], origin: list[arb]) -> list[arb]:
    return [x - y for x, y in zip(row, origin, strict=True)]
