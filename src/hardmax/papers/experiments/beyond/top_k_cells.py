"""Top-k attention: the cells on which a set of k keys wins, exactly."""

from dataclasses import dataclass
from math import comb

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.papers.experiments.wording import join_numbers
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import create_row
from hardmax.tropical.diagrams.order_k import order_k_diagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram


@dataclass(frozen=True)
class Parameters:
    """The sizes drawn, and the sizes (N, d, k) counted for Gaussian keys and the moment curve."""

    n_keys: int = 8
    orders: tuple[int, ...] = (1, 2, 3)
    sizes: tuple[tuple[int, int, int], ...] = (
        (7, 2, 2),
        (7, 3, 2),
        (7, 4, 2),
        (9, 4, 3),
        (9, 6, 3),
    )
    seed: int = 8


QUICK = Parameters(sizes=((7, 2, 2), (7, 3, 2), (7, 4, 2)))
FULL = Parameters(
    sizes=((7, 2, 2), (7, 3, 2), (7, 4, 2), (9, 4, 3), (9, 6, 3), (12, 6, 3), (16, 4, 2))
)


def run(parameters: Parameters) -> Outcome:
    """Draw the diagrams of orders 1, 2, 3 of one set of keys; count sets in several dimensions."""
    rng = np.random.default_rng(parameters.seed)
    keys = rng.normal(size=(parameters.n_keys, 2))
    diagram = PowerDiagram.from_keys(keys, bias=-0.5 * (keys**2).sum(axis=1))
    figure, axes = create_row(len(parameters.orders))
    drawn = []
    for ax, k in zip(axes, parameters.orders, strict=True):
        cells = order_k_diagram(diagram, k)
        drawn.append(cells.n_cells)
        plot(cells, ax, box=Box(np.full(2, -3.0), np.full(2, 3.0)))
        ax.set_title(f"k = {k}: {cells.n_cells} of {comb(parameters.n_keys, k)} sets")
    rows: list[Row] = []
    for n, dim, k in parameters.sizes:
        curve = (np.arange(n) - n // 2)[:, None] ** np.arange(1.0, dim + 1)
        for name, points in (("Gaussian", rng.normal(size=(n, dim))), ("moment curve", curve)):
            count = order_k_diagram(PowerDiagram.from_keys(points), k).n_cells
            rows.append(
                {"keys": n, "dim": dim, "k": k, "family": name, "cells": count, "sets": comb(n, k)}
            )
    wide = [r for r in rows if r["family"] == "moment curve" and r["dim"] >= 2 * r["k"]]
    gaussian = [r["cells"] / r["sets"] for r in rows if r["family"] == "Gaussian"]
    return Outcome(
        {"drawn": drawn, "n_sizes": len(rows)},
        f"Top-k routing of {parameters.n_keys} keys in the plane has {join_numbers(drawn)} cells "
        f"for k = {join_numbers(parameters.orders)}. On the moment curve with d >= 2k, every set "
        f"of k keys wins somewhere ({sum(r['cells'] == r['sets'] for r in wide)} of {len(wide)} "
        f"settings tried). For Gaussian keys, {min(gaussian):.0%} to {max(gaussian):.0%} of the "
        "sets win somewhere.",
        figure,
        tables={"counts": rows},
    )
