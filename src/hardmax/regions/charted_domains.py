r"""Domains in the form that the engines use: a chart and exact inequalities in its coordinates."""

from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._ground.arguments import read_only_zeros
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.pickling import DropsCachesOnPickle, cached_attribute
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.dyadic import nearest_floats
from hardmax.exact.integer_vectors import Vector, primitive, wide_rows
from hardmax.exact.strict_inequalities import is_strictly_positive
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.domain_protocol import MEMBERS, CheckedDomain, Domain, check_domain
from hardmax.geometry.domain_text import INEXACT_CHART, KINDS, box_of_rows, read_domain
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.networks import affine_layer
from hardmax.typing import BoolArray, FloatArray, WideArray


@dataclass(frozen=True, eq=False)
class ChartedDomain(DropsCachesOnPickle):
    r"""A domain with coordinates: the set $\{x(t) : \langle a, t\rangle \le b\}$.

    The affine map $t \mapsto x(t)$, called the chart, maps coordinates to inputs of the model. The
    set of admissible $t$ has nonempty interior.

    Attributes:
        dim: The dimension of the coordinates $t$.
        ambient_dim: The dimension of the inputs $x$.
        exact_rows: The inequalities $(a, b)$ as primitive integer vectors, shape
            `(n_rows, dim + 1)`, without trivial rows.
        chart: The chart $x = t W + b$ in floats. It is exact unless there are several stages.
        stages: Exact affine maps whose composition is the chart; empty if $x = t$.
        corners: The lowest and the highest corner if the domain is a box, otherwise None.
        ends: The two ends, at $t = 0$ and $t = 1$, if the domain is a segment, otherwise None.
        source: A copy of the domain that was read, if `as_domain` cannot rebuild it from the other
            attributes, otherwise None.

    Examples:
        >>> from hardmax import Slice, WholeSpace
        >>> line = charted(Slice([0, 1], [[2.0, 0.0]], WholeSpace(1)), 2)
        >>> line.dim, line.ambient_dim, line.chart
        (1, 2, AffineMap(weight=[[2.0, 0.0]], bias=[0.0, 1.0]))
    """

    dim: int
    ambient_dim: int
    exact_rows: WideArray
    chart: AffineMap
    stages: tuple[AffineMap, ...]
    corners: tuple[FloatArray, FloatArray] | None = None
    ends: tuple[FloatArray, FloatArray] | None = None
    source: Domain | None = None

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def is_identity(self) -> bool:
        """Whether $x = t$."""
        return not self.stages

    @cached_property
    def coordinates(self) -> RationalForms:
        """The components of $x(t)$ as exact forms in $t$."""
        forms = _identity_forms(self.dim)
        for stage in self.stages:
            forms = forms.compose(stage)
        return forms

    @cached_attribute
    def kept(self) -> dict[str, Any]:
        """A cache for engines, by name. Its values must not refer back to the domain."""
        return {}

    @property
    def inputs(self) -> RationalForms | None:
        """The components of $x(t)$ as exact forms in $t$; None if $x = t$."""
        return None if self.is_identity else self.coordinates

    @property
    def cone_rows(self) -> list[Vector]:
        r"""The rows $(-a, b)$, then $(0, 1)$: positive at $(t, 1)$ for $t$ inside the domain."""
        rows = [(*(-x for x in row[:-1]), row[-1]) for row in self.exact_rows.tolist()]
        return [*rows, (*(0,) * self.dim, 1)]


_MOST_BY_VERTICES = 10
_QUICK = Segment, Ray, Line
"""Domains that are read about as quickly as a cache is."""
_LASTING = tuple({kind.cls: None for kind in KINDS if kind.cls not in _QUICK})
_REBUILT = Box, WholeSpace, Polytope, Slice, Segment, Ray, Line
"""Domains that are determined by their charts and inequalities, up to their notation."""
_known: WeakKeyDictionary[Any, ChartedDomain] = WeakKeyDictionary()
"""Cache of domains: reading a domain takes as long as finding a few hundred cells.

A value must not refer to its key, or neither would ever be freed.
"""


def charted(domain: Any, dim_in: int) -> ChartedDomain:
    """Return a domain, or a domain given as text, with its chart into the input space of a model.

    Args:
        domain: The domain or its text.
        dim_in: The dimension of the input space.

    Raises:
        ArgumentError: If the domain lies in a space of the wrong dimension or has empty interior,
            or if the text does not describe a domain.
        DtypeError: If `domain` has an unsupported type.
    """
    if isinstance(domain, ChartedDomain):
        return domain
    if isinstance(domain, str):
        try:
            return charted(read_domain(domain), dim_in)
        except ArgumentError as error:
            quoted = f"; the text was {domain!r:.80}" if repr(domain)[:40] not in str(error) else ""
            raise ArgumentError(f"{str(error).rstrip('.')}{quoted}.") from None
    if not isinstance(domain, _LASTING):
        return _read(domain, dim_in)
    known = _known.get(domain)
    if known is None or known.ambient_dim != dim_in:
        known = _known[domain] = _read(domain, dim_in)
    return known


@lru_cache(maxsize=16)
def _identity(dim: int) -> AffineMap:
    return AffineMap.identity(dim)


@lru_cache(maxsize=16)
def _identity_forms(dim: int) -> RationalForms:
    return chart_forms(_identity(dim))


@dataclass(frozen=True, eq=False, repr=False)
class _ChartedBox(ChartedDomain):
    """A box. Its rows take quadratic space in the dimension and are computed on first access."""

    def __post_init__(self) -> None:
        # Python calls `__getattr__` only for missing attributes.
        object.__delattr__(self, "exact_rows")

    def __getattr__(self, name: str) -> Any:
        if name != "exact_rows":
            raise AttributeError(name)
        assert self.corners is not None
        rows = _box_rows(*self.corners)
        object.__setattr__(self, name, rows)
        return rows


_NO_ROWS = np.empty((0, 0), dtype=object)


def _read_box(box: Box) -> ChartedDomain:
    """Return the chart of a box. Most domains are boxes, so this computes nothing in advance."""
    dim = len(box.low)
    return _ChartedBox(dim, dim, _NO_ROWS, _identity(dim), (), (box.low, box.high))


def _box_rows(low: FloatArray, high: FloatArray) -> WideArray:
    dim = len(low)
    rows = []
    for bounds, sign in ((high, 1), (low, -1)):
        for k, bound in enumerate(bounds.tolist()):
            numerator, denominator = bound.as_integer_ratio()
            row = [0] * (dim + 1)
            row[k], row[-1] = sign * denominator, sign * numerator
            rows.append(row)
    return wide_rows(rows, dim + 1)


class EnclosingBox(NamedTuple):
    """A box around a bounded domain, in the domain's coordinates, rounded.

    Attributes:
        low: The lower ends of its sides, shape `(dim,)`.
        high: The upper ends of its sides, shape `(dim,)`.
        is_filled: Whether the domain equals this box.
    """

    low: FloatArray
    high: FloatArray
    is_filled: bool


def enclosing_box(domain: ChartedDomain) -> EnclosingBox | None:
    r"""Return a box around a domain, the smallest up to dimension 10; None for an unbounded domain.

    The sides of a box are read off its inequalities, because a box has $2^d$ vertices. Above
    dimension 10, the same is done for every domain with an upper and a lower bound on each single
    coordinate among its inequalities.
    """
    if domain.corners is not None:
        return EnclosingBox(*domain.corners, True)
    rows = domain.exact_rows.tolist()
    single = [row for row in rows if sum(map(bool, row[:-1])) == 1]
    ends: tuple[dict[int, Fraction], dict[int, Fraction]] = {}, {}
    for row in single:
        k = next(k for k, entry in enumerate(row) if entry)
        end, best, known = Fraction(row[-1], row[k]), min, ends[1]
        if row[k] < 0:
            best, known = max, ends[0]
        known[k] = best(end, known.get(k, end))
    low, high = ends
    is_filled = len(single) == len(rows)
    is_read = len(low) == len(high) == domain.dim
    if is_filled and not is_read:
        return None
    if is_filled or (is_read and domain.dim > _MOST_BY_VERTICES):
        sides = [[side[k] for k in range(domain.dim)] for side in ends]
        low_end, high_end = nearest_floats(np.array(sides, dtype=object))
        return EnclosingBox(low_end, high_end, is_filled)
    polytope = Polytope.from_rows([tuple(row) for row in rows], domain.dim)
    if not polytope.is_bounded:
        return None
    return EnclosingBox(polytope.vertices.min(axis=0), polytope.vertices.max(axis=0), False)


_BETWEEN = AffineMap(np.array([[-1.0, 1.0]]), np.array([1.0, 0.0]))
_UNIT_INTERVAL = wide_rows([(1, 1), (-1, 0)], 2)


def _read_segment(segment: Segment) -> ChartedDomain:
    """Return the chart of a segment, whose ends are distinct by construction."""
    ends = segment.start, segment.end
    weight, bias = segment.chart
    if not np.isfinite(weight).all():
        # Rounding the direction may overflow; the stages are exact.
        weight = np.nan_to_num(weight)
    both = np.empty((2, len(bias)))
    both[0], both[1] = ends
    chart = AffineMap.trusted(weight, bias)
    stages = _BETWEEN, AffineMap.trusted(both, read_only_zeros(len(bias)))
    return ChartedDomain(1, len(bias), _UNIT_INTERVAL, chart, stages, ends=ends)


def _read(domain: Any, dim_in: int) -> ChartedDomain:
    if isinstance(domain, Box) and domain.dim == dim_in:
        return _read_box(domain)
    if isinstance(domain, Segment) and domain.ambient_dim == dim_in:
        return _read_segment(domain)
    given = domain if isinstance(domain, CheckedDomain) else _read_other(domain)
    if given.ambient_dim != dim_in:
        raise ArgumentError(
            f"`domain` must lie in the input space of the model, which has dimension {dim_in}; "
            f"got a domain in a space of dimension {given.ambient_dim}."
        )
    chart, maps = given.chart, getattr(given, "exact_chart", None)
    stages: tuple[AffineMap, ...] = tuple(AffineMap.trusted(*pair) for pair in maps or ())
    if chart is None:
        affine = _identity(dim_in)
    else:
        affine = AffineMap.trusted(*chart)
        stages = stages or (() if affine.is_identity else (affine,))
    is_rebuilt = isinstance(given, _REBUILT) or given is not domain
    # A cached value must not refer to its key.
    source = None if is_rebuilt else copy(given)
    rows = _nontrivial(given.exact_rows)
    read = ChartedDomain(given.dim, dim_in, rows, affine, stages, source=source)
    if len(rows) and not _has_interior(read):
        raise ArgumentError(
            "`domain` must have nonempty interior; no point satisfies all its inequalities "
            "strictly."
        )
    return read


def _read_other(domain: Any) -> CheckedDomain:
    """Return the checked members of an object of a class that is not part of this package."""
    if any(hasattr(domain, member) for member in MEMBERS):
        return check_domain(domain)
    *names, last = dict.fromkeys(kind.cls.__name__ for kind in KINDS)
    raise DtypeError(
        f"`domain` must be a {', '.join(names)} or {last}, an object with the attributes of "
        f"`hardmax.geometry.Domain`, or text such as 'box:-1,1^2'; got {type(domain).__name__}."
    )


def intersect_rows(domain: ChartedDomain, rows: WideArray) -> ChartedDomain:
    """Return the part of a domain that satisfies further inequalities in its coordinates.

    Args:
        domain: The domain.
        rows: Integers `(a, b)`, shape `(n_rows, dim + 1)`.
    """
    both = wide_rows([*domain.exact_rows.tolist(), *rows.tolist()], domain.dim + 1)
    return ChartedDomain(domain.dim, domain.ambient_dim, both, domain.chart, domain.stages)


def strictly_inside(domain: ChartedDomain, points: FloatArray) -> BoolArray:
    """Decide exactly which points lie in the interior of a domain.

    Args:
        domain: The domain.
        points: Finite points in the domain's coordinates, shape `(n_points, dim)`.

    Returns:
        A boolean for each point, shape `(n_points,)`.
    """
    if domain.corners is None:
        return is_strictly_positive(domain.cone_rows[:-1], points)
    low, high = domain.corners
    return np.asarray(((points > low) & (points < high)).all(axis=1))


def as_domain(domain: ChartedDomain) -> Domain:
    """Return a domain whose chart, as `charted` returns it, is the given one.

    Raises:
        ArgumentError: If no domain of this package has the chart, which float64 cannot represent.
    """
    if domain.source is not None:
        return domain.source
    if domain.corners is not None:
        return Box(*domain.corners)
    if domain.ends is not None:
        return Segment(*domain.ends)
    inner: Box | WholeSpace | Polytope
    if not len(domain.exact_rows):
        inner = WholeSpace(domain.dim)
    else:
        rows = [tuple(row) for row in domain.exact_rows.tolist()]
        inner = Polytope.from_rows(rows, domain.dim)
        if not domain.is_identity:
            inner = box_of_rows(domain.exact_rows) or inner
    if domain.is_identity:
        return inner
    if len(domain.stages) > 1:
        raise ArgumentError(INEXACT_CHART)
    return Slice(domain.chart.bias, domain.chart.weight, inner)


def refuse_outside(model: Any, domain: ChartedDomain) -> None:
    """Raise an error if a domain extends beyond the `box` of a model.

    The network of such a model equals the model only in the box.

    Raises:
        ArgumentError: If the model has a `box` and a point of the domain lies outside it.
    """
    box = getattr(model, "box", None)
    if isinstance(box, Box) and not _lies_in(domain, box):
        raise ArgumentError(
            f"`domain` must lie in the box of the model, {box!r}, because its network equals the "
            "model only there."
        )


def _lies_in(domain: ChartedDomain, box: Box) -> bool:
    if domain.corners is not None:
        low, high = domain.corners
        return bool((low >= box.low).all() and (high <= box.high).all())
    coordinates = domain.coordinates
    unit = Fraction(2) ** coordinates.exponent / coordinates.denominator
    inside = domain.cone_rows
    for row, low, high in zip(coordinates.rows, box.low.tolist(), box.high.tolist(), strict=True):
        form = [unit * int(entry) for entry in row]
        for bound, sign in ((Fraction(high), 1), (Fraction(low), -1)):
            beyond = [sign * entry for entry in form]
            beyond[-1] -= sign * bound
            scale = lcm(*(entry.denominator for entry in beyond))
            rows = [*inside, primitive(int(entry * scale) for entry in beyond)]
            if decide_open_cone(wide_rows(rows, domain.dim + 1)).is_open:
                return False
    return True


def embedded(network: ArgmaxNetwork, domain: ChartedDomain) -> RationalForms:
    """Return the stream before the first layer, as forms on the domain."""
    return domain.coordinates.compose(network.embedding)


def charted_network(network: ArgmaxNetwork, domain: ChartedDomain) -> tuple[ArgmaxNetwork, int]:
    """Return a network of the domain's coordinates that equals the given network exactly.

    Composing the maps before the first layer would round their weights. Instead, the first of them
    becomes the embedding, and each of the others a layer whose groups have one form each.

    Returns:
        The network, and the number of entries in its signatures that precede the entries of the
        given network.
    """
    maps = [m for m in (*domain.stages, network.embedding) if not m.is_identity]
    if not maps:
        return network, 0
    layers = tuple(affine_layer(affine) for affine in maps[1:])
    embedded_network = ArgmaxNetwork(layers + network.layers, maps[0], network.readout)
    return embedded_network, sum(layer.n_groups for layer in layers)


def _has_interior(domain: ChartedDomain) -> bool:
    if domain.dim == 1:
        rows = domain.exact_rows.tolist()
        low = max((Fraction(b, a) for a, b in rows if a < 0), default=None)
        high = min((Fraction(b, a) for a, b in rows if a > 0), default=None)
        is_possible = all(a or b > 0 for a, b in rows)
        return is_possible and (low is None or high is None or low < high)
    return decide_open_cone(wide_rows(domain.cone_rows, domain.dim + 1)).is_open


def _nontrivial(rows: WideArray) -> WideArray:
    """Return primitive rows without repetitions, and without rows `0 <= b` with `b >= 0`."""
    kept: dict[Vector, None] = {}
    for row in rows.tolist():
        if any(row[:-1]) or row[-1] < 0:
            kept.setdefault(primitive(int(x) for x in row))
    return wide_rows(list(kept), rows.shape[1])
