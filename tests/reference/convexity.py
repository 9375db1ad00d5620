"""Convexity by elimination, in exact fractions: slow, obvious, independent."""

from fractions import Fraction
from itertools import product


def open_cone_is_nonempty(rows):
    """Fourier-Motzkin: eliminate one coordinate of `rows @ u > 0` after the other."""
    rows = {_primitive([Fraction(x) for x in row]) for row in rows}
    while rows:
        if any(not any(row) for row in rows):
            return False
        head = {row for row in rows if row[-1] == 0}
        upper = [row for row in rows if row[-1] < 0]
        lower = [row for row in rows if row[-1] > 0]
        joined = {
            _primitive([a * -n[-1] + b * p[-1] for a, b in zip(p, n, strict=True)])
            for p, n in product(lower, upper)
        }
        rows = {row[:-1] for row in head | joined}
    return True


def extreme_mask(points):
    """First index of every distinct point that some open set of directions selects."""
    points = [tuple(Fraction(x) for x in point) for point in points]
    return [
        point not in points[:i]
        and open_cone_is_nonempty(
            [
                [a - b for a, b in zip(point, other, strict=True)]
                for other in points
                if other != point
            ]
        )
        for i, point in enumerate(points)
    ]


def active_mask(slopes, offsets):
    """First index of every distinct form that wins on an open set."""
    forms = [
        tuple(Fraction(x) for x in (*slope, offset))
        for slope, offset in zip(slopes, offsets, strict=True)
    ]
    upwards = [Fraction(0)] * (len(forms[0]) - 1) + [Fraction(1)]
    return [
        form not in forms[:i]
        and open_cone_is_nonempty(
            [[a - b for a, b in zip(form, other, strict=True)] for other in forms if other != form]
            + [upwards]
        )
        for i, form in enumerate(forms)
    ]


def _primitive(row):
    """Scale to a first non-zero entry of absolute value one, so that repeats collapse."""
    lead = next((abs(x) for x in row if x), Fraction(1))
    return tuple(x / lead for x in row)
