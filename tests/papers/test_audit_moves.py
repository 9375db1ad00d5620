"""Small changes to every content of the ledger must change the verdict, or be excused.

A false or loose claim stays false or loose when its content is changed, so its repaired content is
changed instead. For a claim that holds, with or without conditions, both its content and its
repaired content are changed.
"""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from hardmax.papers.claims import Claim, ClaimVerdict, Finding, equal_trial, upper_trial
from hardmax.papers.ledger import all_claims
from tests.perturbations import moved_contents, moves

CLAIMS = {claim.id: claim for claim in all_claims()}
STANDING = (ClaimVerdict.HOLDS, ClaimVerdict.CONDITIONAL)


def contents_to_move(claim):
    """Return the names of the contents to be changed, with their verdicts."""
    verdict = claim.run().verdict
    found = {"content": verdict} if verdict in STANDING else {}
    if claim.repaired is not None:
        found["repaired"] = claim.check(claim.repaired).verdict
    return verdict, found


def all_moves(claim, which):
    around = (claim.content, claim.corrupted, claim.repaired)
    made = moved_contents(claim, which, tuple(one for one in around if one is not None))
    given = {name: other for name, other in claim.neighbours.items() if name.startswith(which)}
    return {**made, **given}


def is_excused(claim, name):
    return any(name.startswith(beginning) for beginning in claim.unmoved)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_the_verdict_turns_when_a_content_is_moved(claim):
    verdict, contents = contents_to_move(claim)
    assert contents or verdict is ClaimVerdict.NOT_CHECKABLE
    for which, before in contents.items():
        moved = all_moves(claim, which)
        assert moved, f"nothing is known that lies next to the {which} of {claim.id}"
        for name, other in moved.items():
            if not is_excused(claim, name):
                assert claim.check(other).verdict is not before, name
        assert not all(is_excused(claim, name) for name in moved) or which == "content"


def test_excuses_are_used_and_reasons_are_given():
    for claim in CLAIMS.values():
        parts = ("content", "repaired") if claim.unmoved else ()
        names = [name for which in parts for name in _names(claim, which)]
        for beginning, reason in claim.unmoved.items():
            assert any(name.startswith(beginning) for name in names), (claim.id, beginning)
            assert len(reason) >= 8, (claim.id, beginning)
        for name in claim.neighbours:
            assert name.startswith(("content", "repaired")), (claim.id, name)
            assert not is_excused(claim, name), (claim.id, name)


def _names(claim, which):
    return all_moves(claim, which) if getattr(claim, which) is not None else ()


def test_values_have_neighbours():
    assert moves(7) == {" + 1": 8, " - 1": 6}
    assert moves(True) == {" negated": False}
    assert moves(Fraction(2)) == {
        " + 0.1 %": Fraction(2002, 1000),
        " - 0.1 %": Fraction(1998, 1000),
    }
    assert set(moves("7.18e-6").values()) == {"7.19e-6", "7.17e-6"}
    assert moves("at least") == {}
    assert moves([3, 5])["[last] + 1"] == [3, 6]
    assert moves(np.array([1.0, 2.0]))["[first] moved"].tolist() == [2.0, 2.0]
    assert moves(arb(2))[" + 0.1 %"] > 2
    assert moves(-np.inf) == {" finite": 0.0}
    assert moves(None) == {}


def test_functions_are_moved_by_what_they_return():
    def check(bound):
        return Finding((upper_trial("four", 4, bound(2), extremal=True),), "compared")

    claim = Claim("X", "SL26", "here", "test", "two", lambda n: n * n, check)
    moved = moved_contents(claim, "content")
    assert {name: other(2) for name, other in moved.items()} == {"content + 1": 5, "content - 1": 3}
    assert {claim.check(other).verdict for other in moved.values()} == {
        ClaimVerdict.FALSE,
        ClaimVerdict.LOOSE,
    }


def test_sets_and_tuples_are_moved_part_by_part():
    def check(content):
        return Finding((equal_trial("it", content, content),), "compared")

    claim = Claim("X", "SL26", "here", "test", "two", (1, True), check)
    assert set(moved_contents(claim, "content").values()) == {(2, True), (0, True), (1, False)}
    claim = Claim("X", "SL26", "here", "test", "two", frozenset({"a"}), check)
    assert set(moved_contents(claim, "content", (frozenset({"b"}),)).values()) == {
        frozenset(),
        frozenset({"a", "b"}),
    }
