"""The progress bar: silent by default, late, and on a terminal only."""

import io
import subprocess
import sys

import pytest

from hardmax import progress
from hardmax.progress import track


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


def test_a_file_gets_nothing(monkeypatch, clock):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in track(range(3), "items"):
        clock[0] += 10.0
    assert stream.getvalue() == ""


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
        "import sys; from hardmax.progress import track; list(track(range(3), 'x')); "
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
