"""The gallery: every notebook runs from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

GALLERY = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_there_is_a_gallery():
    assert len(GALLERY) >= 6


@pytest.mark.filterwarnings("default")  # the kernel's own, none of ours
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_is_shown(path):
    shown = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    NotebookClient(run, timeout=300, kernel_name="python3").execute()
    for before, after in zip(shown.cells, run.cells, strict=True):
        if before.cell_type == "code":
            assert texts(after) == texts(before)


def texts(cell):
    """Return what a cell printed and returned, without pictures."""
    printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
    values = [out.data["text/plain"] for out in cell.outputs if out.output_type == "execute_result"]
    return [printed, *values]
