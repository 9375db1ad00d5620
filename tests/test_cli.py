"""The command line: quick help, clear refusals, results that are kept."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardmax import __version__
from hardmax.experiments.registry import experiment_titles, load_experiment
from hardmax.experiments.runner import run_experiments
from hardmax.records import Record


def hardmax(*words, **options):
    command = [str(Path(sys.executable).with_name("hardmax")), *words]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_the_version_is_printed():
    assert hardmax("--version").stdout.strip() == __version__


def test_help_lists_the_commands():
    assert "reproduce" in hardmax("--help").stdout


def test_experiments_are_listed():
    lines = hardmax("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(experiment_titles())


def test_versions_are_printed():
    assert "numpy" in hardmax("info").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "fig99"), "`names` must be among"),
        (("reproduce", "log-lift", "--out", "/dev/null/x"), "`out` must be a folder"),
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
    assert {p.name for p in tmp_path.iterdir()} == {"log-lift.json", "log-lift.svg", "log-lift.png"}
    (kept,) = run_experiments(["log-lift"], tmp_path)
    assert kept == first
    changed = Record(first.name, {**first.parameters, "keys": [0.0]}, first.results)
    changed.save(tmp_path / "log-lift.json")
    (renewed,) = run_experiments(["log-lift"], tmp_path)
    assert renewed.parameters == first.parameters
    (tmp_path / "log-lift.json").write_text("killed while wri")
    (again,) = run_experiments(["log-lift"], tmp_path)
    assert again.results == first.results


def test_log_lifting_counts_are_the_known_ones():
    experiment = load_experiment("log-lift")
    results = experiment.run(experiment.parameters).results
    assert results["example"] == [2, 5, 5]
    assert results["constant_values"] == [2, 2, 1]


def test_the_smallest_key_can_win():
    experiment = load_experiment("fig3")
    results = experiment.run(experiment.parameters).results
    assert results["smallest_norm_key_wins_at_minus_e1"]
    assert results["active_voronoi"].all()
    assert not results["active_dot_product"].all()


def test_temperature_moves_no_wall():
    experiment = load_experiment("fig5")
    results = experiment.run(experiment.parameters).results
    assert all(results["argmax_is_the_exact_winner"])
    shares = results["share_of_queries_with_weight_above_0.9"]
    assert shares == sorted(shares)


def test_every_cell_of_the_transformers_is_certified():
    experiment = load_experiment("fig1")
    results = experiment.run(experiment.parameters).results
    assert all(results["certificates_verified"])
    counts = np.array(results["cells_regions_maps"])
    assert (np.diff(counts, axis=0) > 0).all()
    assert (np.diff(counts, axis=1) <= 0).all()
    assert (np.array(results["sampled"]) <= counts[:, 0]).all()
