"""Pictures of power diagrams in the plane, for cards in notebooks; `hm.plot` draws more."""

from typing import TYPE_CHECKING

import numpy as np

from hardmax._ground.display import MOST_DRAWN, draw_svg
from hardmax._ground.palette import label_colours, palette, to_hex
from hardmax.geometry.domains import box_around

if TYPE_CHECKING:
    from hardmax.tropical.diagrams.power_diagrams import PowerDiagram

_LARGEST = 1e150
"""The largest coordinates of sites for which the sides of a box around them do not overflow."""


def diagram_picture(diagram: "PowerDiagram") -> str:
    """Draw the cells and sites of a small planar diagram as SVG; return '' for other diagrams.

    Examples:
        >>> from hardmax import PowerDiagram
        >>> picture = diagram_picture(PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1], [0, 0]]))
        >>> picture.count("<polygon"), picture.count("<circle")
        (3, 6)
    """
    if diagram.dim != 2 or diagram.n_sites > MOST_DRAWN or np.abs(diagram.sites).max() > _LARGEST:
        return ""
    box = box_around(diagram.sites, diagram.is_fan)
    # The box is empty if the sites differ by less than the rounding of their coordinates.
    if not (box.low < box.high).all():
        return ""
    fills = to_hex(label_colours(np.arange(diagram.n_sites)))
    cells = diagram.cells(box)
    return draw_svg(
        [cell.polygon for cell in cells],
        [fills[cell.site] for cell in cells],
        box.low,
        box.high,
        ink=palette()["light"]["ink"],
        keys=[(diagram.sites[j], fills[j]) for j in np.flatnonzero(diagram.active).tolist()],
    )
