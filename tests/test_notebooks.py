"""The gallery: every notebook runs from top to bottom, and every picture is shown."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
from matplotlib.image import imread
from nbclient import NotebookClient

GALLERY = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
# The kernel's own warnings, none of ours.
pytestmark = pytest.mark.filterwarnings("default")


def test_there_is_a_gallery():
    assert len(GALLERY) >= 6


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_is_shown(path):
    shown = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    NotebookClient(run, timeout=300, kernel_name="python3").execute()
    for before, after in zip(shown.cells, run.cells, strict=True):
        if before.cell_type == "code":
            assert texts(after) == texts(before)
            assert n_pictures(after) == n_pictures(before)
            for new, old in zip(pictures(after), pictures(before), strict=True):
                assert difference(new, old) < 0.004, before.source


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_every_cell_that_draws_shows_a_picture(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    for cell in cells:
        drawn = cell.source.count("hm.plot(") + cell.source.count("plt.subplots(")
        assert n_pictures(cell) >= min(drawn, 1), cell.source


def test_every_picture_is_shown_and_an_audit_draws_to_files(tmp_path):
    polygon = "hm.plot(hm.Polytope.from_points([[0, 0], [1, 0], [0, 1]]))"
    after = run_cells(
        f"import hardmax as hm\nax = {polygon}",
        f"ax = {polygon}\nother = {polygon}",
        "from matplotlib import pyplot as plt\nlines = plt.plot([0, 1])",
        "figure, ax = plt.subplots()\nax = hm.plot(hm.TropicalPolynomial([[1], [0]], [0, 0]), ax)",
        f"from pathlib import Path\nclaims = hm.papers.run_audit(hm.papers.find_claims('Fig3'))\n"
        f"files = hm.papers.write_audit(claims, Path({str(tmp_path)!r}))",
        f"ax = {polygon}",
    )
    assert [n_pictures(cell) for cell in after] == [1, 2, 1, 1, 0, 1]
    assert list(tmp_path.glob("*.svg"))


def run_cells(*sources):
    """Run a notebook with these cells and return them with what they put out."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook.cells


def texts(cell):
    """Return what a cell printed and returned, without pictures."""
    printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
    values = [out.data["text/plain"] for out in cell.outputs if out.output_type == "execute_result"]
    return [printed, *values]


def pictures(cell):
    """Return the pictures a cell shows, as they are stored."""
    return [
        b64decode(out.data["image/png"])
        for out in cell.outputs
        if "image/png" in out.get("data", {})
    ]


def difference(one, other):
    """Return the mean difference of two pictures, 1 if their sizes differ."""
    one, other = (imread(BytesIO(data))[..., :3] for data in (one, other))
    return abs(one - other).mean() if one.shape == other.shape else 1.0


def n_pictures(cell):
    """Return how many pictures a cell shows."""
    return len(pictures(cell))
