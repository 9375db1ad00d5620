"""Point location: points per CPU second, compared with checking the inequalities of the cell."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.bench_evaluation import transformer
from benchmarks.measuring import cpu_seconds
from benchmarks.random_networks import gaussian_weights, integer_weights
from benchmarks.tables import Table
from hardmax.exact.dyadic import homogeneous_points
from hardmax.geometry.domains import Box, Segment
from hardmax.models._arithmetic.float_pass import run_float_pass
from hardmax.models._arithmetic.normed_maps import is_relu_network
from hardmax.models._arithmetic.normed_pass import run_normed_pass
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.evaluation import signature
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray, IntArray

N_POINTS, N_FEW = 100_000, 40
Index = dict[tuple[int, ...], int]


def check_inequalities(
    part: Partition, index: Index, inputs: FloatArray, points: FloatArray
) -> IntArray:
    """Find each point's signature, then check all inequalities of that cell in integers."""
    found = np.full(len(points), -1)
    homogeneous = homogeneous_points(points)
    for k, name in enumerate(signature(part.network, inputs).tolist()):
        cell = index.get(tuple(name))
        if cell is not None:
            rows = np.array(list(part.rows(cell).walls), dtype=object)
            if (rows @ homogeneous[k] > 0).all():
                found[k] = cell
    return found


def undecided_share(network: ArgmaxNetwork, inputs: FloatArray) -> float:
    """Return the share of points that float64 does not decide."""
    is_open = run_float_pass(network, inputs, None, named=True).is_open
    if is_relu_network(network):
        is_open &= run_normed_pass(network, inputs).is_open
    return float(is_open.mean())


def sum_of_hats() -> ReluNetwork:
    """Return a sum of hats on a grid, each of which is zero on most cells."""
    rng, k = np.random.default_rng(0), 16
    first, bias = np.zeros((2, 2 * (k + 2))), np.tile((np.arange(k + 2) - 1) / -10, 2)
    first[0, : k + 2] = first[1, k + 2 :] = 1.0
    second = np.zeros((2 * (k + 2), 2 * k))
    for axis in range(2):
        for j in range(k):
            second[axis * (k + 2) + j : axis * (k + 2) + j + 3, axis * k + j] = 1, -2, 1
    weights = [first, second, rng.normal(size=(2 * k, 8)), np.ones((8, 1))]
    return ReluNetwork(weights, [bias, np.zeros(2 * k), np.zeros(8), np.zeros(1)])


def tables() -> Iterator[Table]:
    """Yield microseconds per point."""
    rng = np.random.default_rng(0)
    square = Box([-1, -1], [1, 1])
    start, end = rng.normal(size=(2, 16))
    cases = [
        ("ReLU 2->[64] x 3", gaussian_weights(0, 2, *[64] * 3).model, square),
        ("ReLU 2->[64] x 6", gaussian_weights(0, 2, *[64] * 6).model, square),
        ("ReLU 2->[64] x 20", gaussian_weights(0, 2, *[64] * 20).model, Box([0, 0], [0.3, 0.3])),
        ("ReLU 2->[64] x 40", gaussian_weights(0, 2, *[64] * 40).model, Box([0, 0], [0.05, 0.05])),
        ("ReLU 3->[16, 16]", gaussian_weights(0, 3, 16, 16).model, Box([-1] * 3, [1] * 3)),
        ("integers, 2->[12] x 4", integer_weights(0, 2, *[12] * 4).model, Box([-3, -3], [3, 3])),
        ("sums of hats on a plane", sum_of_hats(), Box([-0.2, -0.2], [1.9, 1.9])),
        ("transformer, 3 blocks", transformer(rng), square),
        (
            "ReLU 16->[256] x 6, a line",
            gaussian_weights(0, 16, *[256] * 6).model,
            Segment(start, end),
        ),
    ]
    rows = []
    for name, model, domain in cases:
        part = enumerate_regions(model, domain)
        low, high = ([0.0], [1.0]) if isinstance(domain, Segment) else (domain.low, domain.high)
        n_points = N_POINTS if len(part.network.layers) < 40 else N_POINTS // 10
        points = rng.uniform(low, high, (n_points, part.domain.dim))
        few, chart = points[:N_FEW], part.domain.chart
        inputs = few if part.domain.is_identity else few @ chart.weight + chart.bias
        index = {tuple(name): i for i, name in enumerate(part.signatures.tolist())}
        wanted, slow = cpu_seconds(partial(check_inequalities, part, index, inputs, few))
        many = points if part.domain.is_identity else points @ chart.weight + chart.bias
        undecided = undecided_share(part.network, many[:1000])
        found, first = cpu_seconds(partial(part.locate, points))
        again = cpu_seconds(partial(part.locate, points))[1]
        assert found[:N_FEW].tolist() == wanted.tolist()
        times = 1e6 * slow / N_FEW, *(1e6 * t / n_points for t in (first, again))
        ratio = slow / N_FEW * n_points / first
        rows.append((name, part.n_cells, f"{undecided:.0%}", *times, n_points / first, ratio))
    columns = (
        "undecided in float64",
        "inequalities",
        "first call",
        "second call",
        "points/s",
        "ratio",
    )
    yield Table(
        "The cell that contains a point",
        ("model", "cells", *columns),
        rows,
        f"""CPU microseconds per point for {N_POINTS} points, or a tenth of them for the network
        with 40 layers. The reference method ("inequalities") finds the signature of a point and
        then checks all inequalities of that cell in integers; the ratio compares the first call
        with it. The column "undecided in float64" is the share of points that numbers of several
        limbs decide. The hats are zero on most cells; this is determined once per cell.""",
    )
