"""Attention heads over a fixed memory: exact winners, hard output, and soft output at any tau."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from hardmax._ground.arguments import (
    ArrayGroup,
    Sizes,
    choice,
    integer,
    number,
    read_only_copy,
    read_only_zeros,
)
from hardmax._ground.display import format_card, public_fields
from hardmax.errors import ArgumentError, EmptyInputError, NonFiniteError
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.models.points import Array, PointBatch
from hardmax.models.scores import ScoreMap, round_quotients
from hardmax.models.soft_attention import (
    check_derivatives,
    covariance_factor,
    log_sums,
    normalise_weights,
    uniform_weights,
)
from hardmax.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.tropical.diagrams.power_diagrams import PowerDiagram


_ARRAYS = (
    ("query_weight", ("dim", "d_k")),
    ("keys", ("n_keys", "d_k")),
    ("values", ("n_keys", "d_v")),
    ("output_weight", ("d_v", "out_dim")),
)
_NAMES = (*(name for name, _ in _ARRAYS), "query_bias")
_HEAD, _HEAD_WITH_BIAS = ArrayGroup(*_ARRAYS), ArrayGroup(*_ARRAYS, ("query_bias", ("d_k",)))


@dataclass(frozen=True, eq=False, repr=False)
class AttentionHead:
    r"""One attention head over a fixed memory of keys and values.

    A row vector $x$ has the query $q = x W_Q + b_Q$. The score of key $j$ is

    $$s_j(x) = \langle x W_Q + b_Q, k_j \rangle + \beta_j = \langle a_j, x \rangle + c_j,
      \qquad a_j = W_Q k_j, \quad c_j = \langle b_Q, k_j \rangle + \beta_j .$$

    The hard head returns $v_{j^*(x)} W_O$, where $v_{j^*(x)}$ is the value of the winning key (the
    mean value if several keys tie exactly). The soft head at temperature $\tau > 0$ returns
    $\sum_j p_j v_j W_O$ with $p = \mathrm{softmax}(s(x)/\tau)$; it tends to the hard head as
    $\tau \to 0$.

    *Temperature.* Scores are raw dot products. The usual scaling
    $\mathrm{softmax}(\langle q, k\rangle/\sqrt{d_k})$ therefore corresponds to $\tau = \sqrt{d_k}$
    (`standard_temperature`); [SL26] writes $1/\sqrt{d_k}$, which is off by the factor $d_k$.

    *Exactness.* The entries of the arrays are exact dyadic rationals. Winners and ties are decided
    for these numbers, not for rounded scores.

    A point `x` has shape `(dim,)` and a batch `(n_points, dim)`. Results have the leading axis of
    the batch, or none for a single point.

    Attributes:
        query_weight: The $W_Q$, shape `(dim, d_k)`.
        keys: The $k_j$, shape `(n_keys, d_k)`, at least one.
        values: The $v_j$, shape `(n_keys, d_v)`.
        output_weight: The $W_O$, shape `(d_v, out_dim)`.
        query_bias: The $b_Q$, shape `(d_k,)`; None means zero.
        logit_bias: The $\beta_j$, shape `(n_keys,)`; None means zero. An entry $-\infty$ masks its
            key: the key never wins and its attention weight is always zero.

    Raises:
        EmptyInputError: If there is no key, or if `logit_bias` masks every key.

    References:
        [SL26] sections III-D and IV.

    Examples:
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> sign
        AttentionHead(R^1 -> R^1, 2 keys in R^1)
        >>> sign(np.array([[-0.1], [0.0], [3.0]])).tolist()
        [[-1.0], [0.0], [1.0]]
        >>> sign.soft(np.array([0.5]), tau=1.0), np.tanh([0.5])
        (array([0.46211716]), array([0.46211716]))
        >>> sign.soft(np.array([1e-290]), tau=1e-300)
        array([1.])
    """

    query_weight: FloatArray
    keys: FloatArray
    values: FloatArray
    output_weight: FloatArray
    query_bias: FloatArray | None = None
    logit_bias: FloatArray | None = None

    def _repr_html_(self) -> str:
        from hardmax.tropical.diagrams.diagram_pictures import diagram_picture

        picture = ""
        if self.keys.shape[1] == 2:
            picture = diagram_picture(self.diagram)
        elif self.query_weight.shape[0] == 2:
            picture = diagram_picture(self.pulled_back_diagram)
        return format_card(repr(self), public_fields(self), picture)

    def __post_init__(self) -> None:
        given = self.query_weight, self.keys, self.values, self.output_weight
        if self.query_bias is not None:
            kept = _HEAD_WITH_BIAS.read(*given, self.query_bias)
        else:
            kept = _HEAD.read(*given)
        self.__dict__.update(zip(_NAMES, kept, strict=False))
        if self.logit_bias is not None:
            sizes = Sizes()
            sizes.bind("keys", self.keys.shape, ("n_keys", "d_k"))
            self.__dict__["logit_bias"] = read_only_copy(read_logit_bias(self.logit_bias, sizes))

    def __repr__(self) -> str:
        n_masked = self.n_keys - len(self.unmasked)
        masked = f", {n_masked} masked" if n_masked else ""
        return (
            f"AttentionHead(R^{self.dim} -> R^{self.out_dim}, "
            f"{self.n_keys} keys in R^{self.head_dim}{masked})"
        )

    @property
    def dim(self) -> int:
        """The dimension of the input."""
        return int(self.query_weight.shape[0])

    @property
    def head_dim(self) -> int:
        """The dimension $d_k$ of the queries and keys."""
        return int(self.keys.shape[1])

    @property
    def n_keys(self) -> int:
        """The number of keys, including masked keys."""
        return int(self.keys.shape[0])

    @property
    def out_dim(self) -> int:
        """The dimension of the output."""
        return int(self.output_weight.shape[1])

    @property
    def standard_temperature(self) -> float:
        r"""The usual $\tau = \sqrt{d_k}$: $\mathrm{softmax}(\langle q, k\rangle/\sqrt{d_k})$."""
        return float(np.sqrt(self.head_dim))

    @cached_property
    def unmasked(self) -> IntArray:
        """The indices of the unmasked keys, in increasing order."""
        if self.logit_bias is None:
            return np.arange(self.n_keys)
        return np.flatnonzero(self.logit_bias > -np.inf)

    @property
    def unmasked_keys(self) -> FloatArray:
        """The unmasked keys, shape `(n_unmasked, d_k)`."""
        return self.keys if self.logit_bias is None else self.keys[self.unmasked]

    @property
    def unmasked_bias(self) -> FloatArray:
        """The biases of the unmasked keys, shape `(n_unmasked,)`; zeros if there are no biases."""
        return (
            read_only_zeros(self.n_keys)
            if self.logit_bias is None
            else self.logit_bias[self.unmasked]
        )

    @property
    def query_offsets(self) -> FloatArray:
        """The query bias $b_Q$, shape `(d_k,)`; zeros if there is none."""
        return read_only_zeros(self.head_dim) if self.query_bias is None else self.query_bias

    @property
    def unmasked_values(self) -> FloatArray:
        """The values of the unmasked keys, shape `(n_unmasked, d_v)`."""
        return self.values if self.logit_bias is None else self.values[self.unmasked]

    @cached_property
    def score_map(self) -> ScoreMap:
        """The scores of the unmasked keys, exact on demand. Its key `i` is key `unmasked[i]`."""
        keys, bias = self.unmasked_keys, self.unmasked_bias
        return ScoreMap(self.query_weight, self.query_offsets, keys, bias)

    @cached_property
    def forms(self) -> AffineForms:
        r"""The scores of the unmasked keys as affine forms of `x`; form `i` is key `unmasked[i]`.

        Each coefficient of $a_j = W_Q k_j$ and $c_j$ is the exact value, rounded once. For exact
        decisions, use `score_map.forms`.
        """
        try:
            return self.score_map.forms.rounded()
        except NonFiniteError:
            raise NonFiniteError(
                "`query_weight` times `keys` exceeds the range of float64, so `forms` is not "
                "available. Use `score_map.forms`, which holds the exact forms."
            ) from None

    @cached_property
    def first_equal(self) -> IntArray:
        """For each key, the first key with the same score at every `x`; -1 for a masked key.

        Keys with the same score everywhere have no wall between them. The exact forms are compared,
        so keys with the same score may differ by a vector in the null space of `query_weight`.
        """
        first = np.full(self.n_keys, -1)
        first[self.unmasked] = self.unmasked[self.score_map.first_equal]
        return first

    @property
    def is_bias_free(self) -> bool:
        """Whether all exact offsets $c_j$ are equal, so that the cells are cones with apex 0."""
        offsets = self.score_map.forms.integers[:, -1]
        return bool((offsets == offsets[0]).all())

    @cached_property
    def diagram(self) -> "PowerDiagram":
        r"""The power diagram in query space, masked keys included; site $j$ is key $j$."""
        from hardmax.tropical.diagrams.power_diagrams import PowerDiagram

        return PowerDiagram.from_keys(self.keys, self.logit_bias)

    @cached_property
    def pulled_back_diagram(self) -> "PowerDiagram":
        r"""The exact routing diagram in the space of $x$; site $j$ is key $j$."""
        return self.diagram.pull_back(self.query_weight, self.score_map.query_bias)

    def scores(self, x: FloatArray) -> FloatArray:
        r"""Compute the rounded scores, $-\infty$ for masked keys: shape `(..., n_keys)`."""
        batch = self._read_points(x)
        return batch.unpack(
            self._scatter_to_keys(self.score_map.enclose(batch.rows).values, -np.inf)
        )

    def tied(self, x: FloatArray) -> BoolArray:
        """Return the mask of the keys with the largest exact score: shape `(..., n_keys)`."""
        batch = self._read_points(x)
        return batch.unpack(self._scatter_to_keys(self.score_map.tied_winners(batch.rows), False))

    def winners(self, x: FloatArray) -> IntArray:
        """Return the key with the largest exact score; if several tie, the first: shape `(...)`."""
        batch = self._read_points(x)
        first = self.score_map.tied_winners(batch.rows).argmax(axis=1)
        return batch.unpack(self.unmasked[first])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate the hard head: the mean value of the tied winners times `output_weight`."""
        batch = self._read_points(x)
        tied = self.score_map.tied_winners(batch.rows)
        values = self.values[self.unmasked[tied.argmax(axis=1)]]
        shared = np.flatnonzero(tied.sum(axis=1) > 1)
        sets, which = np.unique(tied[shared], axis=0, return_inverse=True)
        for i, members in enumerate(sets):
            values[shared[which.ravel() == i]] = self._mean_value(self.unmasked[members])
        return batch.unpack(values @ self.output_weight)

    def cell_output(self, key: int) -> FloatArray:
        """Return the hard output in the interior of an unmasked key's cell, shape `(out_dim,)`.

        This is the mean over the keys with the same form (`first_equal`), which tie on the whole
        cell.
        """
        key = integer("key", key, at_least=0, at_most=self.n_keys - 1)
        if self.first_equal[key] < 0:
            raise ArgumentError(f"`key` must be an unmasked key; key {key} is masked.")
        members = np.flatnonzero(self.first_equal == self.first_equal[key])
        return np.asarray(self._mean_value(members) @ self.output_weight)

    def attention_weights(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute $\mathrm{softmax}(s(x)/\tau)$: shape `(..., n_keys)`, zero for masked keys.

        Args:
            x: A point `(dim,)` or a batch `(n_points, dim)`.
            tau: The temperature, at least 0. At 0 the weights are uniform on the exact winners.
        """
        batch = self._read_points(x)
        return batch.unpack(
            self._scatter_to_keys(self._compute_weights(batch.rows, _read_temperature(tau)), 0.0)
        )

    def soft(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Evaluate $\sum_j p_j v_j W_O$ at temperature `tau >= 0`: shape `(..., out_dim)`."""
        batch, tau = self._read_points(x), _read_temperature(tau)
        if tau == 0.0:
            return self(x)
        mixed = self._compute_weights(batch.rows, tau) @ self.unmasked_values
        return batch.unpack(mixed @ self.output_weight)

    def potential(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute $P_\tau = \tau\log\sum_j e^{s_j/\tau}$, or $\max_j s_j$ at 0: shape `(...)`."""
        batch, tau = self._read_points(x), _read_temperature(tau)
        if tau == 0.0:
            return batch.unpack(self.score_map.largest(batch.rows))
        weights = self.score_map.log_weights(batch.rows, tau)
        with np.errstate(over="ignore", under="ignore"):
            return batch.unpack(weights.largest + tau * log_sums(weights.logs))

    def potential_gradient(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute $\nabla_x P_\tau = W_Q \sum_j p_j k_j$: shape `(..., dim)`.

        At `tau = 0` the result is the slope of the winner. On a wall it is the mean slope of the
        tied winners, which is the limit as $\tau \to 0$ and a subgradient.
        """
        batch = self._read_points(x)
        mean_key = self._compute_weights(batch.rows, _read_temperature(tau)) @ self.score_map.keys
        return batch.unpack(mean_key @ self.query_weight.T)

    def potential_hessian(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute $\nabla^2_x P_\tau = \frac1\tau W_Q \mathrm{Cov}_p(k) W_Q^\top$.

        Args:
            x: A point `(dim,)` or a batch `(n_points, dim)`.
            tau: The temperature, greater than 0. At 0 there is no Hessian on the walls.

        Returns:
            The Hessians, shape `(..., dim, dim)`, symmetric and positive semidefinite. Entries as
            small as $e^{-700}$ keep their leading digits.

        Raises:
            NonFiniteError: If an entry exceeds the range of float64, as on a wall at the smallest
                `tau`.
        """
        batch, tau = self._read_points(x), number("tau", tau, above=0.0)
        hessians = np.empty((len(batch.rows), self.dim, self.dim))
        for i, weights in enumerate(self._compute_weights(batch.rows, tau)):
            factor = covariance_factor(weights, self.score_map.keys, int(weights.argmax()), tau)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                root = factor @ self.query_weight.T
                hessians[i] = root.T @ root
        return batch.unpack(check_derivatives(hessians, tau))

    def jacobian(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute the derivative of `soft`, $\frac1\tau W_O^\top \mathrm{Cov}_p(v, k) W_Q^\top$.

        Args:
            x: A point `(dim,)` or a batch `(n_points, dim)`.
            tau: The temperature, greater than 0. At 0 the head is locally constant and jumps on
                walls.

        Returns:
            The Jacobians, shape `(..., out_dim, dim)`; entry `[o, i]` is the derivative of output
            `o` with respect to `x[i]`.
        """
        batch, tau = self._read_points(x), number("tau", tau, above=0.0)
        values = self.unmasked_values
        jacobians = np.empty((len(batch.rows), self.out_dim, self.dim))
        for i, weights in enumerate(self._compute_weights(batch.rows, tau)):
            winner = int(weights.argmax())
            keys_factor = covariance_factor(weights, self.score_map.keys, winner, tau)
            values_factor = covariance_factor(weights, values, winner, tau)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                slopes = keys_factor @ self.query_weight.T
                jacobians[i] = (values_factor @ self.output_weight).T @ slopes
        return batch.unpack(check_derivatives(jacobians, tau))

    def _read_points(self, x: FloatArray) -> PointBatch:
        return PointBatch.read("x", x, self.dim)

    def _compute_weights(self, points: FloatArray, tau: float) -> FloatArray:
        """Return the attention weights of the unmasked keys."""
        if tau == 0.0:
            return uniform_weights(self.score_map.tied_winners(points))
        return normalise_weights(self.score_map.log_weights(points, tau).logs)

    def _mean_value(self, members: IntArray) -> FloatArray:
        """Return the mean of some values, rounded once, so that equal values have an exact mean."""
        exact = scaled_integers(self.values[members])
        return round_quotients(exact.integers.sum(axis=0), exact.exponent, float(len(members)))

    def _scatter_to_keys(self, unmasked: Array, fill: float | bool) -> Array:
        whole = np.full((len(unmasked), self.n_keys), fill, dtype=unmasked.dtype)
        whole[:, self.unmasked] = unmasked
        return cast(Array, whole)


def read_score_divisor(value: object, head: AttentionHead) -> float:
    r"""Read the divisor of the scores: a number above 0, or `"standard"` for $\sqrt{d_k}$.

    Examples:
        >>> head = AttentionHead(np.eye(4), np.eye(4), np.eye(4), np.eye(4))
        >>> read_score_divisor("standard", head), read_score_divisor(12, head)
        (2.0, 12.0)
    """
    if isinstance(value, str):
        choice("score_divisor", value, ("standard",))
        return head.standard_temperature
    return number("score_divisor", value, above=0.0)


def read_logit_bias(value: object, sizes: Sizes) -> FloatArray:
    """Read logit biases of shape `(n_keys,)`; -inf masks a key, but may not mask every key."""
    bias = sizes.floats("logit_bias", value, ("n_keys",), infinity="negative")
    if not (bias > -np.inf).any():
        raise EmptyInputError(
            f"`logit_bias` must leave at least one key unmasked; all {len(bias)} entries are -inf."
        )
    return bias


def _read_temperature(tau: float) -> float:
    return number("tau", tau, at_least=0.0)
