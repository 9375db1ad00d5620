"""Run every benchmark, or those named: `python -m benchmarks maxplus minkowski`."""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    available = sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")] or available
    unknown = sorted(set(wanted) - set(available))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(available)}")
    # A benchmark reads its own flags (--full, say) from the command line.
    sys.argv = [sys.argv[0], *(word for word in sys.argv[1:] if word.startswith("-"))]
    for name in wanted:
        print(f"== {name}", flush=True)
        import_module(f"benchmarks.bench_{name}").main()


if __name__ == "__main__":
    main()
