"""The comparisons with other programs: who is wrong gets no ratio, and a slow one is a failure.

Tables on pages: each has its place, and is replaced only by one that was measured.
"""

import doctest
import re
import sys

import pytest

from benchmarks import longer, tables
from benchmarks.__main__ import list_benchmarks
from benchmarks.machine import current_moment, describe
from benchmarks.measuring import Comparison, Measured, measure
from benchmarks.page import _format_markdown, _page_body

OURS, PEER = Measured("hardmax", 92, 0.5, 3.0), Measured("peer", 92, 2.0)


@pytest.mark.parametrize(
    ("found", "failures"),
    [
        ((OURS, PEER), 0),
        ((OURS, Measured("peer", 92, 0.9)), 1),
        ((OURS, Measured("peer", 99, 0.1)), 0),
        ((OURS, Measured("peer", remark="not there")), 0),
        ((Measured("hardmax", 91, 0.5), PEER), 1),
    ],
    ids=["fast enough", "too slow", "peer wrong", "peer missing", "ours wrong"],
)
def test_what_fails(found, failures):
    assert len(Comparison("case", 92, found, {"peer": 3.0}).failures) == failures


def test_only_right_counts_have_ratios():
    wrong = Measured("peer", 99, 0.1)
    comparison = Comparison("case", 92, (OURS, PEER, wrong))
    assert comparison.ratio(PEER) == 4.0
    assert comparison.ratio(wrong) is None


def test_a_program_that_fails_says_how():
    assert measure("peer", lambda: 1 // 0).remark == "raises ZeroDivisionError"
    counted = measure("ours", lambda: 7, 0.0)
    assert counted.count == 7
    assert counted.seconds >= 0.0


def test_the_page_names_wrong_counts_missing_programs_and_failures():
    found = (OURS, Measured("peer", 99, 0.1), Measured("SyReNN", remark="not there"))
    tables = [("Cells", "cells", "of things.", [Comparison("a < b", 92, found)])]
    text = _page_body(
        {"date": "today"}, tables, [("hardmax", [400, 4000], [0.1, 1.0])], ["too slow"]
    )
    assert "wrong: there are 92" in text
    assert "SyReNN: build benchmarks/drive_syrenn.cc" in text
    assert "a &lt; b" in text
    assert "<li>too slow</li>" in text
    assert "hardmax 1.00" in text


def test_the_markdown_names_wrong_counts_and_missing_programs():
    found = (OURS, PEER, Measured("worse", 99, 0.1), Measured("SyReNN", remark="not there"))
    text = _format_markdown(
        {"date": "today"}, [("Cells", "cells", "", [Comparison("a", 92, found)])], []
    )
    rows = [re.split(r"\s*\|\s*", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    assert rows[2:] == [
        ["a", "hardmax", "92", "0.5", "", "3"],
        ["", "peer", "92", "2", "4", ""],
        ["", "worse", "99", "0.1", "wrong: 92", ""],
        ["", "SyReNN", "", "", "not there", ""],
    ]
    assert "*`python -m benchmarks.page`; today.*" in text
    assert "faster: none." in text


def test_the_page_says_where_others_are_faster():
    tables = [("Cells", "cells", "", [Comparison("a", 92, (OURS, Measured("peer", 92, 0.125)))])]
    words = "Cases in which another program is correct and faster: peer on a, 4 times."
    assert words in _format_markdown({}, tables, [])
    assert words in _page_body({}, tables, [], [])


def test_examples_of_tables():
    assert doctest.testmod(tables).failed == 0


def test_every_benchmark_has_its_place_on_the_page():
    page = longer._README.read_text(encoding="utf-8")
    for word in "", "end of ":
        marks = re.findall(rf"^<!-- {word}(\w+) -->$", page, re.MULTILINE)
        assert sorted(marks) == list_benchmarks()


def test_what_fails_leaves_its_table_and_is_named(tmp_path, monkeypatch, capsys):
    page = tmp_path / "README.md"
    names = "exact", "growth", "depth"
    page.write_text("".join(f"<!-- {n} -->\nold {n}\n<!-- end of {n} -->\n" for n in names))
    monkeypatch.setattr(longer, "_README", page)
    monkeypatch.setattr(
        longer, "run_benchmark", lambda name, _: None if name == "growth" else f"new {name}"
    )
    monkeypatch.setattr(sys, "argv", ["longer", "--write", *names])
    with pytest.raises(SystemExit, match="failed: growth"):
        longer.main()
    text = page.read_text()
    assert re.findall(r"^(?:old|new) \w+$", text, re.MULTILINE) == [
        *("new exact", "old growth", "new depth")
    ]
    assert text.count("*`python -m benchmarks exact`; 20") == 1


def test_a_benchmark_that_raises_has_failed(monkeypatch):
    monkeypatch.setattr(longer, "_MODULE", "benchmarks.nothing")
    assert longer.run_benchmark("exact", []) is None


def test_a_machine_says_when_it_was_busy():
    facts = describe(current_moment())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])
    assert re.match(r"load [\d.]+ at the start", facts["load"])
