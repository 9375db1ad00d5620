"""Radii and norms of models at all magnitudes, against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from hardmax.models._arithmetic.enclosures import (
    Enclosed,
    EnclosedMap,
    add_enclosures,
    scale_enclosure,
)
from hardmax.models._arithmetic.normed_maps import NormedMap
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.models.checkpoints.row_certificates import certify_rows
from tests.magnitudes import IDS, MAGNITUDES, wild_numbers

SEEDS = range(10)


def fractions_of(array):
    return [[Fraction(x) for x in row] for row in array.tolist()]


def assert_enclosed(found, wanted):
    for values, radii, row in zip(found.values, found.radii, wanted, strict=True):
        for value, radius, true in zip(values, radii, row, strict=True):
            assert radius == np.inf or abs(Fraction(value) - true) <= Fraction(radius)


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_radii_cover_what_fractions_give(magnitude, seed):
    rng = np.random.default_rng([11, seed])
    weight, bias = wild_numbers(rng, (3, 2), magnitude), wild_numbers(rng, 2, magnitude)
    x, y, factors = wild_numbers(rng, (3, 2, 3), rng.choice([magnitude, 1.0]))
    radii = np.abs(wild_numbers(rng, (2, 3), magnitude)) * float(rng.integers(2))
    moved = [
        [z + Fraction(r) * int(rng.integers(-1, 2)) for z, r in zip(*rows, strict=True)]
        for rows in zip(fractions_of(x), radii.tolist(), strict=True)
    ]
    stream = Enclosed(x, radii)
    columns = list(zip(*fractions_of(weight), strict=True))
    mapped = [
        [
            sum((z * w for z, w in zip(row, column, strict=True)), Fraction(b))
            for column, b in zip(columns, bias.tolist(), strict=True)
        ]
        for row in moved
    ]
    assert_enclosed(EnclosedMap(weight, bias)(stream), mapped)
    pairs = list(zip(moved, fractions_of(y), fractions_of(factors), strict=True))
    sums = [[a + b for a, b in zip(left, right, strict=True)] for left, right, _ in pairs]
    assert_enclosed(add_enclosures(stream, Enclosed.exactly(y)), sums)
    multiples = [[a * b for a, b in zip(left, right, strict=True)] for left, _, right in pairs]
    assert_enclosed(scale_enclosure(factors, stream), multiples)


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_norms_of_maps_are_upper_bounds(magnitude, seed):
    rng = np.random.default_rng([12, seed])
    weight, bias = wild_numbers(rng, (3, 2), magnitude), wild_numbers(rng, 2, magnitude)
    found = NormedMap.of(weight, bias)
    columns = [sum(x * x for x in column) for column in zip(*fractions_of(weight), strict=True)]
    rows = [sum(x * x for x in row) for row in fractions_of(weight)]
    pairs = [(size, square) for size, square in zip(found.omega, columns, strict=True)]
    # The spectral norm is at least that of every row and column, and the Frobenius norm over its
    # square root.
    pairs += [(found.sigma, square) for square in [*rows, *columns, sum(columns) / 2]]
    pairs += [(found.frobenius, sum(columns))]
    pairs += [(found.bias_norm, sum(Fraction(b) ** 2 for b in bias.tolist()))]
    for size, square in pairs:
        assert size == np.inf or square <= Fraction(size) ** 2


def exact_row(query, keys, values, temperature):
    """The mass of the winners, and the distance of the output from theirs over the largest."""
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
    top = max(scores)
    tied = [j for j, s in enumerate(scores) if s == top]
    ratios = [(s - top) / temperature for s in scores]
    weights = [arb(fmpq(t.numerator, t.denominator)).exp() for t in ratios]
    total = sum(weights, arb(0))
    off, far = arb(0), Fraction(0)
    for k in range(len(values[0])):
        home = sum(values[j][k] for j in tied) / len(tied)
        gaps = [v[k] - home for v in values]
        balls = [arb(fmpq(g.numerator, g.denominator)) for g in gaps]
        off += (sum((w * g for w, g in zip(weights, balls, strict=True)), arb(0)) / total) ** 2
    far = max(sum((a - b) ** 2 for a, b in zip(v, values[tied[0]], strict=True)) for v in values)
    mass = sum((weights[j] for j in tied), arb(0)) / total
    return mass, off, arb(fmpq(far.numerator, far.denominator))


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_heads_are_certified(magnitude, seed):
    rng = np.random.default_rng([13, seed])
    arrays = HeadArrays(*(wild_numbers(rng, (1, 3, 2), magnitude) for _ in range(3)), False)
    found = certify_rows(arrays, 0)
    keys, values = fractions_of(arrays.keys[0]), fractions_of(arrays.values[0])
    with ctx.workprec(9000):
        temperature = Fraction(float(arrays.temperature or 2**0.5))
        for i, query in enumerate(fractions_of(arrays.queries[0])):
            mass, off, far = exact_row(query, keys, values, temperature)
            assert not mass < arb(float(found.masses[i]))
            assert not off > arb(float(found.distances[i])) ** 2 * far * (1 + arb(2) ** -40)
            assert 0.0 <= found.distances[i] <= 2.0
