"""The ledger: verdicts are recomputed, and change with the content of the claim."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._ground.records import Record
from hardmax.errors import ArgumentError
from hardmax.papers.audit import audit_record, count_verdicts, run_audit, summary
from hardmax.papers.claims import (
    Claim,
    ClaimVerdict,
    Finding,
    Trial,
    bracket_trial,
    equal_trial,
    judge,
    lower_trial,
    upper_trial,
)
from hardmax.papers.ledger import REPEATS, all_claims, find_claims, is_part_of
from hardmax.papers.subjects.enclosures import ball, log_sum_exp, softmax, working_precision
from hardmax.papers.subjects.statements.symbol_rows import NAME_ONLY, ROWS

CLAIMS = {claim.id: claim for claim in all_claims()}

NUMBERED = [
    *(f"III.{n}" for n in range(1, 14)),
    *(f"IV.{n}" for n in range(1, 7)),
    *(f"V.{n}" for n in range(1, 10)),
    *(f"VI.{n}" for n in range(1, 4)),
    "E.1",
    *(f"F.{n}" for n in range(1, 3)),
    *(f"Fig{n}" for n in range(1, 8)),
    *(f"Tab{n}" for n in range(1, 3)),
    *(f"App{letter}" for letter in "BCDEG"),
]
"""Every numbered statement, figure, table and proof of [SL26]. Appendix F is F.1, F.2 and V.7."""

POINTS = {
    1: "III.1", 2: "III.2", 3: "III.3 Fig2", 4: "III.5a", 5: "III.7", 6: "III.6", 7: "III-D",
    8: "III.10", 9: "III.11", 10: "III.12", 11: "III-E.1", 12: "III-E.5", 13: "IV.3", 14: "Fig3",
    15: "IV.4 AppC", 16: "IV.5", 17: "IV.6", 18: "V.1", 19: "V.2", 20: "V.2", 21: "V.2",
    22: "AppD", 23: "AppD", 24: "Fig4", 25: "V.3", 26: "V.5", 27: "AppE Fig7", 28: "V.6",
    29: "F.1", 30: "F.2", 31: "V.7", 32: "V.7", 33: "V.9", 34: "VI.1", 35: "VI.1", 36: "VI.1",
    37: "AppG", 38: "VI.1", 39: "VI.2", 40: "VI.3", 41: "Fig5", 42: "Fig6a", 43: "Fig6b",
    44: "VII.1", 45: "Fig1",
}  # fmt: skip
"""Forty-five points a reader of [SL26] should know about, and the claims that carry them."""

BY_HAND = {
    "holds": "III.2a III.2b III.4 III.5c III.8 III.9a III.9b III.10 III.11a III.12b III.13a "
    "III-E.2 IV.1 IV.2a IV.2b IV.3a IV.5 IV.6a AppB VII.1a Fig6b.1 Tab2 "
    "III.6b Tab1.12 Tab1.64",
    "holds with conditions": "I.1 I.3b II.1 III.1 III.3a III.7a III.7b III.11b III.13b III-E.4 "
    "IV.3b IV.3c IV.4b IV.4c IV.6b III.5a III.12c VII.2 VIII.1b VIII.2 Fig5a Fig5b "
    "III.10b Tab1.1 Tab1.13 Tab1.16 Tab1.29 Tab1.40 Tab1.54",
    "loose": "III.6",
    "false": "I.2 I.3a III.3b Fig2 III.5b III.5d III-D III.11c III.12a III.13c "
    "III-E.1 III-E.3 III-E.5 IV.3d Fig3 IV.4a AppC VII.1b VIII.1a Fig6a.1 Fig6b.2 Tab1 "
    "II.2 III.5e Tab1.8",
    "not checkable": "Fig1 Fig6a.2 I.4",
}
"""Verdicts read off by hand for sections I to IV, VII, VIII and Appendices A to C."""


@pytest.fixture(scope="module")
def results():
    return run_audit()


@pytest.fixture(scope="module")
def findings(results):
    return {result.claim.id: result.finding for result in results}


# The claims


def test_ids_are_unique():
    assert len(CLAIMS) == len(all_claims())


def test_every_numbered_statement_has_a_claim():
    for name in NUMBERED:
        assert any(is_part_of(claim_id, name) for claim_id in CLAIMS), name


def test_every_point_has_a_claim():
    for names in POINTS.values():
        for name in names.split():
            assert find_claims(name), name


def test_every_row_of_the_table_of_symbols_is_a_name_or_has_a_claim():
    assert len(ROWS) == len({symbol for symbol, _ in ROWS}) == 67
    for symbol, claim_id in ROWS:
        assert claim_id == NAME_ONLY or find_claims(claim_id), symbol
    carried = {claim_id for _, claim_id in ROWS}
    assert {claim_id for claim_id in CLAIMS if claim_id.startswith("Tab1")} <= carried
    for number, (_, claim_id) in enumerate(ROWS, 1):
        assert claim_id == f"Tab1.{number}" or f"Tab1.{number}" not in CLAIMS


def test_the_second_paper_is_in_the_ledger():
    assert sum(claim.source == "GYZ26" for claim in CLAIMS.values()) >= 5
    assert {claim.source for claim in CLAIMS.values()} == {"SL26", "GYZ26"}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_a_changed_claim_changes_the_verdict(claim, findings):
    verdict = findings[claim.id].verdict
    contents = [c for c in (claim.corrupted, claim.repaired) if c is not None]
    if verdict is ClaimVerdict.FALSE:
        assert claim.repaired is not None
    elif verdict is not ClaimVerdict.NOT_CHECKABLE:
        assert claim.corrupted is not None
        assert claim.check(claim.corrupted).verdict is not verdict
    assert contents
    if claim.repaired is not None:
        assert claim.check(claim.repaired).verdict is ClaimVerdict.HOLDS
    if verdict is ClaimVerdict.NOT_CHECKABLE:
        assert all(claim.check(content).verdict is not verdict for content in contents)


def test_a_finding_says_why(findings):
    for name, finding in findings.items():
        assert finding.trials, name
        assert finding.explanation.endswith("."), name
        assert len(finding.explanation) >= 30, name
        assert len(CLAIMS[name].statement) >= 20, name
        if finding.verdict is not ClaimVerdict.NOT_CHECKABLE:
            numbers = any(trial.numbers for trial in finding.trials)
            assert numbers or len(finding.trials) > 1, name
        if finding.verdict is ClaimVerdict.FALSE or finding.verdict is ClaimVerdict.CONDITIONAL:
            assert finding.corrected, name


def test_every_correction_is_content_that_is_tried(findings):
    for name, claim in CLAIMS.items():
        is_tried = claim.repaired is not None and claim.content is not None
        assert bool(findings[name].corrected) == is_tried, name


def test_what_is_said_twice_is_counted_once(results, findings):
    for again, first in REPEATS.items():
        assert findings[again].verdict is findings[first].verdict
        assert CLAIMS[again].where != CLAIMS[first].where
    counts = count_verdicts(results)
    assert sum(counts.values()) == len(CLAIMS) - len(REPEATS)
    assert summary(results).startswith(f"{len(CLAIMS) - len(REPEATS)} claims ({len(REPEATS)} more")
    alone = [result for result in results if result.claim.id in REPEATS]
    assert sum(count_verdicts(alone).values()) == len(REPEATS)


@pytest.mark.parametrize("verdict", BY_HAND)
def test_verdicts_are_those_found_by_hand(verdict, findings):
    for claim_id in BY_HAND[verdict].split():
        assert (claim_id, findings[claim_id].verdict.value) == (claim_id, verdict)


def test_the_hand_list_covers_its_sections(findings):
    listed = {claim_id for line in BY_HAND.values() for claim_id in line.split()}
    here = re.compile(r"(I|II|III|IV|VII|VIII)[.-]|App[BC]|Tab|Fig[12356]")
    assert listed == {claim_id for claim_id in findings if here.match(claim_id)}


def test_pictures_are_drawn(findings):
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    drawn = [finding.figure for finding in findings.values() if finding.figure is not None]
    assert len(drawn) >= 4
    with mpl.rc_context({"backend": "Agg"}):
        for draw in drawn:
            figure = draw()
            assert figure.axes
            plt.close(figure)


# The verdict


def test_a_failure_makes_a_claim_false():
    assert judge([Trial("a", True, tight=True), Trial("b", False)]) is ClaimVerdict.FALSE


def test_failures_outside_a_condition_need_a_success_inside():
    outside = Trial("outside", False, condition=False)
    assert judge([outside]) is ClaimVerdict.FALSE
    assert judge([outside, Trial("inside", True)]) is ClaimVerdict.CONDITIONAL
    assert judge([outside, Trial("also outside", True, condition=False)]) is ClaimVerdict.FALSE


def test_a_bound_that_misses_a_maximiser_is_loose():
    assert judge([upper_trial("max", 4, 5, extremal=True)]) is ClaimVerdict.LOOSE
    assert judge([upper_trial("max", 5, 5, extremal=True)]) is ClaimVerdict.HOLDS
    assert judge([upper_trial("max", 6, 5, extremal=True)]) is ClaimVerdict.FALSE
    assert judge([lower_trial("min", 4, 5)]) is ClaimVerdict.FALSE
    assert judge([lower_trial("min", 6, 5, extremal=True)]) is ClaimVerdict.LOOSE
    assert judge([upper_trial("not meant to be extremal", 4, 5)]) is ClaimVerdict.HOLDS


def test_an_enclosure_decides_what_it_can():
    with working_precision():
        third, more = ball(1) / 3, ball(1) / 3 + ball(2) ** -100
        assert judge([bracket_trial("equal", third, ball(1) / 3)]) is ClaimVerdict.HOLDS
        assert judge([bracket_trial("above", more, third)]) is ClaimVerdict.FALSE
        assert judge([bracket_trial("below", third, more)]) is ClaimVerdict.LOOSE
        assert judge([bracket_trial("below", third, more, extremal=False)]) is ClaimVerdict.HOLDS
        assert bracket_trial("kept", third, more, claimed="1/3").numbers == {"claimed": "1/3"}


def test_what_has_no_truth_value_is_not_checkable():
    assert judge([]) is ClaimVerdict.NOT_CHECKABLE
    assert judge([Trial("open", None)]) is ClaimVerdict.NOT_CHECKABLE
    assert judge([Trial("open", None), equal_trial("decided", 1, 1)]) is ClaimVerdict.HOLDS
    assert judge([Trial("open", None), equal_trial("decided", 1, 2)]) is ClaimVerdict.FALSE


def test_a_finding_cannot_store_a_verdict():
    with pytest.raises(TypeError):
        Finding((Trial("a", True),), "words", verdict=ClaimVerdict.FALSE)
    assert Finding((Trial("a", True),), "words").verdict is ClaimVerdict.HOLDS


# Enclosures


def test_enclosures_hold_the_true_value():
    with working_precision():
        half = softmax([0, 0], 0.25)
        assert all(weight.contains(ball(0.5)) for weight in half)
        two = log_sum_exp([0.0, 0.0], 1)
        assert two.contains(ball(2).log())
        # A gap of e^-100 is resolved; a float would give exactly 1.
        assert softmax([0, -100], 1)[0] < 1
        assert not softmax([0, -100], 1)[0] <= 1 - ball(2) ** -140


def test_precision_is_given_back():
    from flint import ctx

    before = ctx.prec
    with working_precision(999):
        assert ctx.prec == 999
    assert ctx.prec == before
    with pytest.raises(TypeError), working_precision(999):
        ball("x", "y")
    assert ctx.prec == before


# Lookup


def test_an_id_names_its_parts_and_nothing_else():
    assert {claim.id for claim in find_claims("iii.1")} == {"III.1"}
    assert {claim.id for claim in find_claims("III.11")} == {"III.11a", "III.11b", "III.11c"}
    assert {claim.id for claim in find_claims("Fig6")} == {
        "Fig6a.1", "Fig6a.2", "Fig6b.1", "Fig6b.2",
    }  # fmt: skip
    assert {claim.id.split(".")[0] for claim in find_claims("v")} == {"V", "V-A"}
    assert {claim.id[:2] for claim in find_claims("I")} == {"I."}


@pytest.mark.parametrize("name", ["X.99", "", " ", "V.", "Fi", "III.1 ", "V.2aa"])
def test_an_unknown_id_is_refused(name):
    with pytest.raises(ArgumentError, match="`claim` must be one of the ids .* got " + repr(name)):
        find_claims(name)


# Records


def test_results_read_back_as_written(results):
    record = audit_record(results)
    assert Record.from_json(record.to_json()) == record
    rows = record.results["claims"]
    assert [row["id"] for row in rows] == list(CLAIMS)
    for row in rows:
        trials = [
            Trial(t["instance"], t["holds"], t["condition"], t["tight"]) for t in row["trials"]
        ]
        assert judge(trials).value == row["verdict"]
    assert [row["repeats"] for row in rows] == [REPEATS.get(row["id"], "") for row in rows]


def test_a_claim_runs_its_own_content():
    seen = []

    def check(content):
        seen.append(content)
        return Finding((equal_trial("x", 2, content),), "compared")

    claim = Claim("X", "SL26", "here", "test", "two", 2, check, corrupted=3)
    assert claim.run().verdict is ClaimVerdict.HOLDS
    assert claim.check(claim.corrupted).verdict is ClaimVerdict.FALSE
    assert seen == [2, 3]
    assert np.all(np.array(seen) > 0)


TRIALS = st.lists(
    st.builds(
        Trial,
        st.just("x"),
        st.sampled_from([True, False, None]),
        st.booleans(),
        st.sampled_from([True, False, None]),
    ),
    max_size=6,
)


@given(TRIALS, st.randoms())
def test_the_order_of_trials_does_not_matter(trials, random):
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert judge(shuffled) is judge(trials)


@given(TRIALS)
def test_an_open_trial_changes_nothing(trials):
    assert judge([*trials, Trial("open", None)]) is judge(trials)


@given(TRIALS)
def test_a_failure_inside_the_condition_settles_it(trials):
    assert judge([*trials, Trial("fails", False)]) is ClaimVerdict.FALSE


@given(TRIALS)
def test_only_decided_trials_without_failure_let_a_claim_hold(trials):
    if judge(trials) in (ClaimVerdict.HOLDS, ClaimVerdict.LOOSE):
        assert all(trial.holds is not False for trial in trials)
        assert any(trial.holds for trial in trials)


@pytest.mark.parametrize("claim_id", ["III.3b", "Fig2"])
def test_only_the_maximum_itself_holds_for_two_layers_of_three_units(claim_id):
    check = CLAIMS[claim_id].check
    holding = [
        n for n in (7, 28, 33, 34, 35, 36, 37, 40, 49) if check(n).verdict is ClaimVerdict.HOLDS
    ]
    assert holding == [34]
