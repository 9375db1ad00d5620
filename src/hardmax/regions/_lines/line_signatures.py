"""Signatures along a line, kept as what changes from one cell to the next.

A wide model has as many cells as entries in a signature, and next to no entry changes between two
cells: a table of all signatures would be the one thing in a result that does not fit into memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.typing import AnyArray, BoolArray, IntArray


def winner_type(network: ArgmaxNetwork) -> type[np.unsignedinteger]:
    """The smallest type that holds every winner of a network."""
    known: type[np.unsignedinteger] | None = network.kept.get("winner_type")
    if known is None:
        sizes = (2 if layer.is_relu else np.diff(layer.starts).max() for layer in network.layers)
        largest = int(max(sizes, default=1))
        known = network.kept["winner_type"] = np.min_scalar_type(largest - 1).type
    return known


def changed_entries(is_new: BoolArray) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the few true entries: `nonzero`, much faster for a large table."""
    if not is_new.shape[1]:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.divmod(np.flatnonzero(is_new), is_new.shape[1])


@dataclass(frozen=True, eq=False)
class SignatureWalk:
    """The signatures of cells in a row.

    Attributes:
        first: The first signature, shape `(n_groups,)`.
        starts: The changes from cell `i - 1` to cell `i` are those from `starts[i]` up to
            `starts[i + 1]`; shape `(n_cells + 1,)`, the first two entries 0.
        groups: The entry each change is of, shape `(n_changes,)`.
        winners: Its new value, shape `(n_changes,)`.

    Examples:
        >>> recorder = WalkRecorder(3, np.uint8)
        >>> recorder.add(np.array([[0, 0, 1], [0, 2, 1]], dtype=np.uint8))
        >>> recorder.add(np.array([[1, 2, 0]], dtype=np.uint8))
        >>> walk = recorder.walk()
        >>> len(walk), walk.groups.tolist(), walk.row(2).tolist()
        (3, [1, 0, 2], [1, 2, 0])
        >>> walk.table().tolist()
        [[0, 0, 1], [0, 2, 1], [1, 2, 0]]
        >>> [row.tolist() for row in walk.rows_of(np.array([0, 2]))]
        [[0, 0, 1], [1, 2, 0]]
    """

    first: AnyArray
    starts: IntArray
    groups: IntArray
    winners: AnyArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, cell: int) -> AnyArray:
        """Return one signature."""
        row = self.first.copy()
        end = self.starts[cell + 1]
        # Of several changes of one entry the last one stays.
        row[self.groups[:end]] = self.winners[:end]
        return row

    def first_cells(self, n: int) -> "SignatureWalk":
        """Return the signatures of the first cells, at least one."""
        n_changes = int(self.starts[n])
        changes = self.groups[:n_changes], self.winners[:n_changes]
        return SignatureWalk(self.first, self.starts[: n + 1], *changes)

    def table(self) -> AnyArray:
        """Return all signatures, shape `(n_cells, n_groups)`."""
        table = np.empty((len(self), len(self.first)), dtype=self.first.dtype)
        for i, row in enumerate(self.rows()):
            table[i] = row
        return table

    def rows_of(self, cells: IntArray) -> Iterator[AnyArray]:
        """Yield the signatures of some cells, given in rising order, all in the same array."""
        row = self.first.copy()
        for start, end in pairwise([0, *self.starts[cells + 1].tolist()]):
            row[self.groups[start:end]] = self.winners[start:end]
            yield row

    def rows(self) -> Iterator[AnyArray]:
        """Yield one signature after the other, all in the same array."""
        row = self.first.copy()
        for start, end in pairwise(self.starts.tolist()):
            row[self.groups[start:end]] = self.winners[start:end]
            yield row


class WalkRecorder:
    """Takes down signatures as they come, batch after batch.

    Args:
        n_groups: The length of a signature.
        dtype: The type of its entries.
    """

    def __init__(self, n_groups: int, dtype: type[np.unsignedinteger]) -> None:
        self._first = np.zeros(n_groups, dtype=dtype)
        self._last = self._first
        self._counts = [np.zeros(1, dtype=np.int64)]
        self._groups: list[IntArray] = []
        self._winners: list[AnyArray] = []
        self._whole: SignatureWalk | None = None  # All that there is, if it came at once.

    def add(self, rows: AnyArray) -> None:
        """Take down a batch, shape `(n, n_groups)` with `n >= 1`."""
        self._take_apart()
        if len(self._counts) == 1:
            self._first = self._last = rows[0].copy()
        is_new = np.empty(rows.shape, dtype=bool)
        np.not_equal(rows[0], self._last, out=is_new[0])
        np.not_equal(rows[1:], rows[:-1], out=is_new[1:])
        cells, groups = changed_entries(is_new)
        self._counts.append(np.bincount(cells, minlength=len(rows)))
        self._groups.append(groups)
        self._winners.append(rows[cells, groups])
        self._last = rows[-1].copy()

    def add_walk(self, walk: SignatureWalk) -> None:
        """Take down signatures that are kept as changes already, at least one."""
        if len(self._counts) == 1 and self._whole is None:
            self._whole = walk
            return
        self.add(walk.first[np.newaxis])
        self._counts.append(np.diff(walk.starts)[1:])
        self._groups.append(walk.groups)
        self._winners.append(walk.winners)
        self._last = walk.row(len(walk) - 1)

    def _take_apart(self) -> None:
        """Make what came at once something that can be added to."""
        whole, self._whole = self._whole, None
        if whole is not None:
            self._first = whole.first
            self._counts.append(np.diff(whole.starts))
            self._groups.append(whole.groups)
            self._winners.append(whole.winners)
            self._last = whole.row(len(whole) - 1)

    def walk(self) -> SignatureWalk:
        """Return what was taken down."""
        if self._whole is not None:
            return self._whole
        starts = np.cumsum(np.concatenate(self._counts))
        groups = np.concatenate([np.empty(0, dtype=np.int64), *self._groups])
        winners = np.concatenate([self._first[:0], *self._winners])
        return SignatureWalk(self._first, starts, groups, winners)
