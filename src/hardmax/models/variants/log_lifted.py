r"""Log-lifted attention: a head with a continuous piecewise linear limit as $\tau \to 0$."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hardmax._ground.arguments import Sizes, number, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import ScaledIntegers, scaled_integers
from hardmax.models.heads import AttentionHead, read_logit_bias
from hardmax.models.points import PointBatch
from hardmax.models.scores import ScoreMap
from hardmax.models.soft_attention import log_sums
from hardmax.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.tropical.pieces import AffinePieces
    from hardmax.tropical.rational_maps import TropicalRationalMap


@dataclass(frozen=True, eq=False)
class LogLiftedHead:
    r"""A head on query space with values of the form $v_{j,c} = e^{\tilde v_{j,c}/\tau}$.

    With scores $s_j(q) = \langle q, k_j\rangle + \beta_j$ the output in the logarithmic domain is

    $$F^\tau_c(q) = \tau\log\frac{\sum_j e^{s_j(q)/\tau}v_{j,c}}{\sum_j e^{s_j(q)/\tau}}
      \;\xrightarrow{\tau\to0}\; F_c(q) = \max_j\,(s_j(q) + \tilde v_{j,c}) - \max_j s_j(q).$$

    The limit $F$ is a tropical rational map with one denominator for all channels. Everywhere
    $|F^\tau_c - F_c| \le \tau\log N$, because the numerator and the denominator each exceed their
    maximum by between 0 and $\tau\log N$.

    Three different counts describe the head. `routing_cells` counts the cells of the denominator,
    on each of which one key wins. `lifted_cells` counts the cells of the common refinement of all
    numerators and the denominator. `lifted_linear_regions` counts the maximal connected regions on
    which $F$ is affine. The first and the third are at most the second. The third can be smaller
    than the first, because kinks of numerators and denominator can cancel.

    Attributes:
        keys: The $k_j$, shape `(n_keys, d_k)`, at least one.
        lifted_values: The $\tilde v_{j,c}$, shape `(n_keys, d_v)`, finite.
        logit_bias: The $\beta_j$, shape `(n_keys,)`; None means zero, and $-\infty$ masks a key.

    References:
        Definition III.10 and remarks III.11, III.12 of [SL26]. The claim there that $F$ keeps the
        routing walls and is independent of $V$ does not hold: see the first example.

    Examples:
        Two keys and three channels: two routing cells, five regions.

        >>> lifted = LogLiftedHead([[-1.0], [1.0]], [[0.0, 0.0, 0.0], [2.0, 4.0, -2.0]])
        >>> lifted.routing_cells, lifted.lifted_cells, lifted.lifted_linear_regions
        (2, 5, 5)
        >>> lifted(np.array([0.5])).tolist(), lifted.soft(np.array([0.5]), tau=1e-3).tolist()
        ([2.0, 4.0, -1.0], [2.0, 4.0, -1.0])

        Equal values: the map is constant, though every key still has its cell.

        >>> constant = LogLiftedHead([[-1.0], [1.0]], [[3.0], [3.0]])
        >>> constant.routing_cells, constant.lifted_cells, constant.lifted_linear_regions
        (2, 2, 1)
    """

    keys: FloatArray
    lifted_values: FloatArray
    logit_bias: FloatArray | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        keys = sizes.floats("keys", self.keys, ("n_keys", "d_k"))
        values = sizes.floats("lifted_values", self.lifted_values, ("n_keys", "d_v"))
        if self.logit_bias is not None:
            bias = read_logit_bias(self.logit_bias, sizes)
            object.__setattr__(self, "logit_bias", read_only_copy(bias))
        object.__setattr__(self, "keys", read_only_copy(keys))
        object.__setattr__(self, "lifted_values", read_only_copy(values))

    @classmethod
    def from_head(cls, head: AttentionHead, lifted_values: FloatArray) -> "LogLiftedHead":
        """Build a log-lifted head from the keys and logit bias of a head, and new values."""
        return cls(head.keys, lifted_values, head.logit_bias)

    @property
    def dim(self) -> int:
        """The dimension of the query space."""
        return int(self.keys.shape[1])

    @property
    def n_channels(self) -> int:
        """The number of output channels."""
        return int(self.lifted_values.shape[1])

    @cached_property
    def unmasked(self) -> IntArray:
        """The indices of the unmasked keys, in increasing order."""
        if self.logit_bias is None:
            return np.arange(len(self.keys))
        return np.flatnonzero(self.logit_bias > -np.inf)

    @cached_property
    def rational_map(self) -> "TropicalRationalMap":
        r"""The map $F$ with exact offsets; term $i$ of each polynomial is key `unmasked[i]`."""
        from hardmax.tropical.polynomials import TropicalPolynomial
        from hardmax.tropical.rational_maps import TropicalRationalMap

        # One common scale for keys, biases and values, so that the offsets below are exact sums.
        live, bias = self.unmasked, self.score_map.logit_bias
        table = scaled_integers(np.c_[self.keys[live], bias, self.lifted_values[live]])
        below = table.integers[:, : self.dim + 1]
        numerators = []
        for values in table.integers[:, self.dim + 1 :].T:
            rows = below.copy()
            rows[:, -1] += values
            numerators.append(ScaledIntegers(rows, table.exponent))
        return TropicalRationalMap(
            tuple(TropicalPolynomial.from_coefficients(rows) for rows in numerators),
            TropicalPolynomial.from_coefficients(ScaledIntegers(below, table.exponent)),
        )

    @cached_property
    def pieces(self) -> "AffinePieces":
        """The common refinement: the winners of every channel and the denominator, and affine maps.

        Raises:
            SizeLimitError: If the refinement would form too many candidates at once. Call
                `rational_map.common_refinement` with a larger `max_terms`.
        """
        return self.rational_map.common_refinement()

    @property
    def routing_cells(self) -> int:
        """The number of keys that win on an open set of queries: the cells of the denominator."""
        return int(self.rational_map.denominator.active_terms().sum())

    @property
    def lifted_cells(self) -> int:
        """The number of cells of the common refinement."""
        return self.pieces.n_cells

    @property
    def lifted_linear_regions(self) -> int:
        """The number of maximal connected regions on which the map is affine."""
        return self.pieces.n_regions

    @cached_property
    def score_map(self) -> ScoreMap:
        """The scores of the unmasked keys as functions of the query."""
        live = self.unmasked
        bias = np.zeros(len(live)) if self.logit_bias is None else self.logit_bias[live]
        return ScoreMap(np.eye(self.dim), np.zeros(self.dim), self.keys[live], bias)

    def __call__(self, q: FloatArray) -> FloatArray:
        """Evaluate $F$, rounded: `(..., d_v)`. For exact values: `rational_map.exact_values`."""
        return self.soft(q, 0.0)

    def soft(self, q: FloatArray, tau: float) -> FloatArray:
        r"""Compute $F^\tau_c = \tau\log z_c$ without forming $e^{\tilde v/\tau}$: `(..., d_v)`.

        Args:
            q: Queries, shape `(d_k,)` or `(n_points, d_k)`.
            tau: The temperature, at least 0; at 0 the result is the limit $F$.
        """
        tau = number("tau", tau, at_least=0.0)
        batch = PointBatch.read("q", q, self.dim)
        values = self.lifted_values[self.unmasked]
        error = self.score_map.weight_error * max(tau, float(np.abs(values).max()))
        gaps = self.score_map.scaled(batch.rows, 1.0, error).gaps
        result = np.empty((len(batch.rows), self.n_channels))
        with np.errstate(over="ignore", under="ignore"):
            for c, column in enumerate(values.T):
                # Scores are relative to the largest score, so the maximum of the denominator is 0.
                lifted = gaps + column
                largest = lifted.max(axis=1)
                result[:, c] = largest
                if tau > 0.0:
                    above = log_sums((lifted - largest[:, None]) / tau)
                    result[:, c] += tau * (above - log_sums(gaps / tau))
        return batch.unpack(result)
