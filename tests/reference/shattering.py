"""The shattering block by its definition, in fractions: cut, move to the origin, fold."""

from fractions import Fraction
from math import floor


def zigzag(z):
    """Return the distance of `z` to the nearest even integer."""
    return abs(z - 2 * floor(z / 2 + Fraction(1, 2)))


def shattered(x, n_cells, n_pieces, depth):
    """Send a coordinate of [0, 1] through `depth` blocks that map [0, 1] onto itself."""
    x = Fraction(x)
    for _ in range(depth):
        remainder = x - Fraction(min(floor(n_cells * x), n_cells - 1), n_cells)
        x = zigzag(n_pieces * n_cells * remainder)
    return x


def signature(x, n_keys, heads_each, n_pieces, depth):
    """Return winners and units of all blocks for one coordinate that lies on no wall."""
    x = Fraction(x)
    n_cells = 1 + heads_each * (n_keys - 1)
    code = []
    for _ in range(depth):
        cell = floor(n_cells * x)
        for g in range(heads_each):
            walls = [1 + g + heads_each * i for i in range(n_keys - 1)]
            code.append(sum(wall <= cell for wall in walls))
        z = n_pieces * (n_cells * x - cell)
        code += [1, *(int(z > k) for k in range(1, n_pieces))]
        x = zigzag(z)
    return code
