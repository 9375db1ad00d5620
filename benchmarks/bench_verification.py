"""The verifiers of certificates: cells checked per CPU second, including set-up.

Deep networks are checked on a square around the origin with some thousand cells. With `--full`, the
deepest networks are included.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate

MOST_IN_INTEGERS = 2_000


def time_verification(model: Any, certificate: Any, method: str, rounds: int = 1) -> float:
    """Verify a valid certificate, and return the CPU time."""
    verdict, seconds = cpu_seconds(
        lambda: verify_certificate(model, certificate, method=method), rounds
    )
    assert verdict.ok, verdict.reason
    return seconds


def relu(seed: int, *sizes: int) -> ReluNetwork:
    """Draw a network with float32 Gaussian weights and He scaling."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan, width in itertools.pairwise(sizes):
        weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, 0.5, width).astype(np.float32))
    return ReluNetwork(weights, biases)


def integer_relu(seed: int, *sizes: int) -> ReluNetwork:
    """Draw a network with small integer weights: many walls coincide or meet in a point."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    return ReluNetwork(
        [rng.integers(-3, 4, pair).astype(float) for pair in pairs],
        [rng.integers(-3, 4, n).astype(float) for _, n in pairs],
    )


def transformer(seed: int, n_blocks: int) -> HardTransformer:
    """Draw blocks of two heads with eight keys, and eight units, with float64 Gaussian weights."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    def block() -> Block:
        heads = [AttentionHead(draw(2, 2), draw(8, 2), draw(8, 2), draw(2, 2)) for _ in range(2)]
        return Block(heads, FeedForward(draw(2, 8), draw(8), draw(8, 2), draw(2)))

    return HardTransformer([block() for _ in range(n_blocks)])


def maxout(seed: int, width: int, depth: int) -> MaxoutNetwork:
    """Draw units of two pieces with float32 Gaussian weights of variance 1/n."""
    rng = np.random.default_rng(seed)
    weights: list[Any] = []
    biases: list[Any] = []
    fan = 2
    for _ in range(depth):
        weights.append([rng.normal(0, fan**-0.5, (2, fan)).astype("f4") for _ in range(width)])
        biases.append([rng.normal(0, 0.5, 2).astype("f4") for _ in range(width)])
        fan = width
    return MaxoutNetwork([*weights, np.ones((fan, 1))], [*biases, None])


def find_square(model: Any, fewest: int = 2_000, most: int = 20_000) -> Box:
    """Return a square around the origin on which a model has about this many cells, or None."""
    radius = 5.0
    for _ in range(40):
        square = Box([-radius, -radius], [radius, radius])
        n_cells = enumerate_regions(model, square, max_cells=most + 1).n_cells
        if fewest <= n_cells <= most or radius > 1e4:
            break
        radius *= 0.6 if n_cells > most else 1.5
    return square


def shallow_models() -> list[tuple[str, Any, Any]]:
    """Return networks of two and three layers."""
    square = Box([-5.0, -5.0], [5.0, 5.0])
    return [
        ("ReLU 2->[16, 16]", relu(65, 2, 16, 16, 1), square),
        ("ReLU 2->[16, 16]", relu(65, 2, 16, 16, 1), WholeSpace(2)),
        ("ReLU 2->[32] x 3", relu(66, 2, 32, 32, 32, 1), square),
        ("ReLU 2->[32] x 3", relu(66, 2, 32, 32, 32, 1), WholeSpace(2)),
        ("integers, 2->[32, 32]", integer_relu(1, 2, 32, 32, 1), square),
        ("transformer, 2 blocks", transformer(0, 2), square),
        ("transformer, 3 blocks", transformer(3, 3), square),
        ("ReLU 2->[64] x 3", relu(70, 2, 64, 64, 64, 1), square),
        ("ReLU 3->[12, 12], refusals", relu(67, 3, 12, 12, 1), Box([-5.0] * 3, [5.0] * 3)),
    ]


def deep_models(is_full: bool) -> list[tuple[str, Any, Any]]:
    """Return networks of 8 to 32 layers and transformers of 6 to 12 blocks."""
    shapes = [(3, 10, 8), (1, 16, 8), (2, 16, 16), (4, 32, 8)]
    blocks = [(7, 6), (8, 9), (9, 12)]
    if is_full:
        shapes += [(3, 16, 24), (11, 16, 32), (5, 32, 12), (12, 64, 8), (13, 64, 12)]
        blocks.append((21, 12))
    models: list[tuple[str, Any]] = [
        (f"ReLU 2->[{width}] x {depth}", relu(seed, 2, *[width] * depth, 1))
        for seed, width, depth in shapes
    ]
    models.append(("integers, 2->[16] x 8", integer_relu(16, 2, *[16] * 8, 1)))
    models.append(("maxout 2->[16] x 8, rank 2", maxout(6, 16, 8)))
    models += [(f"transformer, {n} blocks", transformer(seed, n)) for seed, n in blocks]
    return [(name, model, find_square(model)) for name, model in models]


def tables() -> Iterator[Table]:
    """Yield cells per second for making and checking certificates."""
    rows = []
    for name, model, domain in shallow_models() + deep_models("--full" in sys.argv):
        part = enumerate_regions(model, domain)
        certificate, made = cpu_seconds(part.certificate)
        n = part.n_cells
        quick = time_verification(model, certificate, "fast", 3)
        integers = (
            time_verification(model, certificate, "integers") if n <= MOST_IN_INTEGERS else None
        )
        where = f"[-r, r]^d, r = {domain.high[0]:.3g}" if isinstance(domain, Box) else "the plane"
        rows.append((name, where, n, n / made, n / quick, integers and n / integers))
    yield Table(
        "Making and checking certificates",
        ("model", "domain", "cells", "made/s", "fast verifier/s", "verify.py/s"),
        rows,
        f"""Cells per CPU second, including set-up, for making certificates, for checking them with
        the fast verifier (median of three runs), and for checking certificates of up to
        {MOST_IN_INTEGERS} cells with `hardmax/verify/verify.py`, which works in integers and needs
        only Python. In three or more dimensions, where cells form no tiling, a certificate consists
        of refusals, which prove that no other cell exists. In deeper networks, more signs are left
        to integers, which grow with each layer.""",
    )
