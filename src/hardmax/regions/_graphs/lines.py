r"""The cells of a network of any shape along a segment: a walk from its start to its end.

All winners lead on the cell at hand, so the next breakpoint is the first zero of a gap that falls.
If floats tell one gap, or several that are the same form, from all others, the walk crosses there.
Otherwise the gaps in question are compared in integers, all that vanish first are decided anew in
the order of the nodes, by their slopes beyond, and so is what was constant before.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.regions._graphs.walks import Walk
from hardmax.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LinePieces:
    """What a walk along a segment has found, from left to right.

    Attributes:
        breakpoints: Where pieces meet, shape `(n_pieces - 1,)`.
        radii: How far a breakpoint may be off.
        names: Node, group and rival that tie there, of one group at least; shape `(n, 3)`.
        first: The signature of the first piece.
        changes: For each breakpoint the entries of the signature that change, and to what.
        maps: The outputs on each piece as slopes and offsets, shape `(n_pieces, 2, dim_out)`.
        map_radii: How wrong they may be, shape `(n_pieces, dim_out)`.
        is_complete: Whether the end was reached.
        n_exact: How often integers were asked.
    """

    breakpoints: FloatArray
    radii: FloatArray
    names: IntArray
    first: AnyArray
    changes: tuple[tuple[IntArray, IntArray], ...]
    maps: FloatArray
    map_radii: FloatArray
    is_complete: bool
    n_exact: int

    __repr__ = short_repr
    _repr_html_ = html_card


def explore_line(
    walk: Walk,
    outputs: IntArray,
    low: Fraction,
    high: Fraction,
    *,
    max_pieces: int | None = None,
    max_seconds: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> LinePieces:
    """Walk from `low` to `high`, and note every piece."""
    walk.start_at((low,), [(1,)])
    walk.compose()
    end = float(high) if Fraction(float(high)) >= high else float(np.nextafter(float(high), np.inf))
    certain = float(np.nextafter(float(high), -np.inf))
    first, before = walk.signature(), walk.winners.copy()
    found: list[tuple[float, float, tuple[int, ...]]] = []
    changes: list[tuple[IntArray, IntArray]] = []
    maps, radii = [walk.forms[:, outputs].copy()], [walk.radii[outputs].copy()]
    stop = None if max_seconds is None else time.monotonic() + max_seconds
    is_complete = False
    while max_pieces is None or len(maps) < max_pieces:
        if stop is not None and time.monotonic() > stop:
            break
        crossing = cross(walk, end, certain, high)
        if crossing is None:
            is_complete = True
            break
        found.append(crossing)
        changed = np.flatnonzero(walk.winners != before)
        changes.append((changed, walk.signature()[changed]))
        before[changed] = walk.winners[changed]
        maps.append(walk.forms[:, outputs].copy())
        radii.append(walk.radii[outputs].copy())
        if progress is not None:
            progress(crossing[0])
    return LinePieces(
        np.array([at for at, _, _ in found]),
        np.array([off for _, off, _ in found]),
        np.array([name for _, _, name in found], dtype=np.int64).reshape(-1, 3),
        first,
        tuple(changes),
        np.array(maps),
        np.array(radii),
        is_complete,
        walk.n_exact,
    )


def cross(
    walk: Walk, end: float, certain: float, high: Fraction
) -> tuple[float, float, tuple[int, ...]] | None:
    """Go to the next piece; return where, up to what error, and who ties; None at the end."""
    at, gaps, names = walk.next_on_line(end)
    if len(names) == 0:
        return None
    name = tuple(int(x) for x in names[0])
    if at < certain and len({walk.gap_key(n) for n in names.tolist()}) == 1:
        slope, offset = gaps[0].tolist()
        zero = offset / -slope
        off = 2.0 * (at - zero) + 2.0**-50 * abs(zero)
        winner = int(walk.winners[walk.group_index(*name[:2])])
        woken: list[tuple[int, int]] = []
        for node, group, rival in names.tolist():
            woken += walk.readers(walk.flip(node, group, rival))
        if woken:
            root = _root(walk.exact_gap(name, winner))
            assert root is not None
            walk.settle((root,), (1,), woken)
        return zero, off, name
    exact = [(tuple(n), walk.exact_gap(n)) for n in names.tolist()]
    roots = [(root, n) for n, gap in exact if (root := _root(gap)) is not None]
    nearest = min((root for root, _ in roots), default=high)
    if nearest >= high:
        return None
    tied = [n for root, n in roots if root == nearest]
    tied += [n for n, gap in exact if not any(gap)]
    walk.settle((nearest,), (1,), [(node, group) for node, group, _ in tied])
    return float(nearest), 2.0**-52 * abs(float(nearest)), tied[0]


def _root(gap: tuple[int, ...]) -> Fraction | None:
    """Where a gap that is positive to the left vanishes; None if it does not fall."""
    slope, offset = gap
    return Fraction(offset, -slope) if slope < 0 else None
