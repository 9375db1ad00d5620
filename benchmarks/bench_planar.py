"""Cells per CPU second of the planar engine, on generic and on degenerate models."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search import space as spatial
from hardmax.regions._search.plane import explore
from hardmax.regions.cell_arrays import CellArrays
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
    """Draw a transformer with Gaussian weights and depth 3."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> FloatArray:
        return rng.normal(size=shape)

    return transformer(numbers, numbers, numbers(2, 2), 3)


def binary_transformer(seed: int) -> ArgmaxNetwork:
    """Draw a transformer of depth 3 with weights -1, -1/2, ..., 1 and distinct keys on a grid."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(-3, 4), np.arange(-3, 4)), axis=-1).reshape(-1, 2) / 2.0
    return transformer(
        lambda *shape: rng.integers(-2, 3, shape) / 2.0,
        lambda *_: rng.permutation(grid)[:8],
        np.array([[1.0, 0.5], [0.0, 1.0]]),
        3,
    )


def one_head(seed: int, n_keys: int, kind: str, dim: int) -> ArgmaxNetwork:
    """Draw one head with Voronoi cells, with other offsets, or with none: all forms meet."""
    rng = np.random.default_rng(seed)
    keys = 2.0 * rng.normal(size=(n_keys, dim))
    if kind == "none, unit keys":
        keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    offsets = {"Voronoi": -0.5 * (keys**2).sum(axis=1), "Gaussian": rng.normal(size=n_keys)}
    head = AttentionHead(
        np.eye(dim),
        keys,
        keys,
        np.eye(dim),
        query_bias=rng.normal(size=dim) if kind == "of the query" else None,
        logit_bias=offsets.get(kind),
    )
    return HardTransformer([Block([head], None)]).network


def measure_rate(
    networks: Iterable[ArgmaxNetwork], count_only: bool
) -> tuple[int, float, float, int]:
    """Return the cells, cells per second, the share of exact signs, and the rational signs."""
    networks = list(networks)

    def search() -> list[CellArrays]:
        return [explore(network, SQUARE, count_only=count_only) for network in networks]

    search()
    found, seconds = cpu_seconds(search, 3)
    n_cells = sum(cells.n_counted for cells in found)
    decided = [cells.decisions for cells in found]
    later = sum(d.expanded + d.rational for d in decided)
    rational = sum(d.rational for d in decided)
    return n_cells, n_cells / seconds, later / sum(d.total for d in decided), rational


def tables() -> Iterator[Table]:
    """Yield rates for models, and the cost per cell of one head by the number of keys."""
    cases: list[tuple[str, list[ArgmaxNetwork]]] = [
        ("ReLU 2->[16, 16]", [gaussian_network(s, [16, 16]) for s in range(40)]),
        ("ReLU 2->[32, 32, 32]", [gaussian_network(s, [32, 32, 32]) for s in range(8)]),
        ("ReLU 2->[64, 64, 64]", [gaussian_network(s, [64, 64, 64]) for s in range(2)]),
        ("ReLU 2->[128, 128]", [gaussian_network(s, [128, 128]) for s in range(1)]),
        ("ReLU 2->[256, 256]", [gaussian_network(s, [256, 256]) for s in range(1)]),
        ("no biases, 2->[64] x 6", [gaussian_network(s, [64] * 6, 0.0) for s in range(20)]),
        ("integers, 2->[16] x 4", [integer_network(s, [16] * 4) for s in range(20)]),
        ("transformer, 3 blocks", [gaussian_transformer(s) for s in range(20)]),
        ("the same, binary weights", [binary_transformer(s) for s in range(20)]),
    ]
    rows = []
    for name, networks in cases:
        n_cells, stored, later, rational = measure_rate(networks, count_only=False)
        _, counted, _, _ = measure_rate(networks, count_only=True)
        rows.append((name, len(networks), n_cells, stored, counted, f"{later:.2%}", rational))
    yield Table(
        "Cells in the plane",
        (
            "model",
            "models",
            "cells",
            "stored/s",
            "counted/s",
            "undecided by floats",
            "left to integers",
        ),
        rows,
        """Cells per CPU second on [-5, 5]^2 for models built in advance, either stored with
        polygons and affine maps or only counted. The last columns are the share of signs that
        floats alone did not decide, and the number of signs left to integers. The transformers have
        8 keys, two heads and 8 units in each block.""",
    )
    rows = []
    plane, space = (64, 512, 1024, 2048, 4096), (64, 512)
    for dim, search, sizes in ((2, explore, plane), (3, spatial.explore, space)):
        box = Box([-5] * dim, [5] * dim)
        for kind in ("Voronoi", "Gaussian", "none", "of the query", "none, unit keys"):
            for n_keys in sizes:
                network = one_head(0, n_keys, kind, dim)
                search(network, box)
                found, seconds = cpu_seconds(
                    lambda f=search, n=network, b=box: f(n, b).n_counted, 5
                )
                names = (f"d = {dim}" if kind == "Voronoi" else "", kind)
                each = 1e6 * seconds / found, 1e9 * seconds / (found + n_keys)
                rows.append((*(names if n_keys == 64 else ("", "")), n_keys, found, *each))
    yield Table(
        "One head with many keys",
        ("", "offsets", "keys", "cells", "us per cell", "ns per key or cell"),
        rows,
        """CPU time for storing the cells. In the plane, cells are found by walking from one winner
        to the next. If few keys win, most of the time is spent reading the keys. Without offsets,
        or with the offsets of a single query, all forms are equal at one point.""",
    )
