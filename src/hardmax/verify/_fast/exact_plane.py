"""Compute lines and corners of a planar walk exactly, on demand.

A *place* is a layer together with the first of the cells that agree in all earlier layers; there,
the scores of the layer are affine forms. A line is the set where two forms of a group tie at a
place, or a side of the domain. A corner is the intersection of two lines.
"""

from bisect import bisect_right
from math import gcd

import numpy as np

from hardmax.typing import AnyArray, FloatArray, IntArray
from hardmax.verify._fast.composition import ExactNetwork
from hardmax.verify._fast.packing import Forms
from hardmax.verify._fast.polygons import Vector, meet

# The maximum numbers of forms and lines kept, to limit memory.
_KEPT_STREAMS, _KEPT_LINES = 1 << 12, 1 << 16


class ExactPlane:
    """The numbered lines of a walk.

    Args:
        network: The network on a planar chart.
        signatures: The cells in lexicographic order.
        sides: The first lines, as integer rows.
    """

    def __init__(self, network: ExactNetwork, signatures: AnyArray, sides: list[Vector]) -> None:
        self.network, self.sides = network, sides
        self._signatures = signatures
        n_groups = [layer.n_groups for layer in network.layers]
        self.columns = [sum(n_groups[:i]) for i in range(len(n_groups) + 1)]
        self._parents = [np.zeros(0, dtype=np.int64)] * len(network.layers)
        self._names: list[tuple[int, IntArray, IntArray, IntArray]] = []
        self._firsts = [len(sides)]
        self._streams: dict[tuple[int, int], Forms] = {}
        self._lines: dict[tuple[int, int, int, int], Vector] = {}
        self._ties: dict[tuple[int, int], dict[int, list[int]]] = {}

    def enter(self, layer: int, begins: IntArray, parents: IntArray) -> None:
        """Record the places of a layer, and the places of the previous layer that contain them."""
        if not len(self._parents[layer]):
            self._parents[layer] = np.zeros(len(self._signatures), dtype=np.int64)
        self._parents[layer][begins] = parents

    def name_lines(self, layer: int, begins: IntArray, forms: IntArray, rivals: IntArray) -> None:
        """Record the next lines, on which forms of a layer tie with rivals."""
        self._names.append((layer, begins, forms, rivals))
        self._firsts.append(self._firsts[-1] + len(begins))

    def stream(self, layer: int, begin: int) -> Forms:
        """Return the forms before a layer."""
        way = []
        while layer and (layer, begin) not in self._streams:
            way.append((layer, begin))
            layer, begin = layer - 1, int(self._parents[layer][begin])
        forms = self._streams[layer, begin] if layer else self.network.stream
        for place in reversed(way):
            below = self.network.layers[place[0] - 1]
            parent = int(self._parents[place[0]][place[1]])
            winners = self.winners(place[0] - 1, place[1])
            forms = below.after(forms, winners, self.ties(place[0] - 1, parent, winners))
            if len(self._streams) >= _KEPT_STREAMS:
                self._streams.clear()
            self._streams[place] = forms
        return forms

    def winners(self, layer: int, cell: int) -> list[int]:
        """Return the winning forms of a layer in a cell."""
        block = self._signatures[cell, self.columns[layer] : self.columns[layer + 1]].tolist()
        return [a + b for a, b in zip(self.network.layers[layer].starts, block, strict=False)]

    def row(self, layer: int, begin: int, form: int, rival: int) -> Vector:
        """Return a form minus a rival at a place, without common factors; 0 if they coincide."""
        key = (layer, begin, form, rival)
        line = self._lines.get(key)
        if line is None:
            stream, exact = self.stream(layer, begin), self.network.layers[layer]
            group = int(exact.group_of[form])
            rows = exact.score_rows(stream, [group])
            line = stream.packing.unpack(int(rows[form] - rows[rival]))
            divisor = gcd(*line) or 1
            line = tuple(x // divisor for x in line)
            if len(self._lines) >= _KEPT_LINES:
                self._lines.clear()
            self._lines[key] = line
        return line

    def line(self, number: int) -> Vector:
        """Return a line by its number."""
        if number < len(self.sides):
            return self.sides[number]
        i = bisect_right(self._firsts, number) - 1
        layer, *names = self._names[i]
        begin, form, rival = (int(table[number - self._firsts[i]]) for table in names)
        return self.row(layer, begin, form, rival)

    def corner(self, one: int, other: int, near: FloatArray) -> Vector:
        """Return the intersection of two lines, with the signs of a rounded corner."""
        x, y, w = meet(self.line(one), self.line(other))
        divisor = gcd(x, y, w)
        k = int(np.argmax(np.abs(near)))
        if ((x, y, w)[k] < 0) != (near[k] < 0):
            divisor = -divisor
        return (x // divisor, y // divisor, w // divisor)

    def note_tie(self, layer: int, begin: int, form: int, rival: int) -> None:
        """Record that a rival coincides with an earlier form at a place."""
        tied = self._ties.setdefault((layer, begin), {}).setdefault(form, [form])
        if rival not in tied:
            tied.append(rival)

    def ties(self, layer: int, begin: int, winners: list[int]) -> dict[int, list[int]]:
        """Return all coinciding winners of each group that has more than one."""
        found = self._ties.get((layer, begin), {})
        return {group: found[form] for group, form in enumerate(winners) if form in found}

    def tied_places(self, layer: int, begins: IntArray) -> list[int]:
        """Return the places of a layer where coinciding forms were found."""
        if not any(key[0] == layer for key in self._ties):
            return []
        return [i for i, begin in enumerate(begins.tolist()) if (layer, begin) in self._ties]
