"""Sweeps: one row per model, written as it is computed, and not computed twice."""

import numpy as np
import pytest
from typer.testing import CliRunner

from hardmax.cli.main import app
from hardmax.errors import ArgumentError, Interrupted, RecordFormatError, TaskError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.papers import random_transformer, sweeps
from hardmax.papers.sweeps import sweep, sweep_points
from hardmax.regions.engines import enumerate_regions

GRID = {"N": [3, 4], "H": [1], "L": [1, 2], "d_ff": [3], "seed": [0, 7], "bias": [0.0, 0.5]}


def counts(rows):
    names = [name for name in rows[0].__dict__ if name != "seconds"]
    return [[getattr(row, name) for name in names] for row in rows]


def test_rows_are_counts_of_the_models():
    points = sweep_points({**GRID, "d": [2, 3], "seed": [5]}, "box:-1,1^d")
    assert [point.domain for point in points[:2]] == ["box:-1,1^2"] * 2
    for row in sweep(points):
        rng = np.random.default_rng(row.seed)
        sizes = row.n_keys, row.n_heads, row.d_ff, row.depth, row.dim
        model = random_transformer(rng, *sizes, bias=row.bias)
        domain = Box([-1] * row.dim, [1] * row.dim)
        assert row.n_cells == enumerate_regions(model, domain).n_cells
        assert row.is_complete


def test_a_sweep_that_was_ended_goes_on(tmp_path, monkeypatch):
    table, points, usual = tmp_path / "sweep.csv", sweep_points(GRID), sweeps._count_point
    whole, asked = sweep(points), []

    def row(max_seconds, point):
        asked.append(point)
        if len(asked) == 6:
            raise KeyboardInterrupt
        return usual(max_seconds, point)

    monkeypatch.setattr(sweeps, "_count_point", row)
    with pytest.raises(Interrupted) as stopped:
        sweep(points, out=table)
    assert counts(stopped.value.partial) == counts(whole[:5])
    # An incomplete line.
    with table.open("a") as stream:
        stream.write("3,1,2")
    rows = sweep(points, out=table)
    assert counts(rows) == counts(whole)
    assert len(asked) == 6 + len(points) - 5
    n_asked = len(asked)
    assert sweep(points[::-1], out=table) == rows[::-1]
    assert len(asked) == n_asked
    assert len(table.read_text().splitlines()) == 1 + len(points)


def test_a_model_that_is_hopeless_within_the_limit_has_a_row():
    points = sweep_points({"N": [200], "H": [12], "d": [300]}, "box:-1,1^d")
    (row,) = sweep(points, max_seconds=1.0)
    assert (row.n_cells, row.is_complete) == (0, False)
    with pytest.raises(ArgumentError, match="`max_seconds`"):
        sweep(points, max_seconds=-1.0)


def test_processes_give_the_same_rows(tmp_path):
    points = sweep_points(GRID)
    assert counts(sweep(points, out=tmp_path / "a.csv", workers=2)) == counts(sweep(points))


def test_models_that_fail_are_named_and_the_rest_is_done(tmp_path, monkeypatch):
    usual, points = sweeps._count_point, sweep_points(GRID)

    def row(max_seconds, point):
        if point == points[3]:
            raise RuntimeError("no luck")
        return usual(max_seconds, point)

    monkeypatch.setattr(sweeps, "_count_point", row)
    with pytest.raises(TaskError, match=r"1 of 16 .*N=3.*L=1.*seed=7.*no luck"):
        sweep(points, out=tmp_path / "sweep.csv")
    monkeypatch.undo()
    assert len(sweep(points, out=tmp_path / "sweep.csv")) == 16


def test_what_is_no_grid_or_table_is_refused(tmp_path):
    for grid, domain, match in [
        ({"M": [1]}, "space:d", "`grid`"),
        ({"N": [1], "n_keys": [2]}, "space:d", "each once"),
        ({"N": [0]}, "space:d", "`n_keys`"),
        ({"seed": [-1]}, "space:d", "`seed`"),
        ({"d": [3]}, "box:-1,1^2", "domain"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            sweep_points(grid, domain)
    other = tmp_path / "other.csv"
    for text in ("a,b\n1,2\n", "", "n_keys\n"):
        other.write_text(text)
        with pytest.raises(RecordFormatError, match="`out` must be the table of a sweep"):
            sweep(sweep_points({}), out=other)


def test_the_command_writes_the_table(tmp_path):
    table = tmp_path / "sweep.csv"
    command = ["sweep", "--out", str(table), "--keys", "3,4", "--depth", "1:2", "--d-ff", "3"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    assert "rows          4" in answer.output
    header, *lines = table.read_text().splitlines()
    assert header.startswith("n_keys,n_heads,dim,depth,d_ff,seed,bias,domain,n_cells")
    model = random_transformer(np.random.default_rng(0), 3, 2, 3, 1)
    n_cells = enumerate_regions(model, WholeSpace(2)).n_cells
    assert lines[0].startswith(f"3,2,2,1,3,0,0.5,space:2,{n_cells},True,")
    answer = CliRunner().invoke(app, [*command, "--heads", "two"])
    assert isinstance(answer.exception, ArgumentError)
    assert "`--heads` must be a list" in str(answer.exception)
