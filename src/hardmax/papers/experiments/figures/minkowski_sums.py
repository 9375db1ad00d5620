"""Figure 4 of [SL26]: Minkowski sums of up to three heads with six keys in space."""

from dataclasses import dataclass

import numpy as np

from hardmax.bounds import cells_bias_free
from hardmax.constructions.families.extremal_points import extremal_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.papers.registry import Outcome
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import cell_colours, create_row, name_axes
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """The number of keys, and the number of random sums.

    The keys that attain the maximum lie on arcs, so a head alone would be flat. The keys of the
    first head drawn are moved off their arc, as far as a search found possible without changing
    any count.
    """

    n_keys: int = 6
    first_head: tuple[tuple[float, float, float], ...] = (
        (-3.03125, 0.015625, -4.546875),
        (-1.4375, 1.546875, -0.625),
        (0.046875, 0.875, 0.640625),
        (1.375, -1.46875, -0.28125),
        (2.1875, -0.734375, -3.21875),
        (2.953125, 0.0, -7.265625),
    )
    n_trials: int = 200
    seed: int = 4


QUICK = Parameters(n_trials=40)
FULL = Parameters(n_trials=2000)


def run(parameters: Parameters) -> Outcome:
    """Draw sums of one, two and three heads, including the family with the most vertices.

    Three generic sets of six points have 216 sums, and the caption states that all of them become
    vertices. In three dimensions, a sum of three polytopes with six vertices has at most 92
    vertices [Wei12]. Paraboloid arcs attain this number; Gaussian keys stay far below it.
    """
    rng = np.random.default_rng(parameters.seed)
    gaussian = [
        minkowski_vertices([_draw_integer_keys(rng, parameters.n_keys) for _ in range(3)]).count
        for _ in range(parameters.n_trials)
    ]
    # A linear map does not change the counts; this one makes the picture wider.
    arcs = [points * [1.0, 1.0, 0.25] for points in extremal_points(parameters.n_keys, 3, 3)]
    heads = [np.array(parameters.first_head), *arcs[1:]]
    sums = [minkowski_vertices(heads[:n]) for n in (1, 2, 3)]
    figure, axes = create_row(3, spatial=True)
    for ax, total, colour in zip(axes, sums, cell_colours(range(3)), strict=True):
        plot(total, ax, color=colour, vertices=False)
        n_heads = total.choices.shape[1]
        ax.set_title(f"H = {n_heads}: {total.count} of {parameters.n_keys**n_heads} sums", y=0.93)
        name_axes(ax, r"\alpha")
        ax.view_init(elev=22.0, azim=-62.0)
    counts = [total.count for total in sums]
    sharp = cells_bias_free(parameters.n_keys, 3, 3)
    return Outcome(
        {
            "extremal_counts": counts,
            "all_sums": parameters.n_keys**3,
            "gaussian_mean": float(np.mean(gaussian)),
            "gaussian_largest": max(gaussian),
        },
        f"A sum of three polytopes with {parameters.n_keys} vertices in space has at most {sharp} "
        f"vertices. The family drawn has {counts[-1]}; the other "
        f"{parameters.n_keys**3 - counts[-1]} sums of vertices are not vertices of the sum. "
        f"Gaussian keys have {np.mean(gaussian):.1f} on average and at most {max(gaussian)} in "
        f"{parameters.n_trials} trials.",
        figure,
        claimed=(
            f"Three heads raise the number of vertices from {parameters.n_keys} to "
            f"{parameters.n_keys**3}."
        ),
        claims=("Fig4",),
        tables={
            "vertices": [
                {
                    "heads": h + 1,
                    "extremal": n,
                    "sharp": cells_bias_free(parameters.n_keys, h + 1, 3),
                }
                for h, n in enumerate(counts)
            ]
        },
    )


def _draw_integer_keys(rng: np.random.Generator, n_keys: int) -> FloatArray:
    return np.asarray(np.round(1e4 * rng.normal(size=(n_keys, 3))))
