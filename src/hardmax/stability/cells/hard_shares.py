r"""Bounds on the share of a domain that is $\varepsilon$-hard at a given temperature.

In a cell of one layer of heads the $\varepsilon$-hard points form a convex set (`cutting_planes`).
Cuts at the vertices of an outer polytope refine this polytope. On the segments from these vertices
to a hard point there are points that are provably hard, and their convex hull is an inner polytope.
Both volumes are exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.polytopes import Polytope
from hardmax.regions.engines import enumerate_regions
from hardmax.stability.cells.bands import domain_volume
from hardmax.stability.cells.cell_gaps import CellGaps, cell_gaps
from hardmax.stability.cells.cutting_planes import critical_temperature, cuts_at, is_hard
from hardmax.stability.cells.hardness_levels import necessary_levels
from hardmax.stability.models import has_one_attention_layer, read_soft_model
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import DomainLike, ModelLike

_ROUNDS_TO_DECIDE = 12
_BISECTIONS = 20
_INWARDS = Fraction(1, 1 << 30)
"""Relative distance by which points are moved inwards, so that a rounded point on a wall does not
lie beyond it."""

Point = tuple[Fraction, ...]


@dataclass(frozen=True, eq=False, repr=False)
class HardShare:
    r"""Bounds on the share of a domain where a soft layer of heads is $\varepsilon$-hard.

    Attributes:
        tau: The temperature.
        epsilon: The share $\varepsilon$ of the weight that rivals may have, in every head.
        lower: An exact lower bound on the share of the domain.
        upper: An exact upper bound on the share of the domain.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> share = hard_share(sign, Box([-1], [3]), tau=0.25, epsilon=0.01)
        >>> float(share.lower) <= 0.7129 and float(share.upper) >= 0.7128
        True
    """

    tau: float
    epsilon: float
    lower: Fraction
    upper: Fraction

    _repr_html_ = html_card

    def __repr__(self) -> str:
        return (
            f"HardShare(tau={self.tau:g}, epsilon={self.epsilon:g}, "
            f"between {float(self.lower):.6g} and {float(self.upper):.6g})"
        )


def hard_share(
    model: ModelLike, domain: DomainLike, tau: float, epsilon: float, *, rounds: int = 3
) -> HardShare:
    r"""Bound the share of a domain where a layer of soft heads is $\varepsilon$-hard.

    A point is $\varepsilon$-hard if every head gives weight at least $1 - \varepsilon$ to its
    winner there.

    Args:
        model: A head, a block, or a model in which no head reads the output of another head.
        domain: A bounded domain, as for `enumerate_regions`. The computation is fast in dimensions
            1 and 2.
        tau: The temperature, above 0.
        epsilon: The share $\varepsilon$ of the weight that rivals may have, between 0 and 1.
        rounds: The number of times that cuts are added at all vertices. Each round tightens the
            bounds.

    Raises:
        ArgumentError: If the model has heads in several layers; use `sample_hard_share` for such
            models.

    Examples:
        Two keys at -1 and 1; the gap is $2|x|$, so the share is determined by one threshold:

        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> hard_share(sign, Box([-1], [3]), tau=0.25, epsilon=0.01)
        HardShare(tau=0.25, epsilon=0.01, between 0.712805 and 0.712805)
    """
    network = read_soft_model(model)
    if not has_one_attention_layer(network):
        raise ArgumentError(
            "`model` must have all its heads in one layer, because the scores of later heads are "
            "affine only in the hard network; got heads in several layers. Use "
            "`sample_hard_share`."
        )
    temperature = Fraction(number("tau", tau, above=0.0))
    eps = float(number("epsilon", read_epsilon(epsilon)))
    n_rounds = integer("rounds", rounds, at_least=0)
    partition = enumerate_regions(network, domain)
    total = domain_volume(partition.domain)
    lower, upper = Fraction(0), Fraction(0)
    for name in partition.signatures.tolist():
        cell = cell_gaps(network, partition.domain, name)
        outside = _cut_outer_polytope(cell, temperature, eps, n_rounds)
        if outside is None:
            continue
        upper += _compute_volume(outside)
        lower += _compute_inner_volume(cell, outside, temperature, eps)
    return HardShare(float(temperature), eps, lower / total, upper / total)


def _cut_outer_polytope(
    cell: CellGaps, tau: Fraction, epsilon: float, rounds: int
) -> Polytope | None:
    """Return a polytope that contains the hard points of a cell, or None if it has no interior."""
    single, mean = necessary_levels(cell, epsilon)
    rows = cell.rows_at(lambda head: tau * single(head), cell.gaps)
    rows += [gap.row_at(tau * mean(gap.head)) for gap in cell.mean_gaps()]
    for done in range(rounds + 1):
        if any(not any(row[:-1]) and row[-1] < 0 for row in rows):
            return None
        polytope = Polytope.from_rows(rows, cell.dim)
        if polytope.affine_dim < cell.dim:
            return None
        if done == rounds:
            break
        rows = _select_facet_rows(polytope)
        for vertex in polytope.exact_vertices.tolist():
            rows += [cut.gap.row_at(tau * cut.level) for cut in cuts_at(cell, vertex, tau, epsilon)]
    return polytope


def _select_facet_rows(polytope: Polytope) -> list[Vector]:
    """Return the rows that define facets; the others would only slow down the next round."""
    return [tuple(polytope.rows[i].tolist()) for i in polytope.facets.rows.tolist()]


def _compute_inner_volume(
    cell: CellGaps, outside: Polytope, tau: Fraction, epsilon: float
) -> Fraction:
    """Return the volume of a convex hull of points that are provably hard."""
    best = critical_temperature(cell, epsilon, _ROUNDS_TO_DECIDE, enough=tau)
    if best.lower is not None and best.lower < tau:
        return Fraction(0)
    inside = tuple(Fraction(x) for x in outside.interior_point.tolist())
    # In a bounded domain there is a direction only if the cell is hard at every temperature.
    centre = best.point if best.direction is None else inside
    centre, *targets = (
        _interpolate(point, inside, _INWARDS) for point in (centre, *_list_targets(outside))
    )
    ends = [_find_last_hard(cell, centre, target, tau, epsilon) for target in targets]
    points = [point for point in ends if point is not None]
    if len(points) <= cell.dim:
        return Fraction(0)
    denominator = max(x.denominator for point in points for x in point)
    scaled = [tuple(int(x * denominator) for x in point) for point in points]
    return _compute_volume(Polytope.from_scaled_points(scaled, denominator))


def _list_targets(outside: Polytope) -> list[Point]:
    """Return the vertices of a polytope, and in the plane also the midpoints of its edges."""
    vertices = [tuple(vertex) for vertex in outside.exact_vertices.tolist()]
    if outside.ambient_dim != 2:
        return vertices
    ring = [vertices[i] for i in outside.polygon_order.tolist()]
    middles = [
        tuple((a + b) / 2 for a, b in zip(p, q, strict=True)) for p, q in pairwise([*ring, ring[0]])
    ]
    return ring + middles


def _find_last_hard(
    cell: CellGaps, centre: Point, target: Point, tau: Fraction, epsilon: float
) -> Point | None:
    """Return the last provably hard dyadic point near the segment from `centre` to `target`."""
    best: Point | None = None
    low, high = Fraction(0), Fraction(1)
    step = high
    for _ in range(_BISECTIONS):
        point = tuple(Fraction(float(x)) for x in _interpolate(centre, target, step))
        if _is_hard_point(cell, point, tau, epsilon):
            best, low = point, step
        else:
            high = step
        if low == high:
            break
        step = (low + high) / 2
    return best


def _interpolate(start: Point, end: Point, step: Fraction) -> Point:
    return tuple(a + step * (b - a) for a, b in zip(start, end, strict=True))


def _is_hard_point(cell: CellGaps, point: Point, tau: Fraction, epsilon: float) -> bool:
    for wall in cell.walls:
        if sum((a * t for a, t in zip(wall, point, strict=False)), Fraction(wall[-1])) < 0:
            return False
    gaps: dict[int, list[Fraction]] = {}
    for gap in cell.gaps:
        gaps.setdefault(gap.head, []).append(gap.at(point))
    if any(min(values) < 0 for values in gaps.values()):
        return False
    return is_hard(cell, gaps, tau, epsilon)


def _compute_volume(polytope: Polytope) -> Fraction:
    volume = polytope.volume
    assert isinstance(volume, Fraction)
    return volume
