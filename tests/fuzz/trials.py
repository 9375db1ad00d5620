"""Forged files, one after the other: each is read or refused, soon and in little memory."""

import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardmax import errors
from hardmax.errors import HardmaxError, TaskError

MOST_SECONDS = 20.0
"""CPU time for one file; the searches and the questions of a trial have limits far below it."""
MOST_BYTES = 1 << 30
"""The most that the peak memory of the process may rise in one trial: readers may take 256 MiB."""

Files = dict[str, bytes]


class Kind(NamedTuple):
    """A kind of files: how they are forged, and what a user does with them.

    Attributes:
        forged: Returns the files of a trial, by name.
        used: Reads them in a folder; returns what became of them in a word.
        most_seconds: The CPU time of a trial.
        most_bytes: How much the peak memory of the process may rise in a trial.
    """

    forged: Callable[[random.Random], Files]
    used: Callable[[random.Random, Path], str]
    most_seconds: float = MOST_SECONDS
    most_bytes: int = MOST_BYTES


class Finding(NamedTuple):
    """What should not have happened, and the number of the trial."""

    kind: str
    seed: int
    number: int
    text: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz --kind {self.kind} --seed {self.seed} --number {self.number}"
        return f"{self.text}\n    again: {again}"


class FalseClaimError(AssertionError):
    """Something false was accepted, or two ways to decide disagree."""


def files_of(kind: Kind, name: str, seed: int, number: int) -> tuple[Files, random.Random]:
    """Forge the files of a trial; return the random numbers for their use, too."""
    rng = random.Random(f"{seed} {name} {number}")
    return kind.forged(rng), rng


def attempt(
    kind: Kind, name: str, seed: int, number: int, slowness: float = 1.0
) -> tuple[str, Finding | None]:
    """Forge files and use them; return what became of them, and what should not have happened."""
    files, rng = files_of(kind, name, seed, number)
    _forget_peak()
    start, before = time.process_time(), _peak_bytes()
    wrong = None
    with tempfile.TemporaryDirectory() as folder:
        write(files, Path(folder))
        try:
            with warnings.catch_warnings(), _error_state(rng):
                warnings.simplefilter("error")
                outcome = kind.used(rng, Path(folder))
        except HardmaxError as error:
            outcome = "refused"
            wrong = _raw_failure(error)
        except Exception as error:
            outcome = "raised"
            wrong = "".join(traceback.format_exception(error)[-12:])
    seconds, n_bytes = time.process_time() - start, _peak_bytes() - before
    if wrong is None and seconds > kind.most_seconds * slowness:
        wrong = f"it took {seconds:.1f} s"
    if wrong is None and n_bytes > kind.most_bytes * slowness:
        wrong = f"it took {n_bytes:,} bytes"
    return outcome, None if wrong is None else Finding(name, seed, number, wrong)


def attempts(
    kind: Kind, name: str, seed: int, numbers: Iterator[int] | range
) -> tuple[Counter, list[Finding]]:
    """Make trials in this process; return what became of the files, and the findings."""
    outcomes: Counter = Counter()
    findings = []
    for number in numbers:
        outcome, finding = attempt(kind, name, seed, number)
        outcomes[outcome] += 1
        findings += [finding] * (finding is not None)
    return outcomes, findings


def _raw_failure(error: HardmaxError) -> str | None:
    """Return the text of a `TaskError` that hides an exception of another library."""
    named = re.findall(r"\b([A-Z]\w*(?:Error|Warning)):", str(error))
    is_raw = isinstance(error, TaskError) and not all(hasattr(errors, name) for name in named)
    return str(error) if is_raw else None


def write(files: Files, folder: Path) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _error_state(rng: random.Random) -> np.errstate:
    """What the caller does about floating-point errors may not matter."""
    return np.errstate(all="raise") if rng.random() < 0.25 else np.errstate()


def _forget_peak() -> None:
    """Let the peak memory of this process begin anew, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    """Return the most memory that this process has had at once."""
    with suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
