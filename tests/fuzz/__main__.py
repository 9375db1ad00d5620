"""Forge files, read them, and report what should not have happened.

`python -m tests.fuzz --seconds 600 --seed 3` divides the time among all kinds of files;
`--trials 5000 --kind store` forges 5000 stores; `--kind store --seed 3 --number 17` repeats one
trial here. Trials run in a child process, whose death is a finding too. The files of a finding
are left in `build/fuzz`. See `docs/core.md`.
"""

import argparse
import sys
import time

from tests.fuzz.children import KINDS, kind_of, run_child, tried_in_children
from tests.fuzz.trials import attempt, files_of, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--kind", action="append", help=f"one of {', '.join(KINDS)}; default: all")
    parser.add_argument("--seconds", type=float, help="for all kinds together")
    parser.add_argument("--trials", type=int, help="for each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="repeat this trial in this process")
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.kind or [*KINDS]
    if given.number is not None:
        return repeat(names[0], given.seed, given.number)
    seconds = None if given.seconds is None else given.seconds / len(names)
    if given.child:
        return run_child(names[0], given.seed, given.first, given.trials, seconds)
    if seconds is None and given.trials is None:
        parser.error("give --seconds or --trials")
    n_found = 0
    for name in names:
        start = time.time()
        outcomes, findings = tried_in_children(
            name, given.seed, given.trials, seconds, first=given.first
        )
        counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        n_trials = sum(outcomes.values())
        print(f"{name}: {n_trials} trials in {time.time() - start:.0f} s: {counts}", flush=True)
        for finding in findings:
            print(f"\n{finding}\n    files: {kept(finding)}\n", flush=True)
        n_found += len(findings)
    print(f"{n_found} findings")
    return n_found > 0


def kept(finding):
    """Write the files of a finding to a folder of the checkout; return it."""
    from pathlib import Path

    files, _ = files_of(kind_of(finding.kind), finding.kind, finding.seed, finding.number)
    folder = Path("build") / "fuzz" / f"{finding.kind}-{finding.seed}-{finding.number}"
    write(files, folder)
    return folder


def repeat(name, seed, number):
    """Make one trial in this process, where a debugger sees it."""
    outcome, finding = attempt(kind_of(name), name, seed, number)
    print(outcome)
    if finding is not None:
        print(f"{finding}\n    files: {kept(finding)}")
    return finding is not None


if __name__ == "__main__":
    sys.exit(main())
