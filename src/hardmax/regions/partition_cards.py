"""A partition in a notebook: what is known about it so far, and in the plane a small picture."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hardmax._ground.display import PALETTE, card

if TYPE_CHECKING:
    from hardmax.regions.partition import Partition

_MOST_CELLS = 400
"""A picture of more cells would weigh more than all else in a notebook."""
_SIDE = 220.0
_LONGEST_ASPECT = 4.0


def partition_card(partition: "Partition") -> str:
    """Write the card of a partition. Nothing is computed for it that takes long.

    Regions and affine maps are there once they have been asked for. The picture shows the cells of
    a bounded domain in the plane, if they were stored and are not too many; `hm.plot` shows more.
    """
    known = {name: partition.__dict__.get(name) for name in ("n_regions", "n_affine_maps")}
    rows = {
        "dimension": str(partition.domain.dim),
        "engine": partition.engine,
        "layers": str(len(partition.network.layers)),
        **{name.removeprefix("n_"): str(n) for name, n in known.items() if n is not None},
        "decisions": partition.decisions,
    }
    return card(repr(partition), rows, _picture(partition))


def _picture(partition: "Partition") -> str:
    """Draw the polygons of the cells as SVG; nothing where that cannot be done at once."""
    cells = partition.cells
    drawable = partition.domain.dim == 2 and cells.directions is None and partition._line is None
    if not drawable or cells.vertices is None or cells.starts is None:
        return ""
    if not 1 <= len(cells.starts) - 1 <= _MOST_CELLS:
        return ""
    low, high = cells.vertices.min(axis=0), cells.vertices.max(axis=0)
    with np.errstate(over="ignore"):
        spans = high - low
    aspect = spans / spans.max()
    if not np.isfinite(spans).all() or aspect.min() < 1.0 / _LONGEST_ASPECT:
        return ""
    width, height = (_SIDE * aspect).tolist()
    places = (cells.vertices - low) / spans * [width, height]
    places[:, 1] = height - places[:, 1]
    polygons = []
    for k, (first, last) in enumerate(pairwise(cells.starts.tolist())):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places[first:last].tolist())
        polygons.append(f'<polygon points="{corners}" fill="{PALETTE[k % len(PALETTE)]}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="the cells" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}">'
        # On white, so that the colours are the same on a dark page.
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>'
        f'<g fill-opacity="0.75" stroke="#1a1a1a" stroke-width="0.6" stroke-linejoin="round">'
        f"{''.join(polygons)}</g></svg>"
    )
