"""Tropical algebra written out: floats one at a time, paths and cycles one by one in fractions."""

import math
from fractions import Fraction
from itertools import pairwise, permutations

import mpmath


def product_by_definition(a, b, best, zero):
    """One rounded addition per term, `best` (max or min) over them, `zero` over none."""
    return [
        [
            best([zero, *(x + y for x, y in zip(row, column, strict=True))])
            for column in b.T.tolist()
        ]
        for row in a.tolist()
    ]


def simple_cycles(matrix):
    """Yield every simple cycle with its exact weight; a missing edge is infinite."""
    n = len(matrix)
    for length in range(1, n + 1):
        for nodes in permutations(range(n), length):
            if nodes[0] == min(nodes):
                weight = _weight(matrix, (*nodes, nodes[0]))
                if weight is not None:
                    yield nodes, weight


def simple_paths(matrix, source, target):
    """Yield every simple path with its exact weight; the empty path from a node to itself."""
    if source == target:
        yield (source,), Fraction(0)
        return
    others = [node for node in range(len(matrix)) if node not in (source, target)]
    for length in range(len(others) + 1):
        for middle in permutations(others, length):
            nodes = (source, *middle, target)
            weight = _weight(matrix, nodes)
            if weight is not None:
                yield nodes, weight


def best_weight(matrix, source, target, best):
    """The exact weight of the best simple path, None without a path."""
    weights = [weight for _, weight in simple_paths(matrix, source, target)]
    return best(weights) if weights else None


def walk_weight(matrix, nodes):
    """The exact weight of a walk that exists."""
    weight = _weight(matrix, nodes)
    assert weight is not None
    return weight


def soft_maximum(terms, tau):
    """`tau * log(sum(exp(x / tau)))` in arithmetic so wide that nothing rounds or cancels."""
    finite = [x for x in terms if x > -math.inf]
    if not finite:
        return -mpmath.inf
    if tau == 0:
        return mpmath.mpf(max(finite))
    with mpmath.workprec(5000):
        wide = mpmath.mpf(tau)
        return wide * mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(x) / wide) for x in finite))


def _weight(matrix, nodes):
    edges = [float(matrix[i][j]) for i, j in pairwise(nodes)]
    if any(math.isinf(edge) for edge in edges):
        return None
    return sum((Fraction(edge) for edge in edges), Fraction(0))
