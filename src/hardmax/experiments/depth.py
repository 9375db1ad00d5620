"""Figure 1 of [SL26], with random weights: the exact partition as blocks are added."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hardmax.experiments.registry import Outcome
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.plotting import plot
from hardmax.plotting.style import side_by_side
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.regions.verification import verify_certificate


@dataclass(frozen=True)
class Parameters:
    """The model and how many points the estimate beside the count takes."""

    n_keys: int = 4
    n_heads: int = 2
    d_ff: int = 4
    depths: tuple[int, ...] = (1, 2, 3)
    n_samples: int = 20_000
    seed: int = 1


def run(parameters: Parameters) -> Outcome:
    """Count cells, regions and affine maps exactly, with a certificate, and by sampling."""
    rng = np.random.default_rng(parameters.seed)
    blocks = [_random_block(parameters, rng) for _ in range(max(parameters.depths))]
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    figure, axes = side_by_side(len(parameters.depths))
    counts, sampled, verified = [], [], []
    for ax, depth in zip(axes, parameters.depths, strict=True):
        model = HardTransformer(blocks[:depth])
        part = enumerate_regions(model, box)
        counts.append([part.n_cells, part.n_regions, part.n_affine_maps])
        verified.append(verify_certificate(model, part.certificate()).ok)
        sampled.append(
            sample_regions(model, box, parameters.n_samples, seed=parameters.seed).distinct
        )
        plot(part, ax)
        ax.set_title(f"L = {depth}: {part.n_cells} cells")
    return Outcome(
        {"cells_regions_maps": counts, "sampled": sampled, "certificates_verified": verified},
        f"random weights, N = {parameters.n_keys}: {_listed(c[0] for c in counts)} cells for "
        f"L = {_listed(parameters.depths)}, certified; {parameters.n_samples} samples find "
        f"{_listed(sampled)}.",
        figure,
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _random_block(parameters: Parameters, rng: np.random.Generator) -> Block:
    n, d_ff = parameters.n_keys, parameters.d_ff
    heads = [
        AttentionHead(
            rng.normal(size=(2, 2)),
            rng.normal(size=(n, 2)),
            rng.normal(size=(n, 2)),
            0.5 * rng.normal(size=(2, 2)),
            query_bias=0.5 * rng.normal(size=2),
        )
        for _ in range(parameters.n_heads)
    ]
    ffn = FeedForward(
        rng.normal(size=(2, d_ff)),
        rng.normal(size=d_ff),
        0.5 * rng.normal(size=(d_ff, 2)),
        rng.normal(size=2),
    )
    return Block(heads, ffn)
