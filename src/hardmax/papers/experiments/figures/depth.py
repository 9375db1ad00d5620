"""Figure 1 of [SL26]: exact partitions as blocks are added, constructed and with random weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.constructions.families.shattering import (
    attention_grid_transformer,
    shattering_count,
    shattering_transformer,
)
from hardmax.geometry.domains import Box
from hardmax.models.transformers import HardTransformer
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.experiments.wording import listed
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import grid_of_panels
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.regions.sampling import sample_regions
from hardmax.verify.checking import verify_certificate


@dataclass(frozen=True)
class Parameters:
    """The models, and how many points the estimate beside the count of a random one takes.

    The first three rows of the table are certified as long as they have at most `certified_up_to`
    cells.
    """

    n_keys: int = 4
    n_heads: int = 2
    d_ff: int = 4
    depths: tuple[int, ...] = (1, 2, 3)
    certified_up_to: int = 5000
    n_samples: int = 20_000
    seed: int = 1


QUICK = Parameters(certified_up_to=300)
FULL = Parameters(certified_up_to=300_000, n_samples=1_000_000)


def run(parameters: Parameters) -> Outcome:
    """Count cells, regions and affine maps of three families; draw two of them."""
    p = parameters
    unit, square = Box(np.zeros(2), np.ones(2)), Box(np.full(2, -3.0), np.full(2, 3.0))
    rows: list[Row] = []
    figure, axes = grid_of_panels(2, 3)
    for depth in p.depths:
        grid = attention_grid_transformer(p.n_keys, 2, depth)
        folded = shattering_transformer(p.n_keys, 2, depth, p.d_ff)
        rng = np.random.default_rng(p.seed)
        random = random_transformer(rng, p.n_keys, p.n_heads, p.d_ff, depth)
        known = p.n_keys ** (2 * depth)
        grid_part = _add_row(rows, "attention alone", grid, unit, depth, known, p)
        count = shattering_count(p.n_keys, 2, depth, p.d_ff)
        _add_row(rows, "with feed-forward", folded, unit, depth, count, p)
        part = _add_row(rows, "random weights", random, square, depth, None, p)
        rows[-1]["sampled"] = sample_regions(random, square, p.n_samples, seed=p.seed).distinct
        if depth <= 3:
            _draw(axes[0][depth - 1], grid_part, f"attention alone, L = {depth}")
            _draw(axes[1][depth - 1], part, f"random weights, L = {depth}")
    return Outcome(
        {
            "formula_attained": all(r["formula"] in (None, r["cells"]) for r in rows),
            "certificates_accepted": all(r["certified"] in (None, True) for r in rows),
        },
        f"N = {p.n_keys}, d = 2: attention alone reaches {_counts(rows, 'attention alone')} cells "
        f"for L = {listed(p.depths)}, which is N^(dL); with {p.d_ff} units per block "
        f"{_counts(rows, 'with feed-forward')}. Cells, regions and affine maps agree, counted by "
        f"the engine. Random weights give {_counts(rows, 'random weights')}, of which "
        f"{p.n_samples:,} samples find "
        f"{listed(r['sampled'] for r in rows if r['family'] == 'random weights')}. Walls of heads "
        "are coloured, those of units are black, later blocks are drawn thinner.",
        figure,
        claimed="partitions for N = 4 and L = 1, 2, 3, said to follow the bound Theta(N^(dL)); no "
        "numbers are given.",
        claims=("Fig1",),
        tables={"counts": rows},
    )


def _add_row(
    rows: list[Row],
    family: str,
    model: HardTransformer,
    domain: Box,
    depth: int,
    formula: int | None,
    parameters: Parameters,
) -> Partition:
    part = enumerate_regions(model, domain)
    certified = None
    if part.n_cells <= parameters.certified_up_to:
        certified = verify_certificate(model, part.certificate()).ok
    rows.append(
        {
            "family": family,
            "depth": depth,
            "cells": part.n_cells,
            "regions": part.n_regions,
            "affine_maps": part.n_affine_maps,
            "formula": formula,
            "certified": certified,
            "sampled": None,
        }
    )
    return part


def _draw(ax: Any, part: Partition, title: str) -> None:
    plot(part, ax)
    ax.set_title(f"{title}: {part.n_cells} cells")


def _counts(rows: Sequence[Row], family: str) -> str:
    return listed(row["cells"] for row in rows if row["family"] == family)
