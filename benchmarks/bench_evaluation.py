"""What exact winners cost: each question over a bare numpy evaluation of the same model.

Run with `OPENBLAS_NUM_THREADS=1 python benchmarks/bench_evaluation.py`: CPU time, best of a few.
"""

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from hardmax.models._arithmetic.float_pass import float_pass
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models.argmax import AffineMap
from hardmax.models.evaluation import cell_signature
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer

N_POINTS = 20_000


def cpu_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU time of the fastest call; the first one warms up and is not counted."""
    function()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def relu_network(widths: list[int], rng: np.random.Generator) -> ReluNetwork:
    """Draw a ReLU network with weights N(0, 2/fan_in) and biases N(0, 0.25)."""
    shapes = list(pairwise(widths))
    return ReluNetwork(
        [rng.normal(0.0, np.sqrt(2 / n_in), (n_in, n_out)) for n_in, n_out in shapes],
        [rng.normal(0.0, 0.5, n_out) for _, n_out in shapes],
    )


def transformer(rng: np.random.Generator, dim: int = 2, n_blocks: int = 3) -> HardTransformer:
    """Draw N = 8, H = 2, d_ff = 8; d = 2 and L = 3 unless told."""
    blocks = []
    for _ in range(n_blocks):
        shapes = (dim, dim), (8, dim), (8, dim), (dim, dim)
        heads = [AttentionHead(*(rng.normal(size=s) for s in shapes)) for _ in range(2)]
        ffn = FeedForward(*(rng.normal(size=s) for s in ((dim, 8), 8, (8, dim), dim)))
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks)


def bare_relu(net: ReluNetwork, x: np.ndarray) -> np.ndarray:
    *hidden, last = zip(net.weights, net.biases or (), strict=True)
    for weight, bias in hidden:
        x = np.maximum(x @ weight + bias, 0.0)
    return np.asarray(x @ last[0] + last[1])


def bare_transformer(model: HardTransformer, x: np.ndarray) -> np.ndarray:
    for block in model.blocks:
        total = x
        for head in block.heads:
            winners = (x @ head.query_weight @ head.keys.T).argmax(axis=1)
            total = total + head.values[winners] @ head.output_weight
        ffn = block.ffn
        assert ffn is not None
        x = total + np.maximum(total @ ffn.w_in + ffn.b_in, 0.0) @ ffn.w_out + ffn.b_out
    return x


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    table = Table(title=f"CPU time over bare numpy, {N_POINTS} points")
    for column in ("model", "bare points/s", "output", "signature", "cell", "soft", "undecided"):
        table.add_column(column, justify="left" if column == "model" else "right")
    models = [relu_network(w, rng) for w in ([2, 16, 16, 1], [2, 64, 64, 64, 1], [784, 256, 10])]
    for model in [*models, transformer(rng)]:
        x = rng.normal(size=(N_POINTS, model.dim_in))
        bare = bare_relu if isinstance(model, ReluNetwork) else bare_transformer
        base = cpu_seconds(lambda model=model, x=x, bare=bare: bare(model, x))
        questions = (
            lambda model=model, x=x: model(x),
            lambda model=model, x=x: model.signature(x),
            lambda model=model, x=x: cell_signature(model.network, x),
            lambda model=model, x=x: model.soft(x, 1.0),
        )
        ratios = [f"{cpu_seconds(question) / base:.1f}" for question in questions]
        undecided = float_pass(model.network, x, None, named=True).is_open.mean()
        table.add_row(repr(model), f"{N_POINTS / base:,.0f}", *ratios, f"{undecided:.1e}")
    console = Console()
    console.print(table)
    for model in models[:2]:
        network, chart = model.network, AffineMap.identity(model.dim_in)
        name = rng.integers(0, 2, network.n_groups)
        seconds = cpu_seconds(
            lambda network=network, chart=chart, name=name: exact_affine_map(network, chart, name)
        )
        console.print(f"exact affine map of one cell of {model!r}: {1e3 * seconds:.2f} ms")


if __name__ == "__main__":
    main()
