"""Certificates of deep networks: which epsilon is accepted, how cold, and what a search finds.

Networks are random: `he` has Gaussian weights of variance 2/n and small biases, `torch` what
`torch.nn.Linear` starts with, `trained` is `he` after some gradient steps on a smooth function,
`maxout k` has Gaussian weights of variance 1/n and k pieces for each unit. The search takes random
points, then points on walls (by bisection of segments, to where some unit switches),
then a shrinking random search from the worst; inputs lie in [-1, 1]^d, d at most 6. An epsilon
below the hard bound, on float64 rounding, is refused.

Run: `python -m benchmarks.bench_deep_certificates [--full]`
"""

import sys
import time
from itertools import pairwise

import numpy as np

from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork

EPSILONS = (1e-2, 1e-3, 1e-6)


def random_network(kind: str, depth: int, width: int, seed: int) -> ReluNetwork | MaxoutNetwork:
    """A network of some depth and width with one output."""
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
    """Some steps of normalised gradient descent, in place."""
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


def worst_found(compiled: object, net: ReluNetwork | MaxoutNetwork, seed: int) -> float:
    """The largest error a search finds."""
    rng = np.random.default_rng(seed)
    low, high = compiled.box.low, compiled.box.high

    def errors(x: np.ndarray) -> np.ndarray:
        return np.abs(compiled.transformer(np.clip(x, low, high)) - net(np.clip(x, low, high)))[
            :, 0
        ]

    n = int(np.clip(4_000_000 // net.n_parameters, 16, 200))
    points = np.concatenate(
        [rng.uniform(low, high, (n, len(low))), _on_walls(net, low, high, n, rng)]
    )
    found = errors(points)
    order = np.argsort(-found)[: max(n // 25, 2)]
    centres, found, reach = points[order], found[order], 0.1 * (high - low)
    for _ in range(12):
        tries = centres[:, None] + rng.normal(size=(len(centres), 8, len(low))) * reach
        values = errors(tries.reshape(-1, len(low))).reshape(len(centres), 8)
        best, better = values.argmax(axis=1), values.max(axis=1) > found
        centres = np.where(better[:, None], tries[np.arange(len(centres)), best], centres)
        found, reach = np.maximum(found, values.max(axis=1)), 0.4 * reach
    return float(found.max())


def _on_walls(
    net: object, low: np.ndarray, high: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Points where some unit switches, by bisection of segments with different signatures."""
    a, b = rng.uniform(low, high, (2, n, len(low)))
    start = _patterns(net, a)
    for _ in range(50):
        middle = 0.5 * (a + b)
        same = (_patterns(net, middle) == start).all(axis=1)[:, None]
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return a


def _patterns(net: object, x: np.ndarray) -> np.ndarray:
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


def rows(kinds: list[str], depths: list[int], widths: list[int]) -> None:
    """Print a line for each network."""
    print(f"{'network':<10}{'depth':>6}{'width':>6}{'hard bound':>12}", end="")
    print("".join(f"{f'eps {e:g}: coldest, found/certified':>40}" for e in EPSILONS), "  cpu s")
    for kind in kinds:
        for depth in depths:
            for width in widths:
                net = random_network(kind, depth, width, 0)
                box = Box(-np.ones(net.dim_in), np.ones(net.dim_in))
                build = compile_maxout if isinstance(net, MaxoutNetwork) else compile_relu
                start = time.process_time()
                hard = build(net, box).certified_error
                print(f"{kind:<10}{depth:>6}{width:>6}{hard:>12.1e}", end="", flush=True)
                spent = 0.0
                for epsilon in EPSILONS:
                    start = time.process_time()
                    try:
                        compiled = build(net, box, epsilon)
                    except ArgumentError:
                        print(f"{'refused':>40}", end="")
                        continue
                    spent = max(spent, time.process_time() - start)
                    found = worst_found(compiled, net, 1)
                    ratio = found / compiled.certified_error
                    assert ratio <= 1.0, "a certificate is violated"
                    text = f"{compiled.temperatures.min():.1e}, {ratio:.2g}"
                    print(f"{text:>40}", end="", flush=True)
                print(f"{spent:>8.2f}", flush=True)


def main() -> None:
    """Print the tables."""
    full = "--full" in sys.argv
    depths = [2, 4, 8, 16, 24, 32] if full else [4, 16, 32]
    rows(["he", "torch", "trained"], depths, [5, 20, 50, 100] if full else [5, 20])
    rows(["maxout 2", "maxout 4", "maxout 8"], depths[: 4 if full else 2], [5, 20])


if __name__ == "__main__":
    main()
