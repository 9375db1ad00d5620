"""The house rules that a machine can check."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "core", "base"}
MODULES = sorted(SOURCE.rglob("*.py"))


def test_every_module_is_named_after_its_subject():
    for path in MODULES:
        assert path.stem not in VAGUE_NAMES, path


def imported_by(code):
    """Return the names of all modules a fresh interpreter has loaded after running `code`."""
    listing = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import hardmax", "import hardmax.cli.main"])
def test_slow_libraries_load_only_when_used(code):
    slow = {"matplotlib", "scipy", "flint", "highspy", "torch"}
    assert not slow & imported_by(code)


def test_every_module_documents_itself():
    for path in MODULES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
        assert module.__doc__, module.__name__


def test_every_file_that_names_the_version_names_the_same():
    spelled = {
        "src/hardmax/__init__.py": r'__version__ = "(.*)"',
        "pyproject.toml": r'^version = "(.*)"',
        "CITATION.cff": r"^version: (.*)$",
        "docs/cite.md": r"^  version = \{(.*)\}",
        "release/conda.yaml": r'^  version: "(.*)"',
    }
    found = {
        re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)[1]
        for name, pattern in spelled.items()
    }
    assert len(found) == 1
    assert f"\n## {found.pop()} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_constraints_name_no_host():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert "://" not in line
        assert "@" not in line


def test_the_recipe_for_conda_needs_and_installs_what_the_package_does():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "release" / "conda.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE)[1]
    needed = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    stated = {f"python{project['requires-python']}", *project["dependencies"]}
    assert needed == {name.replace("matplotlib>", "matplotlib-base>") for name in stated}
    commands = {f"{name} = {place}" for name, place in project["scripts"].items()}
    entries = re.search(r"^    entry_points:\n((?:      - .*\n)+)", recipe, re.MULTILINE)[1]
    assert {line.strip("- ") for line in entries.splitlines()} == commands
