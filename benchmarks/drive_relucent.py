"""Run by the interpreter of another environment: cells that relucent finds, and its CPU seconds.

Usage: `python drive_relucent.py WEIGHTS.npz MOST_CELLS`. The arrays are `w0`, `b0`, `w1`, ... with
weights acting on row vectors, including the output layer. Prints one line of JSON.
"""

import json
import os
import sys

import numpy as np


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    from relucent import Complex, convert

    path, most = sys.argv[1], int(sys.argv[2])
    with np.load(path) as stored:
        n_layers = len(stored.files) // 2
        pairs = [(stored[f"w{i}"].T, stored[f"b{i}"]) for i in range(n_layers)]
    try:
        found = Complex(convert(pairs))
        start = cpu_seconds()
        found.bfs(max_polys=most, nworkers=1, verbose=0)
        answer = {"cells": len(found), "seconds": cpu_seconds() - start}
    except Exception as error:  # The program may fail in any way.
        answer = {"error": f"{type(error).__name__}: {str(error)[:120]}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
