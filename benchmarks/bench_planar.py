"""Cells per CPU second of the planar engine, on generic and on degenerate models."""

import itertools
import time
from collections.abc import Callable, Iterable

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search.plane import explore
from hardmax.typing import FloatArray

SQUARE = Box([-5.0, -5.0], [5.0, 5.0])
Numbers = Callable[..., FloatArray]


def gaussian_network(seed: int, widths: list[int], bias: float = 0.5) -> ArgmaxNetwork:
    """Draw a ReLU network with weights N(0, 2 / fan-in) and biases N(0, bias^2)."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], 2
    for width in [*widths, 1]:
        weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, bias, width).astype(np.float32) if bias else None)
        fan = width
    return ReluNetwork(weights, biases).network


def integer_network(seed: int, widths: list[int]) -> ArgmaxNetwork:
    """Draw a ReLU network with weights and biases in -2, ..., 2."""
    rng = np.random.default_rng(seed)
    sizes = [2, *widths, 1]
    shapes = itertools.pairwise(sizes)
    weights = [rng.integers(-2, 3, shape).astype(np.float64) for shape in shapes]
    biases = [rng.integers(-2, 3, n).astype(np.float64) for n in sizes[1:]]
    return ReluNetwork(weights, biases).network


def transformer(numbers: Numbers, keys: Numbers, query: FloatArray, depth: int) -> ArgmaxNetwork:
    """Draw a hard transformer with d = 2, N = 8, H = 2, d_ff = 8."""
    blocks = []
    for _ in range(depth):
        heads = [
            AttentionHead(query, keys(8, 2), numbers(8, 2), numbers(2, 2), logit_bias=numbers(8))
            for _ in range(2)
        ]
        blocks.append(Block(heads, FeedForward(numbers(2, 8), numbers(8), numbers(8, 2), None)))
    return HardTransformer(blocks).network


def gaussian_transformer(seed: int) -> ArgmaxNetwork:
    """Draw one with Gaussian weights and depth 3."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> FloatArray:
        return rng.normal(size=shape)

    return transformer(numbers, numbers, numbers(2, 2), 3)


def binary_transformer(seed: int) -> ArgmaxNetwork:
    """Draw one with weights in -1, -1/2, ..., 1 and distinct keys on a grid, of depth 3."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(-3, 4), np.arange(-3, 4)), axis=-1).reshape(-1, 2) / 2.0
    return transformer(
        lambda *shape: rng.integers(-2, 3, shape) / 2.0,
        lambda *_: rng.permutation(grid)[:8],
        np.array([[1.0, 0.5], [0.0, 1.0]]),
        3,
    )


def one_head(seed: int, n_keys: int, kind: str) -> ArgmaxNetwork:
    """Draw one head: Voronoi cells of its keys, Gaussian offsets, or none."""
    rng = np.random.default_rng(seed)
    keys = 2.0 * rng.normal(size=(n_keys, 2))
    offsets = {
        "Voronoi": -0.5 * (keys**2).sum(axis=1),
        "Gaussian offsets": rng.normal(size=n_keys),
        "no offsets": None,
    }[kind]
    head = AttentionHead(np.eye(2), keys, keys, np.eye(2), logit_bias=offsets)
    return HardTransformer([Block([head], None)]).network


def walk_costs() -> None:
    """Print what a cell of one head costs, by the number of keys."""
    print(f"\n{'one head':24}{'keys':>8}{'cells':>8}{'us / cell':>12}{'ns / (key + cell)':>20}")
    for kind in ("Voronoi", "Gaussian offsets", "no offsets"):
        for n_keys in (64, 512, 1024, 2048, 4096):
            network = one_head(0, n_keys, kind)
            explore(network, SQUARE)
            start = time.process_time()
            found = [explore(network, SQUARE).n_counted for _ in range(5)]
            spent = (time.process_time() - start) / 5
            each = spent / found[0] * 1e6
            shared = spent / (found[0] + n_keys) * 1e9
            print(f"{kind:24}{n_keys:8d}{found[0]:8d}{each:12.2f}{shared:20.0f}")


def rate(networks: Iterable[ArgmaxNetwork], count_only: bool) -> tuple[int, float, float, int]:
    """Return the cells, cells per second, the share of exact signs, and the rational signs."""
    networks = list(networks)
    for network in networks:
        explore(network, SQUARE, count_only=count_only)
    start = time.process_time()
    found = [explore(network, SQUARE, count_only=count_only) for network in networks]
    spent = time.process_time() - start
    n_cells = sum(cells.n_counted for cells in found)
    decided = [cells.decisions for cells in found]
    later = sum(d.expanded + d.rational for d in decided)
    rational = sum(d.rational for d in decided)
    return n_cells, n_cells / spent, later / sum(d.total for d in decided), rational


def main() -> None:
    explore(gaussian_network(0, [4]), SQUARE)
    cases: list[tuple[str, list[ArgmaxNetwork]]] = [
        ("2->[16,16]", [gaussian_network(s, [16, 16]) for s in range(40)]),
        ("2->[32,32,32]", [gaussian_network(s, [32, 32, 32]) for s in range(8)]),
        ("2->[64,64,64]", [gaussian_network(s, [64, 64, 64]) for s in range(2)]),
        ("2->[128,128]", [gaussian_network(s, [128, 128]) for s in range(1)]),
        ("2->[256,256]", [gaussian_network(s, [256, 256]) for s in range(1)]),
        ("no biases, 2->[64]*6", [gaussian_network(s, [64] * 6, 0.0) for s in range(20)]),
        ("integers, 2->[16]*4", [integer_network(s, [16] * 4) for s in range(20)]),
        ("transformer", [gaussian_transformer(s) for s in range(20)]),
        ("binary transformer", [binary_transformer(s) for s in range(20)]),
    ]
    head = ("cells", "stored M/s", "counted M/s", "not filtered", "rational")
    print(f"{'model':24}" + "".join(f"{word:>14}" for word in head))
    for name, networks in cases:
        n_cells, stored, later, rational = rate(networks, count_only=False)
        _, counted, _, _ = rate(networks, count_only=True)
        rates = f"{stored / 1e6:14.3f}{counted / 1e6:14.3f}{later:14.2%}"
        print(f"{name:24}{n_cells:14d}{rates}{rational:14d}")
    walk_costs()


if __name__ == "__main__":
    main()
