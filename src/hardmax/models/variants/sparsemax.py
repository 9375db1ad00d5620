r"""Sparsemax attention: piecewise linear at every temperature, one-hot for margins of $\tau$."""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import number
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.rounding import UNIT_ROUNDOFF
from hardmax.models.heads import AttentionHead
from hardmax.models.points import PointBatch
from hardmax.models.soft_attention import check_derivatives, covariance_factor
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class SparsemaxHead:
    r"""A head with sparsemax in place of softmax.

    The weights are the point of the probability simplex nearest to the scaled scores,

    $$p(x) = \arg\min_{p \in \Delta} \| p - s(x)/\tau \|^2, \qquad
      p_j = \tfrac1{|S|} + \tfrac1\tau\Big(s_j - \tfrac1{|S|}\sum_{i\in S}s_i\Big)\ (j \in S),$$

    with the support $S = \{j : \sum_i (s_i - s_j)^+ < \tau\}$. The support is decided exactly. On
    the polyhedron where it is constant the output is affine in $x$, and the pieces fit together
    continuously: sparsemax attention is piecewise linear at every $\tau > 0$, not only in the
    limit. The weights are one-hot exactly where the winner's margin is at least $\tau$.

    Attributes:
        head: The head whose scores, values and output weight are used.

    References:
        [MA16].

    Examples:
        >>> head = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> sparse = SparsemaxHead(head)
        >>> sparse(np.array([[0.0], [0.125], [0.5], [3.0]]), tau=1.0).ravel().tolist()
        [0.0, 0.25, 1.0, 1.0]
        >>> sparse.support(np.array([[0.499], [0.5]]), tau=1.0).tolist()
        [[True, True], [False, True]]
    """

    head: AttentionHead

    __repr__ = short_repr
    _repr_html_ = html_card

    def support(self, x: FloatArray, tau: float) -> BoolArray:
        r"""Return the exact mask of the keys with positive weight: `(..., n_keys)`; `tau >= 0`.

        At `tau = 0` these are all tied winners.
        """
        batch, tau = self._read_arguments(x, tau)
        marks = np.zeros((len(batch.rows), self.head.n_keys), dtype=bool)
        marks[:, self.head.unmasked] = self._find_support(batch.rows, tau)[0]
        return batch.unpack(marks)

    def attention_weights(self, x: FloatArray, tau: float) -> FloatArray:
        """Compute the weights: shape `(..., n_keys)`; `tau >= 0`, at 0 uniform on the winners."""
        batch, tau = self._read_arguments(x, tau)
        weights = np.zeros((len(batch.rows), self.head.n_keys))
        weights[:, self.head.unmasked] = self._compute_weights(batch.rows, tau)
        return batch.unpack(weights)

    def __call__(self, x: FloatArray, tau: float) -> FloatArray:
        """Evaluate the output: shape `(..., out_dim)`; `tau >= 0`, at 0 the hard head."""
        batch, tau = self._read_arguments(x, tau)
        if tau == 0.0:
            return self.head(x)
        mixed = self._compute_weights(batch.rows, tau) @ self.head.values[self.head.unmasked]
        return batch.unpack(mixed @ self.head.output_weight)

    def jacobian(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute the derivative of the output: shape `(..., out_dim, dim)`; `tau > 0`.

        It is $\frac1\tau\sum_{j\in S}(v_j-\bar v_S)W_O \otimes W_Q(k_j-\bar k_S)$. At a point where
        the support is about to grow the map has a kink; the result is the derivative for the
        smaller support.

        Raises:
            NonFiniteError: If an entry exceeds the range of float64.
        """
        tau = number("tau", tau, above=0.0)
        batch, _ = self._read_arguments(x, tau)
        supports, _ = self._find_support(batch.rows, tau)
        jacobians = [self._support_jacobian(self.head.unmasked[row], tau) for row in supports]
        shape = len(batch.rows), self.head.out_dim, self.head.dim
        return batch.unpack(check_derivatives(np.reshape(jacobians, shape), tau))

    def affine_map(self, support: BoolArray, tau: float) -> tuple[FloatArray, FloatArray]:
        """Return the affine piece `x @ matrix + offset` of the output for one support.

        Args:
            support: A mask of the keys, shape `(n_keys,)`, that contains at least one key and no
                masked key.
            tau: The temperature, greater than 0.

        Returns:
            The pair of `matrix`, shape `(dim, out_dim)`, and `offset`, shape `(out_dim,)`.
        """
        tau, head = number("tau", tau, above=0.0), self.head
        marks = np.asarray(support)
        if marks.dtype != np.bool_ or marks.shape != (head.n_keys,):
            raise ShapeMismatchError(
                f"`support` must be a boolean array of shape ({head.n_keys},), one entry per key; "
                f"got {marks.dtype} of shape {marks.shape}."
            )
        members = np.flatnonzero(marks)
        if not len(members) or not np.isin(members, head.unmasked).all():
            raise ArgumentError("`support` must contain at least one key, and no masked key.")
        origin = self.head.score_map.log_weights(np.zeros((1, head.dim)), tau).logs[0]
        inside = np.isin(head.unmasked, members)
        offset = (
            _weights_on_support(origin, inside) @ head.values[head.unmasked] @ head.output_weight
        )
        return self._support_jacobian(members, tau).T, np.asarray(offset)

    def _read_arguments(self, x: FloatArray, tau: float) -> tuple[PointBatch, float]:
        return PointBatch.read("x", x, self.head.dim), number("tau", tau, at_least=0.0)

    def _compute_weights(self, points: FloatArray, tau: float) -> FloatArray:
        support, logs = self._find_support(points, tau)
        rows = [_weights_on_support(row, inside) for row, inside in zip(logs, support, strict=True)]
        return np.reshape(rows, support.shape)

    def _find_support(self, points: FloatArray, tau: float) -> tuple[BoolArray, FloatArray]:
        """Return the mask of the unmasked keys in the support, and their logarithmic weights."""
        scores = self.head.score_map
        if tau == 0.0:
            tied = scores.tied_winners(points)
            return tied, np.where(tied, 0.0, -np.inf)
        logs, _, errors = scores.log_weights(points, tau)
        support, settled = _decide_support_in_floats(logs, errors)
        open_ = np.flatnonzero(~settled)
        exact = scores.exact(points[open_])
        for i, row in zip(open_, exact.integers, strict=True):
            support[i] = _decide_support_exactly(row, exact.exponent, tau)
        return support, logs

    def _support_jacobian(self, members: IntArray, tau: float) -> FloatArray:
        """Return the Jacobian on the support `members`, shape `(out_dim, dim)`."""
        head, n = self.head, len(members)
        uniform = np.full(n, 1.0 / n)
        keys = covariance_factor(uniform, head.keys[members], 0, tau)
        values = covariance_factor(uniform, head.values[members], 0, tau)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            covariance = (values @ head.output_weight).T @ (keys @ head.query_weight.T)
            return np.asarray(n * covariance)


def _weights_on_support(logs: FloatArray, inside: BoolArray) -> FloatArray:
    """Return the weights on a support: uniform, plus each logarithm's deviation from the mean."""
    weights = np.zeros(len(logs))
    n = int(inside.sum())
    weights[inside] = 1.0 / n + (logs[inside] - logs[inside].sum() / n)
    return weights


@np.errstate(under="ignore")
def _decide_support_in_floats(logs: FloatArray, errors: FloatArray) -> tuple[BoolArray, BoolArray]:
    r"""Decide $\sum_i (t_i - t_j)^+ < 1$ in floats, and return the rows for which this is certain.

    In decreasing order, the sum for the $k$-th entry is $t_1 + \dots + t_k - k t_k$. An error of at
    most `errors` in each $t$ changes it by at most $2k$ times that error. Its rounding error is at
    most $k + 2$ units of $2k|t_k|$, because the largest entry is 0. Entries below -700 are far from
    the bound.
    """
    order = np.argsort(-logs, axis=1, kind="stable")
    t = np.maximum(np.take_along_axis(logs, order, axis=1), -700.0)
    k = np.arange(1, t.shape[1] + 1)
    excess = np.cumsum(t, axis=1) - k * t
    bound = 2 * k * errors[:, None] + (k + 3) * 2 * k * np.abs(t) * UNIT_ROUNDOFF
    inside, outside = excess + 2 * bound < 1.0, excess - 2 * bound >= 1.0
    support = np.empty_like(inside)
    np.put_along_axis(support, order, inside, axis=1)
    return support, (inside | outside).all(axis=1)


def _decide_support_exactly(scores: WideArray, exponent: int, tau: float) -> BoolArray:
    """Decide the support from exact scores `integers * 2**exponent`."""
    width = scaled_integers(np.array([tau]))
    lowest = min(exponent, width.exponent)
    limit = int(width.integers[0]) << (width.exponent - lowest)
    integers = [int(score) << (exponent - lowest) for score in scores]
    support = np.zeros(len(integers), dtype=bool)
    total = 0
    for k, j in enumerate(sorted(range(len(integers)), key=lambda j: -integers[j]), start=1):
        total += integers[j]
        support[j] = total - k * integers[j] < limit
    return support
