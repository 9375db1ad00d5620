"""The core once for each instruction set that this processor runs."""

import subprocess
import sys

from hardmax._core.library import INSTRUCTION_SETS, library_folder, load

FOLDER = library_folder()
_WIDEST = load(FOLDER, "baseline").hm_widest_instruction_set().decode()
RUNNABLE = INSTRUCTION_SETS[: INSTRUCTION_SETS.index(_WIDEST) + 1]
LIBRARIES = [load(FOLDER, name) for name in RUNNABLE]


def printed(name, program):
    """Return the words that a program prints in a process of its own, with one of them loaded."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"HARDMAX_CPU": name, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()
