r"""Figure 7 of [SL26]: a block is not the common refinement of its two halves.

The feed-forward walls are pulled back through the attention step, which translates every routing
cell by its own vector. They are cut at the routing walls and shifted, so a block can have fewer or
more cells than the refinement that the caption describes.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.geometry.domains import Box, Line
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.registry import Outcome
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import create_two_columns
from hardmax.regions.engines import enumerate_regions


@dataclass(frozen=True)
class Parameters:
    """Two tokens and two units, as in the figure; every number is exact in binary."""

    keys: tuple[tuple[float, float], ...] = ((1.0, 0.25), (-1.0, -0.25))
    values: tuple[tuple[float, float], ...] = ((0.75, 0.75), (-0.75, -0.75))
    unit_slopes: tuple[tuple[float, float], ...] = ((1.0, 1.0), (0.5, -1.0))
    unit_offsets: tuple[float, ...] = (0.25, 0.5)
    jump: float = 5.0
    kink: float = 3.0


def run(parameters: Parameters) -> Outcome:
    """Draw routing, units, their refinement and the true block; count two examples on a line."""
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    keys, slopes = np.array(parameters.keys), np.array(parameters.unit_slopes).T
    head = AttentionHead(np.eye(2), keys, np.array(parameters.values), np.eye(2))
    ffn = FeedForward(slopes, np.array(parameters.unit_offsets), slopes.T, None)
    # Zero values do not change the stream, so the walls of the two halves are simply superimposed.
    still = AttentionHead(np.eye(2), keys, np.zeros((2, 2)), np.eye(2))
    parts = {
        "A: routing": Block([head]),
        "B: feed-forward": Block([], ffn),
        "claimed: refinement": Block([still], ffn),
        "C: the block": Block([head], ffn),
    }
    figure, axes = create_two_columns(len(parts))
    counts = {}
    for ax, (title, block) in zip(axes, parts.items(), strict=True):
        part = enumerate_regions(HardTransformer([block]), box)
        counts[title] = part.n_cells
        plot(part, ax, color="cell")
        ax.set_title(f"{title}, {part.n_cells} cells")
    on_a_line = {
        "fewer": _count_on_line(parameters.jump, parameters.kink),
        "more": _count_on_line(-parameters.jump, 0.0),
    }
    (few, few_claimed), (many, many_claimed) = on_a_line["fewer"], on_a_line["more"]
    return Outcome(
        {"cells": list(counts.values()), "on_a_line": on_a_line},
        "The attention step moves each routing cell before the units see it, so the walls of the "
        f"units break at the routing wall: the block has {counts['C: the block']} cells and the "
        f"refinement has {counts['claimed: refinement']}. On a line, the unit max(0, y - "
        f"{parameters.kink:g}) after y = x + {parameters.jump:g} sign(x) makes {few} cells "
        f"instead of {few_claimed}, and max(0, y) after y = x - {parameters.jump:g} sign(x) makes "
        f"{many} instead of {many_claimed}. The product of the two counts is still an upper bound "
        "for the block.",
        figure,
        claimed=(
            "A block evaluates to the common refinement of the attention partition and the "
            "feed-forward partition."
        ),
        claims=("Fig7",),
        tables={"cells": [{"partition": name, "cells": n} for name, n in counts.items()]},
    )


def _count_on_line(jump: float, kink: float) -> list[int]:
    """Count the cells of relu(x + jump sign(x) - kink), and of the two walls 0 and kink alone."""
    one, signs = np.eye(1), np.array([[-1.0], [1.0]])
    ffn = FeedForward(one, np.array([-kink]), one, None)
    counts = []
    for step in (jump, 0.0):
        head = AttentionHead(one, signs, step * signs, one)
        model = HardTransformer([Block([head], ffn)])
        counts.append(enumerate_regions(model, Line(np.zeros(1), np.ones(1))).n_cells)
    return counts
