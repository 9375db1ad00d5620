from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.exact.integer_vectors import primitive, wide_rows
from hardmax.geometry.domains import Box
from hardmax.geometry.polytopes import Polytope
from hardmax.tropical.diagrams import order_k
from hardmax.tropical.diagrams.order_k import order_k_diagram, top_k
from hardmax.tropical.diagrams.order_k_hulls import order_k_hull
from hardmax.tropical.diagrams.order_k_search import CompetingForms, TopSet, refine, walk_walls
from hardmax.tropical.diagrams.planar_order_k import planar_order_k
from hardmax.tropical.diagrams.power_cells import wall
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.diagrams.power_forms import difference_rank
from tests.dense_arrays import dense, dense_matrices
from tests.reference.diagrams import exact_scores, top_set, top_sets_by_definition
from tests.strategies import SMALL, WILD
from tests.sweeps import examples


@st.composite
def contests(draw, elements=SMALL):
    dim = draw(st.integers(1, 3))
    keys = draw(dense_matrices(st.integers(1, 6), dim, elements))
    bias = draw(dense(keys.shape[0], elements)) * draw(st.sampled_from([0, 1]))
    return keys, bias, draw(st.integers(1, keys.shape[0]))


def moment_curve(n_points, dim):
    return np.array([[float(t**k) for k in range(1, dim + 1)] for t in range(n_points)])


def as_sets(diagram):
    return {tuple(row) for row in diagram.sets.tolist()}


def is_distinct(keys, bias):
    return len(np.unique(np.column_stack([keys, bias]), axis=0)) == len(keys)


@examples(60)
@given(contests())
@example((np.array([[1.0, 0], [-1, 0], [1, 0], [0, 0], [0, 0]]), np.zeros(5), 3))
@example((np.array([[1.0], [1], [1]]), np.array([0.0, 1, 0]), 2))
@example((np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]]), np.zeros(4), 2))
def test_the_sets_are_those_that_win_at_their_witnesses_and_cover_the_grid(case):
    keys, bias, k = case
    diagram = order_k_diagram(PowerDiagram.from_keys(keys, bias), k)
    for row, witness in zip(diagram.sets.tolist(), diagram.exact_witnesses, strict=True):
        assert top_set(keys, bias, witness, k) == tuple(row)
    points = np.random.default_rng(0).integers(-40, 40, (60, keys.shape[1])) / 7
    seen = {top_set(keys, bias, x, k) for x in points} - {None}
    assert seen <= as_sets(diagram)
    if is_distinct(keys, bias):
        assert as_sets(diagram) == top_sets_by_definition(keys.tolist(), bias.tolist(), k)


@examples(40)
@given(st.sampled_from([(3, 9), (4, 7)]), st.data())
def test_hulls_of_sums_find_the_sets_and_walls_of_the_walk(size, data):
    dim, most = size
    elements = data.draw(st.sampled_from([st.integers(-1, 1), st.integers(-9, 9)]))
    rows = data.draw(
        st.lists(st.tuples(*[elements] * (dim + 1)), min_size=dim + 1, max_size=most, unique=True)
    )
    assume(difference_rank(wide_rows(rows, dim + 1)) == dim)
    k = data.draw(st.integers(1, len(rows) - 1))
    found = order_k_hull(wide_rows(rows, dim + 1), k)
    walked = walk_walls(CompetingForms(rows, [1] * len(rows), k), dim)
    assert found.sets.tolist() == sorted(sorted(top.whole) for top in walked)
    for i, members in enumerate(found.sets.tolist()):
        _, walls = walked[TopSet(frozenset(members), -1)]
        assert sorted(map(primitive, found.walls(i))) == sorted(map(primitive, walls))


@examples(60)
@given(contests(), st.data())
def test_walking_and_refining_find_the_same_sets(case, data):
    keys, bias, _ = case
    integers = np.column_stack([keys, bias]).astype(int).tolist()
    forms = sorted({tuple(row) for row in integers})
    multiplicity = data.draw(st.lists(st.integers(1, 3), min_size=len(forms), max_size=len(forms)))
    contest = CompetingForms(forms, multiplicity, data.draw(st.integers(1, sum(multiplicity))))
    walked, refined = walk_walls(contest, keys.shape[1]), refine(contest, keys.shape[1])
    assert walked.keys() == refined.keys()
    for top, (witness, walls) in walked.items():
        for rows in (walls, contest.walls(top)):
            for point in (witness, refined[top][0]):
                assert all(
                    sum(a * x for a, x in zip(row[:-1], point, strict=True)) < row[-1]
                    for row in rows
                )
        # The walls found by the walk are exactly the facets of all pairwise inequalities.
        one = Polytope.from_rows(walls, keys.shape[1])
        other = Polytope.from_rows(contest.walls(top), keys.shape[1])
        assert len(walls) == one.facets.rows.shape[0] == other.facets.rows.shape[0]
        assert one.f_vector == other.f_vector


@examples(75)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=3, max_size=9, unique=True), st.data())
@example([(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (2, 1, 0)], None)
def test_the_compiled_walk_in_the_plane_finds_the_same_cells(rows, data):
    forms = [tuple(int(x) for x in row) for row in rows]
    if difference_rank(np.array(forms, dtype=object)) < 2:
        return
    copies = [1] * len(forms)
    k = 3
    if data is not None:
        many = st.lists(st.integers(1, 3), min_size=len(forms), max_size=len(forms))
        copies = data.draw(st.just(copies) | many)
        k = data.draw(st.integers(1, sum(copies) - 1))
    wanted = walk_walls(CompetingForms(forms, copies, k), 2)
    found = planar_order_k(forms, copies, k)
    n = len(forms)
    tops = [
        TopSet(frozenset(g for g in whole if g < n), part if part < n else -1)
        for *whole, part in found.sets.tolist()
    ]
    assert len(tops) == len(set(tops))
    assert set(tops) == wanted.keys()
    for top, start, end in zip(tops, found.first_wall[:-1], found.first_wall[1:], strict=True):
        pairs = found.walls[start:end].tolist()
        walls = sorted(primitive(wall(forms[i], forms[j])) for i, j in pairs)
        assert walls == sorted(primitive(row) for row in wanted[top][1])


@pytest.mark.parametrize(("n_sites", "k"), [(60, 2), (60, 7), (40, 20)])
def test_order_k_voronoi_diagrams_have_the_known_number_of_cells(n_sites, k):
    """[Lee82]: (2 k - 1) n - (k^2 - 1) - (unbounded cells of all lower orders)."""
    sites = np.random.default_rng(k).random((n_sites, 2))
    diagram = PowerDiagram(sites, np.zeros(n_sites))
    unbounded = [order_k_diagram(PowerDiagram.from_keys(sites), i).n_cells for i in range(1, k)]
    wanted = (2 * k - 1) * n_sites - (k * k - 1) - sum(unbounded)
    assert order_k_diagram(diagram, k).n_cells == wanted


@pytest.mark.parametrize(
    ("n_points", "dim", "k", "count"),
    [(7, 4, 2, 21), (9, 6, 3, 84), (7, 3, 2, 15), (6, 2, 1, 6), (6, 2, 5, 6), (5, 3, 5, 1)],
)
def test_the_moment_curve_has_as_many_sets_as_its_dimension_allows(n_points, dim, k, count):
    diagram = order_k_diagram(PowerDiagram.from_keys(moment_curve(n_points, dim)), k)
    assert diagram.n_cells == count


@pytest.mark.parametrize(("n_keys", "dim", "k"), [(8, 2, 3), (7, 3, 2), (6, 4, 3)])
def test_without_biases_the_sets_are_the_vertices_of_the_polytope_of_sums(n_keys, dim, k):
    keys = np.random.default_rng(n_keys).integers(-50, 50, (n_keys, dim)).astype(float)
    sums = {s: keys[list(s)].sum(axis=0) for s in combinations(range(n_keys), k)}
    hull = {tuple(v) for v in Polytope.from_points(np.array(list(sums.values()))).vertices.tolist()}
    diagram = order_k_diagram(PowerDiagram.from_keys(keys), k)
    assert {tuple(sums[s].tolist()) for s in as_sets(diagram)} == hull
    assert diagram.n_cells == len(hull)


@examples(30)
@given(contests())
def test_order_one_is_the_diagram_itself(case):
    keys, bias, _ = case
    diagram = PowerDiagram.from_keys(keys, bias)
    first = order_k_diagram(diagram, 1)
    # Of equal keys only the first wins alone; ties with a worse copy need the biases compared.
    assert first.sets[:, 0].tolist() == np.flatnonzero(diagram.active).tolist()
    for index, cell in enumerate(diagram.cells()):
        assert first.cell(index).f_vector == cell.polytope.f_vector


@examples(30)
@given(contests())
def test_order_n_minus_one_leaves_out_the_last(case):
    keys, bias, _ = case
    n_keys = keys.shape[0]
    if n_keys == 1 or not is_distinct(keys, bias):
        return
    most = order_k_diagram(PowerDiagram.from_keys(keys, bias), n_keys - 1)
    lowest = PowerDiagram.from_keys(-keys, -bias)
    left_out = [(set(range(n_keys)) - set(row)).pop() for row in most.sets.tolist()]
    assert sorted(left_out) == np.flatnonzero(lowest.active).tolist()


def test_all_sites_together_own_everything():
    diagram = order_k_diagram(PowerDiagram.from_keys([[1, 2], [3, 4], [3, 4]]), 3)
    assert diagram.sets.tolist() == [[0, 1, 2]]
    assert diagram.cell(0).lineality.shape == (2, 2)


@pytest.mark.parametrize(("n_keys", "k"), [(12, 3), (9, 4), (6, 5)])
def test_clipped_areas_add_up_to_the_box_exactly(n_keys, k):
    rng = np.random.default_rng(k)
    keys, bias = rng.integers(-9, 9, (n_keys, 2)), rng.integers(-9, 9, n_keys)
    diagram = order_k_diagram(PowerDiagram.from_keys(keys, bias), k)
    box = Box([-3, -3], [3, 3])
    total = sum(diagram.cell(i).intersection(box).volume for i in range(diagram.n_cells))
    assert total == 36


def test_walls_where_two_pairs_swap_at_once_are_crossed_together():
    """Across x = 0 the winners 0 and 1 both lose, to 2 and 3: no set differs by one swap."""
    keys = np.array([[1.0, 0], [1, 0], [-1, 0], [-1, 0]])
    bias = np.array([0.0, 0, 0, 0])
    diagram = order_k_diagram(PowerDiagram.from_keys(keys, bias), 2)
    assert diagram.sets.tolist() == [[0, 1], [2, 3]]
    shifted = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 9], [0, -9]])
    found = order_k_diagram(PowerDiagram.from_keys(shifted), 3)
    assert as_sets(found) == top_sets_by_definition(shifted.tolist(), [0.0] * 6, 3)


def test_masked_sites_are_never_among_the_winners():
    keys = [[1, 0], [9, 9], [0, 1], [-1, -1]]
    diagram = PowerDiagram.from_keys(keys, [0, -np.inf, 0, 0])
    pairs = order_k_diagram(diagram, 2)
    assert pairs.sets.tolist() == [[0, 2], [0, 3], [2, 3]]
    assert pairs.winners([[5, 4], [-5, -6]]).tolist() == [[0, 2], [0, 3]]
    with pytest.raises(ArgumentError, match="`k` must be at most 3"):
        order_k_diagram(diagram, 4)


@examples(50)
@given(st.data())
def test_the_winners_at_points_match_the_definition(data):
    elements = data.draw(st.sampled_from([SMALL, WILD]))
    keys, bias, k = data.draw(contests(elements))
    points = data.draw(dense_matrices(4, keys.shape[1], elements))
    got = top_k(PowerDiagram.from_keys(keys, bias), k, points)
    for row, point in zip(got.tolist(), points, strict=True):
        scores = exact_scores(keys, bias, point)
        order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))
        assert row == sorted(order[:k])


def test_expert_routing_in_high_dimension_uses_decisions():
    rng = np.random.default_rng(1)
    router = PowerDiagram.from_keys(rng.standard_normal((10, 16)))
    assert order_k_diagram(router, 2).n_cells == comb(10, 2)
    # Through a query map of rank 2 the experts compete in a plane.
    plane = PowerDiagram.from_keys(rng.standard_normal((10, 2)))
    pulled = plane.pull_back(rng.standard_normal((16, 2)))
    few = order_k_diagram(pulled, 2)
    assert few.sets.tolist() == order_k_diagram(plane, 2).sets.tolist()
    assert few.n_cells < comb(10, 2)
    assert few.cell(0).lineality.shape[0] == 14


def test_both_searches_agree_on_float_keys(monkeypatch):
    rng = np.random.default_rng(2)
    diagram = PowerDiagram.from_keys(rng.standard_normal((7, 3)), rng.standard_normal(7))
    walked = order_k_diagram(diagram, 4)
    monkeypatch.setattr(order_k, "_LOW_RANK", 0)
    refined = order_k_diagram(diagram, 4)
    assert walked.sets.tolist() == refined.sets.tolist()
    for index in range(walked.n_cells):
        assert walked.cell(index).volume == refined.cell(index).volume
        assert walked.cell(index).vertices.shape == refined.cell(index).vertices.shape
    assert walked.winners(refined.witnesses).tolist() == refined.sets.tolist()
    assert repr(walked).startswith("OrderKDiagram(k = 4 of 7 sites in R^3, ")


def test_a_set_cut_through_a_group_names_its_first_members():
    contest = CompetingForms([(0,), (1,)], [2, 3], 4)
    assert contest.select(frozenset(), [1, 0]) == TopSet(frozenset({1}), 0)
    diagram = PowerDiagram.from_keys([[0], [1], [0], [1], [1]])
    assert order_k_diagram(diagram, 4).sets.tolist() == [[0, 1, 2, 3], [0, 1, 3, 4]]


def test_bad_orders_are_refused_by_name():
    diagram = PowerDiagram.from_keys([[1.0], [2.0]])
    with pytest.raises(ArgumentError, match="`k` must be at least 1"):
        order_k_diagram(diagram, 0)
    with pytest.raises(ArgumentError, match="`k` must be at most 2"):
        order_k_diagram(diagram, 3)
    with pytest.raises(DtypeError, match="`k` must be an integer"):
        order_k_diagram(diagram, 1.0)
    with pytest.raises(DtypeError, match="`diagram` must be a PowerDiagram"):
        order_k_diagram(np.eye(2), 1)
    with pytest.raises(ShapeMismatchError, match="`points`"):
        top_k(diagram, 1, [[1.0, 2.0]])
    with pytest.raises(ArgumentError, match="`index` must be at most 1"):
        order_k_diagram(diagram, 1).cell(2)
