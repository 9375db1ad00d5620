"""One program on one input: what it found, its CPU seconds and its peak memory."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Measured:
    """What a program found.

    Attributes:
        program: Its name; the first entry of a comparison is ours.
        count: What it counted; None if it did not run.
        seconds: CPU seconds, set-up of the model included, the least of several runs.
        megabytes: How far its memory rose above what was in use before; None if not known.
        remark: Why it did not run, or what its time stands for.
    """

    program: str
    count: int | None = None
    seconds: float = 0.0
    megabytes: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Comparison:
    """Programs side by side on one input.

    Attributes:
        case: What is counted.
        truth: The right count, decided in integers.
        found: Ours first, then the others.
        least: For a program by name, how many times as fast as it we have to be at least.
    """

    case: str
    truth: int
    found: tuple[Measured, ...]
    least: dict[str, float] = field(default_factory=dict)

    def ratio(self, other: Measured) -> float | None:
        """Return how many times as long as ours another program takes; None if it is wrong."""
        ours = self.found[0]
        if other.count != self.truth or ours.count != self.truth:
            return None
        return other.seconds / ours.seconds

    @property
    def failures(self) -> list[str]:
        """Say what is wrong with ours: its count, or that a ratio fell below what is asked."""
        ours = self.found[0]
        if ours.count != self.truth:
            return [f"{self.case}: {ours.program} counts {ours.count}, not {self.truth}"]
        slow = []
        for other in self.found[1:]:
            ratio, least = self.ratio(other), self.least.get(other.program)
            if ratio is not None and least is not None and ratio < least:
                slow.append(
                    f"{self.case}: {ratio:.2f} times as fast as {other.program}, not {least:g}"
                )
        return slow


def cpu_seconds(work: Callable[[], Result], rounds: int = 1) -> tuple[Result, float]:
    """Return what the last of some calls returned, and the median of their CPU seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return result, statistics.median(times)


def cpu_seconds_and_megabytes(work: Callable[[], Result]) -> tuple[Result, float, float | None]:
    """Return what a call returned, its CPU seconds, and how far memory rose meanwhile."""
    before = _forget_peak()
    result, seconds = cpu_seconds(work)
    risen = _peak()
    return result, seconds, None if before is None or risen is None else max(risen - before, 0.0)


def measure(program: str, count: Callable[[], int], least_seconds: float = 0.3) -> Measured:
    """Run something that counts, first for its memory, then again and again for its time."""
    try:
        found, _, risen = cpu_seconds_and_megabytes(count)
        best, spent = float("inf"), -1.0
        while spent < least_seconds:
            start = time.process_time()
            count()
            seconds = time.process_time() - start
            best, spent = min(best, seconds), max(spent, 0.0) + seconds
    except Exception as error:  # A program may fail in any way on degenerate input.
        return Measured(program, remark=f"raises {type(error).__name__}")
    return Measured(program, found, best, risen)


def _forget_peak() -> float | None:
    """Set the peak of this process's memory to what is in use, and return that, in megabytes."""
    try:
        _CLEAR.write_text("5")
    except OSError:  # Only Linux can.
        return None
    return _status("VmRSS")


def _peak() -> float | None:
    return _status("VmHWM") if _STATUS.exists() else None


def _status(name: str) -> float:
    (line,) = (one for one in _STATUS.read_text().splitlines() if one.startswith(name))
    return int(line.split()[1]) / 1024.0
