"""Large inputs whose cost should grow with their size: keys, level sets, dimensions.

Qhull (scipy) computes the same hulls in the same run: of points in the plane, and of the forms of a
head along a segment, as points (slope, offset). Qhull uses rounded arithmetic.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from scipy.spatial import ConvexHull

from benchmarks.measuring import cpu_seconds, cpu_seconds_and_megabytes
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, Segment
from hardmax.geometry.extreme_points import extreme_points
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.storage import save_model
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.level_sets import level_set
from hardmax.typing import FloatArray

SIZES = 10_000, 30_000, 100_000, 1_000_000
N_ROUNDS = 3


def draw_planar_points(kind: str, n: int) -> FloatArray:
    """Draw points of which few or all are vertices, or of which many lie on common lines."""
    rng = np.random.default_rng(n)
    if kind == "integers":
        return rng.integers(0, 1000, size=(n, 2)).astype(float)
    points = rng.normal(size=(n, 2))
    if kind == "unit circle":
        points /= np.linalg.norm(points, axis=1)[:, None]
    return points


def time_hulls() -> Table:
    """Time extreme points in the plane."""
    rows = []
    for kind in ("gaussian", "unit circle", "integers"):
        for n in SIZES:
            points = draw_planar_points(kind, n)
            mask, ours = cpu_seconds(lambda p=points: extreme_points(p), N_ROUNDS)
            hull, peer = cpu_seconds(lambda p=points: ConvexHull(p), 1)
            found = len(hull.vertices)
            rows.append((kind, n, int(mask.sum()), ours, found, peer, peer / ours))
    return Table(
        "Extreme points in the plane",
        ("points", "N", "extreme", "CPU s", "Qhull finds", "Qhull, CPU s", "ratio"),
        rows,
        """hardmax is exact and counts repeated points once; Qhull rounds and merges nearly
        coplanar facets. If few points are vertices, hardmax spends most of the time sorting.""",
    )


def draw_head(n: int, rng: np.random.Generator) -> AttentionHead:
    """Draw a head whose keys all win along the first axis, between -1 and 1."""
    x = np.sort(rng.uniform(-1.0, 1.0, n))
    keys = np.column_stack([2.0 * x, rng.normal(size=n)])
    return AttentionHead(np.eye(2), keys, keys, 0.1 * np.eye(2), logit_bias=-x * x)


def time_heads() -> Table:
    """Time heads of many keys along a segment."""
    rng, line = np.random.default_rng(0), Segment([-1.0, 0.0], [1.0, 0.0])
    rows = []
    for n, n_heads, n_blocks in (
        *((n, 1, 1) for n in (1_000, 2_000, 4_000, 10_000, 100_000)),
        (10_000, 4, 1),
        (1_000, 2, 2),
    ):
        blocks, points = [], []
        for _ in range(n_blocks):
            drawn = [draw_head(n, rng) for _ in range(n_heads)]
            points += [np.column_stack([one.keys[:, 0], one.logit_bias]) for one in drawn]
            units = FeedForward(rng.normal(size=(2, 8)), rng.normal(size=8), np.zeros((8, 2)), None)
            blocks.append(Block(drawn, units if n_blocks > 1 else None))
        model = HardTransformer(blocks)
        found, _, risen = cpu_seconds_and_megabytes(lambda m=model: enumerate_regions(m, line))
        _, ours = cpu_seconds(lambda m=model: enumerate_regions(m, line), N_ROUNDS)
        peer = cpu_seconds(lambda p=points: ConvexHull(p[0]))[1] if len(points) == 1 else None
        n_cells = int(found.n_cells)
        rows.append((n, n_heads, n_blocks, n_cells, ours, 1e6 * ours / n_cells, risen, peer))
    return Table(
        "Heads of many keys along a segment",
        ("keys", "heads", "blocks", "cells", "CPU s", "CPU us per cell", "MB", "Qhull, CPU s"),
        rows,
        """All keys of the first block win. Cells are found exactly and stored with maps; MB is the
        growth of memory in the first run. Qhull only finds the hull of the keys of one head, as
        points (slope, offset).""",
    )


def time_level_sets() -> Table:
    """Time level sets, and the search for the cells."""
    rows = []
    for widths in ([16, 16], [32, 32], [64, 64], [128, 128], [64, 64, 64]):
        weights = gaussian_weights(1, 2, *widths)
        model, square = weights.model, Box([-1.0, -1.0], [1.0, 1.0])
        enumerate_regions(model, square)
        part, search = cpu_seconds(lambda m=model, s=square: enumerate_regions(m, s), N_ROUNDS)
        value = float(np.median(model(part.witnesses)[:, 0]))
        found, seconds = cpu_seconds(lambda p=part, v=value: level_set(p, value=v), N_ROUNDS)
        _, pieces = cpu_seconds(lambda f=found: f.pieces)
        name = f"2->{widths}"
        n_cells, n_pieces = int(part.n_cells), len(found)
        rows.append(
            (name, n_cells, 1e3 * search, 1e3 * seconds, seconds / search, n_pieces, 1e3 * pieces)
        )
    return Table(
        "Level sets of ReLU networks in the plane",
        (
            "network", "cells", "search, CPU ms", "level set, CPU ms", "relative to search",
            "pieces", "polytopes, CPU ms",
        ),
        rows,
        """The level is the median of the output. Cells without a piece need only floats; the exact
        polytopes are computed on first access.""",
    )  # fmt: skip


def time_high_dimensions() -> Table:
    """Time cells in eight and more dimensions."""
    rows = []
    for dim, widths in ((8, [12]), (8, [8, 8]), (10, [10]), (16, [8])):
        rng = np.random.default_rng(dim)
        sizes = [dim, *widths, 1]
        model = ReluNetwork(
            [rng.normal(size=shape) for shape in pairwise(sizes)],
            [0.5 * rng.normal(size=n) for n in sizes[1:]],
        )
        box = Box([-1.0] * dim, [1.0] * dim)
        part, seconds = cpu_seconds(lambda m=model, b=box: enumerate_regions(m, b))
        n_cells = int(part.n_cells)
        rows.append((f"{dim}->{widths}", n_cells, seconds, 1e3 * seconds / n_cells))
    return Table(
        "Cells in eight and more dimensions",
        ("network", "cells", "CPU s", "CPU ms per cell"),
        rows,
        "CPU time of the split tree on one thread.",
    )


def time_commands() -> Table:
    """Time commands on a native file and the same calls in Python, each in a new process."""
    rng, rows = np.random.default_rng(0), []
    shapes = (2, 8), (8, 1)
    model = ReluNetwork([rng.normal(size=shape) for shape in shapes], [np.zeros(8), np.zeros(1)])
    with TemporaryDirectory() as folder:
        file, kept = str(Path(folder, "net.safetensors")), str(Path(folder, "cells.json"))
        save_model(model, file)
        read = f"import hardmax as hm; model = hm.load_model({file!r}); "
        regions = ["regions", file, "--domain", "box:-1,1^2"]
        _time_interpreter(folder, "-m", "hardmax", *regions, "--certificate", kept)
        cases = (
            (regions, "hm.enumerate_regions(model, hm.Box([-1, -1], [1, 1])).n_cells"),
            (
                ["verify", file, kept],
                f"hm.verify_certificate(model, hm.Certificate.load({kept!r}))",
            ),
        )
        for words, call in cases:
            shell = _time_interpreter(folder, "-m", "hardmax", *words)
            python = _time_interpreter(folder, "-c", f"{read}print({call})")
            rows.append((f"hardmax {words[0]}", shell, python, shell - python))
    return Table(
        "Commands on a native file",
        ("command", "CPU s", "the same calls in Python", "difference"),
        rows,
        """A network of one layer; every run is a new process and includes imports. A command takes
        longer than the calls, because it also parses arguments and prints (typer).""",
    )


def _time_interpreter(folder: str, *arguments: str) -> float:
    """Return the median CPU seconds of a new interpreter with its bytecode in a folder."""
    environment = {key: value for key, value in os.environ.items() if key[:10] != "PYTHONDONT"}
    environment["PYTHONPYCACHEPREFIX"] = folder
    times = []
    for _ in range(1 + N_ROUNDS):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        after = getrusage(RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first run compiles the bytecode.
    return median(times[1:])


def tables() -> Iterator[Table]:
    """Yield all of these times."""
    yield time_hulls()
    yield time_heads()
    yield time_level_sets()
    yield time_high_dimensions()
    yield time_commands()
