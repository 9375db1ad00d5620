"""The longer measurements of README.md: `python -m benchmarks.longer [--write] [NAME ...]`.

Each benchmark runs in a separate process, one after the other, and prints its tables. With
`--write`, they replace the text between the marks of that name in README.md, with date and machine.
If a benchmark fails, its old text is kept, and the command ends with status 1 and names it.
`--full` also runs the measurements that take minutes.
"""

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.__main__ import list_benchmarks, select_benchmarks
from benchmarks.machine import current_moment, describe, format_line
from benchmarks.tables import replace_between_marks

_README = Path(__file__).with_name("README.md")
_MODULE = "benchmarks"
_MOST_SECONDS = 1800


def run_benchmark(name: str, options: list[str]) -> str | None:
    """Return the tables of a benchmark as Markdown; None if it fails."""
    command = [sys.executable, "-m", _MODULE, name, *options]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return run.stdout.strip() if run.returncode == 0 and run.stdout.strip() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    parser.add_argument("--full", action="store_true", help="what takes minutes as well")
    parser.add_argument("names", nargs="*", help=", ".join(list_benchmarks()))
    wanted = parser.parse_args()
    options = ["--full"] if wanted.full else []
    first, failed = current_moment(), []
    for name in select_benchmarks(wanted.names):
        # The load before the first benchmark, because later ones would include the previous
        # benchmarks.
        began = replace(current_moment(), load=first.load)
        text = run_benchmark(name, options)
        if text is None:
            failed.append(name)
            continue
        command = " ".join(["python -m benchmarks", name, *options])
        text = f"{text}\n\n{format_line(command, describe(began))}"
        print(text, end="\n\n", flush=True)
        if wanted.write:
            replace_between_marks(_README, name, f"{text}\n")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
