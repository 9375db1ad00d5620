"""`python -m hardmax._core`: build the core if it is stale, and print its location."""

from hardmax._core.library import core, library_folder

print(f"{library_folder()}: {core().hm_instruction_set().decode()}")
