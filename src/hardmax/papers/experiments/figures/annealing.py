"""Figure 5 of [SL26]: one head at decreasing temperatures, with certified transition bands."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.lines import Line2D

from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.diagrams import mark_keys
from hardmax.plotting.style import cell_colours, create_two_columns, name_axes, theme_colour
from hardmax.stability.cells.hard_shares import hard_share
from hardmax.stability.temperatures import margin_for_accuracy


@dataclass(frozen=True)
class Parameters:
    """The keys and temperatures drawn, and the weight that rivals may have outside the bands."""

    n_keys: int = 7
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.1, 0.001)
    epsilon: float = 0.1
    resolution: int = 240
    seed: int = 5


QUICK = Parameters(resolution=60)


def run(parameters: Parameters) -> Outcome:
    """Mix the colours of the keys by their attention weights; overlay exact walls and bands.

    The argmax of a softmax does not depend on the temperature. The walls are therefore the same in
    every panel, and only the transition across them narrows.
    """
    p = parameters
    rng = np.random.default_rng(p.seed)
    keys = rng.normal(size=(p.n_keys, 2))
    bias = 0.6 * rng.normal(size=p.n_keys)
    head = AttentionHead(np.eye(2), keys, np.eye(len(keys)), np.eye(len(keys)), logit_bias=bias)
    box = Box(np.full(2, -3.0), np.full(2, 3.0))
    ticks = np.linspace(-3, 3, p.resolution)
    points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    winners = head.winners(points)
    ordered = np.sort(points @ keys.T + bias, axis=1)
    leads = (ordered[:, -1] - ordered[:, -2]).reshape(len(ticks), len(ticks))
    cells = head.diagram.cells(box)
    colours = cell_colours(range(len(keys)))
    figure, axes = create_two_columns(len(p.temperatures))
    rows: list[Row] = []
    for ax, tau in zip(axes, p.temperatures, strict=True):
        weights = head.attention_weights(points, tau)
        picture = (weights @ colours).reshape(len(ticks), len(ticks), 3)
        ax.imshow(np.clip(picture, 0, 1), origin="lower", extent=(-3, 3, -3, 3))
        for cell in cells:
            ax.fill(*cell.polygon.T, facecolor="none", edgecolor=theme_colour("ink"), linewidth=0.8)
        delta = float(margin_for_accuracy(p.n_keys, tau, p.epsilon))
        # A band thinner than a pixel cannot be drawn.
        if ticks[1] - ticks[0] < delta < leads.max():
            ax.contour(ticks, ticks, leads, levels=[delta], colors="white", linewidths=1.6)
            ax.contour(
                ticks,
                ticks,
                leads,
                levels=[delta],
                colors=theme_colour("ink"),
                linewidths=0.8,
                linestyles=":",
            )
        can_win = np.isin(np.arange(len(keys)), [cell.site for cell in cells])
        mark_keys(ax, keys, can_win, box, colours)
        name_axes(ax, "q")
        share = hard_share(head, box, tau, p.epsilon)
        ax.set_title(rf"$\tau = {tau:g}$")
        largest = weights.max(axis=1)
        rows.append(
            {
                "tau": tau,
                "band_margin": delta,
                "hard_share_at_least": float(share.lower),
                "hard_share_at_most": float(share.upper),
                "hard_share_on_a_grid": float(np.mean(largest >= 1 - p.epsilon)),
                # If several weights are rounded to the same number, the winner must be one of them.
                "argmax_is_the_winner": bool(
                    (weights[np.arange(len(points)), winners] == largest).all()
                ),
            }
        )
    lines = [
        Line2D([], [], color=theme_colour("wall"), linewidth=0.8, label="exact wall"),
        Line2D(
            [], [], color=theme_colour("ink"), lw=0.9, ls=":", label="end of the certified band"
        ),
    ]
    keys_shown = axes[0].get_legend_handles_labels()[0]
    figure.legend(handles=[*lines, *keys_shown], loc="outside lower center", ncols=4)
    first, last = rows[0], rows[-1]
    return Outcome(
        {
            "cells": len(cells),
            "argmax_is_the_exact_winner": [row["argmax_is_the_winner"] for row in rows],
            "hard_share": [
                [row["hard_share_at_least"], row["hard_share_on_a_grid"], row["hard_share_at_most"]]
                for row in rows
            ],
        },
        f"The {len(cells)} cells are the same at every temperature; only the band around the "
        "walls shrinks. Beyond the dotted lines, the margin guarantees the winner at least "
        f"{1 - p.epsilon:.0%} of the weight. The winner has that much on at least "
        f"{_floor_percent(first['hard_share_at_least'])} of the square at tau = {first['tau']:g}, "
        f"and on at least {_floor_percent(last['hard_share_at_least'])} at tau = {last['tau']:g}, "
        "by exact areas.",
        figure,
        claimed="Regions that are hidden at tau = 1 emerge as the temperature falls.",
        claims=("Fig5",),
        tables={"bands": rows},
    )


def _floor_percent(share: float) -> str:
    """Write a lower bound as a percentage, rounded down so that it remains a lower bound."""
    return f"{math.floor(1000 * share) / 10:.1f}%"
