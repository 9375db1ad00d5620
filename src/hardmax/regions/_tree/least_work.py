r"""Lower bounds on the work of the split tree, to reject hopeless searches at once.

**A lower bound on the number of cells.** Suppose that $m$ groups of the first layer each have two
best forms that tie at a common point $p$ inside the domain, and that the $m$ differences of these
pairs have linearly independent slopes, the rows of $N$. Let $P$ be the right inverse of $N$. At
$p + \varepsilon P s$ the differences are $\varepsilon s$, so every choice of signs $s$ occurs. If
$\varepsilon$ is so small that these points lie in the domain and no other form wins there, the
first layer alone has $2^m$ cells, and each of them contains a cell of the network. The point and
$P$ are computed in floats; the inequalities have a margin for the rounding errors, which are
bounded.

**A lower estimate of the time to the first cell.** Before the first cell, every form that does not
win its group there is decided once, and forms that win elsewhere are decided a second time. Each
decision reads all inequalities of the domain.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.deadlines import no_time_limit
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import rounded_directions, wide_rows
from hardmax.exact.rounding import TINY, UNIT_ROUNDOFF
from hardmax.geometry.cones import decide_open_cone
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions._location.point_cells import MOST_PRODUCTS, count_products
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import FloatArray

_EXPONENTS = 64, 48, 40
"""Values of $m$ to try, in this order."""
_DECISION_S, _ENTRY_S = 5e-5, 1e-7
"""Lower bounds on the time of a decision, as a whole and per entry of its inequalities. ReLU
networks with 16 to 784 inputs were measured on one core; they take one to five times as long."""
_BRIEF_S, _LONG_S = 5.0, 3600.0
"""Time that the first cell may always take, and time that it may take without a time limit."""
_CLOSE = 2.0**-32
"""An upper bound on the rounding error of an inequality, relative to its terms."""
_MAX_ENTRIES = 1 << 22
"""Approximate limit on the number of coefficients of forms that are examined."""


class _Forms(NamedTuple):
    """Forms of the first layer on the domain, rounded.

    Attributes:
        slopes: Shape `(n_forms, dim)`.
        offsets: Shape `(n_forms,)`.
        sizes: For each slope, the sum of the absolute values of its terms; shaped like `slopes`.
        offset_sizes: The same for each offset.
        starts: The first form of each group, and the end.
        unit: The error bound of a form relative to its size.
    """

    slopes: FloatArray
    offsets: FloatArray
    sizes: FloatArray
    offset_sizes: FloatArray
    starts: list[int]
    unit: float


class _InteriorPoint(NamedTuple):
    r"""A point inside a domain, and its inequalities $\langle a, t\rangle \le b$ in floats.

    Attributes:
        point: The point, shape `(dim,)`.
        scale: The extent of the domain from the point, for each coordinate.
        rows: The inequalities $(a, b)$, shape `(n_rows, dim + 1)`; None if the domain is the box
            `point` plus or minus `scale`.
    """

    point: FloatArray
    scale: FloatArray
    rows: FloatArray | None


def refuse_hopeless_search(
    model: Any,
    network: ArgmaxNetwork,
    where: ChartedDomain,
    max_cells: int | None,
    max_seconds: float | None,
) -> None:
    """Refuse a search in the split tree that cannot end, or cannot find a cell in the given time.

    A search within limits is accepted if it can find some of the cells.

    Args:
        model: The model that the caller passed.
        network: Its network.
        where: The domain.
        max_cells: The limit on the number of cells.
        max_seconds: The limit on the time.

    Raises:
        ArgumentError: If the search is hopeless. The message suggests alternatives.
    """
    seconds = seconds_to_first_cell(network, where)
    limit = _LONG_S if max_seconds is None else max_seconds
    if seconds > max(_BRIEF_S, limit):
        reason = f"the first cell would take {_format_duration(seconds)}"
        if max_seconds is not None:
            reason += f", and `max_seconds` is {max_seconds:g}"
        raise ArgumentError(_refusal_message(model, network, where, reason))
    if max_cells is None and max_seconds is None:
        exponent = least_exponent(network, where)
        if exponent:
            reason = (
                f"there are at least 2^{exponent} (`max_cells` and `max_seconds` limit a search to "
                "some of them)"
            )
            raise ArgumentError(_refusal_message(model, network, where, reason))


def seconds_to_first_cell(network: ArgmaxNetwork, where: ChartedDomain) -> float:
    """Estimate from below how long the split tree takes to find its first cell, in seconds.

    Examples:
        >>> import numpy as np
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions.charted_domains import charted
        >>> net = ReluNetwork([np.ones((784, 500)), np.ones((500, 1))]).network
        >>> seconds_to_first_cell(net, charted(Box([0.0] * 784, [1.0] * 784), 784)) > 60.0
        True
    """
    n_columns = where.dim + 1
    n_rows = 1 + (2 * where.dim if where.corners is not None else len(where.exact_rows))
    total = 0.0
    for layer in network.layers:
        sizes = np.diff(layer.starts)
        entries = (n_rows + sizes - 1) * n_columns
        total += float(((sizes - 1) * (_DECISION_S + _ENTRY_S * entries)).sum())
    if network.layers:
        # Each earlier split has added inequalities.
        n_splits = _count_splits(_first_forms(network, where), where)
        entries = (n_rows + np.arange(n_splits)) * n_columns
        total += float((_DECISION_S + _ENTRY_S * entries).sum())
    return total


def _count_splits(forms: _Forms, where: ChartedDomain) -> int:
    """Count the forms that may win on a part of a box or of the whole space; 0 otherwise."""
    if where.corners is None and len(where.exact_rows):
        return 0
    interior = _find_interior(where)
    reach = interior.scale if where.corners is not None else np.full(where.dim, np.inf)
    values = forms.slopes @ interior.point + forms.offsets
    n_splits = 0
    for start, end in pairwise(forms.starts):
        best = start + int(values[start:end].argmax())
        slopes = forms.slopes[start:end] - forms.slopes[best]
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.where(slopes == 0.0, 0.0, np.abs(slopes) * reach).sum(axis=1)
        n_splits += int((values[start:end] + far > values[best]).sum())
    return n_splits


def least_exponent(network: ArgmaxNetwork, where: ChartedDomain) -> int:
    r"""Return an $m$ such that a network has at least $2^m$ cells on a domain: 0, 40, 48 or 64.

    Examples:
        >>> import numpy as np
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions.charted_domains import charted
        >>> net = ReluNetwork([np.eye(60), np.ones((60, 1))]).network
        >>> least_exponent(net, charted(Box([-1.0] * 60, [1.0] * 60), 60))
        48
        >>> least_exponent(net, charted(Box([1.0] * 60, [2.0] * 60), 60))
        0
    """
    if where.dim < min(_EXPONENTS) or not network.layers:
        return 0
    forms = _first_forms(network, where)
    interior = _find_interior(where)
    with np.errstate(all="ignore"):
        return next((m for m in _EXPONENTS if _have_common_point(forms, interior, m)), 0)


def _first_forms(network: ArgmaxNetwork, where: ChartedDomain) -> _Forms:
    """Compose the forms of the first groups of the first layer."""
    layer = network.layers[0]
    weight, bias = np.eye(where.dim), np.zeros(where.dim)
    size, bias_size = weight, bias
    n_terms, most = 64 + where.dim, max(1, _MAX_ENTRIES // where.dim)
    for affine in (*where.stages, network.embedding, layer.query):
        n_terms += affine.dim_in
        if affine.is_identity:
            continue
        kept = slice(most if affine is layer.query else None)
        linear, constant = affine.weight[:, kept], affine.bias[kept]
        weight, bias = weight @ linear, bias @ linear + constant
        linear, constant = np.abs(linear), np.abs(constant)
        size, bias_size = size @ linear, bias_size @ linear + constant
    if layer.is_relu:
        # A ReLU unit is the maximum of zero and its form, in this order.
        n = weight.shape[1]
        slopes, sizes = np.zeros((2 * n, where.dim)), np.zeros((2 * n, where.dim))
        offsets, offset_sizes = np.zeros(2 * n), np.zeros(2 * n)
        slopes[1::2], sizes[1::2], offsets[1::2], offset_sizes[1::2] = (
            weight.T, size.T, bias, bias_size,
        )  # fmt: skip
        unit = 4 * n_terms * UNIT_ROUNDOFF
        return _Forms(slopes, offsets, sizes, offset_sizes, list(range(0, 2 * n + 1, 2)), unit)
    n_groups = _count_leading_groups(layer, where.dim)
    starts = layer.starts[: n_groups + 1].tolist()
    picked = layer.dense_slopes()[: starts[-1]]
    if weight.shape[1] < picked.shape[1]:
        none = np.zeros((0, where.dim))
        return _Forms(none, none[:, 0], none, none[:, 0], [0], 0.0)
    constants = layer.offsets[: starts[-1]]
    return _Forms(
        picked @ weight.T,
        picked @ bias + constants,
        np.abs(picked) @ size.T,
        np.abs(picked) @ bias_size + np.abs(constants),
        starts,
        4 * (n_terms + layer.query.dim_out) * UNIT_ROUNDOFF,
    )


def _count_leading_groups(layer: ArgmaxLayer, dim: int) -> int:
    """Return the number of leading groups whose coefficients fit into `_MAX_ENTRIES`."""
    n_forms = max(_MAX_ENTRIES // dim, 1)
    return int(np.searchsorted(layer.starts[1:], n_forms, side="right"))


def _find_interior(where: ChartedDomain) -> _InteriorPoint:
    if where.corners is not None:
        low, high = (side / 2.0 for side in where.corners)
        return _InteriorPoint(low + high, high - low, None)
    unit = np.ones(where.dim)
    if not len(where.exact_rows):
        return _InteriorPoint(np.zeros(where.dim), unit, np.empty((0, where.dim + 1)))
    with no_time_limit():
        inside = decide_open_cone(wide_rows(where.cone_rows, where.dim + 1)).direction
    assert inside is not None
    point = rounded_directions([tuple(inside.tolist())], where.dim + 1)[0]
    rows = [tuple(row) for row in where.exact_rows.tolist()]
    return _InteriorPoint(point[:-1] / point[-1], unit, rounded_directions(rows, where.dim + 1))


def _have_common_point(forms: _Forms, interior: _InteriorPoint, m: int) -> bool:
    """Return whether `m` groups provably have a common point as described in the module."""
    point, scale = interior.point, interior.scale
    n_groups = len(forms.starts) - 1
    if n_groups < m:
        return False
    values = forms.slopes @ point + forms.offsets
    pairs, distances = [], []
    for start, end in pairwise(forms.starts):
        order = start + np.argsort(-values[start:end], kind="stable")
        one, other = (int(order[0]), int(order[1])) if len(order) > 1 else (start, start)
        normal = (forms.slopes[one] - forms.slopes[other]) * scale
        gap = values[one] - values[other]
        pairs.append((one, other))
        distances.append(gap / np.sqrt(normal @ normal) if normal.any() else np.inf)
    nearest = np.argsort(distances, kind="stable")[:m].tolist()
    if not np.isfinite(distances[nearest[-1]]):
        return False
    ones, others = (np.array([pairs[g][k] for g in nearest]) for k in (0, 1))
    # The nearest point of the walls, in coordinates in which the scale is 1.
    walls = (forms.slopes[ones] - forms.slopes[others]) * scale
    try:
        inverse = np.linalg.solve(walls @ walls.T, walls).T
    except np.linalg.LinAlgError:
        return False
    # Two steps of Newton's method; the second removes the rounding error of the first.
    z = np.zeros(len(point))
    for _ in range(2):
        t = point + scale * z
        left = forms.slopes @ t + forms.offsets
        z -= inverse @ (left[ones] - left[others])
    t = point + scale * z
    left = forms.slopes @ t + forms.offsets
    # A bound on the rounding error of a form anywhere near the point.
    far = np.abs(t) + scale * (1.0 + np.abs(inverse).sum(axis=1))
    blur = forms.unit * float((forms.sizes @ far + forms.offset_sizes).max()) + TINY
    slacks, reaches = _slacks(interior, z, far, inverse)
    for g, one in zip(nearest, ones.tolist(), strict=True):
        rivals = [r for r in range(forms.starts[g], forms.starts[g + 1]) if r not in pairs[g]]
        slacks.append(left[one] - left[rivals] - 4.0 * blur)
        beside = (forms.slopes[one] - forms.slopes[rivals]) * scale
        reaches.append(np.abs(beside @ inverse).sum(axis=1))
    slack, reach = np.concatenate(slacks), np.concatenate(reaches)
    epsilon = 0.5 * float((slack / np.maximum(reach, TINY)).min(initial=1.0))
    residual = float(np.abs(left[ones] - left[others]).max())
    spread = float(np.abs(walls @ inverse - np.eye(m)).sum(axis=1).max())
    return bool(epsilon > 0.0 and spread <= 0.25 and residual + 2.0 * blur <= epsilon / 4.0)


def _slacks(
    interior: _InteriorPoint, z: FloatArray, far: FloatArray, inverse: FloatArray
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the slack of a point in each inequality, and the largest change over all signs."""
    point, scale, rows = interior
    if rows is None:
        return [1.0 - np.abs(z) - _CLOSE * far / scale], [np.abs(inverse).sum(axis=1)]
    slopes, bounds = rows[:, :-1], rows[:, -1]
    reach = np.abs((slopes * scale) @ inverse).sum(axis=1)
    blur = _CLOSE * (np.abs(slopes) @ far + np.abs(bounds))
    return [bounds - slopes @ (point + scale * z) - blur], [reach]


def _format_duration(seconds: float) -> str:
    """Format a long time.

    Examples:
        >>> _format_duration(20.0), _format_duration(200.0)
        ('at least 20 seconds', 'at least 3 minutes')
        >>> _format_duration(1e4), _format_duration(1e9)
        ('at least 3 hours', 'at least 32 years')
    """
    units = ("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0)
    years = "years", 365.25 * 86400.0
    name, unit = next(((n, u) for n, u in reversed((*units, years)) if seconds >= 2 * u), units[0])
    return f"at least {round(seconds / unit):,} {name}"


def _refusal_message(model: Any, network: ArgmaxNetwork, where: ChartedDomain, reason: str) -> str:
    """Explain why a search is refused, and suggest alternatives."""
    n, low, high = where.ambient_dim, 0.0, 1.0
    corners = where.corners
    if corners is not None and all(bool((side == side[0]).all()) for side in corners):
        low, high = (float(side[0]) for side in corners)
    middle = low / 2.0 + high / 2.0
    half = high - middle
    ends = ";".join(f"{repr(end).removesuffix('.0')}^{n}" for end in (low, high))
    instead = [
        f"along a line, `hm.enumerate_regions(model, hm.Segment([{low}] * {n}, [{high}] * {n}))`, "
        f'on the command line --domain "segment:{ends}"',
        f"on a plane, `hm.enumerate_regions(model, hm.Slice([{middle}] * {n}, np.eye({n})[:2], "
        f"hm.Box([{-half}] * 2, [{half}] * 2)))`",
        "at random points, `hm.sample_regions(model, "
        f"hm.Box([{low}] * {n}, [{high}] * {n}), 10_000, seed=0)`",
    ]
    is_any_size = isinstance(model, GraphNetwork | ReluNetwork | MaxoutNetwork)
    if is_any_size or count_products(network) <= MOST_PRODUCTS:
        instead.append(f"around one point, `hm.cell_at(model, [{middle}] * {n})`")
    return (
        f"`domain` has {where.dim} dimensions, too many to find every cell of this model: "
        f"{reason}. Look at cells {'; or '.join(instead)}."
    )
