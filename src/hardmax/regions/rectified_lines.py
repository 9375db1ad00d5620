r"""Lines through ReLU networks: rows of forms, carried from one part of an interval to the next.

On an interval the pre-activations of a layer are forms $s_j t + c_j$. Where unit $u$ changes, those
of the next layer change by $\pm (s_u, c_u) W_u$, one row of its weights; so only the first part of
an interval costs a product with the whole matrix, all others one row each.

**Errors.** Let $z$ be what goes into a layer on some part (the forms of the units that are on),
$\hat z$ its floats, $\|\hat z - z\| \le e$ in the Euclidean norm. Column $j$ of the weights has
norm at most $\omega_j$. The error of form $j$ is that of its argument, at most $e\,\omega_j$, and
rounding:

* a product with the matrix rounds by at most $\kappa \|\hat z\|\,\omega_j$, an offset by $\kappa
  |b_j|$ more (Lemma 2 of `algebra.exact.rounding` and Cauchy-Schwarz);
* adding a row rounds twice, by at most $u|s_u W_{uj}| + u|\hat s'_j|$, and the new form is
  $|\hat s'_j| \le (\|\hat z'\| + e + \rho)\,\omega_j + |b_j|(1 + \beta)$.

So radii have the shape $(e + \rho)\,\omega_j + \beta |b_j|$, with three numbers for a whole
row. With $\sigma \ge \|W\|$ and $\Omega$ the Frobenius norm, the errors of a row have norm at most
$\sigma e + \Omega \rho + \beta \|b\|$; turning units off does not raise it. That is the $e$ of the
next layer.

A ReLU network is continuous: at a breakpoint where every other form is known not to vanish, one
entry of the signature changes, and no other. Intervals on which something is not known are split
in integers by the search that calls this one, and their parts come back here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._kernels import rectified_rows as kernels
from hardmax.algebra.exact.rounding import rounding_factor
from hardmax.models.affine_maps import AffineMap
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.enclosures import Enclosed, known
from hardmax.regions.line_filter import LineForms
from hardmax.regions.line_intervals import Intervals, Points
from hardmax.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.regions.line_search import LineSearch

_SQUARED_AGAIN = 1024, 2048
"""Up to which sizes a matrix is squared once more for its norm, at a cost of its third power."""
_ENTRIES_AT_ONCE, _PARTS_AT_ONCE = 1 << 18, 1 << 15
"""How many numbers, and how many intervals, are carried through a layer at once."""


def is_rectified(network: ArgmaxNetwork) -> bool:
    """Whether a network is nothing but affine maps with ReLU layers between them."""
    return bool(network.layers) and all(
        layer.is_relu and layer.output.is_identity and not layer.residual
        for layer in network.layers
    )


@dataclass(frozen=True, eq=False)
class _NormedMap:
    r"""An affine map and bounds on its norms.

    Attributes:
        weight: The $W$, shape `(n_in, n_out)`.
        bias: The $b$, shape `(n_out,)`.
        omega: The $\omega_j$, shape `(n_out,)`.
        sigma: The $\sigma$.
        frobenius: The $\Omega$.
        bias_norm: The norm of the bias.
        kappa: The $\kappa$ of a product with it.
    """

    weight: FloatArray
    bias: FloatArray
    omega: FloatArray
    sigma: float
    frobenius: float
    bias_norm: float
    kappa: float

    @classmethod
    def of(cls, affine: AffineMap) -> "_NormedMap":
        weight = np.array(affine.weight)
        kappa = rounding_factor(max(weight.shape) + 2)
        floored = np.where(weight == 0.0, 0.0, np.maximum(np.abs(weight), kernels.FLOOR))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (floored**2).sum(axis=0)
            omega = np.sqrt(squares) * kernels.RAISE
            frobenius = float(np.sqrt(squares.sum())) * kernels.RAISE
            bias_norm = float(np.sqrt((affine.bias**2).sum())) * kernels.RAISE + kernels.TINY
        sigma = min(_spectral_bound(weight, kappa, frobenius), frobenius)
        return cls(weight, np.array(affine.bias), omega, sigma, frobenius, bias_norm, kappa)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Apply the map to slopes, without the bias, and offsets: shape `(2, n, n_in)`."""
        n, width = rows.shape[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            values = (rows.reshape(2 * n, width) @ self.weight).reshape(2, n, -1)
            values[1] += self.bias
        return values

    def radii(self, scales: FloatArray) -> FloatArray:
        """The radii of rows, shape `(2, n, n_out)`."""
        slope, offset = scales[:, :2].T[:, :, None] + scales[:, 2:4].T[:, :, None]
        bias = np.abs(self.bias)
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = slope * self.omega * kernels.RAISE + kernels.TINY
            offsets = offset * self.omega + scales[:, 4:] * bias
            offsets = offsets * kernels.RAISE + kernels.TINY
        slopes[(slope == 0.0) | (self.omega == 0.0)] = 0.0
        offsets[((offset == 0.0) | (self.omega == 0.0)) & (bias == 0.0)] = 0.0
        return np.stack([slopes, offsets])

    def error_norms(self, scales: FloatArray) -> FloatArray:
        """Bounds on the norms of the errors of rows, shape `(2, n)`."""
        with np.errstate(over="ignore", invalid="ignore"):
            errors = self.sigma * scales[:, :2].T + self.frobenius * scales[:, 2:4].T
            errors[1] += scales[:, 4] * self.bias_norm
            return np.asarray(errors * kernels.RAISE + kernels.TINY)


def _spectral_bound(weight: FloatArray, kappa: float, frobenius: float) -> float:
    r"""Return a bound on $\|W\|$ by repeated squaring.

    $\|A\|^2 = \|A A^\top\|$, and the norm of the last matrix is at most its Frobenius norm. A
    product rounds each entry by at most $\kappa$ times the norms of two rows, so the whole by at
    most $\kappa \|A\|_F^2$.
    """
    if not 0.0 < frobenius < np.inf:
        return frobenius
    matrix = weight if weight.shape[0] < weight.shape[1] else weight.T
    n_squarings = 1 + sum(len(matrix) <= most for most in _SQUARED_AGAIN)
    slacks = []
    size = frobenius
    for _ in range(n_squarings):
        # By a power of two, so that nothing underflows that matters.
        scale = 2.0 ** np.frexp(size)[1]
        matrix = matrix / scale
        slacks.append((scale, kappa * (size / scale) ** 2 * kernels.RAISE + 2.0**-500))
        matrix = matrix @ matrix.T
        size = float(np.sqrt((matrix**2).sum())) * kernels.RAISE + 2.0**-500
    for scale, slack in reversed(slacks):
        size = float(scale * np.sqrt(size + slack) * kernels.RAISE)
    return size


_known: "WeakKeyDictionary[ArgmaxNetwork, list[_NormedMap]]" = WeakKeyDictionary()
"""Networks searched before: their norms take as long as a hundred cells."""


def _normed_maps(network: ArgmaxNetwork) -> list[_NormedMap]:
    """The maps into the layers and, last, the read-out."""
    if network not in _known:
        maps = [layer.query for layer in network.layers]
        _known[network] = [_NormedMap.of(affine) for affine in (*maps, network.readout)]
    return _known[network]


@dataclass(frozen=True, eq=False)
class _Rows:
    r"""Intervals from left to right, with the forms of one layer, or of the output.

    Attributes:
        forms: Slopes and offsets, shape `(2, n, width)`.
        scales: The $e, e', \rho, \rho', \beta$ of each row, for slopes and offsets; `(n, 5)`.
        low: The left ends.
        high: The right ends.
        prefix: The winners of the layers before, on the first interval. At each left end after it
            one of them changes, the one that gives the point its name.
    """

    forms: FloatArray
    scales: FloatArray
    low: Points
    high: Points
    prefix: AnyArray


@dataclass(frozen=True, eq=False)
class CellRun:
    """Cells from left to right, one entry of the signature changing from each to the next.

    Attributes:
        maps: The output with its radii, shape `(n, 2, dim_out)` each.
        low: The left ends.
        high: The right ends.
        signature: The signature of the first.
        groups: Which entry changes before each of the others.
        winners: What it is from there on.
    """

    maps: Enclosed
    low: Points
    high: Points
    signature: AnyArray
    groups: IntArray
    winners: AnyArray

    def __len__(self) -> int:
        return len(self.groups) + 1

    def __getitem__(self, kept: slice) -> "CellRun":
        """Return the first cells, at least one: a slice `[:n]`."""
        n = kept.stop
        maps = Enclosed(*(part[:n] for part in self.maps))
        changes = self.groups[: n - 1], self.winners[: n - 1]
        return CellRun(maps, self.low[:n], self.high[:n], self.signature, *changes)


class RectifiedLine:
    """The search along a line through a ReLU network."""

    def __init__(self, search: "LineSearch") -> None:
        network = search.network
        self.search = search
        self.n_layers = len(network.layers)
        self.maps = _normed_maps(network)
        self.first_group = np.cumsum([0, *(layer.n_groups for layer in network.layers)])

    def cells(self, start: Intervals, index: int = 0) -> Iterator[CellRun | Intervals | int]:
        """Yield the cells of an interval from left to right, in runs, batches or only counted.

        Args:
            start: One interval, with the stream before a layer.
            index: The layer.
        """
        parts = start.stream.slopes, start.stream.offsets
        values = np.stack([part.values for part in parts])
        errors = [_norm(part.radii) for part in parts]
        kappa = self.maps[index].kappa
        rounding = [kappa * _norm(part.values) * kernels.RAISE for part in parts]
        rows = _Rows(
            self.maps[index](values),
            np.array([[*errors, *rounding, kappa]]),
            start.low,
            start.high,
            start.prefix[0],
        )
        yield from self._cut(index, rows)

    def _cut(self, index: int, rows: _Rows) -> Iterator[CellRun | Intervals | int]:
        """Cut intervals by a layer, or yield them if none is left."""
        if index == self.n_layers:
            yield self._run(rows)
            return
        n, width = rows.forms.shape[1:]
        scales = np.column_stack([rows.scales[:, :2] + rows.scales[:, 2:4], rows.scales[:, 4]])
        given = rows.forms, scales, self.maps[index].omega, np.abs(self.maps[index].bias)
        states = np.zeros((n, width), dtype=np.uint8)
        n_zeros, is_open = np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
        ends = np.array([*rows.low.where, *rows.high.where])
        kernels.find_states(*given, ends, states, n_zeros, is_open)
        starts = np.concatenate([[0], np.cumsum(n_zeros)])
        units, zeros = np.empty(starts[-1], dtype=np.int64), np.empty((2, starts[-1]))
        kernels.find_zeros(*given, states, starts, units, zeros, is_open)
        n_open = int(is_open.sum())
        self.search.decisions.record(filtered=(n - n_open) * width, rational=n_open * width)
        yield 0
        turns = np.flatnonzero(is_open[1:] != is_open[:-1]) + 1
        for begin, end in pairwise([0, *turns.tolist(), n]):
            if is_open[begin]:
                for i in range(begin, end):
                    yield from self._exact_parts(index, self._taken(rows, i, i + 1))
                continue
            found = slice(starts[begin], starts[end])
            if self.search.count_only and index + 1 == self.n_layers:
                yield end - begin + len(units[found])
                continue
            zeros_here = _Zeros(n_zeros[begin:end], units[found], zeros[:, found])
            run = self._taken(rows, begin, end)
            yield from self._parts(index, run, states[begin:end], zeros_here)

    def _exact_parts(self, index: int, one: _Rows) -> Iterator[CellRun | Intervals | int]:
        """Cut one interval in integers, and go on with its parts."""
        nothing = Enclosed.exactly(np.empty((1, 0)))
        interval = Intervals(LineForms(nothing, nothing), one.prefix[None], one.low, one.high)
        for found in self.search.exact_parts(index, interval):
            if isinstance(found, int) or index + 1 == self.n_layers:
                yield found
                continue
            for i in range(len(found)):
                yield from self.cells(found[i : i + 1], index + 1)

    def _parts(
        self, index: int, rows: _Rows, states: AnyArray, zeros: "_Zeros"
    ) -> Iterator[CellRun | Intervals | int]:
        """Cut intervals at the zeros of a layer's units, and go on with few parts at a time."""
        owner = np.repeat(np.arange(len(states)), zeros.counts + 1)
        unit = np.full(len(owner), -1)
        later = np.flatnonzero(owner[1:] == owner[:-1]) + 1
        unit[later] = zeros.units
        is_on = states[owner, unit] == kernels.RIGHT
        names = np.stack([np.full(len(later), index), 2 * zeros.units, 2 * zeros.units], axis=1)
        names[:, 1] += ~is_on[later]
        names[:, 2] += is_on[later]
        points = Points(Enclosed(*zeros.where), names, np.full(len(later), None))
        low, high = rows.low[owner], rows.high[owner]
        low.put(later, points)
        high.put(later - 1, points)
        switched, norms = np.empty_like(rows.forms), np.empty((2, len(states)))
        n_on = np.empty(len(states), dtype=np.int64)
        kernels.switched_rows(rows.forms, states, switched, norms, n_on)
        following = self.maps[index + 1]
        first = following(switched)
        yield 0
        errors = self.maps[index].error_norms(rows.scales)
        carried, last = np.empty(8), np.empty((2, 0))
        step = max(1, min(_ENTRIES_AT_ONCE // first.shape[2], _PARTS_AT_ONCE))
        for a in range(0, len(owner), step):
            here = slice(a, min(a + step, len(owner)))
            mine, changed = owner[here], unit[here].copy()
            scales = np.empty((len(mine), 5))
            kernels.next_scales(
                *(rows.forms, errors, norms, n_on, mine, changed, is_on[here]),
                *(following.kappa, carried, scales),
            )
            forms = np.empty((2, len(mine), first.shape[2]))
            forms[:, changed < 0] = first[:, mine[changed < 0]]
            if changed[0] >= 0:
                share = rows.forms[:, mine[0], changed[0]] * (1.0 if is_on[a] else -1.0)
                forms[:, 0] = last + share[:, None] * following.weight[changed[0]]
                changed[0] = -1
            kernels.next_rows(rows.forms, mine, changed, is_on[here], following.weight, forms)
            last = forms[:, -1]
            winners = states[mine[0]] & kernels.LEFT
            family = slice(int(np.searchsorted(owner, mine[0])) + 1, a + 1)
            winners[unit[family]] = is_on[family]
            prefix = np.concatenate([self._prefix(rows, int(mine[0])), winners])
            yield from self._cut(index + 1, _Rows(forms, scales, low[here], high[here], prefix))

    def _taken(self, rows: _Rows, begin: int, end: int) -> _Rows:
        kept = slice(begin, end)
        return _Rows(
            np.ascontiguousarray(rows.forms[:, kept]),
            rows.scales[kept],
            rows.low[kept],
            rows.high[kept],
            self._prefix(rows, begin),
        )

    def _prefix(self, rows: _Rows, i: int) -> AnyArray:
        """The winners of the layers before on one of the intervals."""
        prefix = rows.prefix.copy()
        groups, winners = self._changes(rows.low[1 : i + 1])
        # Of several changes of one entry the last one stays.
        prefix[groups] = winners
        return prefix

    def _changes(self, points: Points) -> tuple[IntArray, IntArray]:
        """Which entry of the signature changes at each point, and what to."""
        unit, winner = np.divmod(points.names[:, 2], 2)
        return self.first_group[points.names[:, 0]] + unit, winner

    def _run(self, rows: _Rows) -> CellRun:
        radii = self.maps[-1].radii(rows.scales)
        maps = known(rows.forms.swapaxes(0, 1), radii.swapaxes(0, 1))
        changes = self._changes(rows.low[1:])
        return CellRun(maps, rows.low, rows.high, rows.prefix, *changes)


@dataclass(frozen=True, eq=False)
class _Zeros:
    """Where units change: how often in each interval, which, and where with which radius."""

    counts: IntArray
    units: IntArray
    where: FloatArray


def _norm(values: FloatArray) -> float:
    """A bound on the Euclidean norm, 0 only for zeros."""
    floored = np.where(values == 0.0, 0.0, np.maximum(np.abs(values), kernels.FLOOR))
    with np.errstate(over="ignore"):
        return float(np.sqrt((floored**2).sum())) * kernels.RAISE
