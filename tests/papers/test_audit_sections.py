"""Claims of sections V and VI, Appendices D to G of [SL26], and of the abstract of [GYZ26]."""

import re
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.bounds import (
    cells_bias_free,
    cells_with_bias,
    paper,
    transformer_lower,
    transformer_upper,
    zaslavsky,
)
from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.papers.claims import ClaimVerdict
from hardmax.papers.ledger import all_claims
from hardmax.papers.subjects.attention.maxout_emulation import (
    Emulation,
    count_dense_numbers,
    count_parameters,
    dense_maxout,
    max_nonzeros,
    nonzero_factor,
)
from hardmax.papers.subjects.attention.multi_head import SimplicialCayley
from hardmax.papers.subjects.counting.lower_bound import HeadSizes, spread_coefficient
from hardmax.papers.subjects.temperature.spectral_norms import exact_supremum
from tests.sweeps import examples

CLAIMS = {claim.id: claim for claim in all_claims()}

BY_HAND = {
    "holds": "V.1 V.3a V.5e V.6b E.1 F.1b F.2 AppD.1 AppE.1 AppE.5 AppF.2 AppF.3 VI.1a VI.3a "
    "AppG.1 B.2a B.3 B.4 B.5 VI.0b",
    "holds with conditions": "V-A V.2d V.4 V.7d V.8b V.9b V.9c AppE.2 AppE.3 AppE.4 VI.3c VI.3d "
    "VI.3e B.1 B.6 B.7",
    "loose": "V.2a V.5a V.5b V.6a V.7b AppD.2 AppD.4 AppD.5 VI.1b VI.2c VI.3b",
    "false": "Fig4 V.2b V.2c V.3b V.5c V.7a V.7c V.8a V.8c V.9a V.9d F.1a Fig7a Fig7b AppD.6 "
    "AppE.6 AppE.7 AppF.1 AppF.4 VI.0 VI.1c VI.1d VI.1e VI.2a VI.2b VI.2d VI.2e AppG.2 AppG.3 B.2b "
    "V.5d",
    "not checkable": "AppD.3",
}
"""Verdicts read off by hand."""

SYMMETRIC = "all rivals on the margin"


@pytest.fixture(scope="module")
def findings():
    mine = {claim_id for line in BY_HAND.values() for claim_id in line.split()}
    return {claim_id: CLAIMS[claim_id].run() for claim_id in mine}


@pytest.mark.parametrize("verdict", BY_HAND)
def test_verdicts_are_those_found_by_hand(verdict, findings):
    for claim_id in BY_HAND[verdict].split():
        assert (claim_id, findings[claim_id].verdict.value) == (claim_id, verdict)


def test_the_hand_list_covers_its_sections(findings):
    here = re.compile(r"(V|VI|E|F|B)[.-]|App[DEFG]|Fig[47]")
    assert set(findings) == {claim_id for claim_id in CLAIMS if here.match(claim_id)}


OTHER_CONTENTS = [
    ("V.1", lambda n: n + 1, "loose"),
    ("Fig4", (6, 93), "false"),
    ("Fig4", (6, 91), "false"),
    ("Fig4", (7, 92), "false"),
    ("V.2a", lambda n, h, d: n**h - (h == d and n > 2), "loose"),
    ("V.2a", lambda n, h, d: cells_bias_free(n, h, d) - (d == 4), "false"),
    ("V.2a", lambda n, h, d: cells_bias_free(n, h, d) + (d == 4), "loose"),
    ("V.2b", lambda n, h, d: (n * h) ** d, "loose"),
    ("V.2b", lambda n, h, d: (n * h) ** min(d - 1, 2), "false"),
    ("V.2c", lambda heads: 44, "false"),
    ("V.2d", SimplicialCayley(False, lambda n, d: n <= d + 1), "holds"),
    ("V.3b", "4.8e21", "false"),
    ("V.5a", lambda n, h, d, d_ff, depth: 10**9, "loose"),
    ("V.5a", lambda n, h, d, d_ff, depth: (n * zaslavsky(d_ff, d)) ** depth, "false"),
    ("V.5e", lambda n, h, d, d_ff, depth: transformer_upper(n, h, d, d_ff, depth), "holds"),
    ("V.5b", lambda h, d, depth, bias: d * depth - (bias == "none") - 1, "false"),
    ("V.5c", lambda n, h, d, bias: cells_with_bias(n, h, d), "loose"),
    ("V.6a", lambda d, bias: 2 * d - 1, "false"),
    ("V.7a", lambda n, d, d_ff, depth: 1, "loose"),
    ("V.7d", HeadSizes(lambda n, d, d_ff, depth: 1, lambda size: True), "loose"),
    ("V.7b", lambda n, h, d, d_ff, depth: paper.appendix_f(n, d, d_ff, depth), "loose"),
    ("V.9a", lambda setting: (setting.dim - 1) * setting.depth, "holds"),
    ("V.9c", lambda setting: (setting.dim - 1) * setting.depth, "false"),
    ("V.9d", lambda setting: setting.dim * setting.depth // 2, "false"),
    ("V.9b", lambda h, d: (h // d) ** d, "holds with conditions"),
    ("V.9b", lambda h, d: comb(h, d), "holds with conditions"),
    ("F.1b", lambda n: [Fraction(1, n)] * (n - 1) + [Fraction(2, n)], "false"),
    ("AppE.4", lambda n, d, e: (e * n / d) ** (d - 1), "false"),
    ("AppF.1", ([1.0, 0.0], [0.0, 0.0]), "false"),
    ("AppF.1", ([1.0, 0.0], [0.0, -1.0]), "false"),
    ("AppF.2", lambda n, w: 2 * w * n + 1, "false"),
    ("VI.1a", lambda n, r: 1 + n * r, "loose"),
    ("VI.1b", lambda n, r: 2 * (n - 1) * r / (1 + n * r), "false"),
    ("VI.1c", lambda n, r: n * r / (1 + (n - 1) * r) ** 2 * Fraction(999, 1000), "false"),
    ("VI.1c", lambda n, r: n * r, "loose"),
    ("VI.1d", lambda n, r: n * r / (1 + r) ** 2, "loose"),
    ("VI.1e", lambda n, r: exact_supremum(n, r) * (1 - Fraction(1, 2**60)), "false"),
    ("VI.1b", lambda n, r: Fraction(199, 100) * (n - 1) * r, "false"),
    ("VI.1e", lambda n, r: n * r / 2, "false"),
    ("AppG.2", lambda p: Fraction(1, 2), "loose"),
    ("AppG.2", lambda p: Fraction(49, 100), "false"),
    ("VI.2a", lambda d_k: Fraction(1), "false"),
    ("VI.2b", ("7.19e-6", "1.15e-4", "4.6e-4"), "holds"),
    ("VI.2b", ("7.188e-6", "1.15e-4", "4.60e-4"), "holds"),
    ("VI.2b", ("7.19e-6", "1.16e-4", "4.6e-4"), "false"),
    ("VI.2b", ("7.19e-6", "1.15e-4", "4.62e-4"), "false"),
    ("VI.2c", Fraction(9999, 10000), "loose"),
    ("VI.3e", lambda hard, cold: hard - 1, "false"),
    ("B.5", lambda depth: 2**depth + 1, "false"),
    ("E.1", lambda n_heads, dim: dim, "false"),
    ("III.6", lambda channels: len(channels) > 1, "holds"),
    ("III.6", lambda channels: channels[0][1].n_terms == 4, "false"),
    ("III.12c", frozenset(), "false"),
    ("IV.6b", frozenset({"l2 norm of the keys"}), "false"),
    ("B.2a", lambda rank: 3 * max(2, (rank - 1).bit_length()), "false"),
    ("B.2a", lambda rank: Fraction(89, 10) + (rank - 1).bit_length(), "false"),
    ("B.2a", lambda rank: max(9, 4 + Fraction(149, 100) * (rank - 1).bit_length()), "false"),
    ("B.2a", lambda rank: 14 + 2 * (rank - 1).bit_length(), "loose"),
    ("AppG.3", lambda p: p[0] * (1 - p[0]), "false"),
]


@pytest.mark.parametrize(("claim_id", "content", "verdict"), OTHER_CONTENTS)
def test_a_verdict_follows_the_content(claim_id, content, verdict):
    assert CLAIMS[claim_id].check(content).verdict.value == verdict


def test_every_bound_on_vertices_is_tried_beyond_its_maximum(findings):
    # 92 from all 216 sums of vertices, without the search for vertices of sums.
    from hardmax.constructions.families.extremal_points import extremal_points
    from hardmax.geometry.extreme_points import extreme_points
    from hardmax.papers.subjects.attention.minkowski_proof import all_sums

    sums = all_sums(extremal_points(6, 3, 3))
    assert sums.shape == (216, 3)
    assert extreme_points(sums).sum() == 92
    attained = {trial.instance: trial for trial in findings["V.2a"].trials}
    assert attained["N = 6, H = 3, d = 3: extremal parabolas"].numbers["true"] == 92


def test_the_region_that_is_not_convex_is_cut_twice():
    # By hand: y = x + 5(1, 1) where x1 + x2 > -x1 and > -x2, else y = x; then a unit that bends
    # on y1 + y2 = 11. Two points on the far side of the line, with the cone between them.
    from hardmax.geometry.domains import WholeSpace
    from hardmax.models.heads import AttentionHead
    from hardmax.models.transformers import Block, FeedForward, HardTransformer
    from hardmax.regions.engines import enumerate_regions

    keys, values = [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    head = AttentionHead(np.eye(2), np.array(keys), np.array(values), np.eye(2))
    cut = FeedForward(np.array([[1.0], [1.0]]), np.array([-11.0]), np.array([[1.0, 0.0]]), None)
    part = enumerate_regions(HardTransformer([Block([head]), Block([], cut)]), WholeSpace(2))
    left, right = part.locate([[-40.0, 60.0], [60.0, -40.0]])
    assert part.map_classes[left] == part.map_classes[right]
    assert part.region_labels[left] != part.region_labels[right]
    assert part.n_regions == 5 > CLAIMS["AppE.7"].run().trials[0].numbers["claimed"]


def test_the_bound_of_the_paper_is_tried_where_it_fails(findings):
    worst = next(t for t in findings["VI.1c"].trials if SYMMETRIC in t.instance)
    n, r = 2, Fraction(1, 50)
    assert worst.numbers == {"true": n * r / (1 + r) ** 2, "claimed": r}
    matrix = np.array([[50.0, -50.0], [-50.0, 50.0]]) / 51.0**2
    assert np.linalg.norm(matrix, 2) == pytest.approx(float(worst.numbers["true"]), rel=1e-14)


def test_the_example_in_the_standard_regime(findings):
    numbers = [trial.numbers for trial in findings["VI.2e"].trials]
    assert numbers[0]["mass"] == "3.98e+2"
    assert (numbers[0]["least"], numbers[1]["least"]) == ("0.00251", "0.0143")
    for share in (0.5, 0.1, 0.01):
        needed = np.log(511 * (1 - share) / share)
        for tau, column in zip((8, 1), numbers, strict=True):
            assert column[f"margin for rivals below {share}"] == pytest.approx(tau * needed)
    # The margin of the example divided by its temperature, times the correct temperature.
    assert findings["VI.2e"].explanation.endswith(f"need a raw margin of {2 * 8 * 8}.")


def test_a_wrong_emulation_is_noticed_at_one_point():
    def almost(net, box, epsilon):
        bent = [np.array(unit) for unit in net.weights[0]]
        bent[0][0, 0] += 1.0
        changed = MaxoutNetwork([bent, *net.weights[1:]], net.biases)
        return compile_maxout(changed, box, epsilon)

    for everywhere in (True, False):
        assert CLAIMS["B.1"].check(Emulation(almost, everywhere)).verdict is ClaimVerdict.FALSE


# Heads spread evenly


@given(st.integers(1, 40), st.integers(1, 400))
def test_heads_spread_evenly_leave_a_factor_of_the_dimension_alone(dim, more):
    n_heads = dim + more - 1
    lowest = spread_coefficient(n_heads, dim)
    assert comb(n_heads, dim) * factorial(dim) <= dim**dim * lowest
    # It is the coefficient of N^d in the library's proven lower bound without units.
    big = 10**6
    count = transformer_lower(big, n_heads, dim, 0, 1, bias="query", continuous=False)
    assert round(Fraction(count, big**dim) / lowest, 2) == 1


def test_floor_many_heads_each_are_not_enough():
    for n_heads, dim, factor in ((3, 2, 3), (5, 3, 10)):
        assert Fraction(comb(n_heads, dim), (n_heads // dim) ** dim) == factor
        assert factor > Fraction(dim**dim, factorial(dim))


# The size of a compiled transformer


SHAPES = st.lists(st.integers(1, 7), min_size=3, max_size=6)


@examples(25)
@given(SHAPES, st.integers(1, 9))
def test_sizes_are_those_of_the_formulas(widths, rank):
    size = compile_maxout(
        dense_maxout(widths, rank), Box(-np.ones(widths[0]), np.ones(widths[0]))
    ).size
    assert size.source_parameters == count_parameters(widths, rank)
    assert size.nonzeros == max_nonzeros(widths, rank)
    assert size.parameters == count_dense_numbers(widths, rank)


@given(st.lists(st.integers(1, 60), min_size=3, max_size=9), st.integers(1, 4000))
def test_no_shape_has_more_nonzero_weights_than_the_theorem_says(widths, rank):
    assert max_nonzeros(widths, rank) <= nonzero_factor(rank) * count_parameters(widths, rank)


@pytest.mark.parametrize("rank", [1, 2, 3, 6, 7, 8, 9, 64, 65, 2**20])
def test_chains_of_single_units_stay_below_the_factor_and_come_close(rank):
    ratios = []
    for n in (3, 4, 5, 6, 10, 100, 3000):
        widths = [1] * n
        ratios.append(Fraction(max_nonzeros(widths, rank), count_parameters(widths, rank)))
    assert max(ratios) <= nonzero_factor(rank)
    if rank in (1, 2**20):
        assert max(ratios) > Fraction(99, 100) * nonzero_factor(rank)


def test_the_old_factor_fails_for_a_chain():
    chain = (1,) * 6
    size = compile_maxout(dense_maxout(chain, 2), Box([-1.0], [1.0])).size
    assert (size.nonzeros, size.source_parameters) == (116, 18)
    assert size.nonzeros > 3 * 2 * size.source_parameters
