"""Progress: shown late, in a form that fits a terminal or a notebook, and nowhere else."""

import io
import re
import subprocess
import sys
import types

import pytest

from hardmax._ground import progress
from hardmax._ground.progress import set_progress, track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when a test sets it."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_iterating_gives_the_items():
    assert list(track([3, 1, 2], "items")) == [3, 1, 2]
    assert list(track(iter("ab"), "items", total=2)) == ["a", "b"]


@pytest.mark.parametrize("work", [40, 0, range(40)], ids=["total", "no total", "items"])
def test_a_pipe_or_log_gets_nothing(monkeypatch, clock, work):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with track(work, "cells") as bar:
        for _ in range(40):
            clock[0] += 3600.0
            bar.advance()
    assert stream.getvalue() == ""


@pytest.fixture
def setting():
    """The setting of the process, restored after the test."""
    yield set_progress
    set_progress(None)


@pytest.mark.parametrize(
    ("variable", "called_with", "is_shown"),
    [
        (None, None, True),
        ("0", None, False),
        ("1", None, True),
        (None, False, False),
        ("0", True, True),
        ("1", False, False),
    ],
)
def test_progress_can_be_switched_off(monkeypatch, clock, setting, variable, called_with, is_shown):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("HARDMAX_PROGRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("HARDMAX_PROGRESS", variable)
    setting(called_with)
    with track(10, "keys") as bar:
        clock[0] += 2.0
        bar.advance(5)
    assert ("keys" in stream.getvalue()) == is_shown


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
