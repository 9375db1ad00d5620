"""Progress: late, and in the form that a terminal, a notebook or a log can show."""

import io
import re
import subprocess
import sys
import types

import pytest

from hardmax._ground import progress
from hardmax._ground.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a test says so."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_iterating_gives_the_items():
    assert list(track([3, 1, 2], "items")) == [3, 1, 2]
    assert list(track(iter("ab"), "items", total=2)) == ["a", "b"]


def test_a_log_gets_nothing_of_short_work(monkeypatch, clock):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in track(range(4), "items"):
        clock[0] += 1.2
    assert stream.getvalue() == ""


def test_a_log_gets_few_lines_of_long_work_and_a_last_one(monkeypatch, clock):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with track(0, "cells") as bar:
        for _ in range(400):
            clock[0] += 1.0
            bar.advance(2000)
    lines = stream.getvalue().splitlines()
    assert lines[:3] == [
        "hardmax: 10,000 cells, 2,000 cells/s, 0:05 so far",
        "hardmax: 20,000 cells, 2,000 cells/s, 0:10 so far",
        "hardmax: 40,000 cells, 2,000 cells/s, 0:20 so far",
    ]
    assert lines[-1] == "hardmax: 800,000 cells, 2,000 cells/s, done in 6:40"
    assert len(lines) == 11


def test_a_log_says_how_much_there_is_where_that_is_known(monkeypatch, clock):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in track(range(40), "checking claims"):
        clock[0] += 3600.0
    assert stream.getvalue().startswith("hardmax: checking claims: 1 of 40, 0.00028/s, 1:00:00 so")


def test_a_notebook_gets_one_line_that_changes(monkeypatch, clock):
    shown = []

    class Handle:
        def update(self, data, raw):
            assert raw
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    modules = {
        "IPython": types.SimpleNamespace(get_ipython=lambda: shell),
        "IPython.display": types.SimpleNamespace(display=display),
    }
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    with track(0, "cells") as bar:
        bar.advance(1)
        assert shown == []
        for _ in range(4):
            clock[0] += 2.0
            bar.advance(6000)
            bar.advance(0)
    assert shown[0] == "6,001 cells, 3,000 cells/s, 0:02"
    assert shown[-1] == "24,001 cells, 3,000 cells/s, 0:08"
    assert len(shown) == 5
    assert stream.getvalue() == ""


def test_without_standard_error_nothing_is_shown(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", None)
    for _ in track(range(3), "items"):
        clock[0] += 10.0


def test_a_terminal_gets_nothing_within_a_second(monkeypatch, clock):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with track(10, "keys") as bar:
        for _ in range(9):
            clock[0] += 0.1
            bar.advance()
    assert stream.getvalue() == ""


def test_a_terminal_sees_long_work_and_its_end(monkeypatch, clock):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with track(10, "keys to certify") as bar:
        clock[0] += 2.0
        bar.advance(5)
        bar.advance(5)
    assert "keys to certify" in stream.getvalue()
    assert "100%" in stream.getvalue()
    shown = stream.getvalue()
    bar.advance(1)
    assert stream.getvalue() == shown


def test_breaking_out_of_a_loop_takes_the_bar_away(monkeypatch, clock):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = track(range(5), "items")
    for item in bar:
        clock[0] += 2.0
        if item == 2:
            break
    bar.close()
    assert "items" in stream.getvalue()


def test_rich_is_not_imported_before_it_is_needed():
    code = (
        "import sys; from hardmax._ground.progress import track; list(track(range(3), 'x')); "
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("work", [0, iter(())], ids=["no total", "an iterator"])
def test_work_of_unknown_length_shows_how_fast_it_goes(monkeypatch, clock, work):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with track(work, "cells") as bar:
        clock[0] += 2.0
        bar.advance(5000)
        clock[0] += 2.0
        bar.advance(7000)
    assert "12,000 cells, 3,000 cells/s" in stream.getvalue()
    assert re.search(r"cells/s.*0:00:0\d", stream.getvalue())
