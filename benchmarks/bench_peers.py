"""ReLU networks in space, on segments and in degenerate cases, compared with other programs.

The NumPy baselines (edge subdivision, clipping unit by unit) run in this process. If available,
relucent and parx run in another environment, whose interpreter `HARDMAX_PEERS` names. SyReNN
(planes and lines, C++, float32) runs if `HARDMAX_SYRENN` names the program built from
`drive_syrenn.cc`.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.baselines_clipping import count_by_clipping
from benchmarks.baselines_edges import count_by_edge_subdivision
from benchmarks.comparisons import count_with_certificate
from benchmarks.peer_programs import (
    Outcome,
    Programs,
    add_outcomes,
    measure_outcome,
    run_in_python,
    run_syrenn,
)
from benchmarks.random_networks import Weights, gaussian_weights, integer_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, Domain, Segment, WholeSpace
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray

HALF_WIDTH = 5.0
_MOST_CELLS = 100
_SHORT = 0.05


def cube(half_width: float, dim: int) -> Box:
    """Return a box around the origin."""
    return Box(np.full(dim, -half_width), np.full(dim, half_width))


def square(half_width: float) -> FloatArray:
    """Return the corners of a square, counterclockwise."""
    return half_width * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


def count_with_hardmax(net: Weights, domain: Domain | Segment) -> Outcome:
    """Count with hardmax."""
    model = net.model
    return measure_outcome(lambda: enumerate_regions(model, domain).n_cells, _SHORT)


def count_with_edge_subdivision(net: Weights, half_width: float) -> Outcome:
    """Count with edge subdivision."""
    return measure_outcome(lambda: count_by_edge_subdivision(*net.hidden, half_width), _SHORT)


def count_with_clipping(net: Weights, half_width: float) -> Outcome:
    """Count with clipping."""
    return measure_outcome(lambda: count_by_clipping(*net.hidden, half_width), _SHORT)


def iter_rows(name: str, found: Sequence[tuple[str, Outcome, Outcome]]) -> Iterator[list[object]]:
    """Yield a row for each program: its result, and its time relative to the reference."""
    for program, one, standard in found:
        case = name if program == found[0][0] else ""
        if not one.seconds:
            yield [case, program, one.remark, None, None, None]
            continue
        rate = one.cells / one.seconds
        ratio = None if one is standard else standard.cells / standard.seconds / rate
        cells = f"stopped at {one.cells}" if one.remark == "stopped" else one.cells
        yield [case, program, cells, one.seconds, rate, ratio]


def compare_in_space(programs: Programs) -> Table:
    """Compare on boxes and on the whole space; slow programs get only the first network."""
    rows: list[list[object]] = []
    for name, nets in (
        ("3->[12, 12]", [gaussian_weights(67 + 100 * i, 3, 12, 12) for i in range(6)]),
        ("4->[10, 10]", [gaussian_weights(71 + 100 * i, 4, 10, 10) for i in range(3)]),
    ):
        dim = nets[0].dim
        ours = add_outcomes([count_with_hardmax(net, cube(HALF_WIDTH, dim)) for net in nets])
        space = add_outcomes([count_with_hardmax(net, WholeSpace(dim)) for net in nets])
        edges = add_outcomes([count_with_edge_subdivision(net, HALF_WIDTH) for net in nets])
        found = [
            ("hardmax, box", ours, ours),
            ("edge subdivision, box", edges, ours),
            ("hardmax, all of space", space, space),
        ]
        for peer in ("relucent", "parx"):
            one = run_in_python(peer, programs.python, nets[0], _MOST_CELLS)
            found.append((f"{peer}, all of space", one, space))
        rows += iter_rows(f"{name}, {len(nets)} networks", found)
    return Table(
        "Networks in space, compared with other programs",
        ("networks", "program", "cells", "CPU s", "cells/s", "time / hardmax"),
        rows,
        f"""Gaussian float32 weights, on the box [-5, 5]^d or on the whole space; models are built
        in advance. hardmax proves every sign and stores vertices and maps. Edge subdivision (after
        Berzins) is our own implementation in numpy, which only counts and proves nothing. relucent
        and parx also find facets; they are stopped after {_MOST_CELLS} cells of the first
        network.""",
    )


def compare_in_plane(programs: Programs) -> Table:
    """Compare the counts on networks in the plane where rounding decides."""
    cases = [("2->[16, 16], no biases", gaussian_weights(65, 2, 16, 16, bias=0.0), HALF_WIDTH)]
    cases += [
        (f"2->[8, 8], integers, {s}", integer_weights(s, 2, 8, 8), HALF_WIDTH) for s in range(3)
    ]
    cases += [("2->[32] x 3, [-1e6, 1e6]^2", gaussian_weights(66, 2, 32, 32, 32), 1e6)]
    rows = []
    for name, net, half_width in cases:
        model, box = net.model, cube(half_width, 2)
        truth, far = (
            count_with_certificate(model, box),
            count_with_certificate(model, WholeSpace(2)),
        )
        found = [
            count_with_hardmax(net, box),
            run_syrenn(programs.syrenn, net, [square(half_width)], _SHORT)[0],
            count_with_edge_subdivision(net, half_width),
        ]
        if truth < 1000:
            found.append(count_with_clipping(net, half_width))
            found += [run_in_python(p, programs.python, net, 10**6) for p in ("relucent", "parx")]
        said = [one.cells or one.remark for one in found]
        rows.append((name, f"{truth}, {far}", *said, *[None] * (6 - len(said))))
    return Table(
        "Correctness of counts in the plane",
        ("network", "truth", *("hardmax", "SyReNN", "edges", "clipping", "relucent", "parx")),
        rows,
        """The second column is the number of cells on [-5, 5]^2 and on the plane, confirmed by
        certificates. The other columns are the counts that the programs find: relucent and parx on
        the plane, the others on the square.""",
    )


def draw_segments(seed: int, n: int, dim: int, scale: float) -> list[FloatArray]:
    """Draw the ends of segments, N(0, scale^2), rounded to float32."""
    rng = np.random.default_rng(seed)
    drawn = scale * rng.normal(size=(n, 2, dim))
    return list(drawn.astype(np.float32).astype(np.float64))


def draw_lattice_segments(seed: int, n: int, dim: int) -> list[FloatArray]:
    """Draw segments between different points with coordinates in -5, ..., 5."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-5, 6, (2 * n, 2, dim)).astype(np.float64)
    return [ends for ends in drawn if (ends[0] != ends[1]).any()][:n]


def count_with_maps(net: Weights, segment: Segment) -> Outcome:
    """Count with hardmax, and compose the affine map of each piece."""
    model = net.model
    return measure_outcome(lambda: len(enumerate_regions(model, segment).affine_maps), _SHORT)


def compare_on_segments(programs: Programs) -> Table:
    """Compare the rates on many segments."""
    rows: list[list[object]] = []
    for name, net, n, scale in (
        ("784->[256] x 4", gaussian_weights(5, 784, *[256] * 4), 25, 1.0),
        ("50->[1000] x 3", gaussian_weights(5, 50, *[1000] * 3), 8, 1.0),
        ("2->[64] x 6", gaussian_weights(5, 2, *[64] * 6), 60, 5.0),
    ):
        ends = draw_segments(0, n, net.dim, scale)
        ours = add_outcomes([count_with_hardmax(net, Segment(*one)) for one in ends])
        maps = add_outcomes([count_with_maps(net, Segment(*one)) for one in ends])
        theirs = add_outcomes(run_syrenn(programs.syrenn, net, ends, _SHORT))
        found = [("hardmax", ours, ours), ("hardmax, maps too", maps, ours)]
        rows += iter_rows(f"{name}, {n} segments", [*found, ("SyReNN", theirs, ours)])
    return Table(
        "Many segments through one network, compared with SyReNN",
        ("network", "program", "pieces", "CPU s", "pieces/s", "time / hardmax"),
        rows,
        """Gaussian float32 weights and endpoints; models are built in advance. hardmax proves every
        sign and stores the endpoints, the names of the breakpoints and the signatures. On request,
        it computes the affine maps of the pieces as slopes and offsets. SyReNN stores the
        breakpoints and their images, which costs a product with one more column.""",
    )


def compare_degenerate_segments(programs: Programs) -> Table:
    """Compare the counts on segments where breakpoints coincide."""
    rows = []
    for name, sizes in (
        ("integers, 2->[8, 8]", (2, 8, 8)),
        ("integers, 4->[12] x 3", (4, 12, 12, 12)),
        ("integers, 8->[16] x 3", (8, 16, 16, 16)),
    ):
        net = integer_weights(0, *sizes)
        model, ends = net.model, draw_lattice_segments(0, 100, net.dim)
        truth = [count_with_certificate(model, Segment(*e)) for e in ends]
        ours = [enumerate_regions(model, Segment(*e)).n_cells for e in ends]
        theirs = run_syrenn(programs.syrenn, net, ends, 0.0)
        counts = [one.cells for one in theirs]
        said = [f"{sum(n)}, right on {np.equal(n, truth).sum()}" for n in (ours, counts)]
        rows.append((name, sum(truth), said[0], theirs[0].remark or said[1]))
    return Table(
        "Correctness of counts on segments",
        ("network", "pieces", "hardmax", "SyReNN"),
        rows,
        """100 segments between lattice points, through networks with integer weights and biases
        from -2 to 2. The table gives the total number of pieces, confirmed by certificates, and the
        number of segments on which each program is right.""",
    )


def tables() -> Iterator[Table]:
    """Yield rates and counts in space, in the plane, and on segments."""
    programs = Programs(os.environ.get("HARDMAX_PEERS"), os.environ.get("HARDMAX_SYRENN"))
    for section in (
        compare_in_space,
        compare_in_plane,
        compare_on_segments,
        compare_degenerate_segments,
    ):
        yield section(programs)
