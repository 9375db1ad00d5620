"""The core once for each instruction set that this processor runs."""

from hardmax._core.library import INSTRUCTION_SETS, library_folder, load

FOLDER = library_folder()
_WIDEST = load(FOLDER, "baseline").hm_widest_instruction_set().decode()
RUNNABLE = INSTRUCTION_SETS[: INSTRUCTION_SETS.index(_WIDEST) + 1]
LIBRARIES = [load(FOLDER, name) for name in RUNNABLE]
