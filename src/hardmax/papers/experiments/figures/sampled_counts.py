"""Figure 6(a) of [SL26]: exact counts where the paper sampled, and far beyond its sizes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.experiments.wording import plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import cell_colours, side_by_side
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions


@dataclass(frozen=True)
class Parameters:
    """The grid of sizes, and what is sampled.

    The paper gives neither the number of heads nor the feed-forward width nor the box; these are
    ours. It stops at `sampled_keys` and depth 2.
    """

    n_keys: tuple[int, ...] = (2, 3, 4, 5, 8, 16, 32, 64)
    depths: tuple[int, ...] = (1, 2, 3, 4)
    n_heads: int = 2
    d_ff: int = 8
    half_width: float = 3.0
    n_trials: int = 5
    sampled_keys: tuple[int, ...] = (2, 3, 4, 5)
    sampled_depths: tuple[int, ...] = (1, 2)
    n_samples: int = 2_000_000
    seed: int = 6


QUICK = Parameters(n_keys=(2, 3, 4, 5, 8, 16), depths=(1, 2), n_trials=2, n_samples=50_000)
FULL = Parameters(n_keys=(2, 3, 4, 5, 8, 16, 32, 64, 128), depths=(1, 2, 3, 4, 5), n_trials=20)


def run(parameters: Parameters) -> Outcome:
    """Count cells, regions and affine maps exactly on a grid of sizes; sample on the paper's."""
    box = Box(np.full(2, -parameters.half_width), np.full(2, parameters.half_width))
    rows: list[Row] = []
    for trial in range(parameters.n_trials):
        for n_keys in parameters.n_keys:
            for depth in parameters.depths:
                rng = np.random.default_rng([parameters.seed, trial, n_keys])
                model = random_transformer(rng, n_keys, parameters.n_heads, parameters.d_ff, depth)
                part = enumerate_regions(model, box)
                is_sampled = (
                    trial == 0
                    and n_keys in parameters.sampled_keys
                    and depth in parameters.sampled_depths
                )
                sampled = (
                    sample_regions(model, box, parameters.n_samples, seed=parameters.seed).distinct
                    if is_sampled
                    else None
                )
                rows.append(
                    {
                        "trial": trial,
                        "keys": n_keys,
                        "depth": depth,
                        "cells": part.n_cells,
                        "regions": part.n_regions,
                        "affine_maps": part.n_affine_maps,
                        "sampled": sampled,
                    }
                )
    met = [(row["sampled"], row["cells"]) for row in rows if row["sampled"] is not None]
    missed = [1 - sampled / cells for sampled, cells in met]
    slopes = {depth: _slope(parameters, rows, depth) for depth in parameters.depths}
    fewer = sum(row["affine_maps"] < row["cells"] for row in rows)
    deepest, longest = max(parameters.depths), max(parameters.n_keys)
    return Outcome(
        {
            "n_models": len(rows),
            "largest_share_missed": max(missed),
            "models_where_signatures_exceed_affine_maps": fewer,
            "growth_exponents": {str(depth): slope for depth, slope in slopes.items()},
        },
        f"{len(rows)} models counted exactly, up to N = {longest} and L = {deepest}. "
        f"{parameters.n_samples:,} samples miss up to {max(missed):.1%} of the cells already at "
        f"the paper's sizes. A count of signatures bounds cells from below, not linear regions"
        + (f": {fewer} of these have fewer affine maps than signatures" if fewer else "")
        + ". Fitted exponents of N: "
        + ", ".join(f"{slope:.2f} (L = {depth})" for depth, slope in slopes.items())
        + ".",
        _draw(parameters, rows),
        claimed="Monte Carlo signatures for N = 2..5 and L = 1, 2 as lower bounds on the number "
        "of linear regions, since exact enumeration is called intractable; slope 0.13 at L = 1.",
        claims=("Fig6a",),
        tables={"counts": rows},
    )


def _mean_cells(parameters: Parameters, rows: list[Row], depth: int) -> list[float]:
    return [
        float(np.mean([r["cells"] for r in rows if r["keys"] == n and r["depth"] == depth]))
        for n in parameters.n_keys
    ]


def _slope(parameters: Parameters, rows: list[Row], depth: int) -> float:
    """Fit the exponent of N on the mean of the exact counts."""
    means = _mean_cells(parameters, rows, depth)
    return float(np.polyfit(np.log(parameters.n_keys), np.log(means), 1)[0])


def _draw(parameters: Parameters, rows: list[Row]) -> Any:
    figure, (all_sizes, paper_sizes) = side_by_side(2)
    colours = 0.8 * cell_colours(range(len(parameters.depths)))[:, :3]
    for depth, colour in zip(parameters.depths, colours, strict=True):
        label = f"L = {depth}"
        means = _mean_cells(parameters, rows, depth)
        all_sizes.loglog(parameters.n_keys, means, "o-", color=colour, label=label)
        found = [r for r in rows if r["sampled"] is not None and r["depth"] == depth]
        if found:
            n_keys = [r["keys"] for r in found]
            paper_sizes.plot(
                n_keys, [r["cells"] for r in found], "o-", color=colour, label=f"{label}, exact"
            )
            paper_sizes.plot(
                n_keys, [r["sampled"] for r in found], "x:", color=colour, label=f"{label}, sampled"
            )
    all_sizes.set_xticks(parameters.n_keys, [str(n) for n in parameters.n_keys])
    all_sizes.minorticks_off()
    plain_ticks(all_sizes.yaxis)
    all_sizes.set_title(f"mean of {parameters.n_trials} models, exact")
    paper_sizes.set_xticks(parameters.sampled_keys)
    paper_sizes.set_ylim(bottom=0)
    paper_sizes.set_title(f"one model, {parameters.n_samples:,} samples")
    for ax in (all_sizes, paper_sizes):
        ax.set_xlabel("keys per head $N$")
        ax.set_ylabel("cells")
        ax.legend(fontsize=7)
    return figure
