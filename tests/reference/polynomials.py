"""Tropical polynomials by definition, in fractions: slow, obvious, independent."""

from fractions import Fraction
from itertools import combinations, pairwise


def terms_of(slopes, offsets):
    """Each term as (tuple of slope fractions, offset fraction)."""
    return [
        (tuple(Fraction(float(a)) for a in slope), Fraction(float(c)))
        for slope, c in zip(slopes, offsets, strict=True)
    ]


def term_values(terms, x):
    point = [Fraction(float(v)) if not isinstance(v, Fraction) else v for v in x]
    return [sum(a * v for a, v in zip(slope, point, strict=True)) + c for slope, c in terms]


def value(terms, x):
    return max(term_values(terms, x))


def attaining(terms, x):
    values = term_values(terms, x)
    return [v == max(values) for v in values]


def active(terms):
    """Mark the terms that are maximal on an open set, in one or two variables."""
    forms = active_forms_1d(terms) if len(terms[0][0]) == 1 else active_forms_2d(terms)
    return [term in forms and term not in terms[:index] for index, term in enumerate(terms)]


def active_forms_1d(terms):
    """Every interval between consecutive crossings has one winner: look at its middle."""
    crossings = {
        (d - c) / (a[0] - b[0]) for (a, c), (b, d) in combinations(terms, 2) if a[0] != b[0]
    }
    winners = set()
    for x in between(crossings):
        best = value(terms, [x])
        winners |= {
            term for term, v in zip(terms, term_values(terms, [x]), strict=True) if v == best
        }
    return winners


def active_forms_2d(terms):
    """Sweep: between consecutive crossings of the walls no vertical line changes its order.

    Two different forms that agree on a whole vertical line have a vertical wall there, and those
    lines are avoided, so a restricted form names the form it comes from.
    """
    walls = {
        (a[0] - b[0], a[1] - b[1], d - c)  # n0 x + n1 y = h
        for (a, c), (b, d) in combinations(terms, 2)
        if a != b
    }
    events = {h / n0 for n0, n1, h in walls if n1 == 0}
    for (p0, p1, g), (q0, q1, h) in combinations(walls, 2):
        determinant = p0 * q1 - p1 * q0
        if determinant:
            events.add((g * q1 - p1 * h) / determinant)
    winners = set()
    for x in between(events):
        restricted = {((a[1],), a[0] * x + c): (a, c) for a, c in terms}
        winners |= {restricted[form] for form in active_forms_1d(list(restricted))}
    return winners


def between(numbers):
    """One number in each open interval that the given numbers leave."""
    ordered = sorted(numbers)
    if not ordered:
        return [Fraction(0)]
    middles = [(a + b) / 2 for a, b in pairwise(ordered)]
    return [ordered[0] - 1, *middles, ordered[-1] + 1]


def largest_winning_sets(terms):
    """The maximal sets of terms that attain the maximum together at some point, 1-D or 2-D.

    If the exponents span the space such a set is attained at a single point, where walls meet.
    """
    dim = len(terms[0][0])
    if dim == 1:
        points = [
            [(d - c) / (a[0] - b[0])] for (a, c), (b, d) in combinations(terms, 2) if a != b
        ] or [[Fraction(0)]]
    else:
        points = []
        for (a, c), (b, d), (e, f) in combinations(terms, 3):
            p0, p1, g = a[0] - b[0], a[1] - b[1], d - c
            q0, q1, h = a[0] - e[0], a[1] - e[1], f - c
            determinant = p0 * q1 - p1 * q0
            if determinant:
                points.append([(g * q1 - p1 * h) / determinant, (p0 * h - g * q0) / determinant])
    sets = {
        frozenset(i for i, wins in enumerate(attaining(terms, x)) if wins): tuple(x) for x in points
    }
    return {s: x for s, x in sets.items() if not any(s < other for other in sets)}


def hull_area(points):
    """The area of the convex hull of points in the plane, by the shoelace formula."""
    points = sorted(set(points))
    if len(points) < 3:
        return Fraction(0)
    outline = []
    for sequence in (points, points[::-1]):
        half = []
        for p in sequence:
            while len(half) > 1 and cross(half[-2], half[-1], p) <= 0:
                half.pop()
            half.append(p)
        outline += half[:-1]
    rotated = outline[1:] + outline[:1]
    return (
        sum((p[0] * q[1] - p[1] * q[0] for p, q in zip(outline, rotated, strict=True)), Fraction(0))
        / 2
    )


def cross(p, q, r):
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def relu_network(weights, biases, x):
    """Evaluate in fractions: hidden layers ReLU, the last layer affine."""
    hidden = [Fraction(float(v)) for v in x]
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        sums = [
            sum((h * Fraction(float(w)) for h, w in zip(hidden, column, strict=True)), Fraction(b))
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]
        hidden = sums if layer == len(weights) - 1 else [max(s, Fraction(0)) for s in sums]
    return hidden
