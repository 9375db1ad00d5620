"""Vertices of a Minkowski sum by their definition, in fractions: slow, obvious, independent."""

from fractions import Fraction
from itertools import product


def has_open_cone(rows):
    """Decide whether some u has a positive product with every row, by an exact simplex method.

    By Gordan's theorem there is none exactly if weights >= 0 with sum one make the rows vanish:
    phase one of the simplex method, with Bland's rule against cycling.
    """
    rows = [[Fraction(x) for x in row] for row in rows]
    if not rows:
        return True
    dim, n = len(rows[0]), len(rows)
    table = [[row[k] for row in rows] + [Fraction(0)] for k in range(dim)]
    table.append([Fraction(1)] * n + [Fraction(1)])
    basis = [n + i for i in range(dim + 1)]  # Artificial variables, never to come back.
    while True:
        missing = [i for i, b in enumerate(basis) if b >= n]
        gains = [sum((table[i][j] for i in missing), Fraction(0)) for j in range(n)]
        entering = next((j for j in range(n) if gains[j] > 0), None)
        if entering is None:
            return any(table[i][n] > 0 for i in missing)
        ratios = [
            (table[i][n] / table[i][entering], basis[i], i)
            for i in range(dim + 1)
            if table[i][entering] > 0
        ]
        _, _, leaving = min(ratios)
        pivot = table[leaving][entering]
        table[leaving] = [x / pivot for x in table[leaving]]
        for i in range(dim + 1):
            if i != leaving and table[i][entering]:
                factor = table[i][entering]
                table[i] = [x - factor * y for x, y in zip(table[i], table[leaving], strict=True)]
        basis[leaving] = entering


def choices_by_definition(point_sets, base=()):
    """List the tuples of indices that some open set of directions selects, first copies only."""
    exact = [[tuple(Fraction(float(x)) for x in p) for p in points] for points in point_sets]
    found = []
    for indices in product(*[range(len(points)) for points in exact]):
        rows = [tuple(Fraction(float(x)) for x in row) for row in base]
        is_first = True
        for points, i in zip(exact, indices, strict=True):
            is_first = is_first and points.index(points[i]) == i
            rows += [
                tuple(a - b for a, b in zip(points[i], other, strict=True))
                for other in points
                if other != points[i]
            ]
        if is_first and has_open_cone(rows):
            found.append(indices)
    return found


def selected_by(point_sets, direction):
    """Return the winners at an integer or rational direction, and whether each is unique."""
    winners = []
    for points in point_sets:
        exact = [tuple(Fraction(float(x)) for x in p) for p in points]
        scores = [sum(a * Fraction(u) for a, u in zip(p, direction, strict=True)) for p in exact]
        best = {exact[i] for i, s in enumerate(scores) if s == max(scores)}
        winners.append((scores.index(max(scores)), len(best) == 1))
    return winners
