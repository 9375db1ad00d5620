"""Figure 4 of [SL26]: Minkowski sums of up to three heads with six keys in space."""

from dataclasses import dataclass

import numpy as np

from hardmax.experiments.registry import Outcome
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.plotting import plot
from hardmax.plotting.style import cell_colours, side_by_side
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """How many keys, and how many random sums are tried."""

    n_keys: int = 6
    n_trials: int = 200
    seed: int = 4


def run(parameters: Parameters) -> Outcome:
    """Draw sums of one, two and three heads, up to the family with the most vertices possible.

    Three generic sets of six points have 216 sums, and the caption says all of them become
    vertices. In three dimensions no sum of three polytopes with six vertices has more than 92
    [Wei12], and paraboloid arcs attain it; Gaussian keys stay far below.
    """
    rng = np.random.default_rng(parameters.seed)
    gaussian = [
        minkowski_vertices([_integers(rng, parameters.n_keys) for _ in range(3)]).count
        for _ in range(parameters.n_trials)
    ]
    heads = parabola_heads(parameters.n_keys, 3)
    sums = [minkowski_vertices(heads[:n]) for n in (1, 2, 3)]
    figure, axes = side_by_side(3, spatial=True)
    for ax, total, colour in zip(axes, sums, cell_colours(range(3)), strict=True):
        plot(total, ax, colour=colour[:3])
        ax.set_title(f"H = {total.choices.shape[1]}: {total.count} vertices")
    counts = [total.count for total in sums]
    return Outcome(
        {
            "extremal_counts": counts,
            "claimed": parameters.n_keys**3,
            "gaussian_mean": float(np.mean(gaussian)),
            "gaussian_largest": max(gaussian),
        },
        f"at most {counts[-1]} vertices, attained; {parameters.n_keys**3} were claimed. Gaussian "
        f"keys: {np.mean(gaussian):.1f} on average, {max(gaussian)} at most in "
        f"{parameters.n_trials} trials.",
        figure,
    )


def parabola_heads(n_keys: int, n_heads: int) -> list[FloatArray]:
    r"""Return point sets in $\mathbb{R}^3$ whose Minkowski sum has the most vertices possible.

    The points $(t_i u_m,\ \epsilon_m t_i - t_i^2)$ lie on parabolas in vertical planes with
    different directions $u_m$; all coordinates are small dyadic numbers.
    """
    t = 2.0 * np.arange(n_keys) - (n_keys - 1)
    turns = np.array([[8, 1], [-3, 7], [-5, -6], [6, -7], [1, 8], [-8, 3]], dtype=np.float64)
    return [
        np.column_stack([np.outer(t, turns[m]), 0.125 * (m - 1) * t - t**2]) for m in range(n_heads)
    ]


def _integers(rng: np.random.Generator, n_keys: int) -> FloatArray:
    return np.asarray(np.round(1e4 * rng.normal(size=(n_keys, 3))))
