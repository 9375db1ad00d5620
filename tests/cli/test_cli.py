"""The command line: quick help, clear error messages, and results that are kept."""

import subprocess
import sys
from pathlib import Path

import pytest

from hardmax import __version__
from hardmax._ground.records import Record
from hardmax.cli.audit_beside import start_audit, wait_for_audit
from hardmax.errors import ArgumentError
from hardmax.papers.experiment_runs import run_experiments
from hardmax.papers.registry import experiment_titles


def hardmax(*words, **options):
    command = [str(Path(sys.executable).with_name("hardmax")), *words]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_the_version_is_printed():
    assert hardmax("--version").stdout.strip() == __version__


def test_help_lists_the_commands():
    shown = hardmax("--help").stdout
    assert "reproduce" in shown
    commands = [line for line in shown.partition("Commands:")[2].splitlines() if line.strip()]
    assert len(commands) == 13
    for line in commands:
        assert line.endswith("."), line
        assert not line.endswith("..."), line


def test_experiments_are_listed():
    lines = hardmax("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(experiment_titles())


def test_versions_are_printed():
    assert "numpy" in hardmax("info").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "fig99"), "`NAMES` must be among"),
        (("reproduce", "log-lift", "--out", "/dev/null/x"), "`--out` must be a writable folder"),
    ],
)
def test_a_refusal_is_one_line_and_no_traceback(words, message):
    done = hardmax(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_finished_experiment_is_kept_until_its_question_changes(tmp_path):
    (first,) = run_experiments(["log-lift"], tmp_path)
    files = {f"log-lift.{suffix}" for suffix in ("json", "svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {*files, "tables"}
    (kept,) = run_experiments(["log-lift"], tmp_path)
    assert kept == first
    changed = Record(first.name, {**first.parameters, "keys": [0.0]}, first.results)
    changed.save(tmp_path / "log-lift.json")
    (renewed,) = run_experiments(["log-lift"], tmp_path)
    assert renewed.parameters == first.parameters
    (tmp_path / "log-lift.json").write_text("killed while wri")
    (again,) = run_experiments(["log-lift"], tmp_path)
    assert again.results == first.results


def test_a_failing_disk_is_one_line_and_no_traceback():
    code = (
        "import sys, hardmax.cli.main as cli, hardmax._ground.records as records\n"
        "def fail(): raise OSError(28, 'No space left on device')\n"
        "records.library_versions = fail\n"
        "sys.argv = ['hardmax', 'info']\n"
        "cli.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "hardmax: [Errno 28] No space left on device; finished results are kept"
    ]


def test_an_audit_beside_that_cannot_write_says_so(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ArgumentError, match="The audit into the folder `out` failed"),
        start_audit(tmp_path / "file") as audit,
    ):
        wait_for_audit(audit)


def test_an_audit_beside_ends_with_what_it_stands_beside(tmp_path):
    with pytest.raises(KeyboardInterrupt), start_audit(tmp_path) as audit:
        raise KeyboardInterrupt
    assert audit.poll() is not None
    assert not (tmp_path / "audit.json").exists()
