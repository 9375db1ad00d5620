"""Trials in child processes: one that crashes, hangs or runs out of memory is a finding."""

import faulthandler
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

from tests.fuzz.trials import Finding, Kind, attempt, files_of

KINDS = {
    "model": "tests.fuzz.model_files:MODELS",
    "store": "tests.fuzz.stores:STORES",
    "partition": "tests.fuzz.partitions:PARTITIONS",
    "certificate": "tests.fuzz.certificates:CERTIFICATES",
}
IS_SANITIZED = os.environ.get("HARDMAX_BUILD") == "sanitize"
SLOWNESS = 8.0 if IS_SANITIZED else 1.0
"""What the sanitizers cost, in time and memory."""
MOST_ADDRESSES = 6 << 30
"""The address space of a child; with the sanitizers there is no limit, as they map terabytes."""
MOST_WAIT = 900.0
"""Seconds by the clock: a trial that waits for something takes no CPU time."""


def kind_of(name: str) -> Kind:
    """Return a kind by its name, or by module and name."""
    module, _, attribute = KINDS.get(name, name).partition(":")
    return getattr(importlib.import_module(module), attribute)


def run_child(name: str, seed: int, first: int, n_trials: int | None, seconds: float | None) -> int:
    """Make trials, and write a line of JSON before and after each; the process may die of one."""
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    kind = kind_of(name)
    # The corpus is made before the clock starts.
    files_of(kind, name, seed, first)
    end = None if seconds is None else time.time() + seconds
    number = first
    while (n_trials is None or number < first + n_trials) and (end is None or time.time() < end):
        print(json.dumps({"number": number}), flush=True)
        # Twice the limit for one trial: what ends by itself is reported with its time.
        signal.setitimer(signal.ITIMER_PROF, 2.0 * kind.most_seconds * SLOWNESS)
        faulthandler.dump_traceback_later(MOST_WAIT, exit=True)
        outcome, finding = attempt(kind, name, seed, number, SLOWNESS)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
        text = None if finding is None else finding.text
        print(json.dumps({"outcome": outcome, "text": text}), flush=True)
        number += 1
    return 0


def tried_in_children(
    name: str, seed: int, n_trials: int | None, seconds: float | None, *, first: int = 0
) -> tuple[Counter, list[Finding]]:
    """Make trials of a kind; return what became of the files, and the findings.

    Args:
        name: The kind.
        seed: The seed of all trials.
        n_trials: How many trials; None for as many as there is time for.
        seconds: How long, by the clock; None for as long as it takes.
        first: The number of the first trial.
    """
    end = None if seconds is None else time.time() + seconds
    last = None if n_trials is None else first + n_trials
    outcomes: Counter = Counter()
    findings = []
    number = first
    while (last is None or number < last) and (end is None or time.time() < end):
        command = [sys.executable, "-m", "tests.fuzz", "--child", "--kind", name]
        command += ["--seed", str(seed), "--first", str(number)]
        command += [] if last is None else ["--trials", str(last - number)]
        command += [] if end is None else ["--seconds", str(end - time.time())]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
        ):
            for line in child.stdout:
                # A line that is cut off: the child has died while it wrote it.
                entry = json.loads(line) if line.endswith("\n") else {}
                number = entry.get("number", number)
                if "outcome" in entry:
                    outcomes[entry["outcome"]] += 1
                    if entry["text"] is not None:
                        findings.append(Finding(name, seed, number, entry["text"]))
                    number += 1
            code = child.wait()
            if code == 0:
                break
            errors.seek(0)
            reason = f"the process ended with status {code}:\n{errors.read()[-8000:]}"
            findings.append(Finding(name, seed, number, reason))
            outcomes["died"] += 1
            number += 1
    return outcomes, findings
