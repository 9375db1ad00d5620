"""Remarks III.11 and III.12 of [SL26]: log-lifting does not preserve the routing walls."""

from dataclasses import dataclass

import numpy as np

from hardmax.models.variants.log_lifted import LogLiftedHead
from hardmax.papers.registry import Outcome
from hardmax.plotting.style import create_row, series_colours, theme_colour


@dataclass(frozen=True)
class Parameters:
    """Two keys on a line, three channels."""

    keys: tuple[float, ...] = (-1.0, 1.0)
    lifted_values: tuple[tuple[float, ...], ...] = ((0.0, 0.0, 0.0), (2.0, 4.0, -2.0))
    temperatures: tuple[float, ...] = (1.0, 0.3)


def run(parameters: Parameters) -> Outcome:
    """Count the routing cells, lifted cells and linear regions of a head on a line."""
    keys = np.array(parameters.keys)[:, None]
    lifted = LogLiftedHead(keys, np.array(parameters.lifted_values))
    constant = LogLiftedHead(keys, np.full_like(np.array(parameters.lifted_values), 3.0))
    q = np.linspace(-4, 4, 801)[:, None]
    figure, axes = create_row(1)
    limit = lifted(q)
    for channel, colour in zip(range(lifted.n_channels), series_colours(), strict=False):
        axes[0].plot(q[:, 0], limit[:, channel], color=colour, label=f"channel {channel}")
        for tau in parameters.temperatures:
            soft = lifted.soft(q, tau)[:, channel]
            axes[0].plot(q[:, 0], soft, color=colour, linewidth=0.8, linestyle=":")
    axes[0].axvline(
        0.0, color=theme_colour("ink"), linewidth=0.8, linestyle="--", label="the routing wall"
    )
    axes[0].set_xlabel("$q$")
    axes[0].set_ylabel("$F_c(q)$, dotted at finite temperature")
    axes[0].legend()
    counts = {
        name: [head.routing_cells, head.lifted_cells, head.lifted_linear_regions]
        for name, head in (("example", lifted), ("constant_values", constant))
    }
    return Outcome(
        counts,
        f"The example has {counts['example'][0]} routing cells but {counts['example'][2]} linear "
        f"regions; with constant values, it has {counts['constant_values'][0]} routing cells and "
        f"{counts['constant_values'][2]} region.",
        figure,
        claimed=(
            "The log-lifted map has the same routing hypersurfaces as the attention itself, "
            "whatever the values."
        ),
        claims=("III.11", "III.12"),
        tables={
            "counts": [
                {"values": name, "routing_cells": n[0], "lifted_cells": n[1], "regions": n[2]}
                for name, n in counts.items()
            ]
        },
    )
