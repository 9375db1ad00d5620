"""Print the tables of all or some benchmarks: `python -m benchmarks minkowski growth`.

With `--full`, also run the measurements that take minutes.
"""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.tables import to_markdown


def list_benchmarks() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )


def select_benchmarks(words: list[str]) -> list[str]:
    """Return the benchmarks named on the command line; by default, all."""
    unknown = sorted(set(words) - set(list_benchmarks()))
    if unknown:
        sys.exit(
            f"no such benchmark: {', '.join(unknown)}; there are {', '.join(list_benchmarks())}"
        )
    return words or list_benchmarks()


def main() -> None:
    for name in select_benchmarks([word for word in sys.argv[1:] if not word.startswith("-")]):
        for table in import_module(f"benchmarks.bench_{name}").tables():
            print(to_markdown(table), flush=True)


if __name__ == "__main__":
    main()
