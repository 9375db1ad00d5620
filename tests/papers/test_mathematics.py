"""Formulas in sentences: recognized, typeset, and never confused with words or HTML."""

import re
from xml.etree import ElementTree

import pytest

from hardmax.papers.ledger import all_claims
from hardmax.papers.mathematics import typeset


def formulas(text):
    """Return the formulas of a text as plain characters."""
    found = re.findall(r"<math>.*?</math>", typeset(text))
    return ["".join(ElementTree.fromstring(formula).itertext()) for formula in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("For d = 2 and N = 4 it is Theta(N^(dL)).", ["d=2", "N=4", "Θ(NdL)"]),
        ("tau = sqrt(d_k) on raw scores", ["τ=dk"]),
        ("a margin of 2 on 512 keys", []),
        ("A head has I cells, and a key wins", []),
        ("the scores are <q, k_j> + c_j", ["⟨q,kj⟩+cj"]),
        ("at most tau log of it, tau log N here", ["τ", "τlogN"]),
        ("(H = 2, d = 3, bias: none)", ["H=2", "d=3"]),
        ("((1 + m(N-1)) 2w)^((d-1)L) cells", ["((1+m(N−1))2w)(d−1)L"]),
        ("about 1.1e21 and 2e-07", ["1.1·1021", "2·10−7"]),
        ("sum of the others; sum_{j<d} binom(H,j)", ["∑j<d(Hj)"]),
        ("e^(-delta/tau) in R^2", ["e−δ/τ", "ℝ2"]),
        ("x<y & z", ["x<y"]),
        ("at most L min(H, d - 1), max 5", ["Lmin(H,d−1)"]),
        ("at most (N-1)e^(-delta/tau) (or a)", ["(N−1)e−δ/τ"]),
    ],
)
def test_formulas_are_found(text, expected):
    assert formulas(text) == expected


def test_what_is_no_formula_stays_as_it_is():
    assert typeset("<script>alert(1)</script>").startswith("&lt;script&gt;")
    assert typeset("`a_b^c`") == "<code>a_b^c</code>"
    assert typeset("") == ""


def test_every_claim_is_set_without_losing_a_word():
    for claim in all_claims():
        page = f"<p>{typeset(claim.statement)}</p>"
        words = "".join(ElementTree.fromstring(page).itertext())
        for word in re.findall(r"[A-Za-z]{4,}", claim.statement):
            if word not in ("Theta", "delta", "sqrt", "floor", "ceil", "binom", "epsilon"):
                assert word in words
