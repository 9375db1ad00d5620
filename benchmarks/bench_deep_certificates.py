"""Certificates of deep networks: the accepted epsilon, the temperature, and the errors found.

Networks are random: `he` has Gaussian weights of variance 2/n and small biases, `torch` has the
initial weights of `torch.nn.Linear`, `trained` is `he` after some gradient steps on a smooth
function, and `maxout k` has Gaussian weights of variance 1/n and k pieces per unit. The search
tries random points, then points on walls (by bisection of segments on which some unit switches),
and then a shrinking random search from the worst point. With `--full`, there are more depths and
widths.
"""

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork

EPSILONS = (1e-2, 1e-3, 1e-6)


def random_network(kind: str, depth: int, width: int, seed: int) -> ReluNetwork | MaxoutNetwork:
    """Draw a network of a given depth and width with one output."""
    rng = np.random.default_rng(seed)
    dim = min(width, 6)
    if kind.startswith("maxout"):
        rank, weights, biases, n_in = int(kind.split()[1]), [], [], dim
        for _ in range(depth):
            weights.append([rng.normal(size=(rank, n_in)) / n_in**0.5 for _ in range(width)])
            biases.append([0.1 * rng.normal(size=rank) for _ in range(width)])
            n_in = width
        last = rng.normal(size=(n_in, 1)) / n_in**0.5
        return MaxoutNetwork([*weights, last], [*biases, None])
    matrices, offsets = [], []
    for n_in, n_out in pairwise([dim, *[width] * depth, 1]):
        if kind == "torch":
            matrices.append(rng.uniform(-1, 1, (n_in, n_out)) / n_in**0.5)
            offsets.append(rng.uniform(-1, 1, n_out) / n_in**0.5)
        else:
            matrices.append(rng.normal(size=(n_in, n_out)) * (2 / n_in) ** 0.5)
            offsets.append(0.1 * rng.normal(size=n_out))
    if kind == "trained":
        _train(matrices, offsets, rng)
    return ReluNetwork(matrices, offsets)


def _train(matrices: list, offsets: list, rng: np.random.Generator) -> None:
    """Make some steps of normalised gradient descent, in place."""
    dim = len(matrices[0])
    for _ in range(200):
        x = rng.uniform(-1, 1, (64, dim))
        states = [x]
        for w, b in zip(matrices[:-1], offsets[:-1], strict=True):
            states.append(np.maximum(states[-1] @ w + b, 0.0))
        error = states[-1] @ matrices[-1] + offsets[-1] - np.sin(2 * x.sum(axis=1, keepdims=True))
        slope = error / len(x)
        for i in range(len(matrices) - 1, -1, -1):
            step = states[i].T @ slope
            back = (slope @ matrices[i].T) * (states[i] > 0)
            size = max(float(np.linalg.norm(step)), 1e-12)
            matrices[i] -= 0.01 * np.linalg.norm(matrices[i]) * step / size
            offsets[i] -= 0.01 * slope.sum(axis=0)
            slope = back


def find_worst_error(compiled: object, net: ReluNetwork | MaxoutNetwork, seed: int) -> float:
    """Return the largest error that the search finds."""
    rng = np.random.default_rng(seed)
    low, high = compiled.box.low, compiled.box.high

    def compute_errors(x: np.ndarray) -> np.ndarray:
        return np.abs(compiled.transformer(np.clip(x, low, high)) - net(np.clip(x, low, high)))[
            :, 0
        ]

    n = int(np.clip(4_000_000 // net.n_parameters, 16, 200))
    points = np.concatenate(
        [rng.uniform(low, high, (n, len(low))), _find_points_on_walls(net, low, high, n, rng)]
    )
    found = compute_errors(points)
    order = np.argsort(-found)[: max(n // 25, 2)]
    centres, found, reach = points[order], found[order], 0.1 * (high - low)
    for _ in range(12):
        tries = centres[:, None] + rng.normal(size=(len(centres), 8, len(low))) * reach
        values = compute_errors(tries.reshape(-1, len(low))).reshape(len(centres), 8)
        best, better = values.argmax(axis=1), values.max(axis=1) > found
        centres = np.where(better[:, None], tries[np.arange(len(centres)), best], centres)
        found, reach = np.maximum(found, values.max(axis=1)), 0.4 * reach
    return float(found.max())


def _find_points_on_walls(
    net: object, low: np.ndarray, high: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Find points where some unit switches, by bisection of segments with different signatures."""
    a, b = rng.uniform(low, high, (2, n, len(low)))
    start = _activation_patterns(net, a)
    for _ in range(50):
        middle = 0.5 * (a + b)
        same = (_activation_patterns(net, middle) == start).all(axis=1)[:, None]
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return a


def _activation_patterns(net: object, x: np.ndarray) -> np.ndarray:
    h, patterns = x, []
    for units, offsets in zip(net.weights[:-1], net.biases[:-1], strict=True):
        if isinstance(net, ReluNetwork):
            z = h @ units + offsets
            patterns.append(z > 0)
            h = np.maximum(z, 0.0)
        else:
            pieces = [h @ u.T + c for u, c in zip(units, offsets, strict=True)]
            patterns.append(np.stack([p.argmax(axis=1) for p in pieces], axis=1))
            h = np.stack([p.max(axis=1) for p in pieces], axis=1)
    return np.concatenate(patterns, axis=1)


def measure_network(kind: str, depth: int, width: int) -> list[object]:
    """Measure one network."""
    net = random_network(kind, depth, width, 0)
    box = Box(-np.ones(net.dim_in), np.ones(net.dim_in))
    build = compile_maxout if isinstance(net, MaxoutNetwork) else compile_relu
    found: list[object] = [f"{kind}, {depth} x {width}", build(net, box).certified_error]
    spent = []
    for epsilon in EPSILONS:
        try:
            compiled, seconds = cpu_seconds(lambda e=epsilon: build(net, box, e))
        except ArgumentError:
            found.append("refused")
            continue
        spent.append(seconds)
        ratio = find_worst_error(compiled, net, 1) / compiled.certified_error
        assert ratio <= 1.0, "a certificate is violated"
        found.append(f"{compiled.temperatures.min():.1e}, {ratio:.2g}")
    return [*found, max(spent, default=None)]


def tables() -> Iterator[Table]:
    """Yield the certified errors and the temperatures."""
    full = "--full" in sys.argv
    depths = [2, 4, 8, 16, 24, 32] if full else [4, 16, 32]
    widths = [5, 20, 50, 100] if full else [20]
    rows = [
        measure_network(kind, n, w)
        for kind in ("he", "torch", "trained")
        for n in depths
        for w in widths
    ]
    ranks, depths = (("2", "4", "8"), depths[:4]) if full else (("2", "8"), depths[:2])
    rows += [measure_network(f"maxout {k}", depth, 20) for k in ranks for depth in depths]
    yield Table(
        "Certificates of deep networks",
        ("network", "hard bound", *(f"epsilon {e:g}" for e in EPSILONS), "CPU s"),
        rows,
        """Random networks, depth x width, on [-1, 1]^6: Gaussian weights of variance 2/n ("he"),
        PyTorch's initial weights ("torch"), the "he" networks after a few training steps
        ("trained"), and maxout networks with the given number of pieces per unit. For each epsilon,
        the table gives the lowest temperature chosen, and the largest error that a search finds as
        a fraction of the certified error. An entry "refused" means that the bound on the float64
        rounding of the hard transformer exceeds epsilon. CPU seconds are for the slowest
        compilation.""",
    )
