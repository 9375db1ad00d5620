"""The theme of [GYZ26]: maxout networks as transformers, with a certified error."""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.papers.experiments.wording import format_count
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row, series_colours


@dataclass(frozen=True)
class Parameters:
    """Architectures as (inputs, widths, rank), the requested errors, and the number of points."""

    architectures: tuple[tuple[int, tuple[int, ...], int], ...] = (
        (2, (4,), 3),
        (2, (4, 4), 3),
        (3, (6, 4), 4),
        (2, (3, 3, 3), 2),
        (1, (2, 2), 8),
    )
    errors: tuple[float, ...] = (1e-1, 1e-2, 1e-4)
    n_points: int = 3000
    seed: int = 15


QUICK = Parameters(architectures=((2, (4,), 3), (2, (3, 3, 3), 2)), n_points=500)
FULL = Parameters(n_points=100_000)


def run(parameters: Parameters) -> Outcome:
    """Compile random networks, hard and soft, and measure the error at random points."""
    p = parameters
    rng = np.random.default_rng(p.seed)
    rows: list[Row] = []
    for dim, widths, rank in p.architectures:
        net = _random_network(rng, dim, widths, rank)
        box = Box(np.full(dim, -1.0), np.ones(dim))
        points = rng.uniform(-1.0, 1.0, (p.n_points, dim))
        for epsilon in (None, *p.errors):
            compiled = compile_maxout(net, box, epsilon)
            error = float(np.abs(compiled.transformer(points) - net(points)).max())
            rows.append(
                {
                    "network": f"{dim} -> {list(widths)}, rank {rank}",
                    "asked": epsilon,
                    "certified": compiled.certified_error,
                    "measured": error,
                    "tokens": compiled.size.tokens,
                    "heads": compiled.size.heads,
                    "nonzeros": compiled.size.nonzeros,
                    "source_parameters": compiled.size.source_parameters,
                    "overhead": compiled.size.overhead,
                }
            )
    soft = [row for row in rows if row["asked"] is not None]
    hard = [row for row in rows if row["asked"] is None]
    figure, (ax,) = create_row(1)
    ends = [min(row["certified"] for row in soft) / 3, max(row["certified"] for row in soft) * 3]
    floor = ends[0] / 1e4
    for epsilon, colour in zip(p.errors, series_colours(), strict=False):
        drawn = [row for row in soft if row["asked"] == epsilon]
        for marker, label, below in (("o", f"asked {epsilon:g}", False), ("v", None, True)):
            shown = [
                (row["certified"], max(row["measured"], 1.5 * floor))
                for row in drawn
                if (row["measured"] < 1.5 * floor) == below
            ]
            x, y = zip(*shown, strict=True) if shown else ((), ())
            ax.loglog(x, y, marker, color=colour, label=label)
    if any(row["measured"] < 1.5 * floor for row in soft):
        ax.plot([], [], "v", color="grey", label="smaller than the axis shows")
    ax.loglog(ends, ends, "k--", linewidth=0.8, label="the certificate")
    ax.set_ylim(bottom=floor)
    ax.set_xlabel("certified error")
    ax.set_ylabel(f"largest error at {format_count(p.n_points)} points")
    ax.legend()
    ratios = [row["measured"] / row["certified"] for row in soft]
    overheads = [row["overhead"] for row in hard]
    return Outcome(
        {"largest_ratio": max(ratios), "hard_errors": [row["measured"] for row in hard]},
        f"{len(hard)} maxout networks were compiled to standard transformers with one token per "
        "piece. The hard transformers agree with the networks to "
        f"{max(row['measured'] for row in hard):.1e}. The soft transformers always stay below "
        f"their certificates (the largest measured error is {max(ratios):.0%} of the certified "
        f"one). They have {min(overheads):.1f} to {max(overheads):.1f} nonzero weights per "
        "parameter of the network.",
        figure,
        claimed="Transformers emulate maxout networks at comparable complexity.",
        claims=("B.1",),
        tables={"errors": rows},
    )


def _random_network(
    rng: np.random.Generator, dim: int, widths: tuple[int, ...], rank: int
) -> MaxoutNetwork:
    weights, biases, n_in = [], [], dim
    for width in widths:
        weights.append([rng.normal(size=(rank, n_in)) for _ in range(width)])
        biases.append([rng.normal(size=rank) for _ in range(width)])
        n_in = width
    return MaxoutNetwork([*weights, rng.normal(size=(n_in, 1))], [*biases, rng.normal(size=1)])
