"""The exact forms of the layers on the path of a search, and floats made from them.

Everything is read from stored weights, the domain and the winners on the path; no float of an
engine is.
"""

from typing import Any

import numpy as np

from hardmax._kernels.layouts import (
    AT_STARTS,
    IS_MERGED,
    IS_RELU,
    N_UPDATES,
    SCORES_ARE_EXACT,
    STREAM_IS_EXACT,
    VERSION,
    Tables,
)
from hardmax._kernels.spatial_buffers import Frames
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.dyadic import lowest_bits
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import RationalForms, layer_output, layer_scores
from hardmax.regions.coincidences import coincidence_classes, coinciding_means
from hardmax.regions.planar_domains import divided
from hardmax.typing import FloatArray


class ExactForms:
    """The exact forms of the layers on the path to what is on top, kept while they hold.

    Args:
        network: The network.
        tables: The same, flattened.
        frames: The forms on the path in floats; replaced by the nearest ones where looked at.
    """

    def __init__(self, network: ArgmaxNetwork, tables: Tables, frames: Frames) -> None:
        self.network = network
        self.tables = tables
        self.frames = frames
        self.decisions = Decisions()
        self._streams: list[RationalForms] = []
        self._scores: list[RationalForms] = []
        self._versions: list[int] = []
        self._is_refreshed: list[bool] = []

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        raise NotImplementedError

    def scores(self, layer: int, *, refresh: bool = True) -> RationalForms:
        """Return the exact scores of a layer on the path.

        Args:
            layer: The layer.
            refresh: Whether the floats of the frames up to there have to be the nearest ones, and
                coinciding forms merged, as a split needs them; rounding all forms takes longest.
        """
        known = 0
        while known < len(self._versions) and known <= layer:
            if self._versions[known] != self.frames.flags[known, VERSION]:
                break
            known += 1
        if known <= layer:
            del self._versions[known:], self._scores[known:], self._streams[known:]
            del self._is_refreshed[known:]
        for i in range(known, layer + 1):
            self._streams.append(self._stream(i))
            self._scores.append(layer_scores(self.network.layers[i], self._streams[i]))
            self._versions.append(int(self.frames.flags[i, VERSION]))
            self._is_refreshed.append(False)
        for i in range(layer + 1 if refresh else 0):
            if not self._is_refreshed[i]:
                self._refresh(i)
                self._is_refreshed[i] = True
        return self._scores[layer]

    def _stream(self, layer: int) -> RationalForms:
        if layer == 0:
            return self.first_stream()
        before = self.network.layers[layer - 1]
        first = sum(earlier.n_groups for earlier in self.network.layers[: layer - 1])
        winners = self.frames.signature[first : first + before.n_groups]
        return layer_output(before, self._streams[layer - 1], self._scores[layer - 1], winners)

    def _refresh(self, layer: int) -> None:
        """Replace the floats of a frame by the nearest ones, and merge what coincides."""
        frames, scale = self.frames, float(self.tables.scale[0])
        scores, stream = self._scores[layer], self._streams[layer]
        is_relu = self.tables.layout[layer, IS_RELU] == 1
        picked = scores.rows[1::2] if is_relu else scores.rows
        place = len(self.tables.layout) + layer
        for forms, rows, block, flag in (
            (stream, stream.rows, frames.blocks[layer], STREAM_IS_EXACT),
            (scores, picked, frames.blocks[place], SCORES_ARE_EXACT),
        ):
            floats = rounded_forms(forms, rows, scale)
            block[:, : len(rows)] = floats
            frames.flags[layer, flag] = int(not floats[-1].any())
            frames.flags[layer, flag + 1] = finest_grid(floats)
        # Neither these scores nor the next ones are sums of the floats that are there now.
        frames.flags[layer : layer + 2, N_UPDATES] = 0
        if is_relu:
            return
        model = self.network.layers[layer]
        classes = coincidence_classes(scores.rows, model.starts.tolist())
        n_forms, width = model.values.shape
        first = frames.first[layer]
        first[:] = np.arange(len(first))
        for members in classes:
            first[members] = members[0]
        gains, values = coinciding_means(model, classes)
        frames.gains[layer, :, :n_forms] = gains
        frames.values[layer, :, :n_forms, :width] = values
        frames.flags[layer, IS_MERGED] = 1
        for g, start in enumerate(model.starts[:-1].tolist()):
            count = int(frames.n_candidates[layer, g])
            listed = frames.candidates[layer, start : start + count].tolist()
            firsts = [j for j in listed if first[j] == j]
            frames.candidates[layer, start : start + len(firsts)] = firsts
            frames.n_candidates[layer, g] = len(firsts)

    def competitors(self, layer: int, group: int) -> list[int]:
        """Return the forms of a group that may win, of a unit that is 0 everywhere only one."""
        start = int(self.tables.indices[self.tables.layout[layer, AT_STARTS] + group])
        if self.tables.layout[layer, IS_RELU] == 1:
            rows = self.scores(layer).rows
            return [start] if rows[start] == rows[start + 1] else [start, start + 1]
        count = int(self.frames.n_candidates[layer, group])
        members: list[int] = self.frames.candidates[layer, start : start + count].tolist()
        return members


def rounded_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Return the block `(dim + 2, n)` of rows of exact forms, rounded, with radii."""
    up, down = unit(forms)
    block = np.zeros((forms.matrix.ncols() + 1, len(rows)))
    for i, row in enumerate(rows):
        quotients = [divided(x * up, down) for x in row]
        block[:-1, i] = [value for value, _ in quotients]
        slopes = max(error for _, error in quotients[:-1])
        block[-1, i] = max(scale * slopes, quotients[-1][1])
    return block


def doubled_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Return the block `(2 dim + 3, n)` of rows of exact forms, two floats for each number."""
    up, down = unit(forms)
    n_columns = forms.matrix.ncols()
    block = np.zeros((2 * n_columns + 1, len(rows)))
    for i, row in enumerate(rows):
        radius = 0.0
        for k, x in enumerate(row):
            high = divided(x * up, down)[0]
            p, q = high.as_integer_ratio()
            low, error = divided(int(x) * up * q - p * down, down * q)
            block[[k, n_columns + k], i] = high, low
            radius = max(radius, error * (scale if k < n_columns - 1 else 1.0))
        block[-1, i] = radius
    return block


def unit(forms: RationalForms) -> tuple[int, int]:
    """Return the scale of exact forms as a quotient of integers."""
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    return 1 << up, forms.denominator << down


def finest_grid(floats: FloatArray) -> int:
    """Return the exponent of a grid that holds all coefficients of a block."""
    finite = np.where(np.isfinite(floats[:-1]), floats[:-1], 0.0)
    return min(int(lowest_bits(finite).min(initial=2000)), 2000)
