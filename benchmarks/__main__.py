"""Print the tables of every benchmark, or of those named: `python -m benchmarks minkowski growth`.

With `--full` those are measured as well that take minutes.
"""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.tables import markdown


def available() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )


def chosen(words: list[str]) -> list[str]:
    """Return the benchmarks that are named; all if none is."""
    unknown = sorted(set(words) - set(available()))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(available())}")
    return words or available()


def main() -> None:
    for name in chosen([word for word in sys.argv[1:] if not word.startswith("-")]):
        for table in import_module(f"benchmarks.bench_{name}").tables():
            print(markdown(table), flush=True)


if __name__ == "__main__":
    main()
