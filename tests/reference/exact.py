"""Definitions in `fractions.Fraction`: slow, obvious, and about the stored numbers themselves."""

from fractions import Fraction


def fractions(array):
    """Nested lists of the exact values of a float64 array."""
    return _map(Fraction, array.tolist())


def sign(value):
    return (value > 0) - (value < 0)


def value_of_form(slope, offset, point):
    return sum((a * x for a, x in zip(slope, point, strict=True)), Fraction(0)) + offset


def values_by_definition(slopes, offsets, points):
    """One row for each point, one column for each form."""
    rows, constants = fractions(slopes), fractions(offsets)
    return [
        [value_of_form(a, c, x) for a, c in zip(rows, constants, strict=True)]
        for x in fractions(points)
    ]


def signs_by_definition(slopes, offsets, points):
    return [[sign(v) for v in row] for row in values_by_definition(slopes, offsets, points)]


def difference_signs_by_definition(slopes, offsets, pairs, points):
    return [
        [sign(row[i] - row[j]) for i, j in pairs.tolist()]
        for row in values_by_definition(slopes, offsets, points)
    ]


def winners_by_definition(slopes, offsets, points):
    """Pairs of the first index of the maximum and how often it occurs."""
    return [
        (row.index(max(row)), row.count(max(row)))
        for row in values_by_definition(slopes, offsets, points)
    ]


def determinant_by_definition(matrix):
    """Laplace along the first row, of nested lists of fractions."""
    if not matrix:
        return Fraction(1)
    total = Fraction(0)
    for j, entry in enumerate(matrix[0]):
        if entry:
            minor = [row[:j] + row[j + 1 :] for row in matrix[1:]]
            total += (-1) ** j * entry * determinant_by_definition(minor)
    return total


def determinant_by_elimination(matrix):
    """Gaussian elimination in fractions, for sizes where Laplace takes too long."""
    rows, total = [list(row) for row in matrix], Fraction(1)
    while rows:
        pivot = next((i for i, row in enumerate(rows) if row[0]), None)
        if pivot is None:
            return Fraction(0)
        top = rows.pop(pivot)
        total *= (-1) ** pivot * top[0]
        rows = [
            [x - row[0] / top[0] * t for x, t in zip(row[1:], top[1:], strict=True)] for row in rows
        ]
    return total


def vertex_by_definition(constraints):
    """Solve `<g_i, x> + h_i = 0` by Cramer's rule; the rows are `[*g_i, h_i]`."""
    normals = [row[:-1] for row in constraints]
    base = determinant_by_definition(normals)
    solution = []
    for k in range(len(normals)):
        replaced = [
            [*g[:k], -row[-1], *g[k + 1 :]] for g, row in zip(normals, constraints, strict=True)
        ]
        solution.append(determinant_by_definition(replaced) / base)
    return solution


def compose_by_definition(table, weight, bias):
    """Rows `[*slope, offset]` of `z = h W + b`, from those of `h`; all nested lists."""
    n_out = len(bias)
    composed = [
        [sum(weight[j][i] * table[j][k] for j in range(len(table))) for k in range(len(table[0]))]
        for i in range(n_out)
    ]
    for row, b in zip(composed, bias, strict=True):
        row[-1] += b
    return composed


def _map(function, nested):
    if isinstance(nested, list):
        return [_map(function, item) for item in nested]
    return function(nested)
