r"""RMSNorm and LayerNorm before the queries: polyhedral or quadric routing.

A normalisation divides the (centred) input by its size, $y = g \odot Gx / \rho(x) + h$ with
$\rho(x)^2 = x^\top G x / d + \epsilon$, where $G$ is the identity (RMSNorm) or the centring matrix
$I - \mathbf 1 \mathbf 1^\top / d$ (LayerNorm). Multiplying the scores of $y$ by $\rho > 0$ does not
change the winner:

$$\rho(x)\, s_j(y) = \langle \ell_j, x\rangle + o_j\, \rho(x), \qquad
  \ell_j = G (g \odot a_j), \quad o_j = \langle h, a_j \rangle + c_j .$$

If all $o_j$ are equal, the linear forms $\ell_j$ determine the winners. Otherwise the wall
between two keys is $\langle \ell_i - \ell_j, x\rangle + (o_i - o_j)\rho(x) = 0$, a piece of a
quadric.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from hardmax._ground.arguments import Sizes, choice, integer, number, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats, rationals
from hardmax.models.heads import AttentionHead
from hardmax.models.points import PointBatch
from hardmax.models.variants.quadrics import Quadric
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray, WideArray

RoutingKind = Literal["unchanged", "pulled back", "quadric"]


@dataclass(frozen=True, eq=False)
class Normalisation:
    r"""RMSNorm or LayerNorm, $x \mapsto g \odot Gx/\rho(x) + h$.

    Attributes:
        kind: `"rms"` ($G$ is the identity) or `"layer"` ($G$ is the centring matrix).
        gain: The $g$, shape `(dim,)`.
        shift: The $h$, shape `(dim,)`; None means zero.
        epsilon: The $\epsilon \ge 0$ of $\rho(x)^2 = x^\top G x/d + \epsilon$.

    References:
        [BKH16], [ZS19].

    Examples:
        >>> Normalisation("layer", np.ones(2))(np.array([3.0, 5.0])).tolist()
        [-1.0, 1.0]
    """

    kind: Literal["rms", "layer"]
    gain: FloatArray
    shift: FloatArray | None = None
    epsilon: float = 0.0

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        choice("kind", self.kind, ("rms", "layer"))
        sizes = Sizes()
        object.__setattr__(self, "gain", read_only_copy(sizes.floats("gain", self.gain, ("dim",))))
        if self.shift is not None:
            object.__setattr__(
                self, "shift", read_only_copy(sizes.floats("shift", self.shift, ("dim",)))
            )
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, at_least=0.0))

    @property
    def dim(self) -> int:
        """The dimension of the input."""
        return len(self.gain)

    def size(self, x: FloatArray) -> FloatArray:
        r"""Compute $\rho(x)$, rounded: shape `(...)`."""
        batch = PointBatch.read("x", x, self.dim)
        return batch.unpack(self._centre_and_measure(batch.rows)[1])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Normalise every point, rounded: shape `(..., dim)`.

        Raises:
            ArgumentError: If `epsilon` is 0 and a (centred) point is 0.
        """
        batch = PointBatch.read("x", x, self.dim)
        centred, size = self._centre_and_measure(batch.rows)
        self.refuse_undefined(size == 0.0)
        shift = 0.0 if self.shift is None else self.shift
        return batch.unpack(np.asarray(self.gain * (centred / size[:, None]) + shift))

    def refuse_undefined(self, zero: BoolArray) -> None:
        """Raise if any point has size 0, according to the mask `zero`."""
        if zero.any():
            raise ArgumentError(
                f"`x` must not have size 0 if epsilon = 0; point {int(zero.argmax())} is "
                + ("0." if self.kind == "rms" else "constant.")
            )

    def _centre_and_measure(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        centred = rows - rows.mean(axis=1, keepdims=True) if self.kind == "layer" else rows
        # Divide by the largest entry, so that no square leaves the range of floats.
        largest = np.abs(centred).max(axis=1)
        unit = centred / np.where(largest > 0, largest, 1.0)[:, None]
        size = largest * np.sqrt((unit**2).mean(axis=1))
        return centred, np.hypot(size, np.sqrt(self.epsilon))


@dataclass(frozen=True, eq=False)
class NormalisedWall:
    r"""The set on which two keys tie: $\{x : \langle c, x\rangle + b\,\rho(x) = 0\}$.

    If $b \ne 0$ and $\epsilon = 0$, this is one nappe of a circular quadric cone: the points at a
    fixed angle from $-bc$ (times the constant vectors for LayerNorm). If $b \ne 0$ and
    $\epsilon > 0$, it is one sheet of a hyperboloid inside that cone. Both exist only if
    $d|c|^2 > b^2$.

    Attributes:
        normal: The $c = \ell_i - \ell_j$, shape `(dim,)`, exact rationals.
        height: The $b = o_i - o_j$, exact.
        normalisation: The normalisation that defines $\rho$.

    Examples:
        >>> head = AttentionHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2), query_bias=[1.0, 0])
        >>> wall = NormalisedRouting(head, Normalisation("rms", np.ones(2))).wall(0, 1)
        >>> wall.kind, wall.height, [int(x) for x in wall.normal]
        ('cone', Fraction(1, 1), [1, -1])
    """

    normal: WideArray
    height: Fraction
    normalisation: Normalisation

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def kind(self) -> str:
        """One of hyperplane, cone, ray, hyperboloid, none (one key always wins) and everywhere.

        A ray is the limit of a cone at $d|c|^2 = b^2$: the half-line of $-bc$ (times the constant
        vectors for LayerNorm).
        """
        steepness = len(self.normal) * Fraction(self.normal @ self.normal)
        if self.height == 0:
            return "hyperplane" if steepness else "everywhere"
        if self.normalisation.epsilon > 0:
            return "hyperboloid" if steepness > self.height**2 else "none"
        if steepness == self.height**2:
            return "ray"
        return "cone" if steepness > self.height**2 else "none"

    def sign(self, x: FloatArray) -> SignArray:
        r"""Return the exact sign of $\langle c, x\rangle + b\rho(x)$: +1 where key $i$ wins."""
        batch = PointBatch.read("x", x, len(self.normal))
        squared = exact_squared_sizes(self.normalisation, batch.rows)
        signs = [
            sign_with_root(point @ self.normal, self.height, square)
            for point, square in zip(rationals(batch.rows), squared, strict=True)
        ]
        return batch.unpack(np.array(signs, dtype=np.int8))

    @property
    def quadric(self) -> Quadric:
        r"""The quadric $\langle c, x\rangle^2 = b^2\rho(x)^2$: the wall and its mirror image."""
        dim, squared = len(self.normal), self.height**2
        metric = _metric_matrix(self.normalisation) * (squared / dim)
        matrix = np.multiply.outer(self.normal, self.normal) - metric
        constant = -squared * Fraction(self.normalisation.epsilon)
        return Quadric(matrix, rationals(np.zeros(dim)), constant)


@dataclass(frozen=True, eq=False)
class NormalisedRouting:
    r"""The winners of a head that reads normalised input, as a function of the raw input.

    All answers are exact for the stored arrays; the square root in $\rho$ is not rounded.

    Attributes:
        head: The head, which reads the normalised input.
        normalisation: The normalisation before the head's query weight.

    Examples:
        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0], [0.0, 1.0]], np.eye(2), np.eye(2))
        >>> rms = Normalisation("rms", np.ones(2))
        >>> NormalisedRouting(head, rms).kind
        'unchanged'
        >>> biased = AttentionHead(np.eye(2), head.keys, np.eye(2), np.eye(2), query_bias=[1.0, 0])
        >>> routing = NormalisedRouting(biased, rms)
        >>> routing.kind, routing.wall(0, 1).kind
        ('quadric', 'cone')
        >>> routing.winners(np.array([[0.5, 1.0], [0.0, 1.0]])).tolist()
        [0, 1]
    """

    head: AttentionHead
    normalisation: Normalisation

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        if self.normalisation.dim != self.head.dim:
            raise ArgumentError(
                f"`normalisation` must act on the {self.head.dim} coordinates that `head` reads; "
                f"got {self.normalisation.dim} coordinates."
            )

    @cached_property
    def slopes(self) -> WideArray:
        r"""The exact $\ell_j$ of the unmasked keys, shape `(n_unmasked, dim)`."""
        gained = self._exact_forms[:, :-1] * rationals(self.normalisation.gain)
        if self.normalisation.kind == "layer":
            gained = gained - gained.sum(axis=1, keepdims=True) / Fraction(self.head.dim)
        return np.asarray(gained)

    @cached_property
    def heights(self) -> WideArray:
        r"""The exact $o_j$ of the unmasked keys, shape `(n_unmasked,)`."""
        if self.normalisation.shift is None:
            return np.asarray(self._exact_forms[:, -1])
        return np.asarray(
            self._exact_forms[:, :-1] @ rationals(self.normalisation.shift)
            + self._exact_forms[:, -1]
        )

    @cached_property
    def eligible(self) -> BoolArray:
        r"""The mask of the unmasked keys not dominated by a key with the same $\ell$."""
        names = [tuple(row) for row in self.slopes]
        best: dict[tuple[Fraction, ...], Fraction] = {}
        for name, height in zip(names, self.heights, strict=True):
            best[name] = max(height, best.get(name, height))
        pairs = zip(names, self.heights, strict=True)
        return np.array([height == best[name] for name, height in pairs])

    @property
    def kind(self) -> RoutingKind:
        """The effect of the normalisation on the routing cells.

        If all eligible heights are equal, the kind is `"unchanged"` (RMSNorm; the gain is absorbed)
        or `"pulled back"` (LayerNorm; through the centring), and `linear_head` has the same cells.
        Otherwise the kind is `"quadric"`: at least two eligible keys have different heights (see
        `wall`).
        """
        heights = self.heights[self.eligible]
        if (heights != heights[0]).any():
            return "quadric"
        return "unchanged" if self.normalisation.kind == "rms" else "pulled back"

    @property
    def explanation(self) -> str:
        """One sentence that explains `kind` for this head."""
        return {
            "unchanged": "RMSNorm divides all scores by one positive number, so the head with the "
            "gain absorbed in its query weight has the same winners.",
            "pulled back": "LayerNorm centres the input and divides all scores by one positive "
            "number: the cells are pulled back through the centring.",
            "quadric": "A query bias, logit bias or norm shift gives keys different constants, "
            "so the winner depends on the size of the input: the walls are pieces of quadrics.",
        }[self.kind]

    @cached_property
    def linear_head(self) -> AttentionHead | None:
        r"""An ordinary head with exactly this routing on raw input, or None if `kind` is quadric.

        Its query weight is $\mathrm{diag}(g) W_Q$ for RMSNorm and $d\,G\,\mathrm{diag}(g) W_Q$ for
        LayerNorm (the factor $d$ keeps it dyadic). If these products do not fit into float64, the
        query weight holds several matrices side by side whose exact sum is the product, and the
        keys are repeated accordingly.
        """
        if self.kind == "quadric":
            return None
        head = self.head
        product = rationals(head.query_weight) * rationals(self.normalisation.gain)[:, None]
        if self.normalisation.kind == "layer":
            product = head.dim * product - product.sum(axis=0)
        parts = _exact_sum_of_floats(product)
        bias = np.full(head.n_keys, -np.inf)
        bias[head.unmasked[self.eligible]] = 0.0
        keys = np.tile(head.keys, (1, len(parts)))
        return AttentionHead(np.hstack(parts), keys, head.values, head.output_weight, None, bias)

    def temperature(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Return the temperature at which `linear_head` has the same soft weights.

        The temperature is $\tau\rho(x)$, times $d$ for LayerNorm: shape `(...)`.
        """
        tau = number("tau", tau, at_least=0.0)
        stretch = self.head.dim if self.normalisation.kind == "layer" else 1
        return np.asarray(tau * stretch * self.normalisation.size(x))

    def wall(self, first: int, second: int) -> NormalisedWall:
        """Return the wall between two unmasked keys; its sign is +1 where `first` wins."""
        i, j = (self._row_index(name, key) for name, key in (("first", first), ("second", second)))
        height = self.heights[i] - self.heights[j]
        return NormalisedWall(self.slopes[i] - self.slopes[j], height, self.normalisation)

    def tied(self, x: FloatArray) -> BoolArray:
        """Return the mask of the keys with the largest exact score: shape `(..., n_keys)`.

        Raises:
            ArgumentError: If `epsilon` is 0 and a (centred) point is 0.
        """
        batch = PointBatch.read("x", x, self.head.dim)
        squared = exact_squared_sizes(self.normalisation, batch.rows)
        self.normalisation.refuse_undefined(np.array([square == 0 for square in squared]))
        marks = np.zeros((len(batch.rows), self.head.n_keys), dtype=bool)
        for i, (point, square) in enumerate(zip(rationals(batch.rows), squared, strict=True)):
            linear, best = self.slopes @ point, [0]
            for j in range(1, len(linear)):
                top = best[0]
                gap, height = linear[j] - linear[top], self.heights[j] - self.heights[top]
                sign = sign_with_root(gap, height, square)
                if sign >= 0:
                    best = [j] if sign else [*best, j]
            marks[i, self.head.unmasked[best]] = True
        return batch.unpack(marks)

    def winners(self, x: FloatArray) -> IntArray:
        """Return the winning key; if several tie, the first: shape `(...)`."""
        batch = PointBatch.read("x", x, self.head.dim)
        return batch.unpack(self.tied(batch.rows).argmax(axis=1))

    @cached_property
    def _exact_forms(self) -> WideArray:
        forms = self.head.score_map.forms
        return np.asarray(forms.integers * Fraction(2) ** forms.exponent)

    def _row_index(self, name: str, key: int) -> int:
        key = integer(name, key, at_least=0, at_most=self.head.n_keys - 1)
        rows = np.flatnonzero(self.head.unmasked == key)
        if not len(rows):
            raise ArgumentError(f"`{name}` must be an unmasked key; key {key} is masked.")
        return int(rows[0])


def sign_with_root(rational: Fraction, factor: Fraction, square: Fraction) -> int:
    r"""Return the sign of $u + v\sqrt w$ for rationals, with $w \ge 0$.

    Examples:
        >>> sign_with_root(Fraction(-3), Fraction(2), Fraction(9, 4))
        0
    """
    root = (factor > 0) - (factor < 0) if square else 0
    plain = (rational > 0) - (rational < 0)
    if plain * root >= 0:
        return plain or root
    difference = rational * rational - factor * factor * square
    return plain * ((difference > 0) - (difference < 0))


def exact_squared_sizes(normalisation: Normalisation, rows: FloatArray) -> list[Fraction]:
    r"""Return the exact $\rho(x)^2$ for each row."""
    metric, epsilon = _metric_matrix(normalisation), Fraction(normalisation.epsilon)
    return [
        Fraction(point @ metric @ point) / normalisation.dim + epsilon for point in rationals(rows)
    ]


def _metric_matrix(normalisation: Normalisation) -> WideArray:
    """Return the matrix $G$."""
    identity = rationals(np.eye(normalisation.dim))
    if normalisation.kind == "rms":
        return identity
    return np.asarray(identity - Fraction(1, normalisation.dim))


def _exact_sum_of_floats(matrix: WideArray) -> list[FloatArray]:
    """Write a dyadic matrix as a sum of float64 matrices, each the rounded remainder."""
    parts, rest = [nearest_floats(matrix)], matrix
    while np.isfinite(parts[-1]).all():
        rest = rest - rationals(parts[-1])
        if not (rest != 0).any():
            return parts
        parts.append(nearest_floats(rest))
        if not parts[-1].any():
            break
    raise ArgumentError(
        "`gain` times `query_weight` exceeds the range of float64; rescale one of them."
    )
