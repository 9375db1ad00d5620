"""Piecewise linear functions by their definitions in fractions: slow, obvious, independent."""

from fractions import Fraction

from tests.reference.networks import maxout_network


def barycentric(corners, point):
    """Solve for the barycentric coordinates of a point by elimination in fractions."""
    n = len(corners)
    rows = [
        [Fraction(corner[k]) for corner in corners] + [Fraction(point[k])] for k in range(n - 1)
    ]
    rows.append([Fraction(1)] * (n + 1))
    for c in range(n):
        pivot = next(r for r in range(c, n) if rows[r][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(n):
            if r != c and rows[r][c]:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[-1] for row in rows]


def mesh_value(vertices, simplices, values, point):
    """Interpolate at a point in the first simplex that contains it; None outside."""
    for simplex in simplices:
        weights = barycentric([vertices[v] for v in simplex], point)
        if min(weights) >= 0:
            return [
                sum(w * Fraction(values[v][c]) for w, v in zip(weights, simplex, strict=True))
                for c in range(len(values[0]))
            ]
    return None


def knots_value(positions, values, left_slope, right_slope, x):
    """Interpolate one output between knots; the positions rise."""
    t, y, x = [Fraction(p) for p in positions], [Fraction(v) for v in values], Fraction(x)
    if x <= t[0]:
        return y[0] + Fraction(left_slope) * (x - t[0])
    if x >= t[-1]:
        return y[-1] + Fraction(right_slope) * (x - t[-1])
    k = max(i for i, p in enumerate(t) if p <= x)
    return y[k] + (y[k + 1] - y[k]) * (x - t[k]) / (t[k + 1] - t[k])


def network_value(network, point):
    """Evaluate a stored maxout network without rounding."""
    weights = [
        *([unit.tolist() for unit in layer] for layer in network.weights[:-1]),
        network.weights[-1].tolist(),
    ]
    biases = [
        *([offsets.tolist() for offsets in layer] for layer in network.biases[:-1]),
        network.biases[-1].tolist(),
    ]
    return maxout_network(point, weights, biases)[0]


def within(network, rounding, point, wanted):
    """Whether the network is as close to the wanted values as it claims, decided in fractions."""
    got = network_value(network, point)
    return all(
        abs(g - w) <= Fraction(float(r)) for g, w, r in zip(got, wanted, rounding, strict=True)
    )
