"""Counterexamples of the ledger, checked without the library: fractions, polygons, mpmath."""

from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product

import mpmath as mp
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from hardmax.papers.ledger import find_claims
from tests.reference.plane_cells import (
    IDENTITY,
    combine,
    cut,
    linear_layer,
    n_regions,
    relu_layer,
    square,
)


@cache
def trials(claim_id):
    (claim,) = find_claims(claim_id)
    return claim.run().trials


def numbers(claim_id, trial=0):
    return trials(claim_id)[trial].numbers


def integers(seed, n, dim, largest=99):
    return np.random.default_rng(seed).integers(-largest, largest + 1, size=(n, dim)) * 1.0


def all_sums(heads):
    return np.array([np.sum(choice, axis=0) for choice in product(*heads)])


def test_polygons_are_cut_as_by_hand():
    one = [(square(1), IDENTITY)]
    assert len(relu_layer(one, np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 0.5]))) == 3
    assert cut(square(1), (Fraction(0), Fraction(0), Fraction(-1))) == []
    two = relu_layer(one, np.array([[1.0], [0.0]]), np.zeros(1))
    assert (len(two), n_regions(two)) == (2, 2)
    assert n_regions(linear_layer(two, np.zeros((1, 1)), np.zeros(1))) == 1


def test_the_best_network_of_two_layers():
    known = numbers("III.3b", 1)
    (first, second), (offsets, biases) = (
        map(np.array, known[key]) for key in ("weights", "biases")
    )
    cells = relu_layer([(square(), IDENTITY)], first, offsets)
    assert len(cells) == 7
    cells = relu_layer(cells, second, biases)
    assert n_regions(cells) == len(cells) == known["regions"] == 34


def test_signatures_that_exceed_regions():
    rng = np.random.default_rng(3)
    w1, w2, w3 = (rng.normal(size=s) for s in ((2, 4), (4, 3), (3, 1)))
    b1, b2 = rng.normal(size=4), rng.normal(size=3)
    cells = relu_layer(relu_layer([(square(), IDENTITY)], w1, b1), w2, b2)
    found = numbers("Fig6a.1", 1)
    assert len(cells) == found["signatures"] == 22
    assert n_regions(linear_layer(cells, w3, np.zeros(1))) == found["regions"] == 20


@pytest.mark.parametrize(("n", "trial"), [(2, 0), (5, 1)])
def test_cells_that_are_called_out_of_reach(n, trial):
    rng = np.random.default_rng(n)
    cells = [(square(), IDENTITY)]
    for _ in range(2):
        heads = [[rng.normal(size=s) for s in ((2, 2), (n, 2), (n, 2), (2, 2))] for _ in range(2)]
        w1, b1, w2, b2 = (rng.normal(size=s) for s in ((2, 4), (4,), (4, 2), (2,)))
        routed = []
        for polygon, forms in cells:
            parts = [(polygon, forms)]
            for w_q, keys, values, w_o in heads:
                query = [combine(column, forms) for column in w_q.T]
                scores = [combine(key, query) for key in keys]
                gains = [
                    [combine(w, [(0, 0, Fraction(float(v))) for v in value])[2] for w in w_o.T]
                    for value in values
                ]
                parts = [
                    (piece, [(*f[:2], f[2] + g) for f, g in zip(stream, gains[j], strict=True)])
                    for polygon, stream in parts
                    for j in range(n)
                    if (piece := _won(polygon, scores, j))
                ]
            routed += parts
        cells = []
        for polygon, stream in routed:
            for piece, units in relu_layer([(polygon, stream)], w1, b1):
                out = [combine(column, units, b) for column, b in zip(w2.T, b2, strict=True)]
                cells.append(
                    (
                        piece,
                        [
                            tuple(map(sum, zip(*both, strict=True)))
                            for both in zip(stream, out, strict=True)
                        ],
                    )
                )
    assert len(cells) == numbers("VII.1b", trial)["cells"]


def _won(polygon, scores, j):
    for i, score in enumerate(scores):
        if i != j and polygon:
            polygon = cut(polygon, tuple(a - b for a, b in zip(scores[j], score, strict=True)))
    return polygon


def test_sums_of_polytopes_in_general_position():
    for seed in range(4):
        heads = [integers(100 * seed + i, 6, 3, 999) for i in range(3)]
        assert len(ConvexHull(all_sums(heads)).vertices) == numbers("V.2c", seed)["true"]


def test_sums_without_interior_points_miss_the_product():
    for seed in range(20):
        rng = np.random.default_rng(500 + seed)
        heads = [rng.normal(size=(5, 4)) for _ in range(3)]
        assert [len(ConvexHull(head).vertices) for head in heads] == [5, 5, 5]
        assert len(ConvexHull(all_sums(heads)).vertices) == numbers("Fig6b.2", 20 + seed)["true"]


def test_blocks_on_the_line_and_their_signatures():
    grid = [Fraction(k, 8) + Fraction(1, 16) for k in range(-160, 160)]

    def signatures(low, high, kinks):
        stream = [x + (high if x > 0 else low) for x in grid]
        return len({(x > 0, *(y > k for k in kinks)) for x, y in zip(grid, stream, strict=True)})

    counted = [signatures(-5, 5, [1]), signatures(5, -5, [0]), signatures(5, -5, [0, 1])]
    assert counted == [numbers("Fig7a", i)["true"] for i in range(3)] == [2, 4, 6]
    together = [signatures(0, 0, [1]), signatures(0, 0, [0]), signatures(0, 0, [0, 1])]
    assert together == [numbers("Fig7a", i)["claimed"] for i in range(3)]


def precisely(fraction):
    return mp.mpf(fraction.numerator) / fraction.denominator


def softmax(scores):
    weights = [mp.exp(s - max(scores)) for s in scores]
    return [w / sum(weights) for w in weights]


@pytest.mark.parametrize("claim_id", ["AppG.2", "AppG.3"])
def test_spectral_norms_in_high_precision(claim_id):
    with mp.workdps(50):
        for trial in trials(claim_id):
            p = mp.matrix([precisely(x) for x in trial.numbers["p"]])
            norm = max(mp.eigsy(mp.diag(list(p)) - p * p.T, eigvals_only=True))
            bound = precisely(trial.numbers["bound"])
            assert trial.holds == (norm <= bound + mp.mpf(10) ** -40)


@pytest.mark.parametrize(("claim_id", "order"), [("VI.1d", 1), ("VI.1e", 2)])
def test_smoothness_in_high_precision(claim_id, order):
    with mp.workdps(200):
        for i, (n, r) in enumerate(
            ((2, Fraction(1, 50)), (3, Fraction(1, 99)), (5, Fraction(1, 500)))
        ):
            step, margin = mp.mpf(2) ** -100, -mp.log(precisely(r))
            a = [mp.mpf(0), *[-margin] * (n - 1)]
            b = [step * (n - 1), *[-margin - step] * (n - 1)]
            value, moved = (mp.log(sum(map(mp.exp, s))) for s in (a, b))
            p, q = softmax(a), softmax(b)
            squared = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
            if order == 1:
                change = mp.sqrt(sum((x - y) ** 2 for x, y in zip(p, q, strict=True)))
                ratio = change / ((n - 1) * precisely(r) * mp.sqrt(squared))
            else:
                linear = sum(x * (v - u) for x, u, v in zip(p, a, b, strict=True))
                ratio = (moved - value - linear) / ((n - 1) * precisely(r) * squared / 2)
            assert float(ratio) == pytest.approx(numbers(claim_id, i)["true / claimed"], rel=1e-12)
            assert ratio > 1


def test_the_example_in_high_precision():
    with mp.workdps(50):
        r = mp.exp(-16)
        own = (mp.log(1 + 511 * r) / 8, 2 * 511 * r, 8 * 511 * r)
        for i, value in enumerate(own):
            assert float(numbers("VI.2b", i)["value"]) == pytest.approx(float(value), rel=1e-5)
        norm = 8 * 512 * r / (1 + 511 * r) ** 2
        assert float(numbers("VI.2d")["norm"]) == pytest.approx(float(norm), rel=1e-5)
        assert norm > own[2]
        for i, tau in enumerate((8, 1)):
            least = 1 / (1 + 511 * mp.exp(-mp.mpf(2) / tau))
            assert float(numbers("VI.2e", i)["least"]) == pytest.approx(float(least), rel=5e-3)


def test_no_scores_exceed_the_repaired_curvature():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        n, r = int(rng.integers(2, 7)), rng.uniform(0.001, 1)
        x = r * rng.uniform(size=n - 1) ** rng.choice([0.0, 0.2, 1.0, 5.0])
        x[rng.random(n - 1) < 0.3] = 0.0
        p = np.append(x, 1.0) / (1 + x.sum())
        most = max((m + 1) * r / (1 + m * r) ** 2 for m in range(1, n))
        assert np.linalg.norm(np.diag(p) - np.outer(p, p), 2) <= most * (1 + 1e-12)


def test_pieces_that_survive_at_finite_temperature():
    positions = [mp.mpf(2 * j + 1) / 8 for j in range(4)]

    def soft(x, tau):
        p = softmax([(x * k - k * k / 2) / tau for k in positions])
        z = 4 * (x - sum(a * b for a, b in zip(p, positions, strict=True))) + mp.mpf(1) / 2
        return 2 * max(0, z) - 4 * max(0, z - mp.mpf(1) / 2)

    for i, (depth, tau) in enumerate(((1, 8), (1, 1000), (2, 1000), (2, 20000))):
        n, survivors = 8**depth, 0
        for k in range(n):
            ends = []
            for quarter in (1, 3):
                x = mp.mpf(4 * k + quarter) / (4 * n)
                for _ in range(depth):
                    x = soft(x, mp.mpf(1) / tau)
                ends.append(x)
            survivors += bool((ends[1] - ends[0]) * (-1) ** k > 0.25)
        assert survivors == numbers("VI.3e", i)["true"]


def test_walls_of_the_lifted_map():
    def maps(values):
        """Return the affine maps of max(-q, q + v) - max(-q, q) for each v, from left to right."""
        walls = sorted({Fraction(0), *(Fraction(-v, 2) for v in values)})
        ends = [walls[0] - 2, *walls, walls[-1] + 2]
        found = []
        for a, b in pairwise(ends):
            at = [[max(-q, q + v) - max(-q, q) for v in values] for q in (a, b)]
            slopes = [(y - x) / (b - a) for x, y in zip(*at, strict=True)]
            found.append([(s, x - s * a) for s, x in zip(slopes, at[0], strict=True)])
        return found

    three = maps([2, 4, -2])
    assert len(three) == 1 + sum(a != b for a, b in pairwise(three)) == 5
    assert numbers("III.11c")["linear_regions"] == 5
    assert all(a != b for a, b in combinations(three, 2))
    assert len(set(map(tuple, maps([0])))) == numbers("III.12a", 1)["linear_regions"] == 1
