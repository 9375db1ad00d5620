"""Every experiment at its quick sizes: complete files and known numbers."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hardmax._ground.records import Record
from hardmax.cli.reproduce import query as ask
from hardmax.cli.reproduce import reproduce
from hardmax.errors import ArgumentError
from hardmax.papers.experiment_runs import level_folder, load_records, run_experiments
from hardmax.papers.experiments.beyond.training_runs import stored_weights, train
from hardmax.papers.ledger import find_claims
from hardmax.papers.registry import experiment_titles, level_of, load_experiment
from hardmax.papers.report import build_report
from hardmax.papers.store import query


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    run_experiments(list(experiment_titles()), out, level="quick")
    return level_folder(out, "quick")


@pytest.fixture(scope="module")
def results(folder):
    return {record.name: record.results for record in load_records(folder)}


def test_every_experiment_leaves_a_record(results):
    assert set(results) == set(experiment_titles())


@pytest.mark.parametrize("name", experiment_titles())
def test_a_summary_is_a_sentence_and_its_claims_are_in_the_ledger(results, name):
    assert results[name]["summary"].endswith(".")
    assert all(find_claims(claim) for claim in results[name]["claims"])
    assert bool(results[name]["claims"]) <= bool(results[name]["claimed"])


@pytest.mark.parametrize("name", sorted(set(experiment_titles()) - {"tables"}))
def test_a_figure_is_saved_both_ways(folder, name):
    assert (folder / f"{name}.svg").read_bytes().startswith(b"<?xml")
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_table_can_be_queried(folder):
    _, tables = query(folder, "SHOW TABLES")
    for (table,) in tables:
        assert query(folder, f'SELECT count(*) FROM "{table}"')[1][0][0] > 0


def test_constructed_transformers_attain_their_formulas(folder, results):
    assert results["fig1"]["formula_attained"]
    assert results["fig1"]["certificates_accepted"]
    _, rows = query(folder, "SELECT cells, regions, affine_maps FROM fig1_counts WHERE formula > 0")
    assert {row[0] for row in rows} == {16, 256, 64, 4096}
    assert all(len(set(row)) == 1 for row in rows)


def test_two_layers_of_three_units_reach_their_maximum_and_no_more(results):
    found = results["fig2"]
    assert found["one_layer"] == 7
    assert found["certified"]
    assert found["cells_regions_maps"][:2] == found["maximum_attained"] == [34, 34]
    assert found["maximum"] == 34
    assert found["product_bound"] == 49


def test_the_smallest_key_can_win(results):
    assert results["fig3"]["smallest_norm_key_wins_at_minus_e1"]
    assert results["fig3"]["active_voronoi"].all()
    assert not results["fig3"]["active_dot_product"].all()


def test_temperature_moves_no_wall(results):
    assert all(results["fig5"]["argmax_is_the_exact_winner"])
    for least, seen, most in results["fig5"]["hard_share"]:
        assert least <= seen + 0.01 <= most + 0.02


def test_log_lifting_counts_are_the_known_ones(results):
    assert results["log-lift"]["example"] == [2, 5, 5]
    assert results["log-lift"]["constant_values"] == [2, 2, 1]


def test_three_heads_have_92_vertices(results):
    assert results["fig4"]["extremal_counts"] == [6, 36, 92]
    assert results["fig4"]["gaussian_largest"] < 92


def test_samples_never_find_more_than_there_is(folder):
    _, rows = query(folder, "SELECT sampled, cells FROM fig6a_counts WHERE sampled IS NOT NULL")
    assert rows
    assert all(sampled <= cells for sampled, cells in rows)
    _, (largest,) = query(folder, "SELECT max(vertices - sharp_maximum) FROM fig6b_counts")
    assert largest[0] <= 0


def test_a_block_is_not_the_refinement_of_its_halves(results):
    assert results["fig7"]["on_a_line"] == {"fewer": [2, 3], "more": [4, 2]}
    routing, units, refined, block = results["fig7"]["cells"]
    assert refined != block <= routing * units


def test_training_stays_below_the_bounds_and_begins_with_its_seed(results):
    found = results["training"]
    for counts in (found["regions_at_first"], found["regions_at_last"]):
        half = len(counts) // 2
        assert 1 < max(counts[:half]) <= found["bound_with_bias"]
        assert 1 < max(counts[half:]) <= found["bound_without_bias"]
    for with_bias in (True, False):
        steps = train(1, with_bias)
        for step in (0, 10):
            stored, made = stored_weights(1, with_bias, step), next(steps)
            for name, array in stored.items():
                assert np.allclose(array, made[name], rtol=1e-4, atol=1e-4), name
                is_bias = "bias" in name or name[2:] in ("b_in", "b_out")
                assert with_bias or not is_bias or not array.any()


def test_sparsemax_pieces_cover_the_square_once(results):
    assert np.allclose(results["sparsemax"]["covered"], 1.0)
    assert results["sparsemax"]["one_hot"] == sorted(results["sparsemax"]["one_hot"], reverse=True)


def test_the_moment_curve_lets_every_pair_win(folder):
    _, rows = query(
        folder, "SELECT cells, sets FROM top_k_counts WHERE family = 'moment curve' AND dim >= 2*k"
    )
    assert rows
    assert all(cells == sets for cells, sets in rows)


def test_the_dictionary_holds_row_by_row(folder):
    _, rows = query(folder, "SELECT concept, holds FROM tables_dictionary")
    assert len(rows) == 6
    assert all(holds for _, holds in rows)


def test_independent_heads_multiply(results):
    assert results["ex-V3"]["small_counts"] == [5, 25, 125]
    assert results["ex-V3"]["cells"] == 2**72


def test_the_exponents_are_those_of_the_theory(results):
    assert results["growth"]["largest_distance_from_theory"] < 0.1
    assert results["growth"]["largest_distance_in_heads"] < 0.3
    assert results["growth"]["factor_per_block"]["constructed"] == pytest.approx(6.0)


def test_compiled_families_have_the_regions_of_their_formulas(results):
    assert results["deep"]["formula_attained"]
    assert results["deep"]["approximation_slope"] < -0.5


def test_soft_transformers_stay_below_their_certificates(results):
    assert 0 < results["emulation"]["largest_ratio"] < 1
    assert max(results["emulation"]["hard_errors"]) < 1e-12


def test_the_example_needs_other_margins(results):
    found = results["ex-VI2"]
    assert (found["tau_claimed"], found["tau_of_raw_scores"]) == (0.125, 8.0)
    assert found["rival_mass_raw"] == pytest.approx(1 - 0.0025, abs=1e-4)
    assert found["rival_mass_scaled"] == pytest.approx(1 - 0.0143, abs=1e-4)


def test_certain_cells_are_possible_cells(folder):
    _, rows = query(folder, "SELECT certain, possible FROM persistence_counts")
    assert all(certain <= possible for certain, possible in rows)


def test_as_many_heads_as_dimensions_attain_the_formula(folder):
    _, rows = query(folder, "SELECT cells, theory FROM growth_dims")
    assert len(rows) == 6
    assert all(cells == theory for cells, theory in rows)


def test_levels_have_parameters_of_one_kind():
    for name in experiment_titles():
        kinds = {type(load_experiment(name, level).parameters) for level in LEVELS}
        assert len(kinds) == 1


LEVELS = ("quick", "default", "full")


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    names = ["log-lift", "ex-V3", "tables"]
    code = (
        "import sys; from pathlib import Path\n"
        "from hardmax.papers.experiment_runs import run_experiments\n"
        f"run_experiments({names!r}, Path(sys.argv[1]), level='quick')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "quick" / "log-lift.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = (tmp_path / "quick" / "log-lift.json").stat().st_mtime_ns
    records = run_experiments(names, tmp_path, level="quick")
    assert [record.name for record in records] == names
    assert (tmp_path / "quick" / "log-lift.json").stat().st_mtime_ns == kept


@pytest.mark.parametrize("damage", ["missing figure", "changed table", "no hashes"])
def test_what_is_damaged_is_made_again(tmp_path, damage):
    run_experiments(["log-lift"], tmp_path, level="quick")
    folder = tmp_path / "quick"
    table = folder / "tables" / "log_lift_counts.parquet"
    whole = table.read_bytes()
    if damage == "missing figure":
        (folder / "log-lift.svg").unlink()
    elif damage == "changed table":
        table.write_bytes(whole[:-1])
    else:
        record = Record.load(folder / "log-lift.json")
        results = {key: value for key, value in record.results.items() if key != "files"}
        replace(record, results=results).save(folder / "log-lift.json")
    run_experiments(["log-lift"], tmp_path, level="quick")
    assert (folder / "log-lift.svg").is_file()
    assert table.read_bytes() == whole
    kept = (folder / "log-lift.json").stat().st_mtime_ns
    run_experiments(["log-lift"], tmp_path, level="quick")
    assert (folder / "log-lift.json").stat().st_mtime_ns == kept


def test_a_quick_look_leaves_longer_results_alone(tmp_path):
    for option in ((), ("--quick",)):
        assert _command("reproduce", "top-k", *option, "--out", str(tmp_path)).exit_code == 0
        if not option:
            before = contents(tmp_path)
    assert (tmp_path / "top-k-narrow.svg").is_file()
    after = contents(tmp_path)
    assert {path: after[path] for path in before} == before
    (longer,) = load_records(tmp_path)
    (quick,) = load_records(level_folder(tmp_path, "quick"))
    assert (level_of(longer), level_of(quick)) == ("default", "quick")
    counted = [
        _command("query", "SELECT count(*) FROM top_k_counts", "--out", str(tmp_path), *option)
        for option in ((), ("--quick",))
    ]
    assert counted[0].exit_code == counted[1].exit_code == 0
    assert counted[0].output != counted[1].output


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", ["code", "version", "parameters"])
def test_what_other_code_made_is_made_again(tmp_path, change):
    (record,) = run_experiments(["log-lift"], tmp_path, level="quick")
    stale = {
        "code": replace(record, inputs="0" * 64),
        "version": replace(record, versions={**record.versions, "numpy": "0"}),
        "parameters": replace(record, parameters={**record.parameters, "seed": 99}),
    }[change]
    stale = replace(stale, results={**record.results, "summary": "Stale."})
    stale.save(tmp_path / "quick" / "log-lift.json")
    (again,) = run_experiments(["log-lift"], tmp_path, level="quick")
    assert again.results["summary"] == record.results["summary"]


def test_without_pyarrow_the_same_results_are_written(tmp_path, monkeypatch):
    run_experiments(["top-k"], tmp_path / "with")
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    run_experiments(["top-k"], tmp_path / "without")
    pages = [build_report(tmp_path / name).read_text() for name in ("without",)]
    monkeypatch.undo()
    pages.append(build_report(tmp_path / "with").read_text())
    times = re.compile(r"[\d.]+ s(econds of computing)?\b")
    assert times.sub("", pages[0]) == times.sub("", pages[1])
    sql = "SELECT * FROM top_k_counts"
    assert query(tmp_path / "with", sql) == query(tmp_path / "without", sql)


def test_other_files_in_the_folder_are_passed_over(tmp_path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "log-lift.json").write_text('{"broken')
    run_experiments(["log-lift"], tmp_path)
    assert [record.name for record in load_records(tmp_path)] == ["log-lift"]


def test_the_level_of_a_record_is_found_from_its_parameters(tmp_path):
    (quick,) = run_experiments(["top-k"], tmp_path, level="quick")
    assert level_of(quick) == "quick"
    assert level_of(replace(quick, parameters={"n_keys": 3})) is None
    assert level_of(replace(quick, name="other")) is None
    page = build_report(tmp_path, "quick").read_text()
    assert "<code>hardmax reproduce top-k --quick</code>" in page
    assert "1 of them were computed at the small sizes" in page


def _command(*arguments):
    app = typer.Typer()
    app.command()(reproduce)
    app.command("query")(ask)
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("taken", ["log-lift.svg", "log-lift.json", "report.html"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, taken):
    (tmp_path / "quick" / taken).mkdir(parents=True)
    result = _command("reproduce", "log-lift", "--quick", "--out", str(tmp_path))
    assert isinstance(result.exception, ArgumentError)
    assert "`out` must be a writable folder" in str(result.exception)


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("hardmax.papers.experiment_runs.run_experiments", interrupted)
    result = _command("reproduce", "log-lift", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert "the same command resumes from there" in result.output
