"""The examples people read first are run as they stand."""

import contextlib
import doctest
import inspect
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import hardmax as hm
from hardmax._ground.public_names import PACKAGES
from hardmax.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def shell(line):
    """Run a line of a `console` block: a command of ours in this process, others by themselves."""
    words = shlex.split(line)
    if words[0] == "hardmax":
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(SystemExit):
            patch.setattr(sys, "argv", words)
            main.run()
    else:
        assert words[0] == "python"
        done = subprocess.run(
            [sys.executable, *words[1:]], capture_output=True, text=True, check=True
        )
        print(done.stdout, end="")


def as_examples(text):
    """Return a page whose `console` blocks are examples of Python: `$ hardmax` calls `shell`."""

    def called(block):
        shown = re.sub(r"^\$ (.*)$", lambda line: f">>> shell({line[1]!r})", block[1], flags=re.M)
        return f"```console\n{shown}\n```"

    return re.sub(r"^```console\n(.*?)^```", called, text, flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_on_the_page_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "src").symlink_to(ROOT / "src")
    text = as_examples(page.read_text(encoding="utf-8"))
    found = doctest.DocTestParser().get_doctest(text, {"shell": shell}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(found).failed == 0


def test_the_classifier_of_the_tutorial_is_trained_as_shown(tmp_path):
    """By its script, for two steps; what the pages read has the same tensors."""
    torch = pytest.importorskip("torch")
    load = import_module("safetensors.numpy").load_file
    script = Path(shutil.copy(ROOT / "examples" / "train_spirals.py", tmp_path))
    subprocess.run([sys.executable, script, "2"], check=True, capture_output=True)
    made, kept = (load(folder / "spirals.safetensors") for folder in (tmp_path, ROOT / "examples"))
    assert {name: array.shape for name, array in made.items()} == {
        name: array.shape for name, array in kept.items()
    }
    layers = torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU()
    module = torch.nn.Sequential(*layers, torch.nn.Linear(16, 2)).double()
    module.load_state_dict({name: torch.tensor(array) for name, array in kept.items()})
    read = hm.constructions.read_network_file(ROOT / "examples" / "spirals.safetensors").network
    for one, other in zip(hm.from_torch(module).weights, read.weights, strict=True):
        assert (one == other).all()


def test_the_readme_has_examples():
    examples = doctest.DocTestParser().get_examples((ROOT / "README.md").read_text())
    assert len(examples) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_on_the_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_named_on_the_page_exist(page):
    tops = ("src", "core", "tests", "benchmarks", "examples", "release")
    known = [f"/{path.relative_to(ROOT)}" for top in tops for path in (ROOT / top).rglob("*")]
    named = re.findall(r"[\w/]+\.(?:py|hpp|cpp)\b", page.read_text())
    missing = [
        name for name in named if not any(path.endswith(f"/{name.lstrip('/')}") for path in known)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_on_the_page_exist(page):
    """Those in blocks that are not run, because they name files of the reader's."""
    makefile = (ROOT / "Makefile").read_text()
    commands = typer.main.get_command(main.app).commands
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text(), re.M | re.S):
        for name in re.findall(r"^make ([a-z]+)", block, re.M):
            assert f"\n{name}:" in makefile
        for name, rest in re.findall(r"^hardmax ([a-z]+)(.*)", block, re.M):
            options = {option for param in commands[name].params for option in param.opts}
            assert set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= options, (name, rest)


def test_every_public_class_is_among_the_words():
    words = (ROOT / "docs" / "symbols.md").read_text()
    for package in map(import_module, PACKAGES):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isclass(found) and found.__module__ not in (
                "hardmax.errors",
                "hardmax.typing",
            ):
                assert f"`{name}" in words, name


def test_every_class_among_the_words_exists():
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "core").rglob("*.hpp")]
    text = "\n".join(path.read_text() for path in sources)
    made = set(re.findall(r"^(?:class|struct) (\w+)", text, re.MULTILINE))
    words = (ROOT / "docs" / "symbols.md").read_text()
    assert set(re.findall(r"`([A-Z][a-z]\w+)`", words)) <= made


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in ("README.md", "index.md") or f"]({page.name})" in index


def test_every_cited_work_is_listed():
    citation = re.compile(r"\[([A-Z][A-Za-z]*\d\d)(?:,[^\]]*)?\]")
    listed = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.M))
    texts = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    cited = {key for text in texts for key in citation.findall(text.read_text())}
    assert cited <= listed


def test_theorems_of_other_works_are_not_quoted_by_number():
    numbered = re.compile(
        r"(?:Theorem|Lemma|Proposition|Corollary) [0-9IVX][0-9.]*[a-z]? (?:of|in) \[(\w+)\]"
    )
    texts = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    quoted = {key for text in texts for key in numbered.findall(text.read_text())}
    assert quoted == {"SL26"}


def test_entries_that_could_not_be_confirmed_say_so():
    entries = (ROOT / "docs" / "references.bib").read_text()
    doubtful = re.findall(r"^@\w+\{(\w+),.*not confirmed", entries, re.M)
    assert set(doubtful) >= {"Wei12", "KS87", "TM99", "GT77", "Gor73"}
    assert len(doubtful) < len(re.findall(r"^@", entries, re.M)) / 5
