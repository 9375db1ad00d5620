"""Figure 6(a) of [SL26]: exact counts at the sizes that the paper sampled, and far beyond."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.experiments.wording import format_count, set_plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row, series_colours, theme_colour
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """The grid of sizes, and the samples.

    The paper gives neither the number of heads nor the feed-forward width nor the box; the values
    here are our choice. It stops at `sampled_keys` and depth 2.
    """

    n_keys: tuple[int, ...] = (2, 3, 4, 5, 8, 16, 32, 64)
    depths: tuple[int, ...] = (1, 2, 3, 4)
    n_heads: int = 2
    d_ff: int = 8
    half_width: float = 3.0
    n_trials: int = 40
    sampled_keys: tuple[int, ...] = (2, 3, 4, 5)
    sampled_depths: tuple[int, ...] = (1, 2)
    n_samples: int = 2_000_000
    slope_in_the_paper: float = 0.13
    seed: int = 6


_TWO_SIDED = 1.96
"""Standard errors on each side of a 95 % interval."""

QUICK = Parameters(n_keys=(2, 3, 4, 5, 8, 16), depths=(1, 2), n_trials=5, n_samples=50_000)
FULL = Parameters(n_keys=(2, 3, 4, 5, 8, 16, 32, 64, 128), depths=(1, 2, 3, 4, 5), n_trials=200)


def run(parameters: Parameters) -> Outcome:
    """Count cells, regions and maps exactly on a grid of sizes; sample at the paper's sizes."""
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
    slopes = {depth: _fit_slope(parameters, rows, depth) for depth in parameters.depths}
    few = {depth: _fit_slope(parameters, rows, depth, parameters.sampled_keys) for depth in slopes}
    fewer = sum(row["affine_maps"] < row["cells"] for row in rows)
    deepest, longest = max(parameters.depths), max(parameters.n_keys)
    return Outcome(
        {
            "n_models": len(rows),
            "largest_share_missed": max(missed),
            "models_where_signatures_exceed_affine_maps": fewer,
            "growth_exponents": {str(depth): list(slope) for depth, slope in slopes.items()},
        },
        f"{len(rows)} models were counted exactly, up to N = {longest} and L = {deepest}. Even at "
        f"the paper's sizes, {format_count(parameters.n_samples)} samples miss up to "
        f"{max(missed):.1%} of the cells. The number of sampled signatures is a lower bound on the "
        "number of cells, but not on the number of linear regions"
        + (f": {fewer} of these models have fewer affine maps than signatures" if fewer else "")
        + ". The exponents of N, fitted to geometric means, with 95 % intervals, are "
        + ", ".join(f"{_format_slope(slope)} (L = {depth})" for depth, slope in slopes.items())
        + (
            f". On the paper's four sizes alone, the exponent is {_format_slope(few[1])} (L = 1): "
            "with so few keys, the slope is not informative."
        ),
        _draw(parameters, rows),
        claimed=(
            "Monte Carlo signatures for N = 2..5 and L = 1, 2 as lower bounds on the number of "
            "linear regions, because exact enumeration is called intractable; slope "
            f"{parameters.slope_in_the_paper:g} at L = 1."
        ),
        claims=("Fig6a",),
        tables={"counts": rows},
    )


def _log_counts(rows: list[Row], n_keys: int, depth: int) -> FloatArray:
    """Return the logarithms of the exact counts of all models of a size."""
    return np.log([r["cells"] for r in rows if (r["keys"], r["depth"]) == (n_keys, depth)])


def _fit_slope(
    parameters: Parameters, rows: list[Row], depth: int, sizes: tuple[int, ...] | None = None
) -> tuple[float, float]:
    """Fit the exponent of N to the geometric means; return it with the half-width of its interval.

    Models of different sizes are independent, so the variance of the slope is a sum over sizes.
    """
    sizes = parameters.n_keys if sizes is None else sizes
    logs = [_log_counts(rows, n, depth) for n in sizes]
    x = np.log(sizes) - np.log(sizes).mean()
    lever = x / (x @ x)
    variances = np.array([values.var(ddof=1) / len(values) for values in logs])
    slope = lever @ np.array([values.mean() for values in logs])
    return float(slope), float(_TWO_SIDED * np.sqrt(lever**2 @ variances))


def _format_slope(slope: tuple[float, float]) -> str:
    return f"{slope[0]:.2f} ± {slope[1]:.2f}"


def _draw(parameters: Parameters, rows: list[Row]) -> Any:
    """Draw means with intervals for all sizes, and at the paper's sizes also the sampled counts."""
    p = parameters
    figure, (all_sizes, paper_sizes) = create_row(2)
    strong = series_colours()
    handles = []
    for place, depth in enumerate(p.depths):
        colour = strong[place % len(strong)]
        logs = [_log_counts(rows, n, depth) for n in p.n_keys]
        middle = np.array([values.mean() for values in logs])
        half = np.array([_TWO_SIDED * values.std(ddof=1) / len(values) ** 0.5 for values in logs])
        mean, low, high = np.exp(middle), np.exp(middle - half), np.exp(middle + half)
        found = [r for r in rows if r["sampled"] is not None and r["depth"] == depth]
        for ax in (all_sizes, paper_sizes) if found else (all_sizes,):
            ax.fill_between(p.n_keys, low, high, color=colour, alpha=0.2, lw=0)
            (line,) = ax.plot(p.n_keys, mean, "o-", color=colour, label=f"L = {depth}", ms=4)
        handles.append(line)
        n_keys = [r["keys"] for r in found]
        for key, style in (("cells", "s"), ("sampled", "x")):
            paper_sizes.plot(n_keys, [r[key] for r in found], style, color=colour, mfc="none", ms=6)
        if depth == 1:
            drawn = mean[0] * (np.array(p.sampled_keys) / p.n_keys[0]) ** p.slope_in_the_paper
            paper_sizes.plot(p.sampled_keys, drawn, ":", color=theme_colour("ink"))
    for style, mfc, name in (
        ("s", "none", "one model, exact"),
        ("x", None, f"one model, {format_count(p.n_samples)} samples"),
    ):
        handles += paper_sizes.plot([], [], style, color=theme_colour("ink"), mfc=mfc, label=name)
    name = f"slope {p.slope_in_the_paper:g} (paper)"
    handles += paper_sizes.plot([], [], ":", color=theme_colour("ink"), label=name)
    all_sizes.set_title(f"{p.n_trials} models of each size")
    paper_sizes.set_title("the paper's sizes")
    paper_sizes.set_xlim(0.94 * p.sampled_keys[0], 1.06 * p.sampled_keys[-1])
    for ax, ticks in ((all_sizes, p.n_keys), (paper_sizes, p.sampled_keys)):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(ticks, [str(n) for n in ticks])
        ax.minorticks_off()
        set_plain_ticks(ax.yaxis)
        ax.set_xlabel("keys per head $N$")
        ax.set_ylabel("cells: mean and 95 % interval")
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure
