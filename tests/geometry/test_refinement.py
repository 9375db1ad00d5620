"""Common refinements of max-affine partitions, and which of their cells are neighbours."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement, refinement_neighbours
from tests.reference.minkowski import choices_by_definition, neighbours_by_definition
from tests.strategies import SMALL, WILD
from tests.sweeps import examples

NEARLY_TIED = st.builds(
    lambda whole, tiny: whole + tiny * 2.0**-50, st.integers(-1, 1), st.integers(-1, 1)
)


@st.composite
def form_groups(draw, elements=(SMALL, NEARLY_TIED, WILD), most=4, max_dim=3, max_groups=3):
    """Draw a few groups of affine forms; sometimes one of them twice."""
    entries = draw(st.sampled_from(list(elements)))
    dim = draw(st.integers(0, max_dim))
    form = st.lists(entries, min_size=dim + 1, max_size=dim + 1)
    groups = draw(
        st.lists(st.lists(form, min_size=1, max_size=most), min_size=1, max_size=max_groups)
    )
    arrays = [np.array(group, dtype=np.float64) for group in groups]
    if draw(st.booleans()):
        arrays.append(arrays[0])
    return [AffineForms(lifted[:, :dim], lifted[:, dim]) for lifted in arrays]


def lifted(groups):
    return [np.column_stack([group.slopes, group.offsets]) for group in groups]


def upward(dim):
    return [[0.0] * dim + [1.0]]


def random_groups(dim, n_groups, n_forms, seed=0):
    rng = np.random.default_rng(seed)
    return [
        AffineForms(
            np.round(rng.normal(size=(n_forms, dim)) * 1e4),
            np.round(rng.normal(size=n_forms) * 1e4),
        )
        for _ in range(n_groups)
    ]


def assert_witnesses_are_inside(groups, cells):
    for choice, x in zip(cells.choices.tolist(), cells.exact_witnesses, strict=True):
        point = [Fraction(c) for c in x]
        for group, winner in zip(groups, choice, strict=True):
            forms = [
                tuple(Fraction(float(c)) for c in (*a, b))
                for a, b in zip(group.slopes, group.offsets, strict=True)
            ]
            values = [sum(a * c for a, c in zip(f, [*point, 1], strict=True)) for f in forms]
            best = {f for f, v in zip(forms, values, strict=True) if v == max(values)}
            assert best == {forms[winner]}
            assert forms.index(forms[winner]) == winner


COINCIDING_WALLS = [
    AffineForms([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0]),
    AffineForms([[0.0, 1.0], [3.0, 1.0], [0.0, 1.0]], [5.0, 5.0, 5.0]),
]


@examples(75)
@example(COINCIDING_WALLS)
@given(form_groups())
def test_cells_match_the_definition(groups):
    cells = common_refinement(groups)
    expected = choices_by_definition(lifted(groups), upward(groups[0].dim))
    assert [tuple(c) for c in cells.choices.tolist()] == expected
    assert_witnesses_are_inside(groups, cells)


@examples(60)
@example(COINCIDING_WALLS)
@given(form_groups(elements=(SMALL, NEARLY_TIED), max_dim=2))
def test_neighbours_match_the_definition(groups):
    cells = common_refinement(groups)
    expected = neighbours_by_definition(
        lifted(groups), cells.choices.tolist(), upward(groups[0].dim)
    )
    assert [tuple(pair) for pair in refinement_neighbours(cells).tolist()] == expected


def test_float_witnesses_are_inside_where_cells_are_fat():
    groups = random_groups(3, 3, 6)
    cells = common_refinement(groups)
    for choice, x in zip(cells.choices.tolist(), cells.witnesses, strict=True):
        assert [int(np.argmax(group(x[None])[0])) for group in groups] == choice


def test_a_cell_without_floats_keeps_a_rational_witness():
    """Walls at 1 and at (2^53 - 1) / (2^53 - 2): the next float after 1 lies beyond both."""
    first = AffineForms([[0.0], [1.0]], [1.0, 0.0])
    second = AffineForms([[0.0], [2.0**53 - 2]], [2.0**53 - 1, 0.0])
    cells = common_refinement([first, second])
    assert cells.choices.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert_witnesses_are_inside([first, second], cells)
    assert 1 < cells.exact_witnesses[1, 0] < Fraction(2**53 - 1, 2**53 - 2)
    assert cells.witnesses[1, 0] in (1.0, np.nextafter(1.0, 2.0))
    assert refinement_neighbours(cells).tolist() == [[0, 1], [1, 2]]


# Theorems.


@pytest.mark.parametrize(("dim", "n_lines"), [(1, 5), (2, 6), (3, 5), (4, 5)])
def test_hyperplanes_in_general_position_cut_as_zaslavsky_says(dim, n_lines):
    """Cells: sum of binomials. Facets: each hyperplane is cut by the others into as many."""
    groups = random_groups(dim, n_lines, 2)
    cells = common_refinement(groups)
    assert cells.count == sum(comb(n_lines, j) for j in range(dim + 1))
    facets = n_lines * sum(comb(n_lines - 1, j) for j in range(dim))
    assert refinement_neighbours(cells).shape == (facets, 2)


@pytest.mark.parametrize(("n_keys", "dim"), [(2, 2), (3, 2), (4, 3)])
def test_the_grid_attains_the_bound_with_bias(n_keys, dim):
    """One head per axis, each with parallel walls: n^d cells, the maximum for d heads."""
    slopes = np.arange(float(n_keys))
    offsets = -np.cumsum(np.arange(float(n_keys)))
    groups = [AffineForms(np.outer(slopes, np.eye(dim)[h]), offsets) for h in range(dim)]
    cells = common_refinement(groups)
    assert cells.count == n_keys**dim
    pairs = refinement_neighbours(cells)
    assert pairs.shape[0] == dim * (n_keys - 1) * n_keys ** (dim - 1)


@pytest.mark.parametrize(("dim", "n_groups", "n_forms"), [(1, 3, 5), (2, 3, 4), (3, 2, 4)])
def test_generic_forms_stay_below_the_bound_with_bias(dim, n_groups, n_forms):
    bound = sum(comb(n_groups, j) * (n_forms - 1) ** j for j in range(dim + 1))
    for seed in range(5):
        assert common_refinement(random_groups(dim, n_groups, n_forms, seed)).count <= bound


@examples(40)
@given(form_groups(elements=(SMALL,)))
def test_without_offsets_cells_are_the_vertices_of_the_sum(groups):
    bare = [AffineForms(group.slopes, np.zeros(group.n_forms)) for group in groups]
    cells = common_refinement(bare)
    if cells.dim == 0:
        assert cells.count == 1
        return
    vertices = minkowski_vertices([group.slopes for group in bare])
    np.testing.assert_array_equal(cells.choices, vertices.choices)
    np.testing.assert_array_equal(refinement_neighbours(cells), vertices.edges)


@examples(40)
@given(form_groups(elements=(SMALL,)), st.lists(SMALL, min_size=4, max_size=4))
def test_a_common_form_added_to_a_group_moves_no_wall(groups, form):
    slope, offset = form[: groups[0].dim], form[3]
    shifted = [AffineForms(groups[0].slopes + slope, groups[0].offsets + offset), *groups[1:]]
    np.testing.assert_array_equal(
        common_refinement(shifted).choices, common_refinement(groups).choices
    )


@examples(40)
@given(form_groups(elements=(SMALL,), max_dim=2))
def test_the_dual_graph_is_connected(groups):
    cells = common_refinement(groups)
    reached, pairs = {0}, refinement_neighbours(cells).tolist()
    for _ in range(cells.count):
        reached |= {b for a, b in pairs if a in reached} | {a for a, b in pairs if b in reached}
    assert reached == set(range(cells.count))


def test_every_point_of_a_grid_lies_in_a_listed_cell():
    groups = random_groups(2, 3, 5, seed=2)
    listed = {tuple(c) for c in common_refinement(groups).choices.tolist()}
    grid = np.array(list(product(np.linspace(-3.1, 2.9, 40), repeat=2)))
    seen = set(zip(*(group(grid).argmax(axis=1).tolist() for group in groups), strict=True))
    assert seen <= listed


# Inside a polyhedron.


@examples(40)
@given(form_groups(elements=(SMALL,), max_dim=2), st.integers(0, 3), st.integers(1, 3))
def test_inequalities_keep_the_cells_they_meet(groups, low, width):
    dim = groups[0].dim
    matrix = np.concatenate([np.eye(dim), -np.eye(dim)])
    bounds = np.concatenate([np.full(dim, float(low + width)), np.full(dim, -float(low))])
    cells = common_refinement(groups, (matrix, bounds))
    base = [*upward(dim), *np.column_stack([-matrix, bounds]).tolist()]
    assert [tuple(c) for c in cells.choices.tolist()] == choices_by_definition(lifted(groups), base)
    assert (cells.witnesses @ matrix.T - bounds <= 0.0).all()
    expected = neighbours_by_definition(lifted(groups), cells.choices.tolist(), base)
    assert [tuple(pair) for pair in refinement_neighbours(cells).tolist()] == expected


@pytest.mark.parametrize("bounds", [[-1.0, 0.0], [0.0, 0.0]])
def test_an_empty_polyhedron_has_no_cells(bounds):
    group = AffineForms([[0.0], [1.0]], [0.0, 0.0])
    cells = common_refinement([group], ([[1.0], [-1.0]], bounds))
    assert (cells.count, cells.choices.shape, cells.witnesses.shape) == (0, (0, 1), (0, 1))
    assert refinement_neighbours(cells).shape == (0, 2)


# Bad input.

GROUP = AffineForms([[0.0], [1.0]], [0.0, 0.0])


@pytest.mark.parametrize(
    ("groups", "error", "name"),
    [
        ([], EmptyInputError, "`groups`"),
        (3, DtypeError, "`groups`"),
        ([GROUP, np.zeros((2, 2))], DtypeError, r"`groups\[1\]`"),
        ([GROUP, AffineForms([[0.0, 1.0]], [0.0])], ShapeMismatchError, r"`groups\[1\]`"),
    ],
)
def test_bad_groups_are_refused_by_name(groups, error, name):
    with pytest.raises(error, match=name):
        common_refinement(groups)


@pytest.mark.parametrize(
    ("inequalities", "name"),
    [
        (([[1.0, 2.0]], [0.0]), "`A`"),
        (([[1.0]], [0.0, 1.0]), "`b`"),
        (np.zeros((3, 2)), "`inequalities`"),
        (7, "`inequalities`"),
    ],
)
def test_bad_inequalities_are_refused_by_name(inequalities, name):
    with pytest.raises(ShapeMismatchError, match=name):
        common_refinement([GROUP], inequalities)
