"""Forged files of every kind, a few seconds of them, and the fuzzer itself."""

from collections import Counter

import pytest

from tests.fuzz.children import KINDS, kind_of, tried_in_children
from tests.fuzz.faults import WAYS
from tests.fuzz.trials import attempts, files_of

pytest.importorskip("onnx", reason="needs onnx to write files")
pytest.importorskip("pyarrow")

N_TRIALS = {"model": 120, "store": 60, "partition": 200, "certificate": 120}
"""One to two seconds each; `python -m tests.fuzz` makes as many as one likes."""


@pytest.mark.parametrize("name", KINDS)
def test_forged_files_are_read_or_refused(name):
    outcomes, findings = attempts(kind_of(name), name, 0, range(N_TRIALS[name]))
    assert not findings, "\n".join(map(str, findings))
    # Forgeries that are all refused would reach nothing, and some must be.
    assert outcomes["refused"] > N_TRIALS[name] // 10
    assert sum(outcomes.values()) - outcomes["refused"] > N_TRIALS[name] // 10


@pytest.mark.parametrize("name", KINDS)
def test_trials_are_repeatable(name):
    for number in range(5):
        (one, _), (other, _) = (files_of(kind_of(name), name, 1, number) for _ in range(2))
        assert one == other


def test_whatever_should_not_happen_is_found():
    # With this seed nine trials fail in each way once.
    name, seed, n = "tests.fuzz.faults:FAULTS", 2193, 9
    ways = [files_of(kind_of(name), name, seed, i)[0]["way"].decode() for i in range(n)]
    assert sorted(ways) == sorted(WAYS)
    outcomes, findings = tried_in_children(name, seed, n, None)
    assert sum(outcomes.values()) == n
    found = Counter(ways[finding.number] for finding in findings)
    expected = Counter(way for way in ways if way not in ("sound", "refuse"))
    assert found == expected
    for finding in findings:
        reason = {
            "raise": "IndexError: a raw exception",
            "warn": "RuntimeWarning: a warning",
            "claim": "FalseClaimError: a false claim",
            "crash": "SIGSEGV|Segmentation fault",
            "hang": "in _hang",
            "delay": "it took 0.",
            "memory": "bytes",
        }[ways[finding.number]]
        assert any(word in finding.text for word in reason.split("|")), finding.text
        assert f"--number {finding.number}" in str(finding)


def test_trials_end_in_time():
    outcomes, findings = tried_in_children("certificate", 0, None, 2.0)
    assert sum(outcomes.values()) > 0
    assert not findings
