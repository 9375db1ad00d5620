"""Claims outside the numbered statements: each verdict changes with its content."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hardmax.papers.claims import ClaimVerdict
from hardmax.papers.ledger import find_claims
from hardmax.papers.subjects.background.polynomial_regions import Zigzag
from hardmax.papers.subjects.background.related_work import GU_YANG_ZHOU
from hardmax.papers.subjects.counting.regime_names import AS_PRINTED, FROM_D_ON
from hardmax.papers.subjects.statements.table_of_symbols import SPACES


def verdict(claim_id, content):
    (claim,) = [claim for claim in find_claims(claim_id) if claim.id == claim_id]
    return claim.check(content).verdict


def numbers(claim_id, trial):
    (claim,) = [claim for claim in find_claims(claim_id) if claim.id == claim_id]
    return claim.run().trials[trial].numbers


def test_newton_polytope_and_coefficients_leave_the_walls_open():
    assert numbers("III.5e", 0)["walls"] == [["-1", "1/2"], ["-1/2", "1"]]


@pytest.mark.parametrize(
    "known",
    [
        {"coefficients"},
        {"exponents"},
        {"Newton polytope"},
        {"Newton polytope", "exponents"},
        {"Newton polytope", "exponents", "coefficients"},
        set(),
    ],
)
def test_less_than_the_terms_does_not_determine_the_regions_and_more_is_superfluous(known):
    assert verdict("III.5e", frozenset(known)) is ClaimVerdict.FALSE


def test_a_zigzag_is_the_integral_of_its_slopes():
    function = Zigzag((-2, 1), (-1, 0, 2))
    values = {x: function.value(Fraction(x)) for x in (-4, -2, 0, 1, 3)}
    assert values == {-4: 2, -2: 0, 0: 0, 1: 0, 3: 4}


def test_constant_zero_values_make_numerator_and_denominator_equal():
    assert verdict("III.10b", lambda keys, values: False) is ClaimVerdict.FALSE
    assert (
        verdict("III.10b", lambda keys, values: bool((values != 0).any()))
        is ClaimVerdict.CONDITIONAL
    )
    assert verdict("III.10b", lambda keys, values: bool((values > 0).any())) is ClaimVerdict.FALSE


@pytest.mark.parametrize("at", range(len(AS_PRINTED)))
def test_saturated_must_mean_the_same_everywhere(at):
    for other in (lambda h, d: h > d, lambda h, d: h >= d - 1, lambda h, d: True):
        changed = (*FROM_D_ON[:at], (FROM_D_ON[at][0], other), *FROM_D_ON[at + 1 :])
        assert verdict("V.5d", changed) is ClaimVerdict.FALSE
    assert verdict("V.5d", FROM_D_ON) is ClaimVerdict.HOLDS


def test_a_zigzag_further_away_is_no_witness():
    def far(distance):
        (claim,) = find_claims("VI.0b")
        return [(x, x + 2 * (y - x)) for x, y in claim.content(distance)]

    assert verdict("VI.0b", far) is ClaimVerdict.FALSE


def test_other_work_counts_regions_and_announces_no_tight_bound():
    assert GU_YANG_ZHOU.counts_regions
    assert not GU_YANG_ZHOU.has_tight_bound
    assert verdict("II.2", frozenset({"GYZ26"})) is ClaimVerdict.HOLDS
    assert verdict("II.2", frozenset({"another"})) is ClaimVerdict.FALSE


def test_being_first_is_decided_by_no_computation():
    assert verdict("I.4", None) is ClaimVerdict.NOT_CHECKABLE
    assert verdict("I.4", frozenset()) is ClaimVerdict.HOLDS
    assert verdict("I.4", frozenset({"GYZ26"})) is ClaimVerdict.FALSE
    assert replace(GU_YANG_ZHOU, abstract="a tight " + GU_YANG_ZHOU.abstract).has_tight_bound


@pytest.mark.parametrize("at", range(len(SPACES)))
def test_each_space_of_the_table_is_compared(at):
    name, space = SPACES[at]
    longer = (*SPACES[:at], (name, lambda s: (*space(s), 1)), *SPACES[at + 1 :])
    assert verdict("Tab1.12", longer) is ClaimVerdict.FALSE


@pytest.mark.parametrize("name", ["L", "H", "d", "d_ff", "N", "d_k"])
def test_the_maximum_depends_on_every_size(name):
    sizes = frozenset({"L", "H", "d", "d_ff", "N", "d_k"})
    assert verdict("Tab1.8", sizes) is ClaimVerdict.HOLDS
    assert verdict("Tab1.8", sizes - {name}) is ClaimVerdict.FALSE


def test_rows_turn_when_they_say_something_else():
    assert verdict("Tab1.1", lambda tokens, weight: 3) is ClaimVerdict.FALSE
    assert verdict("Tab1.29", lambda value: value >= 0) is ClaimVerdict.CONDITIONAL
    assert verdict("Tab1.40", lambda polynomial, point: False) is ClaimVerdict.FALSE
    assert verdict("Tab1.54", lambda rows: 7 if len(rows) == 3 else 12) is ClaimVerdict.FALSE
    assert verdict("Tab1.64", lambda j, n: Fraction(j - 1, n)) is ClaimVerdict.FALSE
    assert verdict("Tab1.16", (("W_O", lambda s: (s.d, s.d + 1)),)) is ClaimVerdict.FALSE


def test_equal_tokens_have_equal_keys():
    tokens = np.array([[1.0, 2.0], [1.0, 2.0]])
    (claim,) = [claim for claim in find_claims("Tab1.1") if claim.id == "Tab1.1"]
    assert claim.repaired(tokens, np.eye(2)) == 1
