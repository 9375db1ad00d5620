"""Run by the interpreter of another environment: cells that parx finds, and its CPU seconds.

Usage: `python drive_parx.py WEIGHTS.npz MOST_CELLS`. The arrays are `w0`, `b0`, `w1`, ... with
weights acting on row vectors, including the output layer. Prints one line of JSON. parx does not
start without Julia, although its method `exact_python` never calls it; hence this script pretends
that Julia is available.
"""

import contextlib
import json
import sys
import time
from typing import Any
from unittest import mock

import numpy as np


class _Full(Exception):  # noqa: N818
    """The requested number of cells has been found."""


class _Cells(list[Any]):
    """A list that stops the search when it is full, because parx has no limit."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def append(self, cell: Any) -> None:
        super().append(cell)
        if len(self) >= self.most:
            raise _Full


def main() -> None:
    path, most = sys.argv[1], int(sys.argv[2])
    with np.load(path) as stored:
        n_hidden = len(stored.files) // 2 - 1
        weights = [stored[f"w{i}"].T for i in range(n_hidden)]
        biases = [stored[f"b{i}"] for i in range(n_hidden)]
    dim = weights[0].shape[1]
    cells = _Cells(most)
    try:
        with mock.patch("shutil.which", return_value="julia"):
            from parx.methods import exact_python
        start = time.process_time()
        with contextlib.suppress(_Full):
            exact_python._dfs_exact(
                weights,
                biases,
                layer=0,
                A_prev=np.eye(dim),
                c_prev=np.zeros(dim),
                D_prev=np.zeros((0, dim)),
                g_prev=np.zeros(0),
                q_path=[],
                x_parent=np.linspace(0.1, 0.3, dim),
                r_parent=np.inf,
                results=cells,
            )
        answer: dict[str, Any] = {"cells": len(cells), "seconds": time.process_time() - start}
    except Exception as error:  # The program may fail in any way.
        answer = {"error": f"{type(error).__name__}: {str(error)[:120]}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
