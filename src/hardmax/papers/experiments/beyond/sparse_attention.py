r"""Sparsemax attention: piecewise linear at every temperature, with exact pieces.

For scores $s$ and temperature $\tau$, the support is $S$ exactly where
$|S| s_j - \sum_{i \in S} s_i + \tau$ is positive for $j \in S$ and not positive for $j \notin S$.
This is a polyhedron for each set of keys.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from matplotlib.patches import Patch

from hardmax.geometry.polytopes import Polytope
from hardmax.papers.experiments.wording import join_numbers
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import cell_colours, create_row, name_axes, theme_colour
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """The keys and the temperatures; all numbers are multiples of 1/64."""

    n_keys: int = 6
    temperatures: tuple[float, ...] = (0.25, 1.0, 4.0)
    half_width: float = 3.0
    seed: int = 9


QUICK = Parameters(n_keys=5)


def run(parameters: Parameters) -> Outcome:
    """Find the polygon of every support at each temperature, and the share of one-hot queries."""
    rng = np.random.default_rng(parameters.seed)
    keys = np.round(64 * rng.normal(size=(parameters.n_keys, 2))) / 64
    figure, axes = create_row(len(parameters.temperatures))
    rows: list[Row] = []
    area = (2 * parameters.half_width) ** 2
    for ax, tau in zip(axes, parameters.temperatures, strict=True):
        polygons = _find_supports(keys, tau, parameters.half_width)
        for support, polygon in polygons:
            colour = cell_colours([len(support) - 1])[0]
            ax.fill(*polygon.T, facecolor=colour, edgecolor=theme_colour("ink"), linewidth=0.7)
            rows.append(
                {
                    "tau": tau,
                    "support": " ".join(map(str, support)),
                    "n_winners": len(support),
                    "share": _polygon_area(polygon) / area,
                }
            )
        ax.set_xlim(-parameters.half_width, parameters.half_width)
        ax.set_ylim(-parameters.half_width, parameters.half_width)
        ax.set_aspect("equal")
        ax.set_title(rf"$\tau = {tau:g}$: {len(polygons)} pieces")
        name_axes(ax, "q")
    sizes = sorted({int(row["n_winners"]) for row in rows})
    figure.legend(
        [Patch(facecolor=cell_colours([n - 1])[0]) for n in sizes],
        [f"{n} key{'s' * (n > 1)}" for n in sizes],
        loc="outside lower center",
        ncols=len(sizes),
    )
    counts = [sum(r["tau"] == tau for r in rows) for tau in parameters.temperatures]
    covered = [_total_share(rows, tau, None) for tau in parameters.temperatures]
    one_hot = [_total_share(rows, tau, 1) for tau in parameters.temperatures]
    return Outcome(
        {"pieces": counts, "covered": covered, "one_hot": one_hot},
        "Sparsemax attention needs no limit: it is piecewise linear at every temperature, with "
        f"{join_numbers(counts)} pieces at tau = {join_numbers(parameters.temperatures)} (the "
        "colour is the number of keys that share the weight). It is one-hot on "
        + ", ".join(f"{share:.0%}" for share in one_hot)
        + " of the square.",
        figure,
        tables={"pieces": rows},
    )


def _find_supports(
    keys: FloatArray, tau: float, width: float
) -> list[tuple[tuple[int, ...], FloatArray]]:
    """Return every support that occurs on an open part of the square, with its polygon."""
    square = np.vstack([np.eye(2), -np.eye(2)])
    found = []
    for size in range(1, len(keys) + 1):
        for support in combinations(range(len(keys)), size):
            members = np.array(support)
            # |S| s_j - sum_S s_i + tau equals <rows, q> + tau. It is exact because the keys have
            # few bits.
            rows = size * keys - keys[members].sum(axis=0)
            sign = np.where(np.isin(np.arange(len(keys)), members), -1.0, 1.0)
            A = np.vstack([sign[:, None] * rows, square])
            b = np.concatenate([-sign * tau, np.full(4, width)])
            piece = Polytope(A, b)
            if not piece.is_empty and piece.affine_dim == 2:
                corners = piece.vertices
                centre = corners.mean(axis=0)
                turn = np.arctan2(*(corners - centre).T[::-1])
                found.append((support, corners[np.argsort(turn)]))
    return found


def _polygon_area(polygon: FloatArray) -> float:
    x, y = polygon.T
    return float(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def _total_share(rows: list[Row], tau: float, n_winners: int | None) -> float:
    wanted = [r for r in rows if r["tau"] == tau and n_winners in (None, r["n_winners"])]
    return float(sum(row["share"] for row in wanted))
