"""Cells of ReLU networks: hardmax beside other programs, on the same networks in one run.

Baselines in numpy (edge subdivision, clipping unit by unit) run in this process. relucent and parx
run, if they are there, in another environment: `HARDMAX_PEERS` or `--peers` names that interpreter.
SyReNN (planes and lines, C++, float32) runs if `HARDMAX_SYRENN` or `--syrenn` names the program
built from `drive_syrenn.cc`. hardmax stores polygons or vertices and output maps, on segments ends
and signatures, and the maps on request; SyReNN polygons and their images; edge subdivision finds
the skeleton and counts; clipping keeps polygons and maps; relucent and parx work on all of space
and find facets. Set OPENBLAS_NUM_THREADS=1 to compare: waiting threads cost CPU time.
"""

import argparse
import os
from collections.abc import Sequence

import numpy as np

from benchmarks.baselines_clipping import clipped_regions
from benchmarks.baselines_edges import edge_subdivision
from benchmarks.peer_programs import Outcome, Programs, added, in_python, measured, syrenn
from benchmarks.random_networks import Weights, gaussian, integers
from hardmax.geometry.domains import Box, Domain, Segment, WholeSpace
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray

HALF_WIDTH = 5.0
_MOST_CELLS = 100
_HEAD = f"{'':20}{'program':24}{'cells':>8}{'CPU s':>12}{'cells/s':>12}{'ratio':>10}"


def cube(half_width: float, dim: int) -> Box:
    """Return a box around the origin."""
    return Box(np.full(dim, -half_width), np.full(dim, half_width))


def square(half_width: float) -> FloatArray:
    """Return the corners of a square, anticlockwise."""
    return half_width * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


def counted(net: Weights, domain: Domain | Segment, least_seconds: float = 0.3) -> Outcome:
    """Count with hardmax."""
    model = net.model
    return measured(lambda: enumerate_regions(model, domain).n_cells, least_seconds)


def subdivided(net: Weights, half_width: float) -> Outcome:
    """Count with edge subdivision."""
    return measured(lambda: edge_subdivision(*net.hidden, half_width))


def clipped(net: Weights, half_width: float) -> Outcome:
    """Count with clipping."""
    return measured(lambda: clipped_regions(*net.hidden, half_width))


def print_rows(name: str, rows: Sequence[tuple[str, Outcome, Outcome]]) -> None:
    """Print a line for each program: what it found, and how much slower it is than its standard."""
    for program, found, standard in rows:
        if not found.seconds:
            print(f"{name:20}{program:24}{found.remark:>8}")
            continue
        rate = found.cells / found.seconds
        ratio = standard.cells / standard.seconds / rate
        print(
            f"{name:20}{program:24}{found.cells:8d}{found.seconds:12.5f}{rate:12.0f}{ratio:10.3g}"
            f"  {found.remark}",
            flush=True,
        )


def compare(name: str, nets: Sequence[Weights], programs: Programs) -> None:
    """Compare on networks of one shape; those that take minutes see the first alone."""
    dim = nets[0].dim
    box = cube(HALF_WIDTH, dim)
    ours = added([counted(net, box) for net in nets])
    space = added([counted(net, WholeSpace(dim)) for net in nets])
    rows = [("hardmax, box", ours, ours), ("hardmax, all of space", space, space)]
    if dim == 2:
        corners = [square(HALF_WIDTH)]
        found = added([syrenn(programs.syrenn, net, corners)[0] for net in nets])
        rows.append(("SyReNN", found, ours))
    rows.append(("edge subdivision", added([subdivided(net, HALF_WIDTH) for net in nets]), ours))
    if dim == 2:
        rows.append(("clipping", clipped(nets[0], HALF_WIDTH), ours))
    most = 10**6 if name.startswith("A") else _MOST_CELLS
    rows.append(("relucent, space", in_python("relucent", programs.python, nets[0], most), space))
    if name.startswith("A"):
        rows.append(
            ("parx, space", in_python("parx", programs.python, nets[0], _MOST_CELLS), space)
        )
    print_rows(name, rows)


def who_is_right(
    name: str, net: Weights, programs: Programs, half_width: float = HALF_WIDTH
) -> None:
    """Print the counts on a network in the plane, beside that of the all-exact mode."""
    model = net.model
    box = cube(half_width, 2)
    truth = enumerate_regions(model, box, exact=True).n_cells
    far = enumerate_regions(model, WholeSpace(2), exact=True).n_cells
    found_by = [
        ("hardmax", counted(net, box), truth),
        ("SyReNN", syrenn(programs.syrenn, net, [square(half_width)])[0], truth),
        ("edge subdivision", subdivided(net, half_width), truth),
    ]
    if truth < 1000:
        found_by.append(("clipping", clipped(net, half_width), truth))
        found_by += [
            (peer, in_python(peer, programs.python, net, 10**6), far)
            for peer in ("relucent", "parx")
        ]
    words = []
    for program, found, right in found_by:
        if not found.cells:
            words.append(f"{program}: {found.remark}")
        else:
            verdict = "right" if found.cells == right else "wrong"
            words.append(f"{program}: {found.cells} {verdict}")
    print(f"{name:28}{truth} in the box, {far} in all; " + ", ".join(words), flush=True)


def segments(seed: int, n: int, dim: int, scale: float) -> list[FloatArray]:
    """Draw the ends of segments, N(0, scale^2), rounded to float32."""
    rng = np.random.default_rng(seed)
    drawn = scale * rng.normal(size=(n, 2, dim))
    return list(drawn.astype(np.float32).astype(np.float64))


def mapped(net: Weights, segment: Segment, least_seconds: float) -> Outcome:
    """Count with hardmax, and compose the affine map of each piece."""
    model = net.model
    return measured(lambda: len(enumerate_regions(model, segment).affine_maps), least_seconds)


def compare_lines(name: str, net: Weights, ends: Sequence[FloatArray], programs: Programs) -> None:
    """Compare on segments."""
    ours = [counted(net, Segment(*one), 0.05) for one in ends]
    maps = added([mapped(net, Segment(*one), 0.05) for one in ends])
    theirs = syrenn(programs.syrenn, net, ends, 0.05)
    sum_ours, sum_theirs = added(ours), added(theirs)
    if sum_theirs.cells:
        same = sum(a.cells == b.cells for a, b in zip(ours, theirs, strict=True))
        sum_theirs = sum_theirs._replace(remark=f"the same on {same} of {len(ends)} segments")
    rows = [("hardmax", sum_ours, sum_ours), ("hardmax, maps too", maps, sum_ours)]
    print_rows(name, [*rows, ("SyReNN", sum_theirs, sum_ours)])


def right_lines(name: str, net: Weights, ends: Sequence[FloatArray], programs: Programs) -> None:
    """Print on how many segments the number of pieces is that of the all-exact mode."""
    model = net.model
    truth = [enumerate_regions(model, Segment(*e), exact=True).n_cells for e in ends]
    ours = [enumerate_regions(model, Segment(*e)).n_cells for e in ends]
    theirs = syrenn(programs.syrenn, net, ends, 0.0)
    words = [f"hardmax: {sum(ours)}, right on {np.equal(ours, truth).sum()}"]
    if theirs[0].cells:
        counts = [one.cells for one in theirs]
        words.append(f"SyReNN: {sum(counts)}, right on {np.equal(counts, truth).sum()}")
    else:
        words.append(f"SyReNN: {theirs[0].remark}")
    print(f"{name:40}{sum(truth)} pieces of {len(ends)} segments; " + "; ".join(words), flush=True)


def lattice_segments(seed: int, n: int, dim: int) -> list[FloatArray]:
    """Draw segments between different points with coordinates in -5, ..., 5."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-5, 6, (2 * n, 2, dim)).astype(np.float64)
    return [ends for ends in drawn if (ends[0] != ends[1]).any()][:n]


def rates(programs: Programs) -> None:
    """Compare the rates on boxes."""
    print(_HEAD)
    # As many networks as make ten thousand cells.
    compare("A 2->[16, 16]", [gaussian(65 + 100 * i, 2, 16, 16) for i in range(25)], programs)
    compare("B 2->[32] x 3", [gaussian(66 + 100 * i, 2, 32, 32, 32) for i in range(3)], programs)
    compare("C 3->[12, 12]", [gaussian(67 + 100 * i, 3, 12, 12) for i in range(6)], programs)
    compare("D 2->[64] x 3", [gaussian(68, 2, 64, 64, 64)], programs)
    compare("G 4->[10, 10]", [gaussian(71 + 100 * i, 4, 10, 10) for i in range(3)], programs)


def counts(programs: Programs) -> None:
    """Compare the counts on networks where rounding decides."""
    print("The right counts are those of the all-exact mode:")
    who_is_right("A without biases", gaussian(65, 2, 16, 16, bias=0.0), programs)
    for seed in range(3):
        who_is_right(f"integers, 2->[8, 8], {seed}", integers(seed, 2, 8, 8), programs)
    who_is_right("B, half-width 1e6", gaussian(66, 2, 32, 32, 32), programs, 1e6)


def lines(programs: Programs) -> None:
    """Compare rates and counts on segments."""
    print(f"Segments\n{_HEAD}")
    wide = gaussian(5, 784, 256, 256, 256, 256)
    compare_lines("784->[256] x 4", wide, segments(0, 25, 784, 1.0), programs)
    wide = gaussian(5, 50, 1000, 1000, 1000)
    compare_lines("50->[1000] x 3", wide, segments(0, 8, 50, 1.0), programs)
    deep = gaussian(5, 2, *[64] * 6)
    compare_lines("2->[64] x 6", deep, segments(0, 60, 2, 5.0), programs)
    print("The right counts are those of the all-exact mode:")
    for name, net in {
        "integers, 2->[8, 8]": integers(0, 2, 8, 8),
        "integers, 4->[12] x 3": integers(0, 4, 12, 12, 12),
        "integers, 8->[16] x 3": integers(0, 8, 16, 16, 16),
    }.items():
        right_lines(name, net, lattice_segments(0, 100, net.dim), programs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=os.environ.get("HARDMAX_PEERS"))
    parser.add_argument("--syrenn", default=os.environ.get("HARDMAX_SYRENN"))
    parser.add_argument("--part", default="all", choices=("all", "rates", "counts", "lines"))
    parser.add_argument("--full", action="store_true", help="the same, for all benchmarks at once")
    chosen = parser.parse_args()
    programs = Programs(chosen.peers, chosen.syrenn)
    if not programs.python:
        print("relucent and parx are left out: install them (pip install relucent parx) in an")
        print("environment of their own and set HARDMAX_PEERS to its interpreter.")
    if not programs.syrenn:
        print("SyReNN is left out: build benchmarks/drive_syrenn.cc as its first lines say and set")
        print("HARDMAX_SYRENN to the program.")
    if chosen.part in ("all", "rates"):
        rates(programs)
    if chosen.part in ("all", "counts"):
        counts(programs)
    if chosen.part in ("all", "lines"):
        lines(programs)


if __name__ == "__main__":
    main()
