"""One program on one input: its result, its CPU seconds and its peak memory."""

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
    """The result of a program.

    Attributes:
        program: The name of the program; the first entry of a comparison is hardmax.
        count: The count; None if the program did not run.
        seconds: The minimum CPU seconds of several runs, including the set-up of the model.
        megabytes: The increase of the memory in use; None if not known.
        remark: The reason why the program did not run, or a remark on its time.
    """

    program: str
    count: int | None = None
    seconds: float = 0.0
    megabytes: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Comparison:
    """Several programs on one input.

    Attributes:
        case: A description of the input.
        truth: The correct count, decided in integers.
        found: The results, hardmax first.
        least: The minimum required speedup over each program, by name.
    """

    case: str
    truth: int
    found: tuple[Measured, ...]
    least: dict[str, float] = field(default_factory=dict)

    def ratio(self, other: Measured) -> float | None:
        """Return the time of another program relative to ours; None if its count is wrong."""
        ours = self.found[0]
        if other.count != self.truth or ours.count != self.truth:
            return None
        return other.seconds / ours.seconds

    @property
    def failures(self) -> list[str]:
        """Describe the failures of hardmax: a wrong count, or a ratio below the required one."""
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
    """Return the result of the last of several calls, and the median of their CPU seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return result, statistics.median(times)


def cpu_seconds_and_megabytes(work: Callable[[], Result]) -> tuple[Result, float, float | None]:
    """Return the result of a call, its CPU seconds, and the increase of the peak memory."""
    before = _forget_peak()
    result, seconds = cpu_seconds(work)
    risen = _peak()
    return result, seconds, None if before is None or risen is None else max(risen - before, 0.0)


def measure(program: str, count: Callable[[], int], least_seconds: float = 0.3) -> Measured:
    """Run a count once for its memory, and then repeatedly for its time."""
    try:
        found, _, risen = cpu_seconds_and_megabytes(count)
        best, spent = float("inf"), -1.0
        while spent < least_seconds:
            start = time.process_time()
            count()
            seconds = time.process_time() - start
            best, spent = min(best, seconds), max(spent, 0.0) + seconds
    except Exception as error:  # A program may fail in any way on degenerate inputs.
        return Measured(program, remark=f"raises {type(error).__name__}")
    return Measured(program, found, best, risen)


def _forget_peak() -> float | None:
    """Reset the peak memory of this process to its current memory, and return that in megabytes."""
    try:
        _CLEAR.write_text("5")
    except OSError:  # Only Linux supports this.
        return None
    return _status("VmRSS")


def _peak() -> float | None:
    return _status("VmHWM") if _STATUS.exists() else None


def _status(name: str) -> float:
    (line,) = (one for one in _STATUS.read_text().splitlines() if one.startswith(name))
    return int(line.split()[1]) / 1024.0
