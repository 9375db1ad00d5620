r"""The query token's own key: a quadratic score, with quadric walls against the fixed keys.

A token that also attends to itself has the key $x W_K + b_K$. Its own score

$$s_0(x) = \langle x W_Q + b_Q,\ x W_K + b_K\rangle + \beta_0 = x M x^\top
  + \langle x, W_Q b_K + W_K b_Q\rangle + \langle b_Q, b_K\rangle + \beta_0,
  \qquad M = W_Q W_K^\top,$$

is a quadratic polynomial. The wall against a fixed key is the quadric
$s_0(x) = \langle x, a_j\rangle + c_j$, so the routing cells are semialgebraic instead of
polyhedral.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._ground.arguments import Sizes, integer, number, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import rationals
from hardmax.models.heads import AttentionHead
from hardmax.models.points import PointBatch
from hardmax.models.variants.quadrics import Quadric
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class OwnKeyRouting:
    r"""The exact routing of a head whose query also sees its own key.

    The own key has index `n_keys`, after the fixed keys, and loses ties in `winners`.

    *Geometry.* The walls between fixed keys are hyperplanes. Let $A = (M + M^\top)/2$. If
    $A \succeq 0$, the cell of every fixed key is convex, and far out in a direction $u$ with
    $u A u^\top > 0$ the own key wins. If $A \preceq 0$, the cell of the own key is convex.

    Attributes:
        head: The head over the fixed keys.
        key_weight: The $W_K$, shape `(dim, d_k)`.
        key_bias: The $b_K$, shape `(d_k,)`; None means zero.
        own_bias: The additive logit $\beta_0$ of the own key.

    References:
        [SL26] remark IV.5, which leaves this case open.

    Examples:
        One fixed key (1, 0) and no weights: the token attends to itself outside a circle.

        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0]], [[1.0]], [[1.0]])
        >>> routing = OwnKeyRouting(head, key_weight=np.eye(2))
        >>> routing.winners(np.array([[0.5, 0.4], [0.5, 0.5], [0.5, 0.6]])).tolist()
        [0, 0, 1]
        >>> routing.wall(0).conic, routing.wall(0).centre.tolist(), routing.wall(0).level
        ('circle', [Fraction(1, 2), Fraction(0, 1)], Fraction(1, 4))
    """

    head: AttentionHead
    key_weight: FloatArray
    key_bias: FloatArray | None = None
    own_bias: float = 0.0

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes(dim=self.head.dim, d_k=self.head.head_dim)
        weight = sizes.floats("key_weight", self.key_weight, ("dim", "d_k"))
        object.__setattr__(self, "key_weight", read_only_copy(weight))
        if self.key_bias is not None:
            bias = sizes.floats("key_bias", self.key_bias, ("d_k",))
            object.__setattr__(self, "key_bias", read_only_copy(bias))
        object.__setattr__(self, "own_bias", number("own_bias", self.own_bias))

    @cached_property
    def own_form(self) -> Quadric:
        r"""The score $s_0$ of the own key as a quadratic polynomial; its zero set is not a wall."""
        weight_q, weight_k = rationals(self.head.query_weight), rationals(self.key_weight)
        bias_q = rationals(self.head.score_map.query_bias)
        bias_k = rationals(np.zeros(self.head.head_dim) if self.key_bias is None else self.key_bias)
        form = weight_q @ weight_k.T
        return Quadric(
            (form + form.T) / 2,
            weight_q @ bias_k + weight_k @ bias_q,
            bias_q @ bias_k + Fraction(self.own_bias),
        )

    def wall(self, key: int) -> Quadric:
        """Return the wall against one fixed key, positive where the own key has the larger score.

        Args:
            key: The index of an unmasked key.
        """
        key = integer("key", key, at_least=0, at_most=self.head.n_keys - 1)
        row = np.flatnonzero(self.head.unmasked == key)
        if not len(row):
            raise ArgumentError(f"`key` must be an unmasked key; key {key} is masked.")
        form = self._exact_forms[int(row[0])]
        own = self.own_form
        return Quadric(own.matrix, own.linear - form[:-1], own.constant - form[-1])

    def tied(self, x: FloatArray) -> BoolArray:
        """Return the mask of the keys with the largest exact score: shape `(..., n_keys + 1)`."""
        batch = PointBatch.read("x", x, self.head.dim)
        own = self.own_form
        marks = np.zeros((len(batch.rows), self.head.n_keys + 1), dtype=bool)
        for i, point in enumerate(rationals(batch.rows)):
            scores = np.empty(len(self._exact_forms) + 1, dtype=object)
            scores[:-1] = self._exact_forms[:, :-1] @ point + self._exact_forms[:, -1]
            scores[-1] = point @ (own.matrix @ point + own.linear) + own.constant
            marks[i, np.append(self.head.unmasked, self.head.n_keys)] = scores == scores.max()
        return batch.unpack(marks)

    def winners(self, x: FloatArray) -> IntArray:
        """Return the winning key (`n_keys` for the own key); if several tie, the first."""
        batch = PointBatch.read("x", x, self.head.dim)
        return batch.unpack(self.tied(batch.rows).argmax(axis=1))

    @cached_property
    def _exact_forms(self) -> WideArray:
        """The rows (a_j, c_j) of the unmasked keys as rationals."""
        forms = self.head.score_map.forms
        return np.asarray(forms.integers * Fraction(2) ** forms.exponent)
