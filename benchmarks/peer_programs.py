"""Run a program that counts cells, in this process or another, and measure its CPU seconds.

relucent and parx need a separate environment, and SyReNN a program built from `drive_syrenn.cc`. If
one of them is missing, the outcome states this.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.random_networks import Weights
from hardmax.typing import FloatArray

_LEAST_SECONDS = 0.3
_HERE = Path(__file__).parent


class Outcome(NamedTuple):
    """The cells found by a program and its CPU seconds, or the reason for finding none.

    `setup` is the CPU seconds before the search, if they were measured separately.
    """

    cells: int = 0
    seconds: float = 0.0
    remark: str = ""
    setup: float = 0.0


class Programs(NamedTuple):
    """The paths of the other programs, if they are available."""

    python: str | None
    syrenn: str | None


def measure_outcome(count: Callable[[], int], least_seconds: float = _LEAST_SECONDS) -> Outcome:
    """Run a function that counts cells a few times, and keep the best time."""
    try:
        cells, spent, best = count(), 0.0, np.inf
        while spent < least_seconds:
            start = time.process_time()
            count()
            seconds = time.process_time() - start
            spent, best = spent + seconds, min(best, seconds)
    except Exception as error:  # A baseline may fail in any way on degenerate inputs.
        return Outcome(remark=type(error).__name__)
    return Outcome(cells, best)


def add_outcomes(found: Sequence[Outcome]) -> Outcome:
    """Add outcomes; if one of them found nothing, there is no sum."""
    for one in found:
        if not one.cells:
            return one
    return Outcome(
        sum(one.cells for one in found), sum(one.seconds for one in found), found[-1].remark
    )


def run_in_python(name: str, python: str | None, net: Weights, most: int) -> Outcome:
    """Count with `drive_NAME.py` on the whole space, up to `most` cells."""
    if not python:
        return Outcome(remark="not there")
    named = {f"w{i}": w for i, w in enumerate(net.weights)}
    named |= {f"b{i}": b for i, b in enumerate(net.biases)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        np.savez(path, **named)  # type: ignore[arg-type]
        answer = _read_answer([python, str(_HERE / f"drive_{name}.py"), str(path), str(most)])
    if "error" in answer:
        return Outcome(remark=answer["error"].split(":")[0])
    cells = int(answer["cells"])
    return Outcome(cells, answer["seconds"], "stopped" if cells >= most else "")


def run_syrenn(
    program: str | None,
    net: Weights,
    domains: Sequence[FloatArray],
    least_seconds: float = _LEAST_SECONDS,
) -> list[Outcome]:
    """Count with SyReNN on segments (2 points) and polygons (more points, counterclockwise)."""
    if not program:
        return [Outcome(remark="not there")] * len(domains)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.txt"
        with path.open("w") as file:
            print(len(net.weights), file=file)
            for weight, bias in zip(net.weights, net.biases, strict=True):
                print(*weight.shape, file=file)
                # Nine digits distinguish all float32 numbers.
                np.savetxt(file, np.vstack([weight, bias]), fmt="%.9g")
            print(len(domains), file=file)
            for points in domains:
                print(len(points), file=file)
                np.savetxt(file, points, fmt="%.9g")
        answer = _read_answer([program, str(path), str(least_seconds)])
    if "setup" not in answer:
        remark = answer.get("error", "an old driver, to be built again")
        return [Outcome(remark=remark)] * len(domains)
    return [
        Outcome(cells, seconds, setup=answer["setup"])
        for cells, seconds in zip(answer["cells"], answer["seconds"], strict=True)
    ]


def _read_answer(command: list[str]) -> dict[str, Any]:
    """Run a driver and read its last line."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    lines = run.stdout.strip().splitlines()
    if run.returncode != 0 or not lines:
        return {"error": "did not run"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
