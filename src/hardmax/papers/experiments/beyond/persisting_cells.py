"""The number of cells of the hard model that persist at a temperature, with proofs."""

from dataclasses import dataclass

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.models.transformers import Block
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row
from hardmax.stability.cells.cell_persistence import persistence
from hardmax.stability.cells.persistent_counts import persistent_cells


@dataclass(frozen=True)
class Parameters:
    """One layer of heads, and a transformer of two blocks with few cells."""

    n_keys: int = 8
    n_heads: int = 2
    epsilon: float = 0.05
    temperatures: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    deep_keys: int = 3
    deep_units: int = 3
    deep_temperatures: tuple[float, ...] = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
    seed: int = 14


QUICK = Parameters(deep_temperatures=(0.01, 0.3))


def run(parameters: Parameters) -> Outcome:
    """Count the cells that certainly persist, and that possibly do, as the temperature rises."""
    p = parameters
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    layer = random_transformer(np.random.default_rng(p.seed), p.n_keys, p.n_heads, 1, 1).blocks[0]
    found = persistence(Block(layer.heads), box, p.epsilon)
    n_cells = found.partition.n_cells
    rows: list[Row] = [
        {"model": "one layer", "tau": tau, "certain": int(sure), "possible": int(possible)}
        for tau, sure, possible in zip(
            p.temperatures,
            found.count(p.temperatures),
            found.count_possible(p.temperatures),
            strict=True,
        )
    ]
    deep = random_transformer(np.random.default_rng(p.seed), p.deep_keys, 1, p.deep_units, 2)
    for tau in p.deep_temperatures:
        cells = persistent_cells(deep, box, tau, p.epsilon)
        n_deep = cells.partition.n_cells
        rows.append(
            {
                "model": "two blocks",
                "tau": tau,
                "certain": int(cells.n_certified),
                "possible": int(np.count_nonzero(cells.is_possible)),
            }
        )
    figure, axes = create_row(2)
    for ax, (model, total) in zip(
        axes, (("one layer", n_cells), ("two blocks", n_deep)), strict=True
    ):
        drawn = [row for row in rows if row["model"] == model]
        taus = [row["tau"] for row in drawn]
        sure, possible = ([row[key] for row in drawn] for key in ("certain", "possible"))
        ax.fill_between(taus, sure, possible, color="C1", alpha=0.25, lw=0, label="not decided")
        ax.semilogx(taus, sure, "o-", color="C0", label="certainly hard", clip_on=False, zorder=3)
        ax.axhline(total, color="0.5", linewidth=0.8, linestyle=":", label="all cells")
        ax.set_title(f"{model}: {total} cells")
        ax.set_xlabel(r"temperature $\tau$")
        ax.set_ylabel("cells")
        ax.set_ylim(bottom=0)
        ax.legend()
    one = [row for row in rows if row["model"] == "one layer"]
    two = [row for row in rows if row["model"] == "two blocks"]
    return Outcome(
        {"cells": [n_cells, n_deep]},
        f"A cell persists if it contains a point that leaves rivals at most {p.epsilon:.0%} of "
        f"the weight in every head. Of {n_cells} cells of a layer, {one[0]['certain']} certainly "
        f"persist at tau = {one[0]['tau']:g} and {one[-1]['certain']} at tau = "
        f"{one[-1]['tau']:g}; this is proved by exact linear programs. Of the {n_deep} cells of "
        f"two blocks, {two[0]['certain']} certainly persist at tau = {two[0]['tau']:g} and "
        f"{two[-1]['certain']} at {two[-1]['tau']:g}; this is proved by enclosures of the soft "
        "network.",
        figure,
        claimed=(
            "The polyhedral skeleton persists at finite temperature, including in deep networks."
        ),
        claims=("VI.3",),
        tables={"counts": rows},
    )
