"""The second theme of [GYZ26]: regions exponential in depth, counted on compiled transformers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers.functions.approximation import approximate
from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.constructions.families.deep_families import (
    tent_network,
    zigzag_network,
    zigzag_regions,
)
from hardmax.geometry.domains import Box
from hardmax.papers.experiments.wording import join_numbers, set_plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """The depths of the families, and the numbers of pieces that approximate a smooth function."""

    tent_depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    zigzag_rank: int = 3
    zigzag_depths: tuple[int, ...] = (1, 2, 3)
    n_pieces: tuple[int, ...] = (8, 32, 128, 512)


QUICK = Parameters(tent_depths=(1, 2, 3, 4), zigzag_depths=(1, 2), n_pieces=(8, 32))
FULL = Parameters(tent_depths=tuple(range(1, 13)), zigzag_depths=(1, 2, 3, 4))


def run(parameters: Parameters) -> Outcome:
    """Compile tents and zigzags, count the regions of the transformers, approximate a function."""
    p = parameters
    unit = Box(np.zeros(1), np.ones(1))
    rows: list[Row] = []
    families = [("tent", depth, tent_network(depth), 2**depth) for depth in p.tent_depths]
    families += [
        (
            "zigzag",
            depth,
            zigzag_network(1, p.zigzag_rank, depth),
            zigzag_regions(1, p.zigzag_rank, depth),
        )
        for depth in p.zigzag_depths
    ]
    for family, depth, network, formula in families:
        compiled = compile_maxout(network, unit)
        part = enumerate_regions(compiled.token_transformer, unit)
        rows.append(
            {
                "family": family,
                "depth": depth,
                "regions": part.n_regions,
                "affine_maps": part.n_affine_maps,
                "formula": formula,
                "heads": compiled.size.heads,
            }
        )
    square = Box(np.full(2, -2.0), np.full(2, 2.0))
    errors: list[Row] = []
    for n in p.n_pieces:
        fit = approximate(_bump, square, n)
        errors.append({"pieces": fit.n_pieces, "measured_error": fit.measured_error})
    figure, (depths, pieces) = create_row(2)
    for family, colour in (("tent", "C0"), ("zigzag", "C1")):
        drawn = [row for row in rows if row["family"] == family]
        depths.semilogy(
            [r["depth"] for r in drawn],
            [r["regions"] for r in drawn],
            "o-",
            color=colour,
            label=family,
        )
    depths.set_xticks(p.tent_depths)
    set_plain_ticks(depths.yaxis)
    depths.set_xlabel("depth $L$ of the network")
    depths.set_ylabel("regions of the compiled transformer")
    depths.legend()
    pieces.loglog([e["pieces"] for e in errors], [e["measured_error"] for e in errors], "o-")
    pieces.set_xticks(p.n_pieces, [str(n) for n in p.n_pieces])
    pieces.minorticks_off()
    set_plain_ticks(pieces.yaxis)
    pieces.set_xlabel("triangles")
    pieces.set_ylabel("largest error found")
    attained = all(row["regions"] == row["affine_maps"] == row["formula"] for row in rows)
    slope = float(
        np.polyfit(
            np.log([e["pieces"] for e in errors]), np.log([e["measured_error"] for e in errors]), 1
        )[0]
    )
    return Outcome(
        {"formula_attained": attained, "approximation_slope": slope},
        f"Compiled tents have {_format_regions(rows, 'tent')} regions for L = "
        f"{join_numbers(p.tent_depths)}, and zigzags of rank {p.zigzag_rank} have "
        f"{_format_regions(rows, 'zigzag')} for L = {join_numbers(p.zigzag_depths)}, counted on "
        f"the transformer; {'all' if attained else 'not all'} of these numbers agree with the "
        f"formula. With {errors[-1]['pieces']} triangles, a smooth function on a square is "
        f"approximated to within {errors[-1]['measured_error']:.2g}; the error decreases like "
        f"n^{slope:.2f}.",
        figure,
        claimed=(
            "Linear regions of transformers grow exponentially with depth, and transformers "
            "approximate every continuous function."
        ),
        claims=("B.4",),
        tables={"regions": rows, "approximation": errors},
    )


def _format_regions(rows: Sequence[Row], family: str) -> str:
    return join_numbers(row["regions"] for row in rows if row["family"] == family)


def _bump(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-(x**2).sum(axis=1)))
