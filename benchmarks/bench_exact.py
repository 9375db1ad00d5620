"""What exactness costs: each stage per decision, and the filter over a bare float evaluation.

Run with `OPENBLAS_NUM_THREADS=1 python benchmarks/bench_exact.py`: CPU time, best of a few, so the
ratios mean something on a busy machine too; several BLAS threads would be charged for waiting.
"""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import fmpq
from rich.console import Console
from rich.table import Table

from hardmax.algebra.exact import determinants
from hardmax.algebra.exact.composition import EnclosedForms
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.exact_forms import ExactForms
from hardmax.algebra.exact.signs import sign_of_forms
from hardmax.algebra.exact.winners import winners
from hardmax.algebra.forms import AffineForms

STAGES = ("filtered", "expanded", "rational")


def cpu_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU time of the fastest call; the first one warms up and is not counted."""
    function()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def fraction_signs(slopes: np.ndarray, offsets: np.ndarray, points: np.ndarray) -> list[bool]:
    rows = [[Fraction(a) for a in row] for row in slopes.tolist()]
    constants = [Fraction(c) for c in offsets.tolist()]
    return [
        sum(a * Fraction(x) for a, x in zip(row, point, strict=True)) + c > 0
        for point in points.tolist()
        for row, c in zip(rows, constants, strict=True)
    ]


def flint_signs(slopes: np.ndarray, offsets: np.ndarray, points: np.ndarray) -> list[bool]:
    def exact(x: float) -> fmpq:
        return fmpq(*x.as_integer_ratio())

    rows = [[exact(a) for a in row] for row in slopes.tolist()]
    constants = [exact(c) for c in offsets.tolist()]
    return [
        sum((a * x for a, x in zip(row, map(exact, point), strict=True)), fmpq(0)) + c > 0
        for point in points.tolist()
        for row, c in zip(rows, constants, strict=True)
    ]


def filter_overhead(console: Console) -> None:
    table = Table(title="The filter over a bare float64 evaluation (random data)")
    for column in (
        "forms x dim",
        "points",
        "sign: ns",
        "over np.sign",
        "winner: ns",
        "over argmax",
    ):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    for n_forms, dim in ((16, 2), (64, 2), (64, 8), (64, 64), (512, 64)):
        n_points = 2**21 // n_forms
        forms = AffineForms(rng.normal(size=(n_forms, dim)), rng.normal(size=n_forms))
        points = rng.normal(size=(n_points, dim))
        size = n_points * n_forms
        signs = cpu_seconds(lambda f=forms, p=points: sign_of_forms(f, p))
        bare_signs = cpu_seconds(lambda f=forms, p=points: np.sign(f(p)).astype(np.int8))
        best = cpu_seconds(lambda f=forms, p=points: winners(f, p))
        bare_best = cpu_seconds(lambda f=forms, p=points: f(p).argmax(axis=1))
        table.add_row(
            f"{n_forms} x {dim}",
            str(n_points),
            f"{1e9 * signs / size:.2f}",
            f"{signs / bare_signs:.2f} x",
            f"{1e9 * best / n_points:.0f}",
            f"{best / bare_best:.2f} x",
        )
    console.print(table)


def stages_of_signs(console: Console) -> None:
    table = Table(title="One sign of an affine form, by stage (microseconds)")
    for column in ("dim", "data", *STAGES, "Fraction", "flint fmpq", "expanded vs flint"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(1)
    for dim in (2, 8, 64):
        for name in ("ties", "random"):
            points = rng.normal(size=(2000, dim))
            slopes = rng.normal(size=(4, dim))
            if name == "ties":
                half = dim // 2
                slopes[:, half:], points[:, half:] = -slopes[:, :half], points[:, :half]
            forms = AffineForms(slopes, np.zeros(4))
            few = points[:100]
            costs = [
                cpu_seconds(lambda f=forms, p=points, s=s: sign_of_forms(f, p, start=s), 2) / 8000
                for s in STAGES
            ]
            peers = [
                cpu_seconds(lambda f=f, p=few, g=forms: f(g.slopes, g.offsets, p), 2) / 400
                for f in (fraction_signs, flint_signs)
            ]
            cells = [f"{1e6 * cost:.3f}" for cost in (*costs, *peers)]
            table.add_row(str(dim), name, *cells, f"{peers[1] / costs[1]:.0f} x")
    console.print(table)


def stages_of_determinants(console: Console) -> None:
    table = Table(title="One sign of a determinant, by stage (microseconds)")
    columns = ("k", "data", "filter proves", *STAGES, "numpy slogdet", "rational / expanded")
    for column in columns:
        table.add_column(column, justify="right")
    decide, rng, n = determinants.sign_of_determinant, np.random.default_rng(2), 1000
    for k in (2, 3, 4, 5, 6, 7, 8):
        for name in ("random", "singular integers", "singular reals"):
            matrices = rng.normal(size=(n, k, k))
            if name == "singular integers":
                matrices = rng.integers(-9, 10, (n, k, k)).astype(float)
            if name != "random":
                matrices[:, -1] = 2.0 * matrices[:, 0]
            tally = Decisions()
            decide(matrices, tally=tally)
            costs = [cpu_seconds(lambda m=matrices, s=s: decide(m, start=s), 2) / n for s in STAGES]
            numpy_cost = cpu_seconds(lambda m=matrices: np.linalg.slogdet(m)) / n
            cells = [f"{1e6 * cost:.2f}" for cost in (*costs, numpy_cost)]
            ratio = f"{costs[2] / costs[1]:.1f} x"
            table.add_row(str(k), name, f"{100 * tally.filtered / n:.0f} %", *cells, ratio)
    console.print(table)


def expansions_against_flint(console: Console) -> None:
    """The evidence for the sizes and binary places up to which the expansions are used."""
    table = Table(title="Singular integer matrices: microseconds in expansions : in flint")
    table.add_column("k", justify="right")
    all_bits = (4, 8, 16, 20, 30, 40, 50)
    for bits in all_bits:
        table.add_column(f"{bits} bits", justify="right")
    rng, n = np.random.default_rng(4), 200
    for k in (3, 4, 5, 6, 7, 8):
        cells = []
        for bits in all_bits:
            matrices = rng.integers(-(2**bits), 2**bits, (n, k, k)).astype(float)
            matrices[:, -1] = matrices[:, 0]
            scaled, _ = determinants._equilibrated(matrices)
            costs = [
                cpu_seconds(lambda f=f, m=m: f(m), 2) * 1e6 / n
                for f, m in ((determinants._expanded, scaled), (determinants._rational, matrices))
            ]
            cells.append(f"{costs[0]:.1f} : {costs[1]:.1f}")
        table.add_row(str(k), *cells)
    console.print(table)


def composition(console: Console) -> None:
    table = Table(title="Composing a layer of width n over 2 inputs (microseconds)")
    for column in ("n", "bare float", "with radii", "exact", "radii / bare"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(3)
    for width in (16, 64, 256):
        forms = AffineForms(rng.normal(size=(width, 2)), rng.normal(size=width))
        weight, bias = rng.normal(size=(width, width)), rng.normal(size=width)
        enclosed, exact = EnclosedForms.stored(forms), ExactForms.stored(forms)
        bare = cpu_seconds(
            lambda f=forms, w=weight, b=bias: (w.T @ f.slopes, w.T @ f.offsets + b), 20
        )
        radii = cpu_seconds(lambda f=enclosed, w=weight, b=bias: f.compose(w, b), 10)
        truth = cpu_seconds(lambda f=exact, w=weight, b=bias: f.compose(w, b), 2)
        cells = [f"{1e6 * cost:.0f}" for cost in (bare, radii, truth)]
        table.add_row(str(width), *cells, f"{radii / bare:.1f} x")
    console.print(table)


def main() -> None:
    """Print all tables."""
    console = Console(width=110)
    filter_overhead(console)
    stages_of_signs(console)
    stages_of_determinants(console)
    expansions_against_flint(console)
    composition(console)


if __name__ == "__main__":
    main()
