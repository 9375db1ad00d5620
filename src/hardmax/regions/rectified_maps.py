r"""The affine maps of a ReLU network on cells along a line, composed when they are asked for.

On an interval the pre-activations of a layer are forms $s_j t + c_j$. Where unit $u$ changes, those
of the next layer change by $\pm (s_u, c_u) W_u$, one row of its weights; so only the first part of
an interval costs a product with the whole matrix, all others one row each. Signatures say which
units are on; nothing is decided here.

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
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hardmax._kernels import rectified_rows as kernels
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.enclosures import Enclosed, known
from hardmax.models.normed_maps import NormedMap
from hardmax.regions.line_filter import LineForms
from hardmax.regions.line_signatures import SignatureWalk
from hardmax.regions.packed_layers import PackedLayers, packed_layers
from hardmax.regions.rectified_lines import norm
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

_ENTRIES_AT_ONCE = 1 << 18
"""How many entries rows have that are composed at once."""


def composed_maps(network: ArgmaxNetwork, stream: LineForms, walk: SignatureWalk) -> Enclosed:
    """Return the output on each cell, as slopes and offsets with radii.

    Args:
        network: A ReLU network (see `is_rectified`).
        stream: The forms before the first layer, one row.
        walk: The signatures of the cells.

    Returns:
        Values and radii, shape `(n_cells, 2, dim_out)` each.
    """
    composition = _Composition(packed_layers(network), walk)
    composition.compose(stream)
    return known(composition.values, composition.radii)


@dataclass(frozen=True, eq=False)
class _Rows:
    r"""The forms of a layer on intervals.

    Attributes:
        forms: Slopes and offsets, shape `(2, n, width)`.
        scales: The $e, e', \rho, \rho', \beta$ of each row, for slopes and offsets; `(n, 5)`.
        begins: The first cell of each interval, and after them the end of the last.
    """

    forms: FloatArray
    scales: FloatArray
    begins: IntArray


class _LayerStates:
    """Which units of a layer are on, from one cell to the next.

    Args:
        walk: The signatures.
        low: The first unit of the layer.
        high: The end of its units.
    """

    def __init__(self, walk: SignatureWalk, low: int, high: int) -> None:
        mine = np.flatnonzero((walk.groups >= low) & (walk.groups < high))
        self.cells = np.searchsorted(walk.starts, mine, side="right") - 1
        self.units, self.winners = walk.groups[mine] - low, walk.winners[mine]
        self._row = np.array(walk.first[low:high], dtype=np.uint8)
        self._n_seen = 0

    def at(self, cells: IntArray) -> AnyArray:
        """The states on cells, each after those asked for before: shape `(n_cells, width)`."""
        states = np.empty((len(cells), len(self._row)), dtype=np.uint8)
        ends = np.searchsorted(self.cells, cells, side="right")
        for i, end in enumerate(ends.tolist()):
            seen = slice(self._n_seen, end)
            # Of several changes of one entry the last one stays.
            self._row[self.units[seen]] = self.winners[seen]
            self._n_seen = end
            states[i] = self._row
        return states


class _Composition:
    """The composition of maps on cells, depth first, so that few rows are there at a time."""

    def __init__(self, layers: PackedLayers, walk: SignatureWalk) -> None:
        self.maps = [*layers.maps, layers.readout]
        shape = len(walk), 2, len(layers.readout.bias)
        self.values, self.radii = np.empty(shape), np.empty(shape)
        bounds = layers.unit_starts.tolist()
        self.states = [_LayerStates(walk, low, high) for low, high in pairwise(bounds)]

    def compose(self, stream: LineForms) -> None:
        """Write the maps of all cells."""
        parts = stream.slopes, stream.offsets
        kappa = self.maps[0].kappa
        errors = [norm(part.radii) for part in parts]
        rounding = [kappa * norm(part.values) * kernels.RAISE for part in parts]
        forms = _applied(self.maps[0], np.stack([part.values for part in parts]))
        scales = np.array([[*errors, *rounding, kappa]])
        self._cut(0, _Rows(forms, scales, np.array([0, len(self.values)])))

    def _cut(self, index: int, rows: _Rows) -> None:
        """Go on with the parts of intervals on which the units of a layer do not change."""
        first, end = rows.begins[[0, -1]].tolist()
        if index + 1 == len(self.maps):
            self.values[first:end] = rows.forms.swapaxes(0, 1)
            self.radii[first:end] = _radii(self.maps[-1], rows.scales).swapaxes(0, 1)
            return
        states = self.states[index]
        mine = slice(*np.searchsorted(states.cells, [first + 1, end]).tolist())
        changed, units = states.cells[mine], states.units[mine]
        cells = np.union1d(changed, rows.begins[:-1])
        place = np.searchsorted(cells, changed)
        unit = np.full(len(cells), -1)
        unit[place] = units
        # More than one change, or a new interval: a product. So it is where rows were broken off.
        unit[np.bincount(place, minlength=len(cells)) > 1] = -1
        unit[np.searchsorted(cells, rows.begins[:-1])] = -1
        is_on = np.zeros(len(cells), dtype=bool)
        is_on[place] = states.winners[mine] != 0
        parent = np.searchsorted(rows.begins, cells, side="right") - 1
        following = self.maps[index + 1]
        step = max(1, _ENTRIES_AT_ONCE // len(following.bias))
        bounds = np.append(cells, end)
        for a in range(0, len(cells), step):
            here = slice(a, min(a + step, len(cells)))
            unit[a] = -1
            fresh = states.at(cells[here][unit[here] < 0])
            mapped = self.maps[index], following, rows.forms, rows.scales, parent[here]
            forms, scales = _next_rows(*mapped, fresh, unit[here], is_on[here])
            self._cut(index + 1, _Rows(forms, scales, bounds[a : here.stop + 1]))


def _next_rows(
    normed: NormedMap,
    following: NormedMap,
    forms: FloatArray,
    scales: FloatArray,
    parent: IntArray,
    states: AnyArray,
    unit: IntArray,
    is_on: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return forms and scales of the next layer on parts of intervals.

    Args:
        normed: The map into this layer.
        following: The map into the next.
        forms: The forms of this layer, shape `(2, n, width)`.
        scales: Their scales, shape `(n, 5)`.
        parent: For each part its interval.
        states: Which units are on in parts that need a product, shape `(n_products, width)`.
        unit: Which unit changed at the left end of a part, -1 where it needs a product.
        is_on: Whether it is on from there on.
    """
    fresh = np.flatnonzero(unit < 0)
    owner = np.cumsum(unit < 0) - 1
    errors, chosen = _error_norms(normed, scales), parent[fresh]
    before = forms
    if not np.array_equal(chosen, np.arange(len(scales))):
        before, errors = forms.take(chosen, axis=1), errors.take(chosen, axis=1)
    switched, norms = np.empty_like(before), np.empty((2, len(fresh)))
    n_on = np.empty(len(fresh), dtype=np.int64)
    kernels.switched_rows(before, states, switched, norms, n_on)
    after = np.empty((2, len(parent), len(following.bias)))
    for part, rows in zip(after, _applied(following, switched), strict=True):
        part[fresh] = rows
    kernels.next_rows(before, owner, unit, is_on, following.weight, after)
    next_scales = np.empty((len(parent), 5))
    kernels.next_scales(
        before, errors, norms, n_on, owner, unit, is_on, following.kappa, np.empty(8), next_scales
    )
    return after, next_scales


def _applied(normed: NormedMap, rows: FloatArray) -> FloatArray:
    """Apply a map to slopes, without the bias, and offsets: shape `(2, n, n_in)`."""
    n, width = rows.shape[1:]
    with np.errstate(over="ignore", invalid="ignore"):
        values = (rows.reshape(2 * n, width) @ normed.weight).reshape(2, n, -1)
        values[1] += normed.bias
    return values


def _radii(normed: NormedMap, scales: FloatArray) -> FloatArray:
    """The radii of rows, shape `(2, n, n_out)`."""
    slope, offset = scales[:, :2].T[:, :, None] + scales[:, 2:4].T[:, :, None]
    bias = np.abs(normed.bias)
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = slope * normed.omega * kernels.RAISE + kernels.TINY
        offsets = offset * normed.omega + scales[:, 4:] * bias
        offsets = offsets * kernels.RAISE + kernels.TINY
    slopes[(slope == 0.0) | (normed.omega == 0.0)] = 0.0
    offsets[((offset == 0.0) | (normed.omega == 0.0)) & (bias == 0.0)] = 0.0
    return np.stack([slopes, offsets])


def _error_norms(normed: NormedMap, scales: FloatArray) -> FloatArray:
    """Bounds on the norms of the errors of rows, shape `(2, n)`."""
    with np.errstate(over="ignore", invalid="ignore"):
        errors = normed.sigma * scales[:, :2].T + normed.frobenius * scales[:, 2:4].T
        errors[1] += scales[:, 4] * normed.bias_norm
        return np.asarray(errors * kernels.RAISE + kernels.TINY)
