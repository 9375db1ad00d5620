"""Figure 3 of [SL26]: the same keys under Euclidean distance and under the dot product."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.papers.registry import Outcome
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import create_row, theme_colour
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """What is drawn."""

    n_keys: int = 12
    seed: int = 3


def run(parameters: Parameters) -> Outcome:
    """Compare the Voronoi diagram, the dot-product diagram, and the key of smallest norm that wins.

    The caption of the figure states that keys lose their cell because their weight is small. The
    third panel refutes this: the key of smallest norm wins on an open set, because it is a vertex
    of the convex hull. A key has no cell if it lies inside the hull.
    """
    keys = np.random.default_rng(parameters.seed).normal(size=(parameters.n_keys, 2))
    voronoi = PowerDiagram(keys, np.zeros(len(keys)))
    routing = PowerDiagram.from_keys(keys)
    counterexample = PowerDiagram.from_keys([[0.1, 0.0], [1.0, 1.0], [1.0, -1.0]])
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    figure, axes = create_row(3)
    plot(voronoi, axes[0], box=box)
    axes[0].set_title(f"(a) nearest key: {voronoi.n_cells} of {len(keys)} win")
    plot(routing, axes[1], box=box)
    axes[1].set_title(f"(b) largest dot product: {routing.n_cells} of {len(keys)} win")
    plot(counterexample, axes[2], box=Box(np.full(2, -1.5), np.full(2, 1.5)))
    axes[2].set_title("(c) the smallest key wins on the left")
    for ax, diagram in zip(axes, (voronoi, routing, counterexample), strict=True):
        _mark_smallest(ax, diagram.sites)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    smallest_wins = int(counterexample.locate([[-1.0, 0.0]])[0]) == 0
    return Outcome(
        {
            "active_voronoi": voronoi.active,
            "active_dot_product": routing.active,
            "is_fan": routing.is_fan,
            "smallest_norm_key_wins_at_minus_e1": smallest_wins,
        },
        f"{voronoi.n_cells} keys have a Voronoi cell, and {routing.n_cells} can have the largest "
        "dot product. A key never wins if it lies inside the hull of the others; its norm does "
        "not matter. In (c), the key of smallest norm (ringed) wins for every query on the left.",
        figure,
        claimed="Cells of the power diagram disappear because the weights of their keys are small.",
        claims=("Fig3",),
        tables={
            "keys": [
                {"key": j, "norm": norm, "voronoi_cell": near, "can_win": wins}
                for j, (norm, near, wins) in enumerate(
                    zip(np.linalg.norm(keys, axis=1), voronoi.active, routing.active, strict=True)
                )
            ]
        },
    )


def _mark_smallest(ax: Any, sites: FloatArray) -> None:
    """Draw a ring around the key of smallest norm."""
    smallest = sites[np.linalg.norm(sites, axis=1).argmin()]
    ring = {"mfc": "none", "mec": theme_colour("dead"), "mew": 1.6, "ms": 17, "zorder": 6}
    ax.plot(*smallest, "o", label="key of smallest norm", **ring)
