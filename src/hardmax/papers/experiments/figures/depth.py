"""Figure 1 of [SL26]: exact partitions as blocks are added, constructed and with random weights.

The figure in the paper gives no weights and no numbers. This experiment draws a family that attains
the count of the paper's construction, `shattering_count`, and models with random weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from hardmax.constructions.families.shattering import (
    attention_grid_transformer,
    shattering_count,
    shattering_transformer,
)
from hardmax.geometry.domains import Box
from hardmax.models.transformers import HardTransformer
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.experiments.wording import format_count, join_numbers
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import create_grid, series_colours, theme_colour
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.regions.sampling import sample_regions
from hardmax.verify.checking import verify_certificate


@dataclass(frozen=True)
class Parameters:
    """The models, and the number of sample points for the estimate next to a random model's count.

    Partitions are certified if they have at most `certified_up_to` cells. For the largest one, a
    corner of the unit square is enlarged.
    """

    n_keys: int = 4
    n_heads: int = 2
    d_ff: int = 4
    depths: tuple[int, ...] = (1, 2, 3)
    certified_up_to: int = 5000
    n_samples: int = 20_000
    corner: float = 0.0625
    seed: int = 1


QUICK = Parameters(depths=(1, 2), certified_up_to=300)
FULL = Parameters(certified_up_to=300_000, n_samples=1_000_000)


def run(parameters: Parameters) -> Outcome:
    """Count cells, regions and affine maps of three families; draw two of them."""
    p = parameters
    unit, square = Box(np.zeros(2), np.ones(2)), Box(np.full(2, -3.0), np.full(2, 3.0))
    rows: list[Row] = []
    n_drawn = sum(depth <= 3 for depth in p.depths)
    figure, axes = create_grid(2, n_drawn)
    for depth in p.depths:
        grid = attention_grid_transformer(p.n_keys, 2, depth)
        folded = shattering_transformer(p.n_keys, 2, depth, p.d_ff)
        rng = np.random.default_rng(p.seed)
        random = random_transformer(rng, p.n_keys, p.n_heads, p.d_ff, depth)
        known = p.n_keys ** (2 * depth)
        _add_row(rows, "attention alone", grid, unit, depth, known, p)
        count = shattering_count(p.n_keys, 2, depth, p.d_ff)
        built = _add_row(rows, "with feed-forward", folded, unit, depth, count, p)
        part = _add_row(rows, "random weights", random, square, depth, None, p)
        rows[-1]["sampled"] = sample_regions(random, square, p.n_samples, seed=p.seed).distinct
        if depth <= 3:
            _draw(axes[0][depth - 1], built, f"constructed, L = {depth}", p.corner * (depth == 3))
            _draw(axes[1][depth - 1], part, f"random, L = {depth}")
    names = [*(f"head {h}" for h in range(p.n_heads)), "units"]
    colours = [*series_colours()[: p.n_heads], theme_colour("wall")]
    handles = [Line2D([], [], color=c, label=name) for c, name in zip(colours, names, strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return Outcome(
        {
            "formula_attained": all(r["formula"] in (None, r["cells"]) for r in rows),
            "certificates_accepted": all(r["certified"] in (None, True) for r in rows),
        },
        f"For N = {p.n_keys} and d = 2, the constructed family has "
        f"{_format_counts(rows, 'with feed-forward')} cells for L = {join_numbers(p.depths)}, as "
        "its formula predicts; every cell was found and counted. Its attention alone has "
        f"{_format_counts(rows, 'attention alone')} cells, which is N^(dL). In both cases, the "
        "numbers of cells, regions and affine maps are equal. A cell keeps its hue when later "
        "blocks cut it; below the width of a pixel, colours are averaged, and a corner is "
        f"enlarged. Random weights give {_format_counts(rows, 'random weights')} cells, of which "
        f"{format_count(p.n_samples)} samples find "
        f"{join_numbers(r['sampled'] for r in rows if r['family'] == 'random weights')}. This is "
        "far from the maximum, which needs special weights.",
        figure,
        claimed=(
            "Partitions for N = 4 and L = 1, 2, 3 that are claimed to follow the bound "
            "Theta(N^(dL)); no numbers are given."
        ),
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


def _draw(ax: Any, part: Partition, title: str, corner: float = 0.0) -> None:
    """Draw a partition, and on top of it the enlarged corner at the origin."""
    plot(part, ax)
    count = format_count(part.n_cells)
    ax.set_title(f"{title}: {count} cells")
    if corner:
        inset = ax.inset_axes((0.5, 0.5, 0.47, 0.47))
        plot(part, inset, box=Box(np.zeros(2), np.full(2, corner)))
        inset.set(xticks=(), yticks=(), xlabel="", ylabel="")
        inset.spines[:].set(visible=True, color=theme_colour("paper"), linewidth=3.0)
        ax.indicate_inset_zoom(inset, edgecolor=theme_colour("paper"), alpha=1.0, linewidth=2.0)


def _format_counts(rows: Sequence[Row], family: str) -> str:
    return join_numbers(row["cells"] for row in rows if row["family"] == family)
