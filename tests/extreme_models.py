"""Models whose numbers span all of float64, with walls that coincide, nearly coincide or cancel.

Every model is drawn from a seed. A few magnitudes are chosen for each, so that they meet again and
again: products of two underflow in the next layer, sums of two cancel or swallow one of them, rows
are repeated, negated, scaled, and moved by the smallest number there is.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer

LEAST = 5e-324
MAGNITUDES = [
    LEAST, 2.0**-1060, 2.0**-1030, 2.0**-1022, 1e-300, 1e-250, 1e-230, 1e-200, 2.0**-540, 1e-155,
    1e-100, 2.0**-150, 1e-20, 2.0**-52, 1e20, 1e100, 2.0**500, 1e155, 1e200, 1e250, 1e300,
]  # fmt: skip

SMALL = [x for x in MAGNITUDES if x < 1e-90]
LARGE = [x for x in MAGNITUDES if x > 1e90]


def model_and_domain(seed):
    """Draw a model and a domain; the dimension of the domain is 1 to 4, mostly 2 or 3."""
    rng = np.random.default_rng([20250, seed])
    dim = int(rng.choice([1, 2, 3, 4], p=[0.15, 0.4, 0.35, 0.1]))
    domain, width = _domain(rng, dim)
    kind = rng.choice(["relu", "maxout", "transformer", "residual"], p=[0.5, 0.2, 0.2, 0.1])
    palette = _palette(rng)
    widths = {1: 5, 2: 4, 3: 4, 4: 3}[dim]
    if kind == "relu":
        dims = [width, widths, *([2] if dim > 2 else [3] * int(rng.integers(3))), 1]
        return _relu(rng, palette, dims), domain
    if kind == "maxout":
        return _maxout(rng, palette, width, dim), domain
    blocks = 1 if dim > 2 else int(rng.integers(1, 3))
    heads = int(rng.integers(1, 3)) if kind == "transformer" else 0
    units = int(rng.integers(3)) if heads else 3
    made = [_block(rng, palette, width, heads, units) for _ in range(blocks)]
    return HardTransformer(made), domain


def _palette(rng):
    """Draw some magnitudes: 1 nearly always, and up to three others."""
    if rng.random() < 0.3:
        # Walls that miss the origin by less than any float: a large slope and a small offset.
        return np.array([float(rng.choice(LARGE)), float(rng.choice(SMALL)), 1.0])
    chosen = [float(x) for x in rng.choice(MAGNITUDES, int(rng.integers(1, 4)))]
    if rng.random() < 0.5:
        # The reciprocal too: products near 1 again.
        with np.errstate(over="ignore"):
            chosen += [x for x in [float(1.0 / np.float64(chosen[0]))] if x < 1e301]
    return np.array([*chosen, *([1.0] if rng.random() < 0.9 else [])])


def numbers(rng, palette, *shape):
    """Draw small integers times magnitudes, three in ten of them 0."""
    size = rng.choice(palette, shape) * rng.choice([1.0, 1.0, 1.0, 2.0, 3.0], shape)
    return size * rng.choice([-1.0, 0.0, 1.0], shape, p=[0.35, 0.3, 0.35])


def forms(rng, palette, n, width):
    """Draw rows (slopes, offset); many are made from others."""
    if rng.random() < 0.4:
        return _pencil(rng, palette, n, width)
    rows = numbers(rng, palette, n, width + 1)
    rows[:, -1] *= rng.random(n) < rng.choice([0.2, 0.6])
    for i in range(1, n):
        before = rows[int(rng.integers(i))].copy()
        how = int(rng.integers(9))
        if how == 0:
            rows[i] = before
        elif how == 1:
            rows[i] = -before
        elif how == 2:
            rows[i] = _scaled(before, rng.choice(palette))
        elif how in (3, 4):
            k = int(rng.integers(width + 1))
            before[k] += rng.choice([-1.0, 1.0]) * rng.choice([LEAST, float(np.min(palette))])
            rows[i] = before
        elif how == 5:
            k = int(rng.integers(width + 1))
            before[k] = np.nextafter(before[k], rng.choice([-1.0, 1.0]))
            rows[i] = before
        elif how == 6:
            rows[i] = _scaled(before, np.max(palette))
            rows[i, -1] = rng.choice([-1.0, 1.0]) * np.min(palette)
    return rng.permutation(rows)


def _pencil(rng, palette, n, width):
    """Draw rows through the origin, some of them scaled, and moved or turned by next to nothing."""
    rows = np.zeros((n, width + 1))
    rows[:, :-1] = rng.integers(-1, 2, (n, width))
    for i in range(n):
        if rng.random() < 0.5:
            rows[i] = _scaled(rows[i], np.max(palette))
        how = rng.random()
        if how < 0.35:
            rows[i, -1] = rng.choice([-1.0, 1.0]) * np.min(palette)
        elif how < 0.7:
            rows[i, int(rng.integers(width + 1))] += rng.choice([-1.0, 1.0]) * LEAST
    return rows


def _scaled(row, factor):
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(row * factor, -1e300, 1e300)


def _relu(rng, palette, dims):
    weights, biases = [], []
    for before, after in pairwise(dims):
        rows = forms(rng, palette, after, before)
        weights.append(rows[:, :-1].T)
        biases.append(rows[:, -1] * (rng.random() < 0.8))
    return ReluNetwork(weights, biases)


def _maxout(rng, palette, width, dim):
    ranks = [[2, 3], [2]] if dim < 3 else [[3], [2]]
    weights, biases = [], []
    for layer in ranks:
        rows = [forms(rng, palette, rank, width) for rank in layer]
        weights.append([r[:, :-1] for r in rows])
        biases.append([r[:, -1] for r in rows])
        width = len(layer)
    return MaxoutNetwork([*weights, np.ones((width, 1))], [*biases, [0.0]])


def _block(rng, palette, width, n_heads, units):
    heads = []
    for _ in range(n_heads):
        rows = forms(rng, palette, int(rng.integers(2, 4)), width)
        n = len(rows)
        weight = np.eye(width) if rng.random() < 0.5 else numbers(rng, palette, width, width)
        bias = numbers(rng, palette, width) if rng.random() < 0.5 else None
        logits = rows[:, -1] if rng.random() < 0.5 else None
        values = numbers(rng, palette, n, width)
        heads.append(AttentionHead(weight, rows[:, :-1], values, np.eye(width), bias, logits))
    if not units:
        return Block(heads, None)
    rows = forms(rng, palette, units, width)
    back = numbers(rng, palette, units, width)
    return Block(heads, FeedForward(rows[:, :-1].T, rows[:, -1], back, np.zeros(width)))


def _domain(rng, dim):
    """Draw a domain of a dimension, and the width of the space it lies in."""
    kind = rng.choice(["box", "odd box", "space", "slice", "polytope", "line"])
    if kind == "space":
        return WholeSpace(dim), dim
    if kind == "odd box":
        return _odd_box(rng, dim), dim
    if kind == "polytope" and dim > 1:
        a = np.vstack([np.eye(dim), -np.ones((1, dim))])
        return Polytope(a, [*(float(x) for x in rng.choice([1.0, 2.0, 0.0], dim)), 3.0]), dim
    if kind == "slice" or (kind == "line" and dim == 1):
        return _slice(rng, dim), dim + 1
    return Box([-3.0] * dim, [3.0] * dim), dim


def _odd_box(rng, dim):
    size = float(rng.choice([1e-300, 1e-160, 1e-20, 1e20, 1e150]))
    low, high = -size * rng.choice([1.0, 2.0], dim), size * rng.choice([1.0, 3.0], dim)
    if rng.random() < 0.5:
        low[int(rng.integers(dim))] = 0.0
    if rng.random() < 0.3:
        high[int(rng.integers(dim))] = rng.choice([1.0, 1e-100, 1e100])
    return Box(low, high)


def _slice(rng, dim):
    palette = _palette(rng)
    origin = numbers(rng, palette, dim + 1)
    if dim == 1 and rng.random() < 0.7:
        direction = numbers(rng, palette, 2)
        direction[0] = direction[0] or 1.0
        ends = Segment(origin, origin + direction) if (origin + direction != origin).any() else None
        return [Line(origin, direction), Ray(origin, direction), ends or Line(origin, direction)][
            int(rng.integers(3))
        ]
    directions = np.eye(dim + 1)[:dim]
    directions[:, -1] = numbers(rng, palette, dim)
    for direction in directions:
        direction[:] = _scaled(direction, rng.choice(palette))
    box = Box([-2.0] * dim, [3.0] * dim) if rng.random() < 0.5 else None
    return Slice(origin, directions, box)


def exact_memberships(partition, points):
    """For each point, a row of floats, the cell whose rows are all positive there, or -1."""
    rows = [partition.rows(i).walls for i in range(partition.n_cells)]
    found = []
    for point in points.tolist():
        homogeneous = [*(Fraction(x) for x in point), Fraction(1)]
        inside = [
            i
            for i, walls in enumerate(rows)
            if all(sum(a * x for a, x in zip(w, homogeneous, strict=True)) > 0 for w in walls)
        ]
        found.append(inside[0] if inside else -1)
    return found
