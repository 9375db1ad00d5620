"""Random lines through random ReLU networks, most of them degenerate, against the integer search.

`python -m tests.regions.degenerate_lines 10000` compares as many as one likes.
"""

import sys
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.geometry.domains import Line, Ray, Segment
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines.lines import explore
from hardmax.regions.engines import enumerate_regions
from tests.magnitudes import power_of_ten

INTEGERS = ("integers", "signs", "halves", "deep", "repeated integers", "real ends")
KINDS = (
    *INTEGERS,
    "many digits",
    "more digits",
    "generic",
    "no biases",
    "repeated",
    "scales",
    "tiny",
    "huge",
)
MANY = 3.0**30
"""An odd integer of 48 bits."""


def random_network(rng, kind):
    """Draw a network of 1 to 5 layers, deep ones of up to 15."""
    is_quick = kind in (*INTEGERS, "generic")
    depth, most = rng.integers(1, 6), 40 if is_quick and rng.integers(8) == 0 else 9
    if kind == "deep":
        depth, most = rng.integers(8, 16), 5
    sizes = [rng.integers(1, 5), *rng.integers(1, most, depth), rng.integers(1, 3)]
    layers = [random_layer(rng, kind, *pair) for pair in pairwise(sizes)]
    if kind == "more digits":
        # All values are that many times as large.
        layers = [(w * (MANY if i == 0 else 1.0), b * MANY) for i, (w, b) in enumerate(layers)]
    return ReluNetwork(*zip(*layers, strict=True))


def random_layer(rng, kind, n_in, n_out):
    most = {"signs": 1, "many digits": 1 << 12}.get(kind, 2)
    weight = rng.integers(-most, most + 1, (n_in, n_out)).astype(float)
    bias = rng.integers(-most, most + 1, n_out).astype(float)
    if kind not in (*INTEGERS, "many digits", "more digits"):
        weight = rng.normal(0, np.sqrt(2 / n_in), (n_in, n_out))
        bias = rng.normal(0, 0.5, n_out) * (kind != "no biases")
    if kind == "halves":
        weight, bias = weight * 2.0 ** rng.integers(-4, 3), bias * 2.0 ** rng.integers(-4, 3)
    if kind == "scales":
        weight, bias = (x * power_of_ten(rng.integers(-120, 121, n_out)) for x in (weight, bias))
    if kind == "tiny":
        weight, bias = (x * power_of_ten(rng.integers(-322, 1)) for x in (weight, bias))
    if kind == "huge":
        weight, bias = (
            weight * power_of_ten(rng.integers(0, 150)),
            bias * power_of_ten(rng.integers(0, 300)),
        )
    if kind.startswith("repeated"):
        i, j = rng.integers(0, n_out, 2)
        weight[:, i] = weight[:, j] * 2.0 ** rng.integers(-1, 3) * rng.integers(2)
        bias[i] = bias[rng.integers(n_out)]
    return weight, bias


def random_line(rng, kind, dim):
    start, way = rng.integers(-3, 4, (2, dim)).astype(float)
    way[0] += not way.any()
    if kind == "halves":
        start /= 8.0
    if kind == "real ends":
        start, way = rng.normal(size=(2, dim)).astype(np.float32).astype(float)
    elif kind not in (*INTEGERS, "many digits", "more digits"):
        start, way = 3.0 * rng.normal(size=(2, dim))
    if kind == "no biases" and rng.integers(2):
        start = -way * rng.integers(1, 3)
    return (Segment(start, start + way), Line(start, way), Ray(start, way))[rng.integers(3)]


def compare(seed):
    """Compare one case in all that is known of its cells; return its kind and what was found."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    model = random_network(rng, kind)
    line = random_line(rng, kind, model.dim_in)
    found = explore(model.network, line)
    truth = explore(model.network, line, exact=True)
    assert found.arrays.is_complete
    np.testing.assert_array_equal(found.signatures, truth.signatures)
    assert found.breakpoints.tolist() == truth.breakpoints.tolist()
    for exact, end, radius in zip(found.exact_ends, *found.ends.where, strict=True):
        if exact is None:
            assert (abs(end), radius) == (np.inf, 0.0)
        else:
            assert radius == np.inf or abs(Fraction(end) - exact) <= Fraction(radius)
    assert explore(model.network, line, count_only=True).arrays.n_counted == len(truth)
    whole = enumerate_regions(model, line)
    np.testing.assert_array_equal(whole.signatures, truth.signatures)
    gaps = np.abs(found.arrays.maps - truth.arrays.maps)
    assert not (gaps > found.arrays.map_radii + truth.arrays.map_radii).any()
    return kind, found


def main():
    n_cells, n_stages = Counter(), Counter()
    for seed in range(int(sys.argv[1])):
        kind, found = compare(seed)
        decisions = found.arrays.decisions
        n_cells[kind] += len(found)
        n_stages[kind, "filtered"] += decisions.filtered > 0
        n_stages[kind, "expanded"] += decisions.expanded > 0
        n_stages[kind, "rational"] += decisions.rational > 0
    for kind, n in n_cells.items():
        stages = [n_stages[kind, stage] for stage in ("filtered", "expanded", "rational")]
        print(f"{kind:20}{n:8} cells; lines with filtered, expanded, rational decisions: {stages}")


if __name__ == "__main__":
    main()
