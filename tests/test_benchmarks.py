"""The comparisons with other programs: who is wrong gets no ratio, and a slow one is a failure."""

import pytest

from benchmarks.measuring import Comparison, Measured, measure
from benchmarks.page import _body

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
    text = _body({"date": "today"}, tables, [("hardmax", [400, 4000], [0.1, 1.0])], ["too slow"])
    assert "wrong: there are 92" in text
    assert "SyReNN: build benchmarks/drive_syrenn.cc" in text
    assert "a &lt; b" in text
    assert "<li>too slow</li>" in text
    assert "hardmax 1.00" in text
