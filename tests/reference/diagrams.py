"""Cones, polytopes and diagrams from their definitions, in Fractions: slow and obvious."""

import math
from fractions import Fraction
from itertools import combinations

from scipy.optimize import linprog


def null_space(rows, dim):
    """A basis of {u : rows @ u = 0}, by reduced row echelon form."""
    matrix = [[Fraction(int(x)) for x in row] for row in rows]
    pivots = []
    for column in range(dim):
        rank = len(pivots)
        found = next((i for i in range(rank, len(matrix)) if matrix[i][column]), None)
        if found is None:
            continue
        matrix[rank], matrix[found] = matrix[found], matrix[rank]
        lead = matrix[rank][column]
        matrix[rank] = [x / lead for x in matrix[rank]]
        for i in range(len(matrix)):
            if i != rank and matrix[i][column]:
                factor = matrix[i][column]
                matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[rank], strict=True)]
        pivots.append(column)
    basis = []
    for column in range(dim):
        if column not in pivots:
            vector = [Fraction(0)] * dim
            vector[column] = Fraction(1)
            for i, pivot in enumerate(pivots):
                vector[pivot] = -matrix[i][column]
            basis.append(vector)
    return basis


def rank(rows, dim):
    return dim - len(null_space(rows, dim))


def primitive(vector):
    """The integer vector without common divisor on the same ray."""
    denominator = math.lcm(*(Fraction(x).denominator for x in vector))
    integers = [int(x * denominator) for x in vector]
    divisor = math.gcd(*integers) or 1
    return tuple(x // divisor for x in integers)


def products(rows, vector):
    return tuple(sum(int(a) * x for a, x in zip(row, vector, strict=True)) for row in rows)


def extreme_ray_values(rows, dim):
    """The vectors rows @ ray, made primitive, over the extreme rays of {u : rows @ u >= 0}.

    A ray is extreme if and only if the rows that vanish on it have rank (rank of all rows) - 1;
    rows @ ray names it without the choice of a representative modulo lineality.
    """
    rows = [tuple(int(x) for x in row) for row in rows]
    lineality = null_space(rows, dim)
    r = dim - len(lineality)
    found = set()
    if r == 0:
        return found
    for subset in combinations(range(len(rows)), r - 1):
        line = null_space([rows[i] for i in subset], dim)
        if len(line) != len(lineality) + 1:
            continue
        direction = next(v for v in line if any(products(rows, v)))
        for sign in (1, -1):
            values = products(rows, [sign * x for x in direction])
            if min(values) >= 0:
                found.add(primitive(values))
    return found


def exact_scores(slopes, offsets, point):
    """The affine forms at one point, in Fractions; a masked form (offset -inf) scores None."""
    return [
        None
        if offset == -math.inf
        else sum(
            (Fraction(a) * Fraction(x) for a, x in zip(slope, point, strict=True)), Fraction(0)
        )
        + Fraction(offset)
        for slope, offset in zip(slopes, offsets, strict=True)
    ]


def winner(slopes, offsets, point):
    """(first winning index, how many win) at one point."""
    scores = exact_scores(slopes, offsets, point)
    best = max(score for score in scores if score is not None)
    return scores.index(best), scores.count(best)


def power_winner(sites, weights, point):
    """(first site of smallest power distance, how many attain it) at one point."""
    powers = []
    for site, weight in zip(sites, weights, strict=True):
        distance = sum((Fraction(x) - Fraction(s)) ** 2 for x, s in zip(point, site, strict=True))
        powers.append(math.inf if weight == -math.inf else distance - Fraction(weight))
    return powers.index(min(powers)), powers.count(min(powers))


def top_set(slopes, offsets, point, k):
    """The k winners at one point, earlier indices first among equals; None if the k-th is tied
    with a different form."""
    scores = exact_scores(slopes, offsets, point)
    order = sorted(
        (j for j in range(len(scores)) if scores[j] is not None), key=lambda j: (-scores[j], j)
    )
    if k < len(order) and scores[order[k - 1]] == scores[order[k]]:
        a, b = order[k - 1], order[k]
        if list(slopes[a]) != list(slopes[b]):
            return None
    return tuple(sorted(order[:k]))


def wins_somewhere_by_linear_program(slopes, offsets, winners):
    """Whether the forms `winners` beat all others by a margin on some bounded ball: for small
    integer data the float margin of the linear program decides."""
    rows, bounds = [], []
    for i in winners:
        for j in range(len(slopes)):
            if j not in winners:
                difference = [a - b for a, b in zip(slopes[i], slopes[j], strict=True)]
                rows.append([-x for x in difference] + [1.0])
                bounds.append(offsets[i] - offsets[j])
    dim = len(slopes[0])
    if not rows:
        return True
    result = linprog(
        [0.0] * dim + [-1.0],
        A_ub=rows,
        b_ub=bounds,
        bounds=[(None, None)] * dim + [(None, 1.0)],
        method="highs",
    )
    return bool(result.status == 0 and -result.fun > 1e-7)


def top_sets_by_definition(slopes, offsets, k):
    """All k-sets of distinct forms that win on an open set: one linear program for each set."""
    return {
        subset
        for subset in combinations(range(len(slopes)), k)
        if wins_somewhere_by_linear_program(slopes, offsets, subset)
    }


def vertices_by_definition(A, b):
    """The vertices of {x : A x <= b}: the feasible solutions of d independent equations."""
    rows = [[Fraction(x) for x in row] for row in A]
    bounds = [Fraction(x) for x in b]
    dim = len(rows[0])
    found = set()
    for subset in combinations(range(len(rows)), dim):
        line = null_space_of_fractions([[*rows[i], -bounds[i]] for i in subset], dim + 1)
        if len(line) != 1 or line[0][-1] == 0:
            continue
        point = tuple(x / line[0][-1] for x in line[0][:-1])
        if all(
            sum(a * x for a, x in zip(row, point, strict=True)) <= bound
            for row, bound in zip(rows, bounds, strict=True)
        ):
            found.add(point)
    return found


def null_space_of_fractions(rows, dim):
    return null_space([primitive(row) for row in rows], dim)


def polygon_area(points):
    """The signed area of a polygon, by the shoelace formula in Fractions."""
    total = Fraction(0)
    for (x, y), (u, v) in zip(points, [*points[1:], *points[:1]], strict=True):
        total += Fraction(x) * Fraction(v) - Fraction(u) * Fraction(y)
    return total / 2
