"""The cost of exact winners: each query relative to a plain NumPy evaluation of the same model."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box
from hardmax.models._arithmetic.float_pass import run_float_pass
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models.argmax import AffineMap
from hardmax.models.evaluation import cell_signature
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._location.points import CorePoints
from hardmax.regions.sampling import sample_regions

N_POINTS, N_SAMPLES = 20_000, 2_000_000
SQUARE = Box([-2, -2], [2, 2])


def relu_network(widths: list[int], rng: np.random.Generator) -> ReluNetwork:
    """Draw a ReLU network with weights N(0, 2/fan_in) and biases N(0, 0.25)."""
    shapes = list(pairwise(widths))
    return ReluNetwork(
        [rng.normal(0.0, np.sqrt(2 / n_in), (n_in, n_out)) for n_in, n_out in shapes],
        [rng.normal(0.0, 0.5, n_out) for _, n_out in shapes],
    )


def transformer(
    rng: np.random.Generator,
    dim: int = 2,
    n_blocks: int = 3,
    n_keys: int = 8,
    n_heads: int = 2,
    d_ff: int = 8,
) -> HardTransformer:
    """Draw a transformer, by default with d = 2, L = 3, N = 8, H = 2; no units if d_ff is 0."""
    blocks = []
    for _ in range(n_blocks):
        shapes = (dim, dim), (n_keys, dim), (n_keys, dim), (dim, dim)
        heads = [AttentionHead(*(rng.normal(size=s) for s in shapes)) for _ in range(n_heads)]
        units = (dim, d_ff), d_ff, (d_ff, dim), dim
        ffn = FeedForward(*(rng.normal(size=s) for s in units)) if d_ff else None
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks)


def evaluate_relu(net: ReluNetwork, x: np.ndarray) -> np.ndarray:
    *hidden, last = zip(net.weights, net.biases or (), strict=True)
    for weight, bias in hidden:
        x = np.maximum(x @ weight + bias, 0.0)
    return np.asarray(x @ last[0] + last[1])


def evaluate_transformer(model: HardTransformer, x: np.ndarray) -> np.ndarray:
    for block in model.blocks:
        total = x
        for head in block.heads:
            winners = (x @ head.query_weight @ head.keys.T).argmax(axis=1)
            total = total + head.values[winners] @ head.output_weight
        ffn = block.ffn
        assert ffn is not None
        x = total + np.maximum(total @ ffn.w_in + ffn.b_in, 0.0) @ ffn.w_out + ffn.b_out
    return x


def tables() -> Iterator[Table]:
    """Yield the cost of queries at points, and of the affine map of a cell."""
    rng = np.random.default_rng(0)
    shapes = [2, 16, 16, 1], [2, 64, 64, 64, 1], [784, 256, 10]
    models = [("->".join(map(str, widths)), relu_network(widths, rng)) for widths in shapes]
    rows = []
    for name, model in [*models, ("transformer, 3 blocks", transformer(rng))]:
        x = rng.normal(size=(N_POINTS, model.dim_in))
        bare = evaluate_relu if isinstance(model, ReluNetwork) else evaluate_transformer
        questions = (
            lambda model=model, x=x, bare=bare: bare(model, x),
            lambda model=model, x=x: model(x),
            lambda model=model, x=x: model.signature(x),
            lambda model=model, x=x: cell_signature(model.network, x),
            lambda model=model, x=x: model.soft(x, 1.0),
        )
        base, *others = (cpu_seconds(question, 4)[1] for question in questions)
        undecided = run_float_pass(model.network, x, None, named=True).is_open.mean()
        ratios = [other / base for other in others]
        rows.append((name, N_POINTS / base, *ratios, f"{undecided:.1%}"))
    yield Table(
        "Models at points",
        ("model", "numpy, points/s", "output", "signature", "cell", "soft", "undecided by floats"),
        rows,
        f"""{N_POINTS} Gaussian points. The first column is the number of points per second for a
        plain evaluation in numpy. The next four columns give the time of other computations
        relative to it: the output with proven winners, the signature, the cell that contains the
        point, and the output of the soft model.""",
    )
    rows = []
    for name, model in models[:2]:
        network, chart = model.network, AffineMap.identity(model.dim_in)
        winners = rng.integers(0, 2, network.n_groups)
        _, seconds = cpu_seconds(lambda n=network, c=chart, w=winners: exact_affine_map(n, c, w), 4)
        rows.append((name, 1e3 * seconds))
    yield Table("The exact affine map of one cell", ("model", "CPU ms"), rows)
    yield measure_sampling()


def measure_sampling() -> Table:
    """Return the numbers of points per second that are drawn, given signatures, and counted."""
    rng = np.random.default_rng(0)
    small = {"n_blocks": 2, "n_keys": 5}
    models = [
        ("2 blocks, 1 head of 5 keys", transformer(rng, n_heads=1, d_ff=0, **small)),
        ("2 blocks, 1 head of 5 keys, 8 units", transformer(rng, n_heads=1, **small)),
        ("2 blocks, 2 heads of 5 keys", transformer(rng, d_ff=0, **small)),
        ("2 blocks, 2 heads of 5 keys, 8 units", transformer(rng, **small)),
        ("3 blocks, 2 heads of 16 keys, 32 units", transformer(rng, n_keys=16, d_ff=32)),
        ("2->64->64->64->1", relu_network([2, 64, 64, 64, 1], rng)),
    ]
    rows = []
    for name, model in models:
        n_samples = N_SAMPLES if model.network.n_groups < 100 else N_SAMPLES // 10
        points = rng.uniform(-2, 2, (1 << 16, 2))
        find = CorePoints(model.network)
        _, named = cpu_seconds(lambda find=find, points=points: find(points), 4)
        sampled, seconds = cpu_seconds(
            lambda model=model, n=n_samples: sample_regions(model, SQUARE, n, 0), 4
        )
        rows.append((name, len(points) / named, n_samples / seconds, sampled.distinct))
    return Table(
        "Cells found by random points",
        ("model", "signatures/s", "points/s overall", "cells found"),
        rows,
        """Proven signatures per CPU second at uniform points of a square, and points per CPU second
        for all of `sample_regions`, which draws the points, computes their signatures and counts
        them.""",
    )
