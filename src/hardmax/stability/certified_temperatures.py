r"""The temperature at which a soft network is within a given error of the hard one on a domain.

On the closure of a cell the hard network is a single affine map, and the winner of each head leads
every rival by an affine form that is nonnegative there. The range of this form over the vertices of
the cell is exact. With these ranges the error of the soft stream is propagated through all layers
as in `soft_certificates`, once for each cell. The maximum of the bounds holds on the whole domain.

If the hard network jumps from $a$ to $b$ at a wall, no temperature makes the error small: the soft
network is continuous, and $\|s - a\| + \|s - b\| \ge \|a - b\|$, so on one side of the wall its
error is at least $\tfrac12\|a - b\|$ near the wall.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq, fmpz

from hardmax._ground.arguments import number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DiscontinuityError
from hardmax.exact.directed_rounding import PRECISION, norm_bound, round_up
from hardmax.exact.dyadic import nearest_float, root_below
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.model_arguments import read_model
from hardmax.regions.charted_domains import charted, enclosing_box, refuse_outside
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.stability.models import head_names, read_soft_model
from hardmax.stability.networks.hard_traces import HardLayer, cell_trace
from hardmax.stability.networks.soft_errors import ErrorPass
from hardmax.typing import DomainLike, ModelLike

_COLDEST, _HOTTEST = -1000, 60
"""Powers of two that limit the search for a temperature, as exponents."""
_DIGITS = 12
"""Number of binary digits of the temperature that are determined after the leading one."""
_MOST_BY_VERTICES = 7
"""Maximum dimension in which cells are described by their vertices."""

_Row = Sequence[fmpz]


@dataclass(frozen=True)
class CertifiedTemperature:
    r"""A temperature at which a soft network is close to the hard one on a whole domain.

    Attributes:
        temperature: The temperature $\tau$ of every layer; infinite if the model has no heads.
        bound: A bound on $\|\mathrm{soft}_\tau(x) - \mathrm{hard}(x)\|_2$, rounded up. It holds for
            all $x$ inside the cells of the domain, and by continuity wherever the hard model does
            not jump.
        error: The requested error, which is at least `bound`.
        n_cells: The number of cells on which the bound was certified, which is all cells.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = temperature_for(sign, Box([0.5], [2.0]), error=1e-3)
        >>> found.bound <= 1e-3, round(found.temperature, 3)
        (True, 0.132)
    """

    temperature: float
    bound: float
    error: float
    n_cells: int

    _repr_html_ = html_card


def temperature_for(model: ModelLike, domain: DomainLike, error: float) -> CertifiedTemperature:
    r"""Find a temperature at which the soft model is within a given error of the hard one.

    The error is certified on the whole domain, at the returned temperature itself. This is close
    to the largest temperature that the error bound allows (to one part in $2^{12}$). The bound is
    close to the actual error for one layer of attention. For deep models on large cells it is less
    close, and the returned temperature can be lower than necessary. The cost is one enumeration of
    all cells, followed by about thirty bounds for each cell.

    Args:
        model: A head, a block, an `ArgmaxNetwork`, or a model whose `soft` is the softmax of its
            `network`. Units stay hard at every temperature.
        domain: A bounded domain, as for `enumerate_regions`.
        error: The maximum Euclidean distance between the soft and the hard output, above 0.

    Raises:
        DiscontinuityError: If the hard model jumps by more than twice `error` in the domain, so
            that no temperature is sufficient.
        ArgumentError: If the domain is unbounded, or the bound exceeds `error` at every
            temperature.

    Examples:
        Two keys at -1 and 1; the gap is $2|x|$, and the values differ by 2:

        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = temperature_for(sign, Box([0.5], [2.0]), error=1e-3)
        >>> round(found.temperature, 4), round(1 / math.log(2 / 1e-3 - 1), 4)
        (0.1316, 0.1316)
        >>> found.bound <= 1e-3
        True
        >>> temperature_for(sign, Box([-1.0], [2.0]), error=1e-3)
        Traceback (most recent call last):
        ...
        hardmax.errors.DiscontinuityError: `model` must not jump by more than twice `error` in
        `domain`; it jumps from [-1.0] to [1.0] at [0.0]. Near this point the error is at least 1 at
        every temperature; got error = 0.001. Choose a domain that this wall does not meet.
    """
    allowed = number("error", error, above=0.0)
    model = read_model(model)
    network = read_soft_model(model)
    where = charted(domain, network.dim_in)
    refuse_outside(model, where)
    if enclosing_box(where) is None:
        raise ArgumentError("`domain` must be bounded; got an unbounded one.")
    partition = enumerate_regions(network, where)
    if not head_names(network):
        return CertifiedTemperature(math.inf, 0.0, allowed, partition.n_found)
    with ctx.workprec(PRECISION):
        bounds = _Bounds(network, partition)
        if bounds.within(2.0**_COLDEST, allowed) is None:
            _raise_reason(partition, allowed, bounds.latest)
        temperature, bound = _bisect_temperature(bounds.within, allowed)
    return CertifiedTemperature(temperature, bound, allowed, partition.n_found)


class _Bounds:
    """Bounds on the error of a soft network on all cells of a domain."""

    def __init__(self, network: ArgmaxNetwork, partition: Partition) -> None:
        self.passes = ErrorPass(network, [1.0] * len(network.layers))
        self.traces = [_trace_cell(network, partition, i) for i in range(partition.n_found)]
        self.latest = math.inf

    def within(self, tau: float, error: float) -> float | None:
        """Return the largest bound at a temperature, or None if a cell exceeds the error."""
        self.passes.taus = [arb(tau)] * len(self.passes.taus)
        worst = 0.0
        for k, trace in enumerate(self.traces):
            found = self.passes(iter(trace))
            assert found is not None, "the trace of a cell is complete"
            self.latest = round_up(norm_bound(found.output))
            if not self.latest <= error:
                # This cell is likely to exceed the error again: check it first next time.
                self.traces.insert(0, self.traces.pop(k))
                return None
            worst = max(worst, self.latest)
        return worst


def _bisect_temperature(
    within: Callable[[float, float], float | None], error: float
) -> tuple[float, float]:
    """Find by bisection the largest temperature within the error, and its bound."""
    low, high = _COLDEST, _HOTTEST + 1
    while high - low > 1:
        middle = (low + high) // 2
        if within(2.0**middle, error) is None:
            high = middle
        else:
            low = middle
    best = 2.0**low
    if low < _HOTTEST:
        for digit in range(1, _DIGITS + 1):
            hotter = best + 2.0 ** (low - digit)
            if within(hotter, error) is not None:
                best = hotter
    bound = within(best, error)
    assert bound is not None, "the same temperature was within the error before"
    return best, bound


def _trace_cell(network: ArgmaxNetwork, partition: Partition, cell: int) -> list[HardLayer]:
    signature = partition.signatures[cell].tolist()
    coordinates = partition.domain.coordinates
    return list(cell_trace(network, coordinates, signature, _make_spread(partition, cell)))


def _make_spread(partition: Partition, cell: int) -> Callable[[_Row], tuple[fmpq, fmpq]]:
    """Return a function that computes the range of a form on a cell, or on a box around it."""
    box = enclosing_box(partition.domain)
    assert box is not None
    if partition.domain.dim > _MOST_BY_VERTICES and box.is_filled:
        # In high dimensions a cell has too many vertices; the range on a box needs none.
        low, high = ([fmpq(*x.as_integer_ratio()) for x in end.tolist()] for end in box[:2])
        return lambda row: _box_range(row, low, high)
    points = [[int(x) for x in p] for p in partition.polytope(cell).generators.points]
    return lambda row: _vertex_range(row, points)


def _box_range(row: _Row, low: list[fmpq], high: list[fmpq]) -> tuple[fmpq, fmpq]:
    *slopes, offset = row
    below = above = fmpq(offset)
    for a, least, most in zip(slopes, low, high, strict=True):
        below += min(a * least, a * most)
        above += max(a * least, a * most)
    return below, above


def _vertex_range(row: _Row, points: list[list[int]]) -> tuple[fmpq, fmpq]:
    values = [
        fmpq(sum((a * x for a, x in zip(row, point, strict=True)), fmpz(0)), point[-1])
        for point in points
    ]
    return min(values), max(values)


def _raise_reason(partition: Partition, error: float, bound: float) -> None:
    """Raise an error with the reason why no temperature is sufficient, if it is known."""
    if partition.domain.dim <= _MOST_BY_VERTICES:
        _refuse_jumps(partition, error)
    raise ArgumentError(
        f"`error` must be larger for this model and domain: on some cell the error bound remains "
        f"{bound:.3g} at the lowest temperature; got {error:g}. Choose a larger `error`, a smaller "
        "domain, or a domain that fewer walls of heads meet."
    )


def _refuse_jumps(partition: Partition, error: float) -> None:
    """Raise an error if the model jumps by more than twice the error; the test is exact."""
    most = 4 * Fraction(error) ** 2
    where = "" if partition.domain.is_identity else "coordinates "
    for i, j in partition.neighbours.pairs.tolist():
        one, other = (_to_rational_rows(partition, cell) for cell in (i, j))
        if one == other:
            continue
        shared = partition.polytope(i).intersection(partition.polytope(j))
        for place in shared.exact_vertices.tolist():
            ends = [[_evaluate_row(row, place) for row in rows] for rows in (one, other)]
            jump = sum((a - b) ** 2 for a, b in zip(*ends, strict=True))
            if jump > most:
                at, before, after = ([nearest_float(x) for x in one] for one in (place, *ends))
                raise DiscontinuityError(
                    "`model` must not jump by more than twice `error` in `domain`; it jumps from "
                    f"{before} to {after} at {where}{at}. Near this point the error is at least "
                    f"{root_below(jump / 4):.3g} at every temperature; got error = {error:g}. "
                    "Choose a domain that this wall does not meet."
                )


def _to_rational_rows(partition: Partition, cell: int) -> list[list[Fraction]]:
    forms = partition.exact_map(cell)
    unit = Fraction(2) ** forms.exponent / forms.denominator
    return [[unit * int(entry) for entry in row] for row in forms.rows]


def _evaluate_row(row: list[Fraction], place: list[Fraction]) -> Fraction:
    return sum((a * x for a, x in zip(row, place, strict=False)), row[-1])
