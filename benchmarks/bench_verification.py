"""The verifier of certificates: cells checked in each CPU second, beside the engine's own speed.

The engine is compiled and filtered; the verifier is Python over exact integers and shares nothing
with it. Run as `python -m benchmarks.bench_verification`.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.certificates import make_certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.verification import verify_certificate


def cpu_seconds(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `run` returns, and the CPU time it took."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def relu(seed: int, *sizes: int) -> ReluNetwork:
    """A network with float32 Gaussian weights, He scaling."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan, width in itertools.pairwise(sizes):
        weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, 0.5, width).astype(np.float32))
    return ReluNetwork(weights, biases)


def integer_relu(seed: int, *sizes: int) -> ReluNetwork:
    """A network with small integer weights: many walls meet in a point, or coincide."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    return ReluNetwork(
        [rng.integers(-3, 4, pair).astype(float) for pair in pairs],
        [rng.integers(-3, 4, n).astype(float) for _, n in pairs],
    )


def transformer(seed: int, n_blocks: int) -> HardTransformer:
    """Two heads over eight keys and eight units in each block, float64 Gaussian weights."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    def block() -> Block:
        heads = [AttentionHead(draw(2, 2), draw(8, 2), draw(8, 2), draw(2, 2)) for _ in range(2)]
        return Block(heads, FeedForward(draw(2, 8), draw(8), draw(8, 2), draw(2)))

    return HardTransformer([block() for _ in range(n_blocks)])


def main() -> None:
    table = Table("model", "domain", "cells", "make s", "verify s", "cells/s", "time/engine")
    square = Box([-5.0, -5.0], [5.0, 5.0])
    cases: list[tuple[str, Any, Any]] = [
        ("relu 2-16-16", relu(65, 2, 16, 16, 1), square),
        ("relu 2-16-16", relu(65, 2, 16, 16, 1), WholeSpace(2)),
        ("relu 2-32-32-32", relu(66, 2, 32, 32, 32, 1), square),
        ("relu 2-32-32-32", relu(66, 2, 32, 32, 32, 1), WholeSpace(2)),
        ("relu 2-64-64", relu(68, 2, 64, 64, 1), square),
        ("integer relu 2-32-32", integer_relu(1, 2, 32, 32, 1), square),
        ("transformer, 2 blocks", transformer(0, 2), square),
        ("transformer, 3 blocks", transformer(3, 3), square),
        ("relu 2-64-64-64", relu(70, 2, 64, 64, 64, 1), square),
        ("relu 3-12-12, refusals", relu(67, 3, 12, 12, 1), Box([-5.0] * 3, [5.0] * 3)),
    ]
    for name, model, domain in cases:
        enumerate_regions(model, domain, max_cells=1)
        part, engine = cpu_seconds(lambda m=model, d=domain: enumerate_regions(m, d))
        certificate, made = cpu_seconds(
            lambda m=model, d=domain, p=part: make_certificate(m, d, p.signatures)
        )
        verdict, checked = cpu_seconds(lambda m=model, c=certificate: verify_certificate(m, c))
        assert verdict.ok, verdict.reason
        table.add_row(
            name,
            type(domain).__name__,
            f"{part.n_cells}",
            f"{made:.2f}",
            f"{checked:.2f}",
            f"{part.n_cells / checked:.0f}",
            f"{checked / engine:.1f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
