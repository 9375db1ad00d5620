"""What the error bounds of the planar search cost: the same kernels with and without them.

A copy of the package is changed as text: radii are not composed, vertices get radius 0, and a sign
is read off the rounded value. The copy is compiled by itself and runs the same networks; what it
counts is not proven. Only the compiled search is timed.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import hardmax

_CHANGES = {
    "planar_signs.py": [
        (
            "    error = KAPPA * (abs(p1) + abs(p2) + abs(c)) + ra * (abs(x) + abs(y)) + rc\n"
            "    error = (error + (abs(a1) + abs(a2) + 2.0 * ra) * rho) * UP + TINY\n"
            "    if value > error:\n",
            "    error = 0.0\n    if value > error:\n",
        ),
        (
            "    rho = first * _residual(a1, a2, a3, ra, edges[i, RC], x, y)\n"
            "    edges[row, RHO] = (rho + second * _residual(b1, b2, b3, rb, edges[j, RC], x, y))"
            " * UP\n",
            "    edges[row, RHO] = 0.0\n",
        ),
        (
            "    error = KAPPA * (abs(a1 * b2) + abs(a2 * b1)) + ra * (abs(b1) + abs(b2))\n"
            "    error = error + rb * (abs(a1) + abs(a2)) + 2.0 * ra * rb\n",
            "    error = 0.0\n",
        ),
    ],
    "composition.py": [
        (
            "    add_rows(blocks, to, dim + 1, sizes, at_weight, n_out, order, n_used, last, 0)\n",
            "",
        ),
        (
            "            share = blocks[to, dim + 1, i]\n"
            "            radius = (1.0 + kappa) * (share + kappa * sizes[at_bias + i]) + TINY\n"
            "            blocks[to, dim + 1, i] = radius if share != 0.0 or not is_tame else 0.0\n",
            "            blocks[to, dim + 1, i] = 0.0\n",
        ),
    ],
    "composition_updates.py": [
        (
            "    add_rows(blocks, to, dim + 1, sizes, at_weight, n_out, order, n_changed, last,"
            " dim + 1)\n",
            "",
        ),
        (
            "        radius = larger if radius != 0.0 or not is_tame else 0.0\n",
            "        radius = 0.0\n",
        ),
    ],
    "planar_groups.py": [
        (
            "        slopes = abs(blocks[b, 0, i]) + abs(blocks[b, 1, i])\n"
            "        error = blocks[b, 3, i] * reach + slopes * blur"
            " + KAPPA * abs(blocks[b, 2, i])\n"
            "        error = error * UP + TINY\n",
            "        error = 0.0\n",
        ),
    ],
}

_TIMED = """
import json, time
import hardmax.regions.planar as planar
from benchmarks.bench_planar import SQUARE, gaussian_network

inner, spent = planar.search, 0.0
def search(*arguments):
    global spent
    start = time.process_time()
    status = inner(*arguments)
    spent += time.process_time() - start
    return status
planar.search = search
found = {}
for name, widths, seeds in (("2->[16, 16]", [16] * 2, 20), ("2->[32, 32, 32]", [32] * 3, 4),
                            ("2->[64, 64, 64]", [64] * 3, 2)):
    networks = [gaussian_network(seed, widths) for seed in range(seeds)]
    for network in networks:
        planar.explore(network, SQUARE)
    best = 1e9
    for _ in range(5):
        spent = 0.0
        cells = sum(planar.explore(network, SQUARE).n_counted for network in networks)
        best = min(best, spent)
    found[name] = [cells, best]
print(json.dumps(found))
"""


def filter_overhead(interpreter: str) -> dict[str, float]:
    """Return for each kind of network the time with bounds as a multiple of that without."""
    source = Path(hardmax.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "hardmax"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for name, changes in _CHANGES.items():
            path = copy / "_kernels" / name
            text = path.read_text()
            for old, new in changes:
                if old not in text:
                    raise RuntimeError(f"{name} has changed; `filter_cost` must follow.")
                text = text.replace(old, new)
            path.write_text(text)
        without = _timings(interpreter, folder)
    proven = _timings(interpreter, str(source.parent))
    return {name: proven[name][1] / without[name][1] for name in proven}


def _timings(interpreter: str, path: str) -> dict[str, list[float]]:
    root = str(Path(__file__).resolve().parent.parent)
    run = subprocess.run(
        [interpreter, "-c", f"import sys; sys.path[:0] = [{path!r}, {root!r}]\n{_TIMED}"],
        capture_output=True,
        text=True,
        check=True,
    )
    timings: dict[str, list[float]] = json.loads(run.stdout.splitlines()[-1])
    return timings
