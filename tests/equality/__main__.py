"""Compare the answers of all models with those kept in git, or write them."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from typing import Any

from tests.equality.answers import (
    FILE,
    answer,
    answer_if_quick,
    differences,
    read_answers,
    report,
    write_answers,
)
from tests.equality.models import all_names


def main() -> int:
    """Run the command and return its exit status."""
    options = _parsed()
    if options.write:
        return _write(options.processes, options.force)
    kept = read_answers()
    names = options.only or [*kept]
    unknown = [name for name in names if name not in kept]
    if unknown:
        print(f"No answers are kept for {', '.join(unknown)}.")
        return 1
    began, n_different = time.monotonic(), 0
    for found in _mapped(answer, names, options.processes):
        name = found["name"]
        if options.only:
            print("\n".join(f"{k:15}{v}" for k, v in found.items()))
        different = differences(kept[name], found)
        if different:
            n_different += 1
            print(report(name, different), flush=True)
    seconds = time.monotonic() - began
    print(f"{len(names)} models compared, {n_different} differ, {seconds:.0f} s")
    return 1 if n_different else 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="compare these models only")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="write the answers of this tree")
    parser.add_argument("--force", action="store_true", help="replace answers that are kept")
    return parser.parse_args()


def _write(processes: int, force: bool) -> int:
    """Ask the models that the file has, or all small ones if there is no file."""
    if FILE.exists() and not force:
        print(f"{FILE} exists. To replace the answers, add --force.")
        return 1
    if FILE.exists():
        rows = [*_mapped(answer, [*read_answers()], processes)]
    else:
        rows = [row for row in _mapped(answer_if_quick, all_names(), processes) if row]
    write_answers(rows)
    for row in rows:
        for question, text in row.items():
            if ": " in text or "!" in text:
                print(f"{row['name']}: {question} is {text!r}")
    print(f"{len(rows)} models written to {FILE}")
    return 0


def _mapped(function: Callable[[str], Any], names: Iterable[str], processes: int) -> Iterator[Any]:
    if processes == 1:
        yield from map(function, names)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(function, names, chunksize=16)


if __name__ == "__main__":
    sys.exit(main())
