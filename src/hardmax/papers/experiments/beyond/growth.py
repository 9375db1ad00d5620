"""Growth of exact counts with keys, heads, dimension and depth: fitted exponents and theory."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np

from hardmax.constructions.families.extremal_points import extremal_heads, extremal_points
from hardmax.constructions.families.shattering import shattering_transformer
from hardmax.geometry.domains import Box
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.papers.experiments.wording import set_plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import cell_colours, create_row, theme_colour
from hardmax.regions.engines import enumerate_regions


@dataclass(frozen=True)
class Parameters:
    """The settings (H, d), the numbers of keys, and the depths."""

    settings: tuple[tuple[int, int], ...] = ((1, 2), (2, 2), (2, 3), (3, 3))
    n_keys: tuple[int, ...] = (4, 8, 16, 32)
    depths: tuple[int, ...] = (1, 2, 3, 4, 5)
    depth_keys: int = 3
    head_dims: tuple[int, ...] = (2, 3)
    head_counts: tuple[int, int] = (8, 16)
    head_keys: int = 3
    seed: int = 11


QUICK = Parameters(
    head_counts=(6, 12), settings=((1, 2), (2, 2), (2, 3)), n_keys=(4, 8, 16), depths=(1, 2, 3)
)
FULL = Parameters(
    settings=((1, 2), (2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (3, 4)), n_keys=(4, 8, 16, 32, 64)
)


def run(parameters: Parameters) -> Outcome:
    """Count the cells of extremal and random families exactly, and fit the exponent of each."""
    rows = [
        row
        for n_heads, dim in parameters.settings
        for bias in (False, True)
        for row in _layer_rows(parameters, n_heads, dim, bias)
    ]
    exponents = _fit_exponents(parameters, rows)
    head_rows, dim_rows = _head_rows(parameters), _dim_rows(parameters)
    depth_rows = _depth_rows(parameters)
    rates = {
        family: _growth_rate([r for r in depth_rows if r["family"] == family])
        for family in ("constructed", "random")
    }
    worst = max(abs(e["extremal"] - e["theory"]) for e in exponents)
    largest = max(e["gaussian"] for e in exponents if not e["bias"])
    off = max(abs(row["fitted"] - row["theory"]) for row in head_rows)
    return Outcome(
        {
            "largest_distance_from_theory": worst,
            "largest_distance_in_heads": off,
            "factor_per_block": rates,
        },
        f"Fitted to exact counts, the exponent of N is within {max(worst, 0.01):.2f} of min(H, d) "
        "with bias and of min(H, d - 1) without bias, for the families that attain the maximum. "
        f"For Gaussian keys without bias, the fitted exponents are at most {largest:.2f}. From "
        f"{parameters.head_counts[0]} to {parameters.head_counts[1]} heads, the exponent of H is "
        f"within {ceil(100 * off) / 100} of d with bias and of d - 1 without bias. A block "
        f"multiplies the number of cells by {rates['constructed']:.1f} in the constructed family, "
        f"and by {rates['random']:.1f} with random weights.",
        _draw(parameters, exponents, depth_rows),
        claimed=(
            "The number of regions grows like N^(dL), whatever the bias and the number of heads."
        ),
        claims=("V.9",),
        tables={
            "counts": rows,
            "exponents": exponents,
            "heads": head_rows,
            "dims": dim_rows,
            "depth": depth_rows,
        },
    )


def _layer_rows(p: Parameters, n_heads: int, dim: int, bias: bool) -> list[Row]:
    rows: list[Row] = []
    for n in p.n_keys:
        rng = np.random.default_rng([p.seed, n, n_heads, dim])
        keys = [np.round(4096 * rng.normal(size=(n, dim))) for _ in range(n_heads)]
        gaussian = None if bias else minkowski_vertices(keys).count
        rows.append(
            {
                "heads": n_heads,
                "dim": dim,
                "bias": bias,
                "keys": n,
                "extremal": _count_extremal(n, n_heads, dim, bias),
                "gaussian": gaussian,
            }
        )
    return rows


def _head_rows(p: Parameters) -> list[Row]:
    """Fit the exponent of H at many heads: d with bias and d - 1 without."""
    few, many = p.head_counts
    rows: list[Row] = []
    for dim in p.head_dims:
        for bias in (False, True):
            counts = [_count_extremal(p.head_keys, n_heads, dim, bias) for n_heads in (few, many)]
            fitted = log(counts[1] / counts[0]) / log(many / few)
            theory = dim if bias else dim - 1
            rows.append({"dim": dim, "bias": bias, "theory": theory, "fitted": fitted})
    return rows


def _dim_rows(p: Parameters) -> list[Row]:
    """Count with as many heads as dimensions: N^d with bias, N^d - (N-1)^d + 1 without."""
    n = p.head_keys
    return [
        {
            "dim": dim,
            "bias": bias,
            "cells": _count_extremal(n, dim, dim, bias),
            "theory": n**dim if bias else n**dim - (n - 1) ** dim + 1,
        }
        for dim in (1, *p.head_dims)
        for bias in (False, True)
    ]


def _count_extremal(n_keys: int, n_heads: int, dim: int, bias: bool) -> int:
    """Count the cells of the family with the largest number of cells."""
    if bias:
        heads = extremal_heads(n_keys, n_heads, dim)
        return common_refinement([head.forms for head in heads]).count
    return minkowski_vertices(extremal_points(n_keys, n_heads, dim)).count


def _fit_exponents(p: Parameters, rows: Sequence[Row]) -> list[Row]:
    """Fit the exponent of N to the two largest sizes, where lower-order terms matter least."""
    found: list[Row] = []
    for n_heads, dim in p.settings:
        for bias in (False, True):
            few, many = [
                r
                for r in rows
                if (r["heads"], r["dim"], r["bias"]) == (n_heads, dim, bias)
                and r["keys"] in p.n_keys[-2:]
            ]
            step = log(many["keys"] / few["keys"])
            found.append(
                {
                    "heads": n_heads,
                    "dim": dim,
                    "bias": bias,
                    "theory": min(n_heads, dim if bias else dim - 1),
                    "extremal": log(many["extremal"] / few["extremal"]) / step,
                    "gaussian": None if bias else log(many["gaussian"] / few["gaussian"]) / step,
                }
            )
    return found


def _depth_rows(p: Parameters) -> list[Row]:
    rows: list[Row] = []
    square, line = Box(np.full(2, -3.0), np.full(2, 3.0)), Box(np.zeros(1), np.ones(1))
    for depth in p.depths:
        built = shattering_transformer(p.depth_keys, 1, depth, 2)
        drawn = random_transformer(np.random.default_rng(p.seed), p.depth_keys, 2, 4, depth)
        for family, model, box in (("constructed", built, line), ("random", drawn, square)):
            cells = enumerate_regions(model, box).n_cells
            rows.append({"family": family, "depth": depth, "cells": cells})
    return rows


def _growth_rate(rows: Sequence[Row]) -> float:
    """Return the mean factor by which one more block multiplies the number of cells."""
    depths, cells = [r["depth"] for r in rows], [r["cells"] for r in rows]
    return float(np.exp(np.polyfit(depths, np.log(cells), 1)[0]))


def _draw(p: Parameters, exponents: Sequence[Row], depth_rows: Sequence[Row]) -> Any:
    figure, (fits, blocks) = create_row(2)
    places = np.arange(len(exponents))[::-1]
    fits.barh(places, [e["extremal"] for e in exponents], height=0.6, color=cell_colours([0])[0])
    theory = {"color": theme_colour("ink"), "markersize": 13, "markeredgewidth": 1.8}
    (mark,) = fits.plot([e["theory"] for e in exponents], places, "|", **theory)
    labels = [
        f"$H = {e['heads']}$, $d = {e['dim']}$, {'bias' if e['bias'] else 'no bias'}"
        for e in exponents
    ]
    fits.set_yticks(places, labels)
    fits.set_xlabel("exponent of $N$")
    handles = [fits.containers[0], mark]
    fits.legend(handles, ["fitted", "theory"], loc="upper right")
    for family, colour in (("constructed", "C0"), ("random", "C1")):
        rows = [r for r in depth_rows if r["family"] == family]
        blocks.semilogy(
            [r["depth"] for r in rows], [r["cells"] for r in rows], "o-", color=colour, label=family
        )
    blocks.set_xticks(p.depths)
    set_plain_ticks(blocks.yaxis)
    blocks.set_xlabel("blocks $L$")
    blocks.set_ylabel("cells")
    blocks.legend()
    return figure
