"""The exact forms of the layers on the path of a search, and their roundings to floats.

They are computed from the stored weights, the domain and the winners on the path. No floating-point
result of the core is used.
"""

from typing import Any

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.exact.decisions import Decisions
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.coincidences import (
    find_equal_rows,
    find_identical_forms,
    mean_contributions,
)
from hardmax.regions._search.rounded_forms import finest_grid, round_forms
from hardmax.regions._search.searches import CoreSearch
from hardmax.typing import AnyArray


class ExactPath:
    """The exact forms of the layers on the path to the cell on top, cached while they are valid.

    Args:
        network: The network.
        scale: The scale of the domain.
        search: The search; the forms of its layers are replaced by the nearest floats on demand.

    Attributes:
        has_means: Whether there were forms that coincide on a region, but not everywhere.
    """

    def __init__(self, network: ArgmaxNetwork, scale: float, search: CoreSearch) -> None:
        self.network = network
        self.scale = scale
        self.search = search
        self.decisions = Decisions()
        self.has_means = False
        self._streams: list[RationalForms] = []
        self._scores: list[RationalForms] = []
        self._versions: list[int] = []
        self._is_refreshed: list[bool] = []

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        raise NotImplementedError

    def split_top(self) -> None:
        """Split the cell on top of the stack by its next group."""
        raise NotImplementedError

    def improve_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        raise NotImplementedError

    def scores(self, layer: int, *, refresh: bool = True) -> RationalForms:
        """Return the exact scores of a layer on the path.

        Args:
            layer: The layer.
            refresh: Whether to replace the core's floats up to this layer by the nearest ones and
                to merge coinciding forms, as a split requires. Rounding the forms is the most
                expensive part.
        """
        versions, _ = self.search.versions()
        known = 0
        while known < len(self._versions) and known <= layer:
            if self._versions[known] != versions[known]:
                break
            known += 1
        if known <= layer:
            for kept in (self._versions, self._scores, self._streams, self._is_refreshed):
                del kept[known:]
        signature = self.search.signature()
        for i in range(known, layer + 1):
            check_time()
            stream = self._stream(i, signature)
            check_time()
            scores = layer_scores(self.network.layers[i], stream)
            self._streams.append(stream)
            self._scores.append(scores)
            self._versions.append(versions[i])
            self._is_refreshed.append(False)
        for i in range(layer + 1 if refresh else 0):
            if not self._is_refreshed[i]:
                self._refresh(i)
                self._is_refreshed[i] = True
        return self._scores[layer]

    def _stream(self, layer: int, signature: AnyArray) -> RationalForms:
        if layer == 0:
            return self.first_stream()
        before = self.network.layers[layer - 1]
        first = sum(earlier.n_groups for earlier in self.network.layers[: layer - 1])
        winners = signature[first : first + before.n_groups]
        return layer_output(before, self._streams[layer - 1], self._scores[layer - 1], winners)

    def _refresh(self, layer: int) -> None:
        """Replace the floats of a layer by the nearest ones, and merge coinciding forms."""
        model, scores, stream = (
            self.network.layers[layer],
            self._scores[layer],
            self._streams[layer],
        )
        picked = scores.rows[1::2] if model.is_relu else scores.rows
        blocks = [
            round_forms(stream, stream.rows, self.scale),
            round_forms(scores, picked, self.scale),
        ]
        given = [(block, finest_grid(block)) for block in blocks]
        merged = None
        if not model.is_relu:
            classes = find_equal_rows(scores.rows, model.starts.tolist())
            first = np.arange(len(model.offsets), dtype=np.int32)
            for members in classes:
                first[members] = members[0]
            self.has_means = self.has_means or classes != find_identical_forms(model)
            merged = (first, *mean_contributions(model, classes))
        self.search.refresh(layer, given[0], given[1], merged)

    def competitors(self, layer: int, group: int) -> list[int]:
        """Return the forms of a group that may win; only one if a ReLU unit is 0 everywhere."""
        model = self.network.layers[layer]
        if model.is_relu:
            start = int(model.starts[group])
            rows = self.scores(layer).rows
            return [start] if rows[start] == rows[start + 1] else [start, start + 1]
        return self.search.candidates(layer, group)

    def difference(self, wall: list[int], *, refresh: bool = True) -> list[Any]:
        """Return the exact form of a wall; it is positive on the winner's side."""
        layer, group, winner, rival = wall
        rows = self.scores(layer, refresh=refresh).rows
        start = int(self.network.layers[layer].starts[group])
        pairs = zip(rows[start + winner], rows[start + rival], strict=True)
        return [one - other for one, other in pairs]
