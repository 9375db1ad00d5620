"""`python -m hardmax._core`: build the core of a checkout if it is stale, and say which is used."""

from hardmax._core.library import core, library_folder

print(f"{library_folder()}: {core().hm_instruction_set().decode()}")
