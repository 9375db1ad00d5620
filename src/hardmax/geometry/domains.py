r"""Domains of diagrams and partitions: the whole space, boxes, affine slices, segments and lines.

All of them implement the interface `Domain` (see `domain_protocol`). `Polytope` and `Simplex`, in
modules of their own, do too.
"""

from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from hardmax._ground.arguments import Sizes, integer, read_only_copy
from hardmax._ground.display import html_card, short_repr, summarize
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.dyadic import scaled_rows
from hardmax.geometry.domain_protocol import (
    Chart,
    CheckedDomain,
    Domain,
    FullDimensional,
    check_domain,
)
from hardmax.typing import BoolArray, FloatArray, WideArray

_MARGIN = 0.25
"""Margin of a box around points, relative to the spread of the points."""
_WEIGHTS = np.array([[-1.0, 1.0]]), np.array([1.0, 0.0])
"""The map from the coordinate of a segment to the weights of its ends."""


@dataclass(frozen=True, eq=False)
class Box(FullDimensional):
    r"""The box $[l_1, h_1] \times \dots \times [l_d, h_d]$.

    Attributes:
        low: The lower bounds $l_k$, shape `(dim,)`.
        high: The upper bounds $h_k > l_k$, shape `(dim,)`.

    Raises:
        ArgumentError: If an entry of `low` is not less than the corresponding entry of `high`.
        NonFiniteError: If a bound is NaN or infinite (use `WholeSpace` for an unbounded domain).

    Examples:
        >>> square = Box([-1, -1], [1, 1])
        >>> square.contains([[0, 1], [0, 1.5]]).tolist()
        [True, False]
    """

    low: FloatArray
    high: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        low = sizes.floats("low", self.low, ("dim",))
        high = sizes.floats("high", self.high, ("dim",))
        empty = np.flatnonzero(low >= high)
        if empty.size:
            k = int(empty[0])
            raise ArgumentError(
                f"`low` must be below `high` in every coordinate; "
                f"got low[{k}] = {low[k]} and high[{k}] = {high[k]}."
            )
        object.__setattr__(self, "low", read_only_copy(low))
        object.__setattr__(self, "high", read_only_copy(high))

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.low.shape[0])

    @property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)`: first all `x[k] <= high[k]`, then all `-x[k] <= -low[k]`."""
        identity = np.eye(self.dim)
        return np.concatenate([identity, -identity]), np.concatenate([self.high, -self.low])

    @property
    def exact_rows(self) -> WideArray:
        """The inequalities as integers `(a, b)`, shape `(2 * dim, dim + 1)`."""
        return scaled_rows(np.column_stack(self.inequalities))[0]

    def contains(self, points: FloatArray) -> BoolArray:
        """Tell which rows of `points` lie in the box or on its boundary, shape `(n_points,)`."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        return np.asarray(((points >= self.low) & (points <= self.high)).all(axis=1))


def box_around(points: FloatArray, with_origin: bool) -> Box:
    """Return a cube that contains points, and optionally the origin, with a margin.

    Examples:
        >>> box_around(np.array([[0.0, 0.0], [2.0, 1.0]]), with_origin=False)
        Box(low=[-0.5, -1.0], high=[2.5, 2.0])
    """
    shown = np.vstack([points, np.zeros_like(points[:1])]) if with_origin else points
    low, high = shown.min(axis=0), shown.max(axis=0)
    half = (0.5 + _MARGIN) * float((high - low).max())
    half = half if half > 0 else 1.0
    return Box((low + high) / 2 - half, (low + high) / 2 + half)


@dataclass(frozen=True, eq=False)
class WholeSpace(FullDimensional):
    r"""The whole space $\mathbb{R}^d$.

    Attributes:
        dim: The dimension $d$, at least 1.

    Examples:
        >>> WholeSpace(2).inequalities[0].shape
        (0, 2)
    """

    dim: int

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", integer("dim", self.dim, at_least=1))

    @property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)`, which has no rows."""
        return np.zeros((0, self.dim)), np.zeros(0)

    @property
    def exact_rows(self) -> WideArray:
        """The inequalities as integers `(a, b)`: an empty array of shape `(0, dim + 1)`."""
        return np.empty((0, self.dim + 1), dtype=object)

    def contains(self, points: FloatArray) -> BoolArray:
        """Return True for every row of `points`."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        return np.ones(points.shape[0], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Slice(CheckedDomain):
    r"""The subset $\{o + \sum_k t_k v_k : t \in B\}$ of an affine subspace.

    Attributes:
        origin: The point $o$, shape `(ambient_dim,)`.
        directions: The linearly independent vectors $v_k$, shape `(dim, ambient_dim)`.
        box: The domain $B$ of the coordinates $t$, or its text: a full-dimensional domain in `dim`
            dimensions, such as a `Box`. By default, all of $\mathbb{R}^{dim}$.

    Raises:
        ArgumentError: If the directions are linearly dependent, or `box` has the wrong dimension.
        DtypeError: If `box` is not a full-dimensional domain.

    Examples:
        >>> diagonal = Slice([0, 0, 1], [[1, 1, 0]], Box([0], [2]))
        >>> diagonal.dim, diagonal.ambient_dim, diagonal.points([[0.5]]).tolist()
        (1, 3, [[0.5, 0.5, 1.0]])
    """

    origin: FloatArray
    directions: FloatArray
    box: Domain | str | None = None

    _repr_html_ = html_card

    def __repr__(self) -> str:
        where = f"{self.dim} dimension{'s' * (self.dim != 1)} of R^{self.ambient_dim}"
        return f"Slice({where}, {summarize(self.box)})"

    def __post_init__(self) -> None:
        sizes = Sizes()
        origin = sizes.floats("origin", self.origin, ("ambient_dim",))
        directions = sizes.floats("directions", self.directions, ("dim", "ambient_dim"))
        _require_independent("directions", directions)
        inner = WholeSpace(len(directions)) if self.box is None else self.box
        if isinstance(inner, str):
            from hardmax.geometry.domain_text import read_domain  # It imports this module.

            inner = read_domain(inner, "box")
        given, inner = inner, check_domain(inner, "box")
        if inner.chart is not None:
            raise DtypeError(
                "`box` must be full-dimensional, without coordinates of its own, like "
                f"a Box or a Polytope; got {type(given).__name__}."
            )
        if inner.dim != len(directions):
            raise ArgumentError(
                f"`box` must have dimension {len(directions)}, the number of directions; "
                f"got dimension {inner.dim}."
            )
        object.__setattr__(self, "origin", read_only_copy(origin))
        object.__setattr__(self, "directions", read_only_copy(directions))
        object.__setattr__(self, "box", inner)

    @property
    def dim(self) -> int:
        """The dimension of the slice."""
        return int(self.directions.shape[0])

    @property
    def ambient_dim(self) -> int:
        """The dimension of the ambient space."""
        return int(self.origin.shape[0])

    @property
    def chart(self) -> Chart:
        """The pair `(W, b)`: the directions and the origin."""
        return self.directions, self.origin

    @property
    def exact_rows(self) -> WideArray:
        """The inequalities of `box` as integers `(a, b)`, shape `(n_rows, dim + 1)`."""
        assert isinstance(self.box, CheckedDomain)
        return self.box.exact_rows

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Map the rows of `coordinates` to points of the ambient space, rounded."""
        return _map_coordinates(self, coordinates)


@dataclass(frozen=True, eq=False)
class Segment(CheckedDomain):
    r"""The segment $\{(1 - t) p + t q : 0 \le t \le 1\}$.

    Attributes:
        start: The point $p$, shape `(ambient_dim,)`.
        end: The point $q \ne p$, shape `(ambient_dim,)`.

    Raises:
        ArgumentError: If the two points are equal.

    Examples:
        >>> Segment([0, 0], [4, 2]).points([[0.5]]).tolist()
        [[2.0, 1.0]]
    """

    start: FloatArray
    end: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        start = sizes.floats("start", self.start, ("ambient_dim",))
        end = sizes.floats("end", self.end, ("ambient_dim",))
        if np.array_equal(start, end):
            raise ArgumentError(f"`end` must differ from `start`; got {end.tolist()} twice.")
        object.__setattr__(self, "start", read_only_copy(start))
        object.__setattr__(self, "end", read_only_copy(end))

    @property
    def dim(self) -> int:
        """The dimension of a segment: 1."""
        return 1

    @property
    def ambient_dim(self) -> int:
        """The dimension of the ambient space."""
        return int(self.start.shape[0])

    @property
    def chart(self) -> Chart:
        """The pair `(W, b)`. Its `W` is a rounded difference; `exact_chart` is exact."""
        with np.errstate(over="ignore"):
            return (self.end - self.start)[np.newaxis], self.start

    @property
    def exact_chart(self) -> tuple[Chart, Chart]:
        r"""The exact chart: the map $t \mapsto (1 - t, t)$, then $(s, t) \mapsto s p + t q$."""
        return _WEIGHTS, (np.stack([self.start, self.end]), np.zeros(self.ambient_dim))

    @property
    def exact_rows(self) -> WideArray:
        r"""The inequalities $t \le 1$ and $-t \le 0$ as integers."""
        return np.array([[1, 1], [-1, 0]], dtype=object)

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Map the rows of `coordinates` to points of the ambient space, rounded."""
        t = Sizes(dim=1).floats("coordinates", coordinates, ("n_points", "dim"), nonempty=())
        return np.asarray((1.0 - t) * self.start + t * self.end)


@dataclass(frozen=True, eq=False)
class _DirectedDomain(CheckedDomain):
    """The base class of `Line` and `Ray`: an origin, a direction and their chart."""

    origin: FloatArray
    direction: FloatArray

    def __post_init__(self) -> None:
        _read_direction(self)

    @property
    def dim(self) -> int:
        """The dimension of a line or ray: 1."""
        return 1

    @property
    def ambient_dim(self) -> int:
        """The dimension of the ambient space."""
        return int(self.origin.shape[0])

    @property
    def chart(self) -> Chart:
        """The pair `(W, b)`: the direction and the origin."""
        return self.direction[np.newaxis], self.origin

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Map the rows of `coordinates` to points of the ambient space, rounded."""
        return _map_coordinates(self, coordinates)


@dataclass(frozen=True, eq=False)
class Line(_DirectedDomain):
    r"""The line $\{o + t v : t \in \mathbb{R}\}$.

    Attributes:
        origin: The point $o$, shape `(ambient_dim,)`.
        direction: The nonzero vector $v$, shape `(ambient_dim,)`.

    Raises:
        ArgumentError: If the direction is zero.

    Examples:
        >>> Line([0, 0], [4, 2]).points([[-1.5]]).tolist()
        [[-6.0, -3.0]]
    """

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def exact_rows(self) -> WideArray:
        """The inequalities as integers: an empty array of shape `(0, 2)`."""
        return np.empty((0, 2), dtype=object)


@dataclass(frozen=True, eq=False)
class Ray(_DirectedDomain):
    r"""The ray $\{o + t v : t \ge 0\}$.

    Attributes:
        origin: The point $o$, shape `(ambient_dim,)`.
        direction: The nonzero vector $v$, shape `(ambient_dim,)`.

    Raises:
        ArgumentError: If the direction is zero.

    Examples:
        >>> Ray([0, 0], [4, 2]).points([[1.5]]).tolist()
        [[6.0, 3.0]]
    """

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def exact_rows(self) -> WideArray:
        r"""The inequality $-t \le 0$ as integers, shape `(1, 2)`."""
        return np.array([[-1, 0]], dtype=object)


def _map_coordinates(domain: Slice | _DirectedDomain, coordinates: FloatArray) -> FloatArray:
    t = Sizes(dim=domain.dim).floats("coordinates", coordinates, ("n_points", "dim"), nonempty=())
    weight, bias = domain.chart
    return np.asarray(t @ weight + bias)


def _read_direction(domain: _DirectedDomain) -> None:
    sizes = Sizes()
    origin = sizes.floats("origin", domain.origin, ("ambient_dim",))
    direction = sizes.floats("direction", domain.direction, ("ambient_dim",))
    if not direction.any():
        raise ArgumentError("`direction` must not be zero; got zeros only.")
    object.__setattr__(domain, "origin", read_only_copy(origin))
    object.__setattr__(domain, "direction", read_only_copy(direction))


def _require_independent(name: str, vectors: FloatArray) -> None:
    integers, _ = scaled_rows(vectors)
    rank = fmpz_mat(*integers.shape, integers.ravel().tolist()).rank()
    if rank < len(vectors):
        raise ArgumentError(
            f"`{name}` must be linearly independent; got {len(vectors)} "
            f"vector{'s' * (len(vectors) != 1)} of rank {rank}."
        )
