"""Growth of the cost per cell with width, depth, number of cells, keys and feed-forward units.

Searches stop at `MOST` cells. If a model has fewer cells, several models are drawn.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search import plane as planar
from hardmax.regions._search import space as spatial
from hardmax.typing import FloatArray

MOST, LEAST = 50_000, 10_000
Model = Callable[[int], ArgmaxNetwork]


def draw_relu(widths: list[int], dim: int = 2) -> Model:
    """Draw ReLU networks with weights N(0, 2 / fan-in) and biases N(0, 1/4)."""

    def draw(seed: int) -> ArgmaxNetwork:
        rng = np.random.default_rng(seed)
        weights, biases, fan = [], [], dim
        for width in [*widths, 1]:
            weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
            biases.append(rng.normal(0, 0.5, width).astype(np.float32))
            fan = width
        return ReluNetwork(weights, biases).network

    return draw


def draw_maxout(width: int, depth: int) -> Model:
    """Draw maxout networks of rank 2."""

    def draw(seed: int) -> ArgmaxNetwork:
        rng = np.random.default_rng(seed)
        later = [rng.normal(0, np.sqrt(1 / width), (width, 2, width)) for _ in range(depth - 1)]
        weights = [rng.normal(size=(width, 2, 2)), *later, np.ones((width, 1))]
        biases = [rng.normal(0, 0.5, (width, 2)) for _ in range(depth)]
        return MaxoutNetwork(weights, [*biases, [0.0]]).network

    return draw


def draw_transformer(n_keys: int, d_ff: int) -> Model:
    """Draw hard transformers with d = 2, H = 2, L = 2."""

    def draw(seed: int) -> ArgmaxNetwork:
        rng = np.random.default_rng(seed)

        def numbers(*shape: int) -> FloatArray:
            return rng.normal(size=shape)

        def head() -> AttentionHead:
            keys, values = numbers(n_keys, 2), numbers(n_keys, 2)
            bias = numbers(n_keys) - 0.5 * (keys**2).sum(axis=1)
            return AttentionHead(np.eye(2), keys, values, numbers(2, 2), logit_bias=bias)

        def block() -> Block:
            out = numbers(d_ff, 2) / np.sqrt(d_ff)
            return Block([head(), head()], FeedForward(numbers(2, d_ff), numbers(d_ff), out, None))

        return HardTransformer([block(), block()]).network

    return draw


def measure_cost(model: Model, dim: int, radius: float, count_only: bool) -> tuple[int, float, int]:
    """Return the number of cells, the CPU seconds per cell, and the signs left to integers."""
    explore = planar.explore if dim == 2 else spatial.explore
    box = Box([-radius] * dim, [radius] * dim)
    n_cells = 0
    spent = 0.0
    n_left = 0
    seed = 0
    while n_cells < LEAST:
        network = model(seed)
        # The first search finds few cells and prepares the network.
        explore(network, box, count_only=count_only, max_cells=10, progress=False)
        found, seconds = cpu_seconds(
            lambda n=network: explore(n, box, count_only=count_only, max_cells=MOST, progress=False)
        )
        spent += seconds
        n_cells += found.n_counted
        n_left += found.decisions.rational
        seed += 1
    return n_cells, spent / n_cells, n_left


def measure_rows(
    title: str, name: str, sizes: Iterable[tuple[float, Model]], dim: int = 2, radius: float = 5.0
) -> Iterator[list[object]]:
    """Yield costs and local exponents by size; for the name "radius", the size of the box."""
    before: tuple[float, float, float] | None = None
    for size, model in sizes:
        reach = size if name == "radius" else radius
        n_cells, stored, n_left = measure_cost(model, dim, reach, count_only=False)
        _, counted, _ = measure_cost(model, dim, reach, count_only=True)
        exponents: list[str | None] = [None, None]
        if before is not None:
            ratio = np.log2(size / before[0])
            pairs = zip((stored, counted), before[1:], strict=True)
            exponents = [f"{np.log2(now / then) / ratio:.2f}" for now, then in pairs]
        costs = 1e6 * stored, exponents[0], 1e6 * counted, exponents[1]
        yield ["" if before else title, f"{name} = {size:g}", n_cells, *costs, n_left]
        before = size, stored, counted


def tables() -> Iterator[Table]:
    """Yield the cost per cell by size."""
    wide = (16, 32, 64, 128, 256, 512)
    less = wide[:-1]
    keys, deep = (8, 16, 32, 64, 128), (2, 4, 8, 16, 32)
    found = [
        *measure_rows("ReLU 2->[w, w]", "w", [(w, draw_relu([w, w])) for w in wide]),
        *measure_rows("ReLU 2->[w, w, w]", "w", [(w, draw_relu([w] * 3)) for w in wide]),
        *measure_rows("ReLU 2->[w] x 6", "w", [(w, draw_relu([w] * 6)) for w in less]),
        *measure_rows(
            "ReLU 2->[w] x 12", "w", [(w, draw_relu([w] * 12)) for w in less[:-1]], radius=1.0
        ),
        *measure_rows("ReLU 2->[32] x n", "n", [(n, draw_relu([32] * n)) for n in (1, *deep)]),
        *measure_rows(
            "ReLU 2->[16] x n", "n", [(n, draw_relu([16] * n)) for n in (4, 8, 16, 32, 64)]
        ),
        *measure_rows(
            "ReLU 3->[16] x n", "n", [(n, draw_relu([16] * n, 3)) for n in deep], dim=3, radius=1.0
        ),
        *measure_rows(
            "ReLU 2->[64, 64]", "radius", [(r, draw_relu([64, 64])) for r in (0.5, 1.0, 2.0, 4.0)]
        ),
        *measure_rows("maxout 2->[w, w], rank 2", "w", [(w, draw_maxout(w, 2)) for w in less]),
        *measure_rows("maxout 2->[w, w, w], rank 2", "w", [(w, draw_maxout(w, 3)) for w in less]),
        *measure_rows("ReLU 3->[w, w]", "w", [(w, draw_relu([w, w], 3)) for w in less], dim=3),
        *measure_rows("transformer, 8 units", "keys", [(n, draw_transformer(n, 8)) for n in keys]),
        *measure_rows("transformer, 8 keys", "units", [(n, draw_transformer(8, n)) for n in keys]),
    ]
    yield Table(
        "Growth of the cost per cell",
        ("model", "size", "cells", "stored", "exponent", "counted", "exponent", "integers"),
        found,
        f"""CPU microseconds per cell for models built in advance, and growth exponents: log2 of the
        cost divided by the cost at half the size. Each search stops at {MOST} cells. If a model has
        fewer than {LEAST} cells, several models are measured. The last column is the number of
        signs left to integers. Consecutive regions differ in few winners. The search therefore
        updates the scores of the next layer with one row of weights per changed winner, and the
        scores of later layers with one row of effects per changed winner, each corrected by the
        units that changed since its last use. Bounds on rounding errors grow with depth much faster
        than the errors do. If a sign is undecided, or a vertex is not known to enough digits, the
        forms on the path are recomposed in twice the precision and finally in integers.""",
    )
