"""Section VI of [SL26], before Theorem VI.1: close values do not make a function linear."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from hardmax.papers.claims import Claim, Finding, Trial

Point = tuple[Fraction, Fraction]


def _zigzag(distance: Fraction) -> list[Point]:
    """Return the corners of a zigzag around y = x on [0, 1], within this distance of y = x."""
    teeth = ceil(1 / distance)
    corners = [Fraction(i, teeth) for i in range(teeth + 1)]
    return [(x, x + (distance if i % 2 else -distance)) for i, x in enumerate(corners)]


def _flat_zigzag(distance: Fraction) -> list[Point]:
    return [(x, x + (y - x) * distance) for x, y in _zigzag(distance)]


def _check_close_but_bent(family: Callable[[Fraction], Sequence[Point]]) -> Finding:
    trials = []
    for distance in (Fraction(1, 4), Fraction(1, 64), Fraction(1, 1024)):
        corners = list(family(distance))
        # Between corners, the function and y = x are affine, so the distance is largest at a
        # corner.
        sides = [y - x for x, y in corners]
        furthest = max(map(abs, sides))
        slopes = [(y - b) / (x - a) for (a, b), (x, y) in pairwise(corners)]
        nearest = min(abs(slope - 1) for slope in slopes)
        whole = corners[0][0] == 0 and corners[-1][0] == 1
        both_sides = all(b == -a and abs(a) == distance for a, b in pairwise(sides))
        trials.append(
            Trial(
                f"within {distance} of y = x on [0, 1], a distance it reaches on both sides",
                whole and both_sides and nearest >= 1,
                numbers={
                    "distance": str(furthest),
                    "pieces": len(slopes),
                    "nearest_slope": str(nearest),
                },
            )
        )
    pieces = ", ".join(str(t.numbers["pieces"]) for t in trials)
    return Finding(
        tuple(trials),
        f"Zigzags within 1/4, 1/64 and 1/1024 of a line have {pieces} pieces, and the slope of "
        "every piece differs from the slope of the line by at least "
        f"{trials[-1].numbers['nearest_slope']}: values alone bound neither the slopes nor the "
        "number of regions.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="VI.0b",
        source="SL26",
        where="Section VI, second paragraph",
        kind="remark",
        statement=(
            "Closeness of values does not imply linear regions: functions arbitrarily close to a "
            "linear one may be nowhere close to linear."
        ),
        content=_zigzag,
        check=_check_close_but_bent,
        corrupted=_flat_zigzag,
    ),
)
