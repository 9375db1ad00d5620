"""Networks compiled to transformers: size, exactness, and errors relative to the certificate.

The plain construction has one-hot positions, pads every unit to k pieces, and uses a last
feed-forward layer for the output.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork

SHAPES = {
    "maxout 2-[4]-1, k 3": ([2, 4, 1], (3, 3)),
    "maxout 3-[4,3]-2, k 2..4": ([3, 4, 3, 2], (2, 4)),
    "maxout 2-[5,5,3]-1, k 1..8": ([2, 5, 5, 3, 1], (1, 8)),
    "maxout 5-[16,8]-3, k 3": ([5, 16, 8, 3], (3, 3)),
    "maxout 16-[32,32]-4, k 4": ([16, 32, 32, 4], (4, 4)),
    "relu 2-[8,8]-1": ([2, 8, 8, 1], None),
    "relu 64-[96,64]-10": ([64, 96, 64, 10], None),
}
EPSILONS = (1e-1, 1e-2, 1e-4)


def random_network(
    widths: list[int], ranks: tuple[int, int] | None, seed: int
) -> MaxoutNetwork | ReluNetwork:
    """Draw a random network whose layers preserve the scale of their inputs."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    pairs = list(pairwise(widths))
    if ranks is None:
        return ReluNetwork(
            [numbers(*p) * (2.0 / p[0]) ** 0.5 for p in pairs], [0.3 * numbers(p[1]) for p in pairs]
        )
    weights, biases = [], []
    for n_in, n_out in pairs[:-1]:
        sizes = rng.integers(ranks[0], ranks[1] + 1, n_out)
        weights.append([numbers(k, n_in) / n_in**0.5 for k in sizes])
        biases.append([0.3 * numbers(k) for k in sizes])
    n_in, n_out = pairs[-1]
    return MaxoutNetwork([*weights, numbers(n_in, n_out) / n_in**0.5], [*biases, numbers(n_out)])


def count_plain_nonzeros(widths: list[int], k: int) -> int:
    """Count the nonzero weights of the plain construction from its description."""
    *hidden, n_out = widths
    total = k * (hidden[0] + 1) + n_out + 2 * hidden[-1] * (1 + n_out)
    for index, (before, after) in enumerate(pairwise(hidden)):
        total += (k + 3) * after + 2 * k * after * (before + k + 1)
        total += 4 * before * (1 if index == 0 else 2)
    return total


def find_worst_error(compiled, net, rng) -> float:  # type: ignore[no-untyped-def]
    """Return the largest error found by random points and a shrinking random search."""
    dim = net.dim_in

    def compute_errors(x: np.ndarray) -> np.ndarray:
        return np.abs(compiled.transformer(x) - net(x)).max(axis=1)

    points = rng.uniform(-1, 1, (3000, dim))
    found = compute_errors(points)
    centres = points[np.argsort(-found)[:20]]
    found = np.sort(found)[::-1][:20].copy()
    reach = 0.3
    for _ in range(30):
        tries = np.clip(centres[:, None] + reach * rng.normal(size=(20, 20, dim)), -1, 1)
        values = compute_errors(tries.reshape(-1, dim)).reshape(20, 20)
        better = values.max(axis=1) > found
        centres[better] = tries[np.arange(20), values.argmax(axis=1)][better]
        found = np.maximum(found, values.max(axis=1))
        reach *= 0.75
    return float(found.max())


def tables() -> Iterator[Table]:
    """Yield the sizes of compiled networks, and their errors next to the certified errors."""
    rows = []
    for name, (widths, ranks) in SHAPES.items():
        net = random_network(widths, ranks, 0)
        box = Box(np.full(widths[0], -1.0), np.full(widths[0], 1.0))
        compile_ = compile_relu if ranks is None else compile_maxout
        rng = np.random.default_rng(1)
        hard = compile_(net, box)
        x = rng.uniform(-1, 1, (3000, widths[0]))
        error = np.abs(hard.transformer(x) - net(x)).max()
        made = [cpu_seconds(partial(compile_, net, box, epsilon)) for epsilon in EPSILONS]
        k = 2 if ranks is None else ranks[1]
        n = hard.size.source_parameters
        plain = count_plain_nonzeros(widths, k) / n
        shares = [find_worst_error(soft, net, rng) / soft.certified_error for soft, _ in made]
        seconds = np.mean([spent for _, spent in made])
        rows.append((name, n, hard.size.overhead, plain, error, *shares, seconds))
    shares = [f"found / certified, {epsilon:g}" for epsilon in EPSILONS]
    yield Table(
        "Networks compiled to transformers",
        (
            "network",
            "parameters",
            "nonzeros per parameter",
            "plain construction",
            "hard error",
            *shares,
            "CPU s",
        ),
        rows,
        """Networks with random weights on the box [-1, 1]^d. The table gives the number of nonzero
        weights of the transformer per parameter of the network, and the same for the plain
        construction (one-hot positions, units padded to k pieces, and a last feed-forward layer for
        the output). The next columns are the error of the hard transformer and, for each epsilon,
        the largest error of the soft transformer that a search finds, as a fraction of the
        certified error. CPU seconds are for compiling the network.""",
    )
