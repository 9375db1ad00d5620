from fractions import Fraction

import numpy as np
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from hardmax.geometry.domains import WholeSpace
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.merging import candidate_classes, connected_classes, map_key, members
from tests.region_models import integer_transformer

FORMS = st.tuples(
    st.lists(st.integers(-6, 6), min_size=4, max_size=4),
    st.integers(-3, 3),
    st.integers(1, 6),
)


def as_forms(drawn):
    entries, exponent, denominator = drawn
    return RationalForms(fmpz_mat(2, 2, entries), exponent, denominator)


def as_fractions(drawn):
    entries, exponent, denominator = drawn
    return [Fraction(x) * Fraction(2) ** exponent / denominator for x in entries]


@given(FORMS, FORMS)
def test_keys_are_equal_exactly_for_equal_maps(one, other):
    same = as_fractions(one) == as_fractions(other)
    assert (map_key(as_forms(one)) == map_key(as_forms(other))) == same


@given(FORMS, st.integers(1, 5), st.integers(0, 3))
def test_keys_do_not_depend_on_how_a_map_is_written(drawn, factor, shift):
    entries, exponent, denominator = drawn
    again = [x * factor << shift for x in entries], exponent - shift, denominator * factor
    assert map_key(as_forms(drawn)) == map_key(as_forms(again))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.25, 0.75, np.inf]),
)
def test_maps_within_their_radii_stay_together(points, radius):
    maps = np.array(points, dtype=float)
    classes = candidate_classes(maps, np.full_like(maps, radius))
    for i in range(len(maps)):
        for j in range(len(maps)):
            if (np.abs(maps[i] - maps[j]) <= 2 * radius).all():
                assert classes[i] == classes[j]
            # Integers are further apart than two radii of a quarter.
            elif radius <= 0.25:
                assert classes[i] != classes[j]


def test_chains_join_and_other_classes_do_not():
    classes = np.array([0, 1, 0, 0, 1])
    pairs = np.array([[0, 1], [1, 2], [2, 3], [1, 4]])
    assert connected_classes(classes, pairs).tolist() == [0, 1, 2, 2, 1]
    assert connected_classes(classes, np.empty((0, 2), dtype=np.int64)).tolist() == [0, 1, 2, 3, 4]
    assert members(classes) == [[0, 2, 3], [1, 4]]


def test_a_unit_that_cancels_makes_cells_but_no_regions():
    # relu(x) - relu(x) through two units, and relu(-x) - relu(-x).
    model = ReluNetwork([[[1.0, 1.0, -1.0, -1.0]], [[1.0], [-1.0], [2.0], [-2.0]]])
    part = enumerate_regions(model, WholeSpace(1))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (2, 1, 1)


def test_a_tent_has_four_regions_and_three_maps():
    # relu(x + 1) - 2 relu(x) + relu(x - 1) is 0 on both far sides.
    model = ReluNetwork([[[1.0, 1.0, 1.0]], [[1.0], [-2.0], [1.0]]], [[1.0, 0.0, -1.0], None])
    part = enumerate_regions(model, WholeSpace(1))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (4, 4, 3)
    assert part.region_labels.tolist() == [0, 1, 2, 3]
    assert part.map_classes.tolist() == [0, 1, 2, 0]


def test_regions_are_the_same_with_all_neighbours_and_with_those_of_equal_maps():
    model = integer_transformer(14, 2, 3, 2)
    lazily = enumerate_regions(model, WholeSpace(2))
    eagerly = enumerate_regions(model, WholeSpace(2))
    assert len(eagerly.neighbours) > 0
    assert lazily.region_labels.tolist() == eagerly.region_labels.tolist()
    assert "neighbours" not in lazily.__dict__
