r"""Parts of a certificate, and what each must know of the others.

The cells of a part follow one another in the order of all cells. The tree of signatures is walked
part by part: a node, the cells that begin with some winners, belongs to every part that has cells
of it, and a part that has some of them but not all must know which winners the others list in the
groups of the node's layer. A node that has cells of several parts begins as the first or as the
last cell of each of them does. So a part is told of few cells of others, which stand for all.

What is told makes parts agree, but nobody has to believe it: with fewer cells of others more
branches would have to be refused, or larger pieces be covered, and never fewer or smaller ones.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import TILING
from hardmax.typing import AnyArray, IntArray


class PartEnds(NamedTuple):
    """What others need to know of the cells of a part.

    Attributes:
        early: Its first cell, and cells that stand for those behind it.
        late: Cells that stand for those before the last, and its last cell.
    """

    early: AnyArray
    late: AnyArray


class PartContext(NamedTuple):
    """What a part must know of the others: cells before its own, and behind them."""

    before: AnyArray
    behind: AnyArray


def part_ends(network: ArgmaxNetwork, signatures: AnyArray, kind: str) -> PartEnds:
    """Return what others need to know of cells, which are in order.

    Args:
        network: The network.
        signatures: The cells, shape `(n_cells, n_groups)`.
        kind: The kind of the certificate.
    """
    cells = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
    layers = _layers(network, kind)
    early, late = _standing(cells[1:], cells[0], layers), _standing(cells[:-1], cells[-1], layers)
    return PartEnds(np.concatenate([cells[:1], early]), np.concatenate([late, cells[-1:]]))


def part_contexts(network: ArgmaxNetwork, parts: list[PartEnds], kind: str) -> list[PartContext]:
    """Return for each part, all in order, what it must know of the others.

    Those that stand for cells seen from one end of a part stand for them also farther away: seen
    from there, a cell agrees with that end as far as it does, or as far as the end of the part.
    """
    layers = _layers(network, kind)
    numbers = np.result_type(*(part.early for part in parts))
    none = parts[0].early[:0].astype(numbers)
    before, behind = [none], [none]
    for one, other in pairwise(parts):
        known = np.concatenate([before[-1], one.late.astype(numbers)])
        before.append(_standing(known, other.early[0], layers))
    for one, other in pairwise(parts[::-1]):
        known = np.concatenate([one.early.astype(numbers), behind[-1]])
        behind.append(_standing(known, other.late[-1], layers))
    return [*map(PartContext, before, behind[::-1])]


def _layers(network: ArgmaxNetwork, kind: str) -> IntArray | None:
    """Return the layer of each group; None for tilings, which ask for one group at a time."""
    if kind == TILING:
        return None
    return np.repeat(np.arange(len(network.layers)), [layer.n_groups for layer in network.layers])


def _standing(cells: AnyArray, reference: AnyArray, layers: IntArray | None) -> AnyArray:
    """Keep cells that stand for all.

    Of those that leave a reference at the same group they are one for every winner in that group,
    or, given layers, in any group of its layer.
    """
    if not len(cells):
        return cells
    is_other = cells != reference
    leaves = is_other.argmax(axis=1)
    names, kept = leaves * (int(cells.max()) + 1), np.zeros(len(cells), dtype=np.bool_)
    if layers is None:
        winners = cells[np.arange(len(cells)), leaves]
        kept[np.unique(names + winners, return_index=True)[1]] = True
        return cells[kept]
    for group, layer in enumerate(layers.tolist()):
        # What agrees with the reference here adds nothing to what it lists.
        others = np.flatnonzero(is_other[:, group] & (layers[leaves] == layer))
        winners = names[others] + cells[others, group]
        kept[others[np.unique(winners, return_index=True)[1]]] = True
    return cells[kept]
