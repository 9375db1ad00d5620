r"""Parts of a certificate, and the cells of other parts that each of them needs.

The cells of a part are consecutive in the order of all cells. The tree of signatures is traversed
part by part. A node is the set of cells whose signatures have a given prefix; it belongs to every
part that contains some of its cells. If a part contains only some cells of a node, it must know the
winners that the other parts list in the groups of the node's layer. If a node has cells in several
parts, its prefix is a prefix of the first or of the last cell of each of these parts. Therefore a
few cells of the other parts, called representatives, suffice.

The representatives make the parts consistent with each other, but a verifier need not trust them.
With fewer representatives, a part would have to refuse more branches or cover larger pieces, never
fewer or smaller ones.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import TILING
from hardmax.typing import AnyArray, IntArray


class PartEnds(NamedTuple):
    """The cells of a part that other parts need.

    Attributes:
        early: The first cell, followed by representatives of the later cells.
        late: Representatives of the cells before the last, followed by the last cell.
    """

    early: AnyArray
    late: AnyArray


class PartContext(NamedTuple):
    """The representatives of other parts that a part needs: before its own cells, and after."""

    before: AnyArray
    behind: AnyArray


def part_ends(network: ArgmaxNetwork, signatures: AnyArray, kind: str) -> PartEnds:
    """Return the cells of a part that other parts need.

    Args:
        network: The network.
        signatures: The cells of the part in order, shape `(n_cells, n_groups)`.
        kind: The kind of the certificate.
    """
    cells = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
    layers = _layers(network, kind)
    early, late = _standing(cells[1:], cells[0], layers), _standing(cells[:-1], cells[-1], layers)
    return PartEnds(np.concatenate([cells[:1], early]), np.concatenate([late, cells[-1:]]))


def part_contexts(network: ArgmaxNetwork, parts: list[PartEnds], kind: str) -> list[PartContext]:
    """Return the representatives of other parts that each part needs; parts are in order.

    Representatives of cells with respect to one end of a part also represent them with respect to
    every cell farther away: the prefix that a cell shares with the farther cell is the shorter of
    the prefixes that it and the farther cell share with that end.
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
    """Return the layer of each group; None for tilings, which treat one group at a time."""
    if kind == TILING:
        return None
    return np.repeat(np.arange(len(network.layers)), [layer.n_groups for layer in network.layers])


def _standing(cells: AnyArray, reference: AnyArray, layers: IntArray | None) -> AnyArray:
    """Return representatives of some cells with respect to a reference cell.

    All cells that first differ from the reference in the same group are represented by one cell for
    every winner that occurs in that group (if layers are given, in any group of its layer).
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
        # A cell with the reference's winner in this group adds no new winner.
        others = np.flatnonzero(is_other[:, group] & (layers[leaves] == layer))
        winners = names[others] + cells[others, group]
        kept[others[np.unique(winners, return_index=True)[1]]] = True
    return cells[kept]
