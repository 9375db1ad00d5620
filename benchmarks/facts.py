"""The table of measured facts in the README: `python -m benchmarks.facts`, or with `--write`.

CPU time of one thread, medians of several runs; the table says when and on what.
"""

import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.random_networks import gaussian
from hardmax.constructions import shattering_transformer
from hardmax.verify import verify

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TABLE = re.compile(r"(?<=<!-- facts -->\n).*?(?=<!-- end of facts -->)", re.DOTALL)


def median(work: Callable[[], Any], rounds: int = 5) -> tuple[float, Any]:
    """Return the median CPU time of some runs, and what the last one returned."""
    times, result = [], None
    for _ in range(rounds):
        begun = time.process_time()
        result = work()
        times.append(time.process_time() - begun)
    return statistics.median(times), result


def first_answer() -> float:
    """Return the CPU seconds of a new process for the ten lines of the README."""
    code = README.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    lines = "\n".join(re.findall(r"^>>> (.*)$", code, flags=re.MULTILINE))
    program = f"{lines}\nimport time\nprint(time.process_time())"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def facts() -> list[tuple[str, str]]:
    """Measure; return each fact with its number."""
    box = hm.Box([-5, -5], [5, 5])
    net = gaussian(0, 2, 64, 64, 64).model
    found, part = median(lambda: hm.enumerate_regions(net, box))
    certificate = part.certificate()
    checked, verdict = median(lambda: hm.verify_certificate(net, certificate), 3)
    assert verdict.ok
    points = np.random.default_rng(0).uniform(-5, 5, size=(100_000, 2))
    located, _ = median(lambda: part.locate(points), 3)
    deep = shattering_transformer(4, 2, 3, 4)
    square = hm.Box([0, 0], [1, 1])
    counted, number = median(lambda: hm.enumerate_regions(deep, square, count_only=True).n_cells, 3)
    n_cells = part.n_cells
    lines = len(Path(verify.__file__).read_text(encoding="utf-8").splitlines())
    return [
        ("from `import` to the first certified count, in a new process", f"{first_answer():.1f} s"),
        (
            f"a ReLU network 2 → 64 → 64 → 64, {_spaced(n_cells)} cells found and stored",
            f"{_spaced(n_cells / found)} cells/s",
        ),
        (
            "its certificate checked, without the code of the search",
            f"{_spaced(n_cells / checked)} cells/s",
        ),
        ("points located in its cells, exactly", f"{_spaced(len(points) / located)} points/s"),
        (
            f"a transformer with three blocks and {_spaced(number)} cells, counted",
            f"{counted:.2f} s",
        ),
        ("the verifier that needs Python alone", f"one file of {lines} lines"),
    ]


def table() -> str:
    """Return the facts as Markdown, with date and machine."""
    rows = "".join(f"| {fact} | {number} |\n" for fact, number in facts())
    return (
        f"| CPU time, one thread | |\n|---|---|\n{rows}\n"
        f"*Measured by `python -m benchmarks.facts` on {date.today()}, {processor()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}.*\n"
    )


def processor() -> str:
    """Return what the machine calls its processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def _spaced(number: float) -> str:
    """Write an integer with two or three digits that count, and spaces between thousands."""
    digits = len(str(int(number)))
    rounded = int(number) if isinstance(number, int) else round(number, 2 - digits)
    return f"{int(rounded):,}".replace(",", " ")


def main() -> None:
    text = table()
    print(text)
    if "--write" in sys.argv:
        readme = README.read_text(encoding="utf-8")
        README.write_text(TABLE.sub(text.replace("\\", r"\\"), readme), encoding="utf-8")


if __name__ == "__main__":
    main()
