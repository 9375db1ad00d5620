"""Max-plus matrix products: ours, the best numpy formula, and tropical-gemm, in one run.

Each is repeated and the best time kept; wall and processor time are shown side by side, because
ours and tropical-gemm use every core and numpy only one. Ratios are to the best numpy formula; the
wall times mean something only on an otherwise idle machine. Run it as

    python benchmarks/bench_maxplus.py [n]
"""

import sys
import time

import numpy as np

from hardmax.tropical.matrices.semiring import maxplus, minplus

REPEATS = 5


def by_rows(a, b):
    """For each row of the left factor one sum and one maximum down the columns."""
    out, terms = np.empty((len(a), b.shape[1])), np.empty_like(b)
    for row, result in zip(a, out, strict=True):
        np.add(row[:, None], b, out=terms)
        np.maximum.reduce(terms, axis=0, out=result)
    return out


def by_contiguous_rows(a, b, block=256):
    """The same on the transposed right factor, in blocks: maxima along contiguous memory."""
    transposed = np.ascontiguousarray(b.T)
    out, terms = np.empty((len(a), b.shape[1])), np.empty((block, len(b)))
    for start in range(0, len(transposed), block):
        columns = transposed[start : start + block]
        for row, result in zip(a, out, strict=True):
            np.add(columns, row, out=terms[: len(columns)])
            np.maximum.reduce(
                terms[: len(columns)], axis=1, out=result[start : start + len(columns)]
            )
    return out


def by_outer_sums(a, b, block=32):
    """For each inner index an outer sum, accumulated over blocks of rows that stay in cache."""
    columns = np.ascontiguousarray(a.T)
    out, terms = np.full((len(a), b.shape[1]), -np.inf), np.empty((block, b.shape[1]))
    for start in range(0, len(a), block):
        result = out[start : start + block]
        for column, row in zip(columns, b, strict=True):
            np.add(column[start : start + block, None], row, out=terms[: len(result)])
            np.maximum(result, terms[: len(result)], out=result)
    return out


def by_blocks(a, b, block=8):
    """Broadcast cubes of 8 x 8 x inner."""
    transposed = np.ascontiguousarray(b.T)
    out = np.empty((len(a), b.shape[1]))
    for i in range(0, len(a), block):
        for j in range(0, b.shape[1], block):
            terms = a[i : i + block, None] + transposed[None, j : j + block]
            out[i : i + block, j : j + block] = np.maximum.reduce(terms, axis=2)
    return out


def measure(function, *arguments):
    """Return the result and the best wall and processor time."""
    walls, processors = [], []
    result = None
    for _ in range(REPEATS):
        wall, processor = time.perf_counter(), time.process_time()
        result = function(*arguments)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return result, min(walls), min(processors)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    contestants = {
        f"numpy {formula.__name__}": formula
        for formula in (by_rows, by_contiguous_rows, by_outer_sums, by_blocks)
    }
    try:
        from tropical_gemm import maxplus_matmul_2d_f64
    except ImportError:
        print("tropical-gemm is not installed: left out.")
    else:
        contestants["tropical-gemm"] = maxplus_matmul_2d_f64
    contestants["hardmax maxplus.matmul"] = maxplus.matmul

    start = time.perf_counter()
    maxplus.matmul(a, b)
    print(
        f"first call (import and compile, or load from disk): {time.perf_counter() - start:.2f} s"
    )
    rows = {name: measure(function, a, b) for name, function in contestants.items()}
    expected = rows["hardmax maxplus.matmul"][0]
    numpy_rows = [row for name, row in rows.items() if name.startswith("numpy")]
    best_wall, best_processor = (min(row[k] for row in numpy_rows) for k in (1, 2))
    rows["hardmax minplus.matmul"] = measure(minplus.matmul, a, b)
    print(f"{n} x {n} float64, best of {REPEATS}")
    print(f"{'':28}{'wall s':>10}{'ratio':>8}{'cpu s':>10}{'ratio':>8}")
    for name, (result, wall, processor) in rows.items():
        if "minplus" in name:
            expected = -maxplus.matmul(-a, -b)
        assert np.array_equal(result, expected), f"{name} disagrees"
        print(
            f"{name:28}{wall:10.4f}{best_wall / wall:8.1f}"
            f"{processor:10.4f}{best_processor / processor:8.1f}"
        )


if __name__ == "__main__":
    main()
