r"""The interface of domains, and the check of objects of other classes that implement it.

A domain has coordinates $t \in \mathbb{R}^{dim}$, inequalities $\langle a, t\rangle \le c$ whose
solutions have nonempty interior, and a chart $t \mapsto x = t W + b$ into the space
$\mathbb{R}^{ambient\_dim}$.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, lcm
from numbers import Rational
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from flint import fmpz_mat

from hardmax._ground.arguments import Sizes, integer
from hardmax._ground.display import short_repr
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.exact.dyadic import ScaledIntegers, round_scaled_integers, scaled_integers
from hardmax.exact.integer_vectors import Vector, primitive, wide_rows
from hardmax.typing import FloatArray, WideArray

Chart = tuple[FloatArray, FloatArray]
MEMBERS = "dim", "ambient_dim", "chart", "exact_rows"


class Domain(Protocol):
    r"""The interface of a domain: the set $\{t W + b : \langle a, t\rangle \le c\}$.

    The domains of this package implement it, and so may any other object: every function with an
    argument `domain` accepts it. The set of all $t$ must have nonempty interior.

    A chart whose exact entries are not float64 numbers, such as a difference of two points, is
    given rounded. The object then has a further attribute `exact_chart`: a sequence of pairs
    `(W, b)` in float64, to be applied one after the other, whose composition is the exact chart.

    Attributes:
        dim: The dimension of the domain: the number of its coordinates $t$.
        ambient_dim: The dimension of the space in which it lies, at least `dim`.
        chart: The pair `(W, b)` of the injective affine map $x = t W + b$, with shapes
            `(dim, ambient_dim)` and `(ambient_dim,)`. None if $x = t$.
        exact_rows: The inequalities $(a, c)$, shape `(n_rows, dim + 1)`: integers, fractions, or
            floats, which are taken as exact. No rows describe the whole space.

    Examples:
        A half-plane below a line in space, and the search of a network on it:

        >>> import hardmax as hm
        >>> class BelowDiagonal:
        ...     dim, ambient_dim = 2, 3
        ...     chart = [[1, 0, 1], [0, 1, 0]], [0, 0, 0]
        ...     exact_rows = [[-1, 1, 0]]
        >>> net = hm.ReluNetwork([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0], [1.0]]])
        >>> hm.enumerate_regions(net, BelowDiagonal()).n_cells
        3

        A box has its own coordinates and therefore no chart:

        >>> box: Domain = hm.Box([-1, 0], [1, 0.5])
        >>> box.dim, box.ambient_dim, box.chart, box.exact_rows[:2].tolist()
        (2, 2, None, [[1, 0, 1], [0, 2, 1]])
    """

    @property
    def dim(self) -> int:
        """The number of coordinates."""

    @property
    def ambient_dim(self) -> int:
        """The dimension of the space."""

    @property
    def chart(self) -> Any:
        """The pair `(W, b)`, or None."""

    @property
    def exact_rows(self) -> Any:
        """The inequalities `(a, c)` in the coordinates."""


class CheckedDomain:
    """The base class of the domains of this package, whose constructors check everything.

    Their charts are pairs of float64 arrays, and their inequalities object arrays of integers.
    """

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """The number of coordinates."""

        @property
        def ambient_dim(self) -> int:
            """The dimension of the space."""

        @property
        def chart(self) -> Chart | None:
            """The pair `(W, b)`, or None."""

        @property
        def exact_rows(self) -> WideArray:
            """The inequalities `(a, c)` in the coordinates."""


class FullDimensional(CheckedDomain):
    """The base class of domains that use the coordinates of the space."""

    @property
    def ambient_dim(self) -> int:
        """The dimension of the space, equal to `dim`."""
        return self.dim

    @property
    def chart(self) -> None:
        """None: points have the coordinates of the space."""
        return


@dataclass(frozen=True, eq=False)
class ReadDomain(CheckedDomain):
    """The members of an object of another class, checked and converted.

    Attributes:
        dim: As in `Domain`.
        ambient_dim: As in `Domain`.
        chart: As in `Domain`; None also if the given chart is the identity.
        exact_rows: As in `Domain`, as primitive integers.
        exact_chart: As in `Domain`; None if `chart` is exact.

    Examples:
        >>> from hardmax import Box
        >>> ReadDomain.of(Box([0], [1]), "domain").exact_rows.tolist()
        [[1, 1], [-1, 0]]
    """

    dim: int
    ambient_dim: int
    chart: Chart | None
    exact_rows: WideArray
    exact_chart: tuple[Chart, ...] | None

    __repr__ = short_repr

    @classmethod
    def of(cls, domain: Any, name: str) -> "ReadDomain":
        """Read the members of an object, and check each of them."""
        given = {member: _get_member(domain, member, name) for member in MEMBERS}
        dim = integer(f"{name}.dim", given["dim"], at_least=1)
        space = integer(f"{name}.ambient_dim", given["ambient_dim"], at_least=dim)
        rows = _read_rows(f"{name}.exact_rows", given["exact_rows"], dim)
        chart, maps = given["chart"], getattr(domain, "exact_chart", None)
        if chart is None:
            if space != dim:
                raise ArgumentError(
                    f"`{name}.chart` must be a pair (W, b), because `ambient_dim` is {space} and "
                    f"`dim` is {dim}; got None."
                )
            return cls(dim, space, None, rows, None)
        chart = _read_map(f"{name}.chart", chart, dim, space)
        if maps is not None:
            maps = _read_maps(f"{name}.exact_chart", maps, dim, space)
            _check_chart_rounding(name, chart, compose_charts(maps))
        _require_injective(name, (chart,) if maps is None else maps, dim)
        if maps is None and _is_identity(chart):
            chart = None
        return cls(dim, space, chart, rows, maps)


def check_domain(domain: Any, name: str = "domain") -> CheckedDomain:
    """Return a domain of this package unchanged, and the checked members of any other object.

    Args:
        domain: The object.
        name: The name of the argument in error messages.

    Raises:
        ArgumentError: If a member is malformed; the message names it and the value.
        DtypeError: If a member is missing or has the wrong type.
        NonFiniteError: If an entry is NaN or infinite.
        ShapeMismatchError: If an array has the wrong shape.

    Examples:
        >>> class Strip:
        ...     dim, ambient_dim, chart, exact_rows = 2, 2, None, [[1, 0, 1], [-1, 0]]
        >>> check_domain(Strip())
        Traceback (most recent call last):
            ...
        hardmax.errors.ShapeMismatchError: `domain.exact_rows` must have shape (n_rows, 3), which is
        dim + 1 numbers in each row; got 2 numbers in row 1.
    """
    return domain if isinstance(domain, CheckedDomain) else ReadDomain.of(domain, name)


def compose_charts(maps: Sequence[Chart]) -> ScaledIntegers:
    r"""Return the exact rows $(W^\top, b)$ of the composition of affine maps.

    Args:
        maps: The pairs `(W, b)`, the first to be applied first.

    Returns:
        Integers of shape `(ambient_dim, dim + 1)` and their exponent.

    Examples:
        >>> double, shift = (np.array([[2.0]]), np.zeros(1)), (np.eye(1), np.array([0.5]))
        >>> compose_charts([double, shift])
        ScaledIntegers(integers=[[4, 1]], exponent=-1)
    """
    first, *others = (scaled_integers(np.column_stack([weight.T, bias])) for weight, bias in maps)
    rows, exponent = first.integers, first.exponent
    for own in others:
        # The forms so far, then the constant 1, on a common scale of at most 1.
        rows, exponent = rows << max(exponent, 0), min(exponent, 0)
        constant = [0] * (rows.shape[1] - 1) + [1 << -exponent]
        rows = own.integers @ np.vstack([rows, np.array([constant], dtype=object)])
        exponent += own.exponent
    return ScaledIntegers(rows, exponent)


def _get_member(domain: Any, member: str, name: str) -> Any:
    try:
        return getattr(domain, member)
    except AttributeError:
        raise DtypeError(
            f"`{name}` must be a domain: an object with the attributes {', '.join(MEMBERS)} (see "
            f"`hardmax.geometry.Domain`), or the text of a domain; got {type(domain).__name__}, "
            f"which has no `{member}`."
        ) from None


def _read_rows(name: str, value: Any, dim: int) -> WideArray:
    try:
        rows = [list(row) for row in value]
    except TypeError:
        raise DtypeError(
            f"`{name}` must have shape (n_rows, {dim + 1}); got {value!r:.80}."
        ) from None
    for i, row in enumerate(rows):
        if len(row) != dim + 1:
            raise ShapeMismatchError(
                f"`{name}` must have shape (n_rows, {dim + 1}), which is dim + 1 numbers in each "
                f"row; got {len(row)} number{'s' * (len(row) != 1)} in row {i}."
            )
    return wide_rows(
        [
            _scale_to_integers([_read_entry(name, i, j, x) for j, x in enumerate(row)])
            for i, row in enumerate(rows)
        ],
        dim + 1,
    )


def _read_entry(name: str, i: int, j: int, entry: Any) -> Fraction:
    if isinstance(entry, float | np.floating):
        if not isfinite(entry):
            raise NonFiniteError(f"`{name}` must hold finite numbers; got {entry} at [{i}, {j}].")
        return Fraction(float(entry))
    if isinstance(entry, Rational):
        return Fraction(int(entry.numerator), int(entry.denominator))
    raise DtypeError(
        f"`{name}` must hold integers, fractions or floats; got {entry!r:.60} at [{i}, {j}]."
    )


def _scale_to_integers(row: list[Fraction]) -> Vector:
    scale = lcm(*(entry.denominator for entry in row))
    return primitive(int(entry * scale) for entry in row)


def _read_maps(name: str, value: Any, dim: int, space: int) -> tuple[Chart, ...]:
    try:
        given = list(value)
    except TypeError:
        given = []
    if not given:
        raise DtypeError(f"`{name}` must be a sequence of pairs (W, b); got {value!r:.80}.")
    maps = []
    for k, pair in enumerate(given):
        maps.append(_read_map(f"{name}[{k}]", pair, dim, space if pair is given[-1] else None))
        dim = len(maps[-1][1])
    return tuple(maps)


def _read_map(name: str, value: Any, dim: int, space: int | None) -> Chart:
    try:
        weight, bias = value
    except (TypeError, ValueError):
        raise DtypeError(
            f"`{name}` must be a pair (W, b), or None for the coordinates of the space; "
            f"got {value!r:.80}."
        ) from None
    sizes = Sizes() if space is None else Sizes(ambient_dim=space)
    return (
        sizes.floats(f"{name}[0]", weight, (dim, "ambient_dim")),
        sizes.floats(f"{name}[1]", bias, ("ambient_dim",)),
    )


def _check_chart_rounding(name: str, chart: Chart, exact: ScaledIntegers) -> None:
    wanted = np.nan_to_num(round_scaled_integers(exact)[0])
    given = np.column_stack([chart[0].T, chart[1]])
    if not np.array_equal(wanted, given):
        i, j = (int(k) for k in np.argwhere(wanted != given)[0])
        raise ArgumentError(
            f"`{name}.chart` must be the composition of the maps in `exact_chart`, rounded; got "
            f"{given[i, j]} instead of {wanted[i, j]} in coordinate {i}."
        )


def _require_injective(name: str, maps: tuple[Chart, ...], dim: int) -> None:
    slopes = compose_charts(maps).integers[:, :-1]
    rank = fmpz_mat(*slopes.shape, slopes.ravel().tolist()).rank()
    if rank < dim:
        raise ArgumentError(
            f"`{name}.chart` must be injective: the {dim} row{'s' * (dim != 1)} of W must be "
            f"linearly independent; got rank {rank}, W = {maps[0][0].tolist()!r:.80}."
        )


def _is_identity(chart: Chart) -> bool:
    weight, bias = chart
    return (
        weight.shape[0] == weight.shape[1]
        and not bias.any()
        and bool((weight == np.eye(len(weight))).all())
    )
