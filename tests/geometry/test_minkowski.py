"""Minkowski sums: against the definition, against Qhull, and against the theorems."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
    SizeLimitError,
)
from hardmax.geometry._joint_argmax import vertex_graphs
from hardmax.geometry.minkowski import minkowski_vertices
from tests.reference.minkowski import (
    choices_by_definition,
    neighbours_by_definition,
    selected_by,
    sharp_bound,
    vertices_from_partial_sums,
)
from tests.strategies import SMALL, WILD
from tests.sweeps import examples

NEARLY_TIED = st.builds(
    lambda whole, tiny, bits: whole + tiny * 2.0**-bits,
    st.integers(-1, 1),
    st.integers(-1, 1),
    st.integers(30, 52),
)
"""Walls that differ, or not, in the last bits: floating point must not decide."""


@st.composite
def point_sets(draw, elements=(SMALL, NEARLY_TIED, WILD), most=5, max_dim=4, max_sets=3):
    """Draw a few small point sets; sometimes the same one twice."""
    entries = draw(st.sampled_from(list(elements)))
    dim = draw(st.integers(1, max_dim))
    point = st.lists(entries, min_size=dim, max_size=dim)
    sets = draw(st.lists(st.lists(point, min_size=1, max_size=most), min_size=1, max_size=max_sets))
    if len(sets) > 1 and draw(st.booleans()):
        sets[1] = sets[0]
    return [np.array(points, dtype=np.float64) for points in sets]


def gaussian(dim, n_sets, n_points, seed=0):
    """Draw Gaussian coordinates rounded to four digits, as integers."""
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(size=(n_points, dim)) * 1e4) for _ in range(n_sets)]


def all_sums(sets):
    return np.array([sum(points) for points in product(*sets)])


def qhull_choices(sets):
    """Name the vertices Qhull finds among all sums."""
    shape = [points.shape[0] for points in sets]
    vertices = ConvexHull(all_sums(sets)).vertices
    return sorted(zip(*(i.tolist() for i in np.unravel_index(vertices, shape)), strict=True))


def assert_directions_select(sets, found):
    for choice, direction in zip(found.choices.tolist(), found.exact_directions, strict=True):
        assert selected_by(sets, direction.tolist()) == [(i, True) for i in choice]


# Against the definition.

THIN = [np.array([[0.0, 0.0], [1.0, 2.0**-52]]), np.array([[0.0, 0.0], [1.0, 0.0]])]
REPEATED = [np.array([[1.0], [0.0], [1.0]]), np.array([[-0.0], [0.0]])]


@examples(120)
@example(THIN)
@example(REPEATED)
@given(point_sets())
def test_choices_match_the_definition(sets):
    found = minkowski_vertices(sets)
    assert [tuple(c) for c in found.choices.tolist()] == choices_by_definition(sets)
    assert_directions_select(sets, found)


@examples(30)
@given(point_sets())
def test_points_are_the_exact_sums_rounded_once(sets):
    found = minkowski_vertices(sets)
    for choice, point in zip(found.choices.tolist(), found.points, strict=True):
        for k, x in enumerate(point):
            exact = sum(Fraction(float(p[i, k])) for p, i in zip(sets, choice, strict=True))
            assert x == float(exact)


def test_a_sum_of_many_small_terms_is_rounded_once():
    tiny = 2.0**-53
    assert minkowski_vertices([[[1.0]], [[tiny]], [[tiny]]]).points.tolist() == [[1.0 + 2 * tiny]]


def test_a_float_direction_is_returned_where_there_is_one():
    sets = gaussian(4, 3, 6)
    found = minkowski_vertices(sets)
    for choice, direction in zip(found.choices.tolist(), found.directions, strict=True):
        assert [int(np.argmax(points @ direction)) for points in sets] == choice


@pytest.mark.parametrize(
    ("dim", "n_sets", "n_points"),
    [(2, 4, 9), (3, 2, 30), (3, 4, 7), (4, 3, 9), (5, 3, 7), (6, 2, 12), (3, 1, 40)],
)
def test_choices_match_qhull_on_all_sums(dim, n_sets, n_points):
    for seed in range(3):
        sets = gaussian(dim, n_sets, n_points, seed)
        found = minkowski_vertices(sets)
        assert [tuple(c) for c in found.choices.tolist()] == qhull_choices(sets)
        assert found.decisions.rational <= n_points * (n_sets == 1)


@pytest.mark.parametrize(("n_points", "true_count"), [(2, 8), (3, 27)])
def test_flat_inputs_have_vertices_where_qhull_refuses(n_points, true_count):
    """Four-dimensional sums of three segments or triangles; Qhull raises on the flat ones."""
    rng = np.random.default_rng(1)
    sets = [rng.integers(-9, 9, (n_points, 6)).astype(float) for _ in range(3)]
    assert minkowski_vertices(sets).count == true_count


# Theorems.


@pytest.mark.parametrize(("dim", "seed"), [(d, s) for d in (2, 3, 4, 5) for s in range(4)])
def test_weibels_identity_holds_in_general_position(dim, seed):
    """Polytopes of all dimensions: two points make a segment, up to dim + 3 a full one."""
    rng = np.random.default_rng([dim, seed])
    n_sets = dim + int(rng.integers(0, 2))
    sizes = rng.integers(2, 7 if dim < 5 else 5, n_sets)
    sets = [np.round(rng.normal(size=(n, dim)) * 1e4) for n in sizes]

    def count(chosen):
        return minkowski_vertices([sets[k] for k in chosen]).count

    assert count(range(n_sets)) == vertices_from_partial_sums(count, n_sets, dim)


@pytest.mark.parametrize(
    ("n_points", "n_sets", "dim"),
    [(6, 3, 3), (4, 4, 3), (4, 5, 3), (3, 4, 4), (3, 5, 4), (3, 3, 2), (5, 2, 3)],
)
def test_points_on_parabolas_attain_the_sharp_bound(n_points, n_sets, dim):
    rng = np.random.default_rng(0)
    t = 2.0 * np.arange(n_points) - (n_points - 1)
    sets = []
    for m in range(n_sets):
        slope = rng.integers(-64, 65, dim - 1) / 16.0
        sets.append(np.column_stack([t[:, None] * slope, -(t**2) + (m + 1) * t / 64.0]))
    assert minkowski_vertices(sets).count == sharp_bound([n_points] * n_sets, dim)


def test_the_bound_for_three_six_point_sets_in_space_is_92():
    assert sharp_bound([6, 6, 6], 3) == 92


@examples(40)
@given(point_sets(elements=(SMALL,), most=6, max_sets=4))
def test_no_sum_exceeds_the_sharp_bound(sets):
    sizes = [len({tuple(p) for p in (points + 0.0).tolist()}) for points in sets]
    bound = sharp_bound(sizes, sets[0].shape[1])
    assert minkowski_vertices(sets).count <= bound


@pytest.mark.parametrize(("dim", "n_sets"), [(2, 5), (3, 6), (4, 6), (5, 4)])
def test_segments_make_a_central_arrangement(dim, n_sets):
    sets = gaussian(dim, n_sets, 2)
    expected = 2 * sum(comb(n_sets - 1, j) for j in range(dim))
    assert minkowski_vertices(sets).count == expected


@examples(40)
@given(
    point_sets(elements=(SMALL,), most=6, max_dim=2, max_sets=4).filter(
        lambda s: s[0].shape[1] == 2
    )
)
def test_in_the_plane_vertices_are_edge_directions(sets):
    """Each full-dimensional polygon gives its edges, a segment both of its directions."""
    normals = set()
    for points in sets:
        hull = minkowski_vertices([points]).points
        for a, b in combinations(hull.tolist(), 2):
            for sign in (1, -1):
                u = (sign * (b[1] - a[1]), sign * (a[0] - b[0]))
                scores = [p[0] * u[0] + p[1] * u[1] for p in hull.tolist()]
                if max(scores) == a[0] * u[0] + a[1] * u[1]:
                    scale = np.gcd(int(u[0]), int(u[1]))
                    normals.add((u[0] / scale, u[1] / scale))
    assert minkowski_vertices(sets).count == max(len(normals), 1)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_permutohedron_has_factorially_many_vertices(n):
    """A zonotope that is flat and as far from general position as can be."""
    unit = np.eye(n)
    found = minkowski_vertices([unit[[i, j]] for i, j in combinations(range(n), 2)])
    assert found.count == factorial(n)
    assert sorted(found.points[0].tolist()) == list(range(n))
    assert found.edges.shape[0] == factorial(n) * (n - 1) // 2


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_cubes_add_up_to_cubes(dim):
    cube = np.array(list(product([0.0, 1.0], repeat=dim)))
    found = minkowski_vertices([cube, 2.5 * cube, cube - 7.0])
    assert found.count == 2**dim
    assert found.edges.shape[0] == dim * 2 ** (dim - 1)
    np.testing.assert_array_equal(found.choices, found.choices[:, [0, 0, 0]])


# Two constructions agree.


@examples(40)
@given(point_sets(elements=(SMALL, NEARLY_TIED)), st.randoms(use_true_random=False))
def test_the_order_of_the_heads_does_not_matter(sets, random):
    order = list(range(len(sets)))
    random.shuffle(order)
    found = minkowski_vertices(sets)
    shuffled = minkowski_vertices([sets[k] for k in order])
    assert sorted(shuffled.choices.tolist()) == sorted(found.choices[:, order].tolist())


@examples(40)
@given(point_sets(elements=(SMALL,)), st.integers(-1000, 1000), st.integers(-200, 200))
def test_translating_and_scaling_change_nothing(sets, shift, exponent):
    moved = [np.ldexp(points, exponent + h) for h, points in enumerate(sets)]
    moved[0] = np.ldexp(sets[0] + shift, exponent)
    expected = minkowski_vertices(sets).choices
    np.testing.assert_array_equal(minkowski_vertices(moved).choices, expected)


@examples(40)
@given(point_sets(elements=(SMALL, NEARLY_TIED)))
def test_one_more_set_never_removes_a_vertex(sets):
    counts = [minkowski_vertices(sets[: k + 1]).count for k in range(len(sets))]
    assert counts == sorted(counts)


@examples(40)
@given(point_sets(elements=(SMALL, NEARLY_TIED)))
def test_summing_the_vertices_of_a_partial_sum_gives_the_same_polytope(sets):
    *first, last = sets
    if not first:
        return
    partial = minkowski_vertices(first)
    exact = [sum(p[i] for p, i in zip(first, c, strict=True)) for c in partial.choices]
    if not np.array_equal(partial.points, np.array(exact)):
        return  # The partial sums round: another polytope.
    assert minkowski_vertices([partial.points, last]).count == minkowski_vertices(sets).count


@examples(40)
@given(point_sets(elements=(SMALL, NEARLY_TIED)))
def test_exact_integers_throughout_give_the_same_answer(sets):
    filtered, rational = minkowski_vertices(sets), minkowski_vertices(sets, start="rational")
    np.testing.assert_array_equal(rational.choices, filtered.choices)
    assert_directions_select(sets, rational)


def test_larger_sums_are_the_same_in_exact_integers():
    sets = gaussian(3, 3, 8)
    filtered, rational = minkowski_vertices(sets), minkowski_vertices(sets, start="rational")
    np.testing.assert_array_equal(rational.choices, filtered.choices)
    assert filtered.decisions.rational == 0
    assert rational.decisions.filtered <= rational.count < rational.decisions.rational


@pytest.mark.parametrize("scale", [1e-6, 1e-8, 1e-150])
def test_badly_scaled_axes_do_not_change_the_count(scale):
    sets = gaussian(4, 3, 6)
    exponents = np.rint(np.log2(np.geomspace(1.0, scale, 4))).astype(int)
    squeezed = [np.ldexp(points, exponents) for points in sets]
    np.testing.assert_array_equal(
        minkowski_vertices(squeezed).choices, minkowski_vertices(sets).choices
    )


def test_oblique_scales_are_no_worse_than_straight_ones():
    """An integer map that flattens space by 2^-40 in a direction that is no axis."""
    sets = gaussian(3, 3, 6)
    turn = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]])
    flat = [(points * [1.0, 1.0, 2.0**-30]) @ turn for points in sets]
    found = minkowski_vertices(flat)
    np.testing.assert_array_equal(found.choices, minkowski_vertices(sets).choices)
    assert_directions_select(flat, found)


def test_clusters_are_told_apart():
    rng = np.random.default_rng(3)
    centres = rng.integers(-3, 4, (3, 3)).astype(float)
    sets = [
        np.repeat(centres + m, 2, axis=0) + 2.0**-27 * rng.integers(-5, 6, (6, 3)) for m in range(2)
    ]
    found = minkowski_vertices(sets)
    assert [tuple(c) for c in found.choices.tolist()] == choices_by_definition(sets)


def test_heads_in_independent_subspaces_multiply():
    rng = np.random.default_rng(4)
    sets = [np.zeros((7, 6)) for _ in range(3)]
    for h, points in enumerate(sets):
        points[:, 2 * h : 2 * h + 2] = rng.integers(-50, 51, (7, 2))
    alone = [minkowski_vertices([points]).count for points in sets]
    assert minkowski_vertices(sets).count == np.prod(alone)


def test_sums_of_full_rank_in_sixteen_dimensions_are_all_vertices():
    found = minkowski_vertices(gaussian(16, 3, 8))
    assert found.count == 8**3


def test_a_search_is_resumed_as_often_as_needed():
    """More tuples than one buffer holds."""
    sets = gaussian(7, 4, 12)
    found = minkowski_vertices(sets)
    assert found.count > 4096
    assert len({tuple(c) for c in found.choices.tolist()}) == found.count
    for i in range(0, found.count, 97):
        winners = [int(np.argmax(points @ found.directions[i])) for points in sets]
        assert winners == found.choices[i].tolist()


@examples(40)
@given(point_sets(elements=(SMALL, NEARLY_TIED), most=4, max_dim=3))
def test_edges_match_the_definition(sets):
    found = minkowski_vertices(sets)
    expected = neighbours_by_definition(sets, found.choices.tolist())
    assert [tuple(pair) for pair in found.edges.tolist()] == expected


def test_arrays_are_read_only_and_inputs_are_copied():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = minkowski_vertices([points, points])
    points[:] = 0.0
    assert found.point_sets[0].any()
    assert found.edges.shape == (3, 2)
    for array in (found.choices, found.points, found.directions, *found.point_sets):
        assert not array.flags.writeable


def test_a_sum_beyond_the_largest_float_rounds_to_infinity():
    found = minkowski_vertices([[[1.5e308], [0.0]], [[1.5e308], [-1.0]]])
    assert sorted(found.points.ravel().tolist()) == [-1.0, np.inf]


# Bad input.


@pytest.mark.parametrize(
    ("sets", "error", "name"),
    [
        ([], EmptyInputError, "`point_sets`"),
        ([[[0.0, 1.0]], []], HardmaxError, r"`point_sets\[1\]`"),
        ([np.zeros((0, 2))], EmptyInputError, r"`point_sets\[0\]`"),
        ([np.zeros((2, 0))], EmptyInputError, r"`point_sets\[0\]`"),
        ([np.zeros((2, 3)), np.zeros((2, 2))], ShapeMismatchError, r"`point_sets\[1\]`"),
        (np.zeros((3, 2)), ShapeMismatchError, r"`point_sets\[0\]`"),
        ([[[0.0], [np.nan]]], NonFiniteError, r"`point_sets\[0\]`"),
        ([[[0.0]], [[np.inf]]], NonFiniteError, r"`point_sets\[1\]`"),
        ([[["a"]]], DtypeError, r"`point_sets\[0\]`"),
        ([np.array([[1, 2]], dtype=object)], DtypeError, r"`point_sets\[0\]`"),
        ([np.array([[1j]])], DtypeError, r"`point_sets\[0\]`"),
        (5, DtypeError, "`point_sets`"),
        ([[[1.0], [1.0, 2.0]]], ShapeMismatchError, r"`point_sets\[0\]`"),
    ],
)
def test_bad_point_sets_are_refused_by_name(sets, error, name):
    with pytest.raises(error, match=name):
        minkowski_vertices(sets)


def test_an_unknown_start_is_refused():
    with pytest.raises(ArgumentError, match="`start`"):
        minkowski_vertices([[[0.0], [1.0]], [[0.0], [1.0]]], start="floating")


def test_a_table_that_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(vertex_graphs, "_MAX_TABLE_ENTRIES", 100)
    with pytest.raises(SizeLimitError, match="table of their differences"):
        minkowski_vertices(gaussian(3, 2, 12))


@pytest.mark.parametrize("n_sets", [1, 2])
def test_single_points_have_one_vertex(n_sets):
    found = minkowski_vertices([[[1.0, 2.0], [1.0, 2.0]]] * n_sets)
    assert (found.count, found.choices.tolist()) == (1, [[0] * n_sets])
    assert found.directions.any()
    assert found.edges.shape == (0, 2)


def test_directions_select_their_vertex_in_plain_floats_too():
    """Small integers have fat cones: no direction may hang on the last bit of a product."""
    rng = np.random.default_rng(123)
    for _ in range(400):
        dim, n_sets, reach = rng.integers(1, 5), rng.integers(1, 4), rng.integers(1, 4)
        shapes = [(rng.integers(1, 6), dim) for _ in range(n_sets)]
        sets = [rng.integers(-reach, reach + 1, size=shape).astype(float) for shape in shapes]
        found = minkowski_vertices(sets)
        for choice, direction in zip(found.choices, found.directions, strict=True):
            for points, own in zip(sets, choice, strict=True):
                rivals = points[(points != points[own]).any(axis=1)]
                assert (rivals @ direction < points[own] @ direction - 1e-9).all()


def test_directions_that_do_not_tell_two_rows_apart_are_no_division_by_zero():
    """In the last set a wall is as far from the inside of a cone as from a direction outside it."""
    e = 2.0**-51
    flat = [[1.1541084420959775, 1.2397885036886667], [0.10699656722236324, -0.2918543651300534],
            [0.015382062960691355, 0.5910936807744744], [1.8956953383405193, 2.282621997732037],
            [-0.3124333124354497, 0.6726394042150619]]  # fmt: skip
    cube = [[0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]]
    tied = [[e, 0, 1], [0, 0, 1], [e - 1, e, 1], [1, -1 - e, 0], [-1 - e, e - 1, 0],
            [0, e, -1 - e], [-e, 1 - e, -1 - e], [e - 1, e, 1 - e]]  # fmt: skip
    sets = [np.pad(flat, ((0, 0), (0, 1))), np.array(cube, float), np.array(tied)]
    found, exact = minkowski_vertices(sets), minkowski_vertices(sets, start="rational")
    np.testing.assert_array_equal(found.choices, exact.choices)
