"""The site: what its pages are made of. `make docs` builds it, and lets no warning pass."""

import doctest
import inspect
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.image import imread

from hardmax._ground.public_names import PACKAGES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SCRIPTS = DOCS / "site"
pytest.importorskip("sphinx", reason="the site is built with `make docs`")
pytest.importorskip("latex2mathml", reason="the site is built with `make docs`")


@pytest.fixture(scope="module", autouse=True)
def site_on_path():
    sys.path.insert(0, str(SCRIPTS))
    yield
    sys.path.remove(str(SCRIPTS))


def test_every_page_stands_once_in_the_sidebar():
    made_pages = import_module("made_pages")
    text = made_pages.sidebar((DOCS / "README.md").read_text())
    listed = [line for line in text.splitlines() if re.fullmatch(r"[\w/]+", line)]
    written = {path.stem for path in DOCS.glob("*.md")} - {"README", "index"}
    made = [page for pages in made_pages.MADE.values() for page in pages]
    assert sorted(listed) == sorted([*written, *made])


def test_examples_of_what_makes_the_pages_run():
    for path in sorted(SCRIPTS.glob("*.py")):
        assert doctest.testmod(import_module(path.stem)).failed == 0


def test_every_public_name_is_in_the_reference_with_its_docstring_and_example():
    pages = import_module("api_pages").reference_pages()
    for package in PACKAGES:
        for name in import_module(package).__all__:
            thing = getattr(import_module(package), name)
            if not inspect.ismodule(thing):
                assert ">>>" in inspect.getdoc(thing), name
                assert re.search(
                    rf"^\.\. auto\w+:: {package}\.{name}$", pages[f"reference/{package}.md"], re.M
                )


def formulas(text):
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    return re.findall(r"\$\$?([^$]+)\$\$?", text)


def test_formulas_can_be_set():
    convert = import_module("latex2mathml.converter").convert
    texts = [path.read_text() for path in DOCS.glob("*.md")]
    found = {formula for text in texts for formula in formulas(text)}
    assert len(found) > 100
    for formula in found:
        assert convert(formula).startswith("<math"), formula


def test_a_picture_is_that_of_the_lines_above_it():
    page = """```python
>>> import hardmax as hm
>>> ax = hm.plot(hm.Polytope.from_points([[0, 0], [1, 0], [0, 1]]))
>>> shown = ax.set_title("one")

```

```python
>>> shown = ax.set_title("two")

```
"""
    titles = [
        import_module("drawn").last_figure(page, line).axes[0].get_title() for line in (6, 12)
    ]
    assert titles == ["one", "two"]


def test_every_notebook_is_in_the_gallery_with_its_pictures():
    pages = import_module("notebooks").gallery_pages(ROOT / "examples")
    for path in (ROOT / "examples").glob("*.ipynb"):
        assert f"gallery/{path.stem}.md" in pages
        shown = re.findall(r"\]\((\w+\.png)\)", pages[f"gallery/{path.stem}.md"])
        assert len(shown) == path.read_text().count('"image/png"')
        assert all(f"gallery/{name}" in pages for name in shown)


def test_the_first_picture_is_what_its_script_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "images")
    import_module("partitions").draw(tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == sorted(p.name for p in (DOCS / "images").glob("*.png"))
    for path in drawn:
        new, old = imread(path), imread(DOCS / "images" / path.name)
        assert new.shape == old.shape
        assert abs(new - old).mean() < 0.004


def test_the_badges_say_what_the_package_says():
    badges = (DOCS / "images" / "badges.svg").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert f">{versions[0]} – {versions[-1]}<" in badges
    assert f">{project['license']}<" in badges
    assert project["requires-python"] == f">={versions[0]}"


def test_every_reference_has_a_title_and_no_braces():
    text = import_module("bibliography").bibliography_page(DOCS / "references.bib")
    entries = (DOCS / "references.bib").read_text()
    assert len(re.findall(r"^\(\w+\)=$", text, re.M)) == len(re.findall(r"^@", entries, re.M))
    assert "{" not in text
    assert "**" in text
    assert ": **." not in text
    assert "\\" not in text


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a> <a href="#here">a</a>'
    )
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here">a</a> <a href="https://example.org">out</a>'
    )
    check = import_module("check_links").broken_links
    assert check(tmp_path) == ["a.html: b.html#there"]
    (tmp_path / "b.html").write_text(
        '<p id="there"><script src="https://example.org/x.js"></script>'
    )
    assert [line.partition(" ")[0] for line in check(tmp_path)] == ["b.html:"]
    (tmp_path / "b.html").unlink()
    assert check(tmp_path) == ["a.html: b.html#there"]


def test_a_formula_with_an_unknown_command_is_a_warning(monkeypatch):
    site = import_module("mathml")
    said = []
    monkeypatch.setattr(site.logger, "warning", lambda *words, **_: said.append(words))
    assert "<mi>tanh</mi><mspace" in site.mathml(r"\tanh x", None, "inline")
    assert not said
    site.mathml(r"\unheard x", None, "inline")
    assert len(said) == 1


def long_description(urls):
    """Return what the build of the package is told, if `[project.urls]` has these."""
    builder = pytest.importorskip("scikit_build_core.builder._load_provider")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    given = {**project["project"], "urls": urls}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        found = builder.process_dynamic_metadata(given, project["tool"]["dynamic-metadata"])
    assert found["readme"]["content-type"] == "text/markdown"
    return found["readme"]["text"]


def test_links_of_the_long_description_are_absolute():
    text = long_description({"Documentation": "https://example.org/hardmax/"})
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert len(targets) > 20
    assert all(target.startswith("https://example.org/hardmax/") for target in targets)
    pages = import_module("made_pages")
    made = {page for some in pages.MADE.values() for page in some}
    for target in targets:
        file = target.removeprefix("https://example.org/hardmax/").partition("#")[0]
        stem = file.removesuffix(".html")
        assert stem in made or (DOCS / f"{stem}.md").exists() or file in pages.CARRIED.values()


def test_without_an_address_the_long_description_has_no_links():
    text = long_description({})
    assert "](" not in text
    assert "hm.enumerate_regions(model" in text
