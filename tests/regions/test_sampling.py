from functools import partial

import numpy as np
import pytest

from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.geometry.domains import Box, Line, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import SampledCount, sample_regions
from tests.region_models import gaussian_relu, integer_relu, integer_transformer, repeated_units

SQUARE = Box([-2, -2], [3, 3])


def on_a_grid(generator, n):
    """Many points on walls of integer models, and repeated."""
    return generator.integers(-4, 5, (n, 2)) / 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("law", [None, on_a_grid])
def test_no_more_cells_are_met_than_there_are(seed, law):
    models = (
        integer_relu(seed, [2, 4, 3], zero_bias=bool(seed % 2)),
        integer_transformer(seed, 2, 4, 2, 2, repeat=bool(seed % 2)),
        repeated_units(2),
    )
    for model in models:
        part = enumerate_regions(model, SQUARE)
        sampled = sample_regions(model, SQUARE, 3000, seed, law=law)
        assert sampled.distinct <= part.n_cells
        assert sampled.n_samples + sampled.n_dropped == 3000
        if law is None:
            assert sampled.n_dropped == 0
            # Every cell is at least a percent of the square in these models, or nearly so.
            assert sampled.distinct >= part.n_cells // 2


def test_points_on_walls_are_dropped_and_only_these():
    model = integer_relu(3, [2, 4, 3])
    part = enumerate_regions(model, SQUARE)
    seen = []

    def law(generator, n):
        seen.append(on_a_grid(generator, n))
        return seen[-1]

    sampled = sample_regions(model, SQUARE, 4096, 1, law=law)
    found = part.locate(seen[0])
    assert sampled.n_dropped == (found == -1).sum()
    assert sampled.distinct == len(set(found.tolist()) - {-1})
    counts = np.bincount(found[found >= 0])
    assert sampled.n_once == (counts == 1).sum()
    assert sampled.n_twice == (counts == 2).sum()


def test_a_dead_unit_drops_nothing():
    model = ReluNetwork([[[1.0, 0.0], [1.0, 0.0]], [[1.0], [1.0]]])
    sampled = sample_regions(model, SQUARE, 500, 0)
    assert (sampled.distinct, sampled.n_dropped) == (2, 0)
    # The zero of every unit, at the origin, is a wall.
    origin = sample_regions(model, SQUARE, 500, 0, law=lambda generator, n: np.zeros((n, 2)))
    assert (origin.distinct, origin.n_samples, origin.n_dropped) == (0, 0, 500)
    assert (origin.unseen_mass, origin.interval, origin.lower_estimate) == (1.0, (0.0, 1.0), 0.0)


@pytest.mark.parametrize("n_at_once", [1, 5000, 1 << 20])
def test_the_result_depends_on_the_seed_and_not_on_the_chunks(n_at_once):
    model = gaussian_relu(3, [2, 16, 16])
    wanted = sample_regions(model, SQUARE, 10_000, 7)
    found = sample_regions(model, SQUARE, 10_000, 7, n_at_once=n_at_once)
    assert vars(found) == vars(wanted)
    assert vars(sample_regions(model, SQUARE, 10_000, 8)) != vars(wanted)


@pytest.mark.parametrize("workers", [2, 5])
def test_the_result_does_not_depend_on_the_number_of_threads(workers):
    for model, dim in ((gaussian_relu(3, [5, 16, 16]), 5), (integer_relu(2, [2, 4, 3]), 2)):
        box, law = Box([-1] * dim, [1] * dim), partial(half_integers, dim)
        for how in ({}, {"law": law}):
            one = sample_regions(model, box, 50_000, 7, n_at_once=4096, **how)
            some = sample_regions(model, box, 50_000, 7, n_at_once=4096, workers=workers, **how)
            assert vars(some) == vars(one)
            assert one.distinct > 0


def half_integers(dim, generator, n):
    """Points of which many lie on walls."""
    return generator.integers(-2, 3, (n, dim)) / 2


def test_more_points_extend_fewer():
    model = gaussian_relu(3, [2, 16, 16])
    few, many = (sample_regions(model, SQUARE, n, 7) for n in (1000, 9000))
    assert few.distinct <= many.distinct
    assert many.interval[1] < few.interval[1]


def test_the_interval_covers_the_true_unseen_mass():
    model = gaussian_relu(5, [2, 12, 12])
    part = enumerate_regions(model, SQUARE)
    shares = (part.volumes / 25).astype(float)
    for seed in range(20):
        draws = []

        def law(generator, n, draws=draws):
            draws.append(generator.uniform(-2, 3, (n, 2)))
            return draws[-1]

        sampled = sample_regions(model, SQUARE, 400, seed, law=law)
        met = np.unique(part.locate(draws[0][:400]))
        missing = 1 - shares[met[met >= 0]].sum()
        low, high = sampled.interval
        assert low <= missing <= high
        assert sampled.distinct == len(met)


def test_estimates_are_those_of_their_formulas():
    sampled = SampledCount(10, 100, 0, 4, 1, 0.9)
    assert sampled.unseen_mass == 0.04
    assert sampled.lower_estimate == pytest.approx(10 + 0.99 * 4 * 3 / 4)
    narrow, wide = SampledCount(10, 10**6, 0, 4, 1, 0.9), SampledCount(10, 10**6, 0, 4, 1, 0.999)
    assert wide.interval[1] > narrow.interval[1] > 4e-6
    assert repr(sampled) == "SampledCount(at least 10 cells, from 100 points)"


def test_slices_segments_and_polytopes_are_sampled_in_their_coordinates():
    model = integer_relu(2, [3, 4, 3])
    triangle = Polytope([[1, 1], [-1, 0], [0, -1]], [2, 1, 1])
    domains = [
        Slice([0.5, 0.1, 0.0], [[1.0, 0.3, 0.0], [0.0, 1.0, 1.0]], Box([-3, -3], [3, 3])),
        Slice([0.5, 0.1, 0.0], [[1.0, 0.3, 0.0], [0.0, 1.0, 1.0]], triangle),
        Segment([0.1, -3.0, 0.7], [3.0, 2.9, -1e-3]),
    ]
    for domain in domains:
        sampled = sample_regions(model, domain, 4000, 0)
        part = enumerate_regions(model, domain)
        assert 0.5 * part.n_cells <= sampled.distinct <= part.n_cells
        assert sampled.n_samples == 4000


def test_an_unbounded_domain_needs_a_law():
    model = gaussian_relu(5, [2, 6])
    with pytest.raises(ArgumentError, match="`law` is required for an unbounded domain"):
        sample_regions(model, WholeSpace(2), 10, 0)
    with pytest.raises(ArgumentError, match="`law` is required for an unbounded domain"):
        sample_regions(model, Line([0, 0], [1, 1]), 10, 0)
    law = lambda generator, n: generator.normal(size=(n, 2)) * 5  # noqa: E731
    sampled = sample_regions(model, WholeSpace(2), 2000, 0, law=law)
    assert 0 < sampled.distinct <= enumerate_regions(model, WholeSpace(2)).n_cells


def test_a_model_without_groups_and_no_points():
    model = integer_relu(0, [2])
    assert sample_regions(model, SQUARE, 10, 0).distinct == 1
    assert sample_regions(model, SQUARE, 0, 0).distinct == 0


def test_bad_arguments_are_refused():
    model = gaussian_relu(5, [2, 6])
    with pytest.raises(ArgumentError, match="`n_samples` must be at least 0"):
        sample_regions(model, SQUARE, -1, 0)
    with pytest.raises(ArgumentError, match="`seed` must be at least 0"):
        sample_regions(model, SQUARE, 1, -1)
    with pytest.raises(ArgumentError, match="`confidence` must be below 1"):
        sample_regions(model, SQUARE, 1, 0, confidence=1.0)
    with pytest.raises(DtypeError, match="`law` must be a function"):
        sample_regions(model, SQUARE, 1, 0, law=3)
    with pytest.raises(ShapeMismatchError, match="`law` must have shape"):
        sample_regions(model, SQUARE, 1, 0, law=lambda generator, n: np.zeros((n, 3)))
    needle = Polytope([[1, -1], [-1, 1], [1, 1], [-1, -1]], [1e-9, 0, 1, 1])
    with pytest.raises(ArgumentError, match="fills too little of the box"):
        sample_regions(model, needle, 10, 0)
