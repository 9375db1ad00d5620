"""Vertices of a Minkowski sum by their definition, in fractions: slow, obvious, independent."""

from fractions import Fraction
from itertools import combinations, product
from math import comb


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


def sharp_bound(sizes, dim):
    """Return the largest number of vertices of a sum of polytopes with these many vertices."""
    sizes = [n for n in sizes if n > 1]
    elementary = [1]
    for n in sizes:
        shifted = [0, *[(n - 1) * e for e in elementary]]
        elementary = [a + b for a, b in zip([*elementary, 0], shifted, strict=True)]
    return sum(elementary[:dim]) + (comb(len(sizes) - 1, dim - 1) if sizes else 0)


def vertices_from_partial_sums(count, n_sets, dim):
    """Evaluate Weibel's identity: f_0 of a sum of sets in general position from sums of few.

    `count` maps a tuple of indices to the number of vertices of that partial sum.
    """
    alpha = 2 if dim % 2 else 0
    total = alpha
    for j in range(1, dim):
        sign = (-1) ** (dim - 1 - j) * comb(n_sets - 1 - j, dim - 1 - j)
        total += sign * sum(count(s) - alpha for s in combinations(range(n_sets), j))
    return total


def neighbours_by_definition(point_sets, choices, base=()):
    """List the pairs of cells whose closures meet in codimension one, where base rows are positive.

    Two cells do if the differences of their winners are all on one line, and the hyperplane across
    that line has an open part on which the tied winners beat all other points.
    """
    exact = [[tuple(Fraction(float(x)) for x in p) for p in points] for points in point_sets]
    base = [tuple(Fraction(float(x)) for x in row) for row in base]
    pairs = []
    for (i, one), (j, two) in combinations(enumerate(choices), 2):
        steps = [
            [b - a for a, b in zip(points[k], points[m], strict=True)]
            for points, k, m in zip(exact, one, two, strict=True)
            if k != m
        ]
        if not all(_parallel(steps[0], step) for step in steps):
            continue
        rows = [
            [a - b for a, b in zip(points[k], other, strict=True)]
            for points, k in zip(exact, one, strict=True)
            for other in points
        ]
        rows = [row for row in rows if any(row) and not _parallel(steps[0], row)]
        across = [_restricted(row, steps[0]) for row in [*rows, *base]]
        if has_open_cone(across):
            pairs.append((i, j))
    return pairs


def _parallel(a, b):
    return all(x * w == y * v for (x, y), (v, w) in product(zip(a, b, strict=True), repeat=2))


def _restricted(row, normal):
    """Write a row as a functional on the hyperplane orthogonal to the normal."""
    pivot = next(k for k, x in enumerate(normal) if x)
    return [x - row[pivot] * normal[k] / normal[pivot] for k, x in enumerate(row) if k != pivot]
