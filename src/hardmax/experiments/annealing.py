"""Figure 5 of [SL26]: one head at falling temperatures."""

from dataclasses import dataclass

import numpy as np

from hardmax.experiments.registry import Outcome
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.plotting.style import WALL, cell_colours, side_by_side


@dataclass(frozen=True)
class Parameters:
    """What is drawn."""

    n_keys: int = 7
    temperatures: tuple[float, ...] = (4.0, 1.0, 0.25, 0.0)
    resolution: int = 240
    seed: int = 5


def run(parameters: Parameters) -> Outcome:
    """Mix the colours of the keys by their attention weights, and overlay the exact walls.

    The caption says that hidden regions emerge as the temperature falls. The argmax of a softmax
    does not depend on the temperature: the walls are the same in every panel, and only the
    transition across them narrows.
    """
    rng = np.random.default_rng(parameters.seed)
    keys = rng.normal(size=(parameters.n_keys, 2))
    bias = 0.6 * rng.normal(size=parameters.n_keys)
    head = AttentionHead(np.eye(2), keys, np.eye(len(keys)), np.eye(len(keys)), logit_bias=bias)
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    ticks = np.linspace(-3, 3, parameters.resolution)
    points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    winners = head.winners(points)
    cells = head.diagram.cells(box)
    colours = cell_colours(range(len(keys)))
    figure, axes = side_by_side(len(parameters.temperatures))
    agreement, confidence = [], []
    for ax, tau in zip(axes, parameters.temperatures, strict=True):
        weights = head.attention_weights(points, tau)
        image = (weights @ colours).reshape(len(ticks), len(ticks), 4)
        ax.imshow(np.clip(image, 0, 1), origin="lower", extent=(-3, 3, -3, 3))
        for cell in cells:
            ax.fill(*cell.polygon.T, facecolor="none", edgecolor=WALL, linewidth=0.8)
        ax.set_title(rf"$\tau = {tau:g}$")
        largest = weights.max(axis=1)
        # Where several weights are rounded to the same number the winner must be among them.
        agreement.append(bool((weights[np.arange(len(points)), winners] == largest).all()))
        confidence.append(float(np.mean(largest > 0.9)))
    return Outcome(
        {
            "cells": len(cells),
            "argmax_is_the_exact_winner": agreement,
            "share_of_queries_with_weight_above_0.9": confidence,
        },
        f"the {len(cells)} walled cells are the same at every temperature; the share of queries "
        f"with a weight above 0.9 rises from {confidence[0]:.0%} to {confidence[-1]:.0%}.",
        figure,
    )
