"""Random degenerate models, and their comparison with the all-integer search.

A test compares some; `python -m tests.core.degenerate_models FIRST LAST MOST_CELLS DIM` compares as
many as one likes, those with few enough cells, and says which differ.
"""

import sys
import time
from itertools import pairwise

import numpy as np

import hardmax as hm
from hardmax.regions._search import plane as planar
from hardmax.regions._search import space as spatial
from hardmax.regions.cells import Cells
from hardmax.regions.charted_domains import charted
from hardmax.regions.partition import Partition
from tests.magnitudes import power_of_ten

FAMILIES = ("relu", "deep", "wide", "maxout", "transformer", "crowd")


def numbers(rng, style, *shape):
    """Draw weights: integers, lattice points, one-ulp differences, or far apart in magnitude."""
    whole = rng.integers(-2, 3, size=shape).astype(float)
    if style == "integers":
        return whole
    if style == "signs":
        return rng.choice([-1.0, 0.0, 1.0], size=shape)
    if style == "dyadic":
        return whole * 2.0 ** rng.integers(-3, 3, size=shape)
    if style == "ulps":
        return whole + rng.choice([0.0, 0.0, 2.0**-52, -(2.0**-53), 5e-324], size=shape)
    if style == "powers":
        return whole * power_of_ten(rng.integers(-300, 300, size=shape))
    if style == "tiny":
        return whole * rng.choice([1.0, 5e-324, 1e-160, 1e-308], size=shape)
    if style == "decimal":
        return np.round(rng.normal(size=shape), 1)
    return rng.normal(size=shape)


STYLES = ("integers", "signs", "dyadic", "ulps", "powers", "tiny", "decimal", "generic")


def _relu(rng, style, dim, widths):
    dims = [dim, *map(int, widths), int(rng.integers(1, 3))]
    weights = [numbers(rng, style, *shape) for shape in pairwise(dims)]
    biases = [numbers(rng, style, n) * (rng.random() < 0.7) for n in dims[1:]]
    if rng.random() < 0.5:
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            one, other = rng.integers(0, weight.shape[1], size=2)
            factor = rng.choice([1.0, -1.0, 2.0])
            weight[:, one], bias[one] = weight[:, other] * factor, bias[other] * factor
    return hm.ReluNetwork(weights, biases)


def _maxout(rng, style, dim):
    width, weights, biases = dim, [], []
    for _ in range(rng.integers(1, 3)):
        ranks = rng.integers(1, 6, size=rng.integers(1, 4))
        units = [numbers(rng, style, int(rank), width) for rank in ranks]
        offsets = [numbers(rng, style, int(rank)) * (rng.random() < 0.7) for rank in ranks]
        if rng.random() < 0.4:
            units[0][-1], offsets[0][-1] = units[0][0], offsets[0][0]
        weights.append(units)
        biases.append(offsets)
        width = len(ranks)
    return hm.MaxoutNetwork(
        [*weights, numbers(rng, style, width, 1)], [*biases, numbers(rng, style, 1)]
    )


def _head(rng, style, dim, n_keys):
    d_k = int(rng.integers(1, 4))
    keys, values = numbers(rng, style, n_keys, d_k), numbers(rng, style, n_keys, dim)
    if rng.random() < 0.4:
        keys[-1] = keys[0]
        values[-1] = values[0] if rng.random() < 0.5 else values[-1]
    return hm.AttentionHead(
        numbers(rng, style, dim, d_k),
        keys,
        values,
        numbers(rng, style, dim, dim),
        query_bias=numbers(rng, style, d_k) if rng.random() < 0.6 else None,
        logit_bias=numbers(rng, style, n_keys) if rng.random() < 0.4 else None,
    )


def _transformer(rng, style, dim, n_blocks, most_keys):
    blocks = []
    for _ in range(n_blocks):
        heads = [
            _head(rng, style, dim, int(rng.integers(2, most_keys + 1)))
            for _ in range(rng.integers(1, 3))
        ]
        units = int(rng.integers(1, 5))
        ffn = hm.FeedForward(
            numbers(rng, style, dim, units),
            numbers(rng, style, units),
            numbers(rng, style, units, dim),
            numbers(rng, style, dim),
        )
        residual = rng.random(2) < 0.7
        blocks.append(
            hm.Block(
                heads,
                ffn if rng.random() < 0.7 else None,
                attention_residual=bool(residual[0]),
                ffn_residual=bool(residual[1]),
            )
        )
    return hm.HardTransformer(blocks)


def _domain(rng, dim):
    kind = rng.random()
    if kind < 0.5:
        size = float(rng.choice([1.0, 2.0, 3.0, 1e-3, 100.0, 1e8]))
        return hm.Box([-size] * dim, [size] * dim)
    if kind < 0.8:
        return hm.WholeSpace(dim)
    if dim == 2:
        rows = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, -1.0], [-2.0, -1.0]])
        return hm.Polytope(rows, rng.integers(1, 4, size=4).astype(float))
    # A cone or a polytope around the origin.
    rows = rng.integers(-1, 2, size=(dim + 2, dim)).astype(float)
    rows = rows[rows.any(axis=1)]
    return hm.Polytope(rows, rng.integers(1, 3, size=len(rows)).astype(float))


def model_and_domain(seed, dim=2):
    """Return the family, the style, the model and the domain of a seed."""
    rng = np.random.default_rng(seed if dim == 2 else [seed, dim])
    family = str(rng.choice(FAMILIES, p=[0.29, 0.15, 0.05, 0.2, 0.26, 0.05]))
    style = str(rng.choice(STYLES))
    if family == "relu":
        model = _relu(rng, style, dim, rng.integers(1, 7, size=rng.integers(1, 4)))
    elif family == "deep":
        model = _relu(rng, style, dim, rng.integers(1, 4, size=rng.integers(5, 12)))
    elif family == "wide":
        model = _relu(rng, style, dim, [rng.integers(30, 90), rng.integers(1, 3)])
    elif family == "maxout":
        model = _maxout(rng, style, dim)
    elif family == "transformer":
        model = _transformer(rng, style, dim, int(rng.integers(1, 4)), 6)
    else:
        model = hm.HardTransformer(
            [hm.Block([_head(rng, style, dim, int(rng.integers(24, 301 if dim < 3 else 60)))])]
        )
    return family, style, model, _domain(rng, dim)


def differences(seed, most_cells, max_seconds, dim=2):
    """Return what differs between the compiled and the all-integer search, or None if too large."""
    _, _, model, domain = model_and_domain(seed, dim)
    explore = planar.explore if dim == 2 else spatial.explore
    limited = explore(model.network, domain, count_only=True, max_cells=most_cells + 1)
    if limited.n_counted > most_cells:
        return None
    exact = hm.enumerate_regions(model, domain, exact=True, max_seconds=max_seconds)
    if not exact.is_complete:
        return None
    # Without a limit, cells of the last layer are counted in another way.
    counted = explore(model.network, domain, count_only=True)
    stored = explore(model.network, domain, workers=2 if seed % 7 == 0 else 1)
    wanted = sorted(np.asarray(exact.signatures).astype(int).tolist())
    found = []
    for n_counted in (limited.n_counted, counted.n_counted):
        if n_counted != len(wanted):
            found.append(f"{n_counted} counted, {len(wanted)} cells")
    if stored.signatures.astype(int).tolist() != wanted:
        found.append(f"{stored.n_counted} stored, {len(wanted)} cells")
        return found
    where = charted(domain, dim)
    cells = Cells(model.network, where, stored)
    partition = Partition(model.network, where, cells, "test")
    for cell in range(0, stored.n_counted, 11):
        true, radius = partition.exact_map(cell).rounded().T, stored.map_radii[cell]
        given = stored.maps[cell]
        with np.errstate(all="ignore"):
            is_near = np.abs(true - given) <= 1e-15 * np.abs(true) + 1.01 * radius + 1e-300
        if not (is_near | (true == given)).all():
            found.append(f"the map of cell {cell}")
    return found


def main():
    """Compare the models of a range of seeds."""
    first, last, most_cells, dim = map(int, sys.argv[1:5])
    n_compared, n_different, began = 0, 0, time.time()
    for seed in range(first, last):
        found = differences(seed, most_cells, 2.0, dim)
        n_compared += found is not None
        if found:
            n_different += 1
            family, style, *_ = model_and_domain(seed, dim)
            print(f"seed {seed} ({family}, {style}): {'; '.join(found)}", flush=True)
        if seed % 250 == 249:
            print(
                f"{n_compared} compared, {n_different} differ, {time.time() - began:.0f} s",
                flush=True,
            )
    print(f"{n_compared} models compared, {n_different} differ")


if __name__ == "__main__":
    main()
