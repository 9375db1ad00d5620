"""The table of measured facts in the README: `python -m benchmarks.facts [--write]`.

CPU times of one thread, as medians of several runs; the table states the date and the machine.
"""

import re
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

import hardmax as hm
from benchmarks.machine import current_moment, describe, format_line
from benchmarks.measuring import cpu_seconds
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table, format_entry, replace_between_marks, to_markdown
from hardmax.constructions import shattering_transformer
from hardmax.verify import verify

README = Path(__file__).parents[1] / "README.md"


def time_first_answer() -> float:
    """Return the CPU seconds of a new process that runs the ten lines of the README."""
    code = README.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    lines = "\n".join(re.findall(r"^>>> (.*)$", code, flags=re.MULTILINE))
    program = f"{lines}\nimport time\nprint(time.process_time())"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def measure_facts() -> Table:
    """Measure all facts; return each with its number."""
    box = hm.Box([-5, -5], [5, 5])
    net = gaussian_weights(0, 2, 64, 64, 64).model
    part, found = cpu_seconds(lambda: hm.enumerate_regions(net, box), 5)
    certificate = part.certificate()
    verdict, checked = cpu_seconds(lambda: hm.verify_certificate(net, certificate), 3)
    assert verdict.ok
    points = np.random.default_rng(0).uniform(-5, 5, size=(100_000, 2))
    _, located = cpu_seconds(lambda: part.locate(points), 3)
    deep = shattering_transformer(4, 2, 3, 4)
    square = hm.Box([0, 0], [1, 1])
    number, counted = cpu_seconds(
        lambda: hm.enumerate_regions(deep, square, count_only=True).n_cells, 3
    )
    n_cells = part.n_cells
    lines = len(Path(verify.__file__).read_text(encoding="utf-8").splitlines())
    rows = [
        (
            "from `import` to the first certified count, in a new process",
            f"{time_first_answer():.1f} s",
        ),
        (
            f"a ReLU network 2 → 64 → 64 → 64, {format_entry(n_cells)} cells found and stored",
            f"{format_entry(n_cells / found)} cells/s",
        ),
        (
            "its certificate checked, with separate code",
            f"{format_entry(n_cells / checked)} cells/s",
        ),
        ("points located exactly in its cells", f"{format_entry(len(points) / located)} points/s"),
        (
            f"a transformer with three blocks and {format_entry(number)} cells, counted",
            f"{counted:.2f} s",
        ),
        ("the verifier that needs only Python", f"one file of {lines} lines"),
    ]
    return Table("", ("CPU time, one thread", ""), rows)


def main() -> None:
    began = current_moment()
    table = to_markdown(measure_facts())
    stamp = format_line("python -m benchmarks.facts", describe(began))
    print(table, stamp, sep="\n")
    if "--write" in sys.argv:
        replace_between_marks(README, "facts", f"{table}\n{stamp}\n")


if __name__ == "__main__":
    main()
