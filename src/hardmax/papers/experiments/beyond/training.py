"""The number of regions of a small transformer during training."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.bounds.transformers import transformer_upper
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.papers.experiments.beyond.training_runs import (
    D_FF,
    DEPTH,
    HEAD_DIM,
    N_HEADS,
    N_KEYS,
    SEEDS,
    STEPS,
    WIDTH,
    Weights,
    hard_model,
    spirals,
    stored_weights,
)
from hardmax.papers.experiments.wording import format_count, set_plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row
from hardmax.regions.engines import enumerate_regions


@dataclass(frozen=True)
class Parameters:
    """The stored runs to use, and the steps of training."""

    seeds: tuple[int, ...] = SEEDS
    steps: tuple[int, ...] = STEPS
    shuffle_seed: int = 0


QUICK = Parameters(seeds=(0, 1), steps=(0, 100, 10000))


def run(parameters: Parameters) -> Outcome:
    """Count the cells and regions of every stored model and of shuffled copies exactly."""
    p = parameters
    rows = [
        _measure_model(seed, with_bias, step, p.shuffle_seed)
        for with_bias in (True, False)
        for seed in p.seeds
        for step in p.steps
    ]
    bounds = {
        with_bias: transformer_upper(
            N_KEYS,
            N_HEADS,
            WIDTH,
            D_FF,
            DEPTH,
            bias="query" if with_bias else "none",
            head_dim=HEAD_DIM,
            input_dim=2,
        )
        for with_bias in (True, False)
    }
    first, last = p.steps[0], p.steps[-1]
    said = []
    for with_bias in (True, False):
        start, end = (
            [r for r in rows if r["bias"] == with_bias and r["step"] == step]
            for step in (first, last)
        )
        pairs = zip(start, end, strict=True)
        rising = sum(late["regions"] > early["regions"] for early, late in pairs)
        said.append(
            f"{'with' if with_bias else 'without'} bias, from {_median(start, 'regions'):.0f} to "
            f"{_median(end, 'regions'):.0f} regions on the plane, an increase in {rising} of "
            f"{len(end)} runs, and from {_median(start, 'box_regions'):.0f} to "
            f"{_median(end, 'box_regions'):.0f} around the data "
            f"({_median(end, 'box_regions_shuffled'):.0f} with shuffled weights); the bound is "
            f"{format_count(bounds[with_bias])}, and the final accuracy is "
            f"{_median(end, 'right'):.0%} at the temperature of training and "
            f"{_median(end, 'right_hard'):.0%} at 0"
        )
    return Outcome(
        {
            "bound_with_bias": bounds[True],
            "bound_without_bias": bounds[False],
            "regions_at_first": [r["regions"] for r in rows if r["step"] == first],
            "regions_at_last": [r["regions"] for r in rows if r["step"] == last],
        },
        "Exact counts for the hard model while the soft model learns to separate two spirals, as "
        f"medians of {len(p.seeds)} runs of each kind, from the start to step {last}: "
        f"{'; '.join(said)}.",
        _draw(p, rows),
        tables={"counts": rows},
    )


def _measure_model(seed: int, with_bias: bool, step: int, shuffle_seed: int) -> Row:
    weights = stored_weights(seed, with_bias, step)
    model = hard_model(weights)
    points, is_first = spirals()
    soft = np.asarray(model.soft(points, float(np.sqrt(HEAD_DIM))))[:, 0]
    hard = np.asarray(model(points))[:, 0]
    plane = enumerate_regions(model, WholeSpace(2))
    box = Box(np.full(2, -1.0), np.full(2, 1.0))
    near = enumerate_regions(model, box)
    rng = np.random.default_rng([shuffle_seed, seed, with_bias, step])
    mixed = enumerate_regions(hard_model(_shuffle_entries(weights, rng)), box)
    return {
        "bias": with_bias,
        "seed": seed,
        "step": step,
        "right": float(((soft > 0) == is_first).mean()),
        "right_hard": float(((hard > 0) == is_first).mean()),
        "cells": plane.n_cells,
        "regions": plane.n_regions,
        "box_cells": near.n_cells,
        "box_regions": near.n_regions,
        "box_regions_shuffled": mixed.n_regions,
    }


def _shuffle_entries(weights: Weights, rng: np.random.Generator) -> Weights:
    """Permute the entries of every array, which isolates the effect of their size."""
    return {
        name: rng.permutation(array.ravel()).reshape(array.shape) for name, array in weights.items()
    }


def _median(rows: list[Row], column: str) -> float:
    return float(np.median([row[column] for row in rows]))


def _draw(p: Parameters, rows: list[Row]) -> Any:
    from matplotlib.lines import Line2D

    figure, axes = create_row(2)
    axes[1].sharey(axes[0])
    # Step 0 has no logarithm. It is drawn at the position of step 1 and labelled.
    steps = [max(step, 1) for step in p.steps]
    for ax, with_bias in zip(axes, (True, False), strict=True):
        chosen = [row for row in rows if row["bias"] == with_bias]
        for seed in p.seeds:
            own = [row["box_regions"] for row in chosen if row["seed"] == seed]
            ax.plot(steps, own, color="C0", alpha=0.3, linewidth=0.8)
        for column, colour, word in (
            ("regions", "C1", "the plane"),
            ("box_regions", "C0", "around the data"),
            ("box_regions_shuffled", "0.45", "around the data, shuffled"),
        ):
            middle = [_median([r for r in chosen if r["step"] == s], column) for s in p.steps]
            dash = ":" if "shuffled" in column else "-"
            ax.plot(steps, middle, dash, marker="o", markersize=3, color=colour, label=word)
        ax.set_xscale("log")
        ax.set_yscale("log")
        set_plain_ticks(ax.yaxis)
        ax.set_title("with bias" if with_bias else "without bias")
        ax.set_xticks([1, 10, 100, 1000, 10000], ["0", *map(format_count, (10, 100, 1000, 10000))])
        ax.set_xlabel("steps of training")
        ax.set_ylabel("regions")
    handles, labels = axes[0].get_legend_handles_labels()
    runs = Line2D([], [], color="C0", alpha=0.3, linewidth=0.8)
    figure.legend([*handles, runs], [*labels, "single runs"], loc="outside lower center", ncols=4)
    return figure
