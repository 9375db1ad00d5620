"""Cells of small networks on a large square, by cutting polygons in fractions."""

from fractions import Fraction
from itertools import combinations


def square(half_width=10**7):
    """Return a square as a list of corners."""
    a = Fraction(half_width)
    return [(-a, -a), (a, -a), (a, a), (-a, a)]


IDENTITY = [(Fraction(1), Fraction(0), Fraction(0)), (Fraction(0), Fraction(1), Fraction(0))]
"""The coordinates as forms (coefficient of x, of y, constant)."""


def cut(polygon, form):
    """Return the part of a convex polygon where a form is not negative; [] if it has no area."""
    values = [form[0] * x + form[1] * y + form[2] for x, y in polygon]
    kept = []
    for i, (p, u) in enumerate(zip(polygon, values, strict=True)):
        q, v = polygon[i - 1], values[i - 1]
        if u * v < 0:
            t = v / (v - u)
            kept.append((q[0] + t * (p[0] - q[0]), q[1] + t * (p[1] - q[1])))
        if u >= 0:
            kept.append(p)
    doubled = sum(
        kept[i - 1][0] * kept[i][1] - kept[i][0] * kept[i - 1][1] for i in range(len(kept))
    )
    return kept if len(kept) >= 3 and doubled != 0 else []


def combine(weights, forms, constant=0):
    """Return a weighted sum of forms, plus a constant."""
    sums = [
        sum(Fraction(float(w)) * f[k] for w, f in zip(weights, forms, strict=True))
        for k in (0, 1, 2)
    ]
    return (sums[0], sums[1], sums[2] + Fraction(float(constant)))


def relu_layer(cells, w_in, b_in):
    """Cut every cell (polygon, forms) by the units of a layer; forms become the unit outputs."""
    done = []
    for polygon, forms in cells:
        parts = [(polygon, [])]
        for unit, bias in zip(w_in.T, b_in, strict=True):
            form = combine(unit, forms, bias)
            sides = ((form, form), (tuple(-a for a in form), (Fraction(0),) * 3))
            parts = [
                (piece, [*outputs, output])
                for polygon, outputs in parts
                for side, output in sides
                if (piece := cut(polygon, side))
            ]
        done += parts
    return done


def linear_layer(cells, weight, bias):
    """Apply an affine map to the forms of every cell."""
    return [
        (polygon, [combine(column, forms, b) for column, b in zip(weight.T, bias, strict=True)])
        for polygon, forms in cells
    ]


def touch(first, second):
    """Tell whether two polygons share a piece of an edge."""
    for (p, q), (r, s) in (
        ((first[i - 1], first[i]), (second[j - 1], second[j]))
        for i in range(len(first))
        for j in range(len(second))
    ):
        across = [(q[0] - p[0]) * (x[1] - p[1]) - (q[1] - p[1]) * (x[0] - p[0]) for x in (r, s)]
        if across == [0, 0]:
            k = 0 if p[0] != q[0] else 1
            low = max(min(p[k], q[k]), min(r[k], s[k]))
            if low < min(max(p[k], q[k]), max(r[k], s[k])):
                return True
    return False


def n_regions(cells):
    """Count maximal connected sets with one map."""
    label = list(range(len(cells)))
    for (i, a), (j, b) in combinations(enumerate(cells), 2):
        if a[1] == b[1] and touch(a[0], b[0]):
            old, new = label[j], label[i]
            label = [new if k == old else k for k in label]
    return len(set(label))
