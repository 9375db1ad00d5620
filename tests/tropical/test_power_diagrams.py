import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, Delaunay, Voronoi, cKDTree

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.tropical.diagrams import power_cells, power_diagrams
from hardmax.tropical.diagrams.power_cells import cells_by_decisions, max_facets
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.polynomials import TropicalPolynomial
from tests.dense_arrays import dense, dense_matrices
from tests.reference.diagrams import (
    exact_scores,
    power_winner,
    winner,
    wins_somewhere_by_linear_program,
)
from tests.strategies import SMALL, WILD
from tests.sweeps import examples

SQUARE = Box([-3.0, -2.0], [3.0, 4.0])


@st.composite
def keys_and_bias(draw, max_dim=3, max_keys=7, elements=SMALL):
    dim = draw(st.integers(1, max_dim))
    keys = draw(dense_matrices(st.integers(1, max_keys), dim, elements))
    biased = draw(st.booleans())
    bias = draw(dense(keys.shape[0], elements)) if biased else None
    return keys, bias


def offsets_of(keys, bias):
    return np.zeros(len(keys)) if bias is None else bias


def active_by_definition(keys, bias):
    """The first of each kind of form that beats all different ones by a margin somewhere."""
    rows = [(*key, c) for key, c in zip(keys.tolist(), bias.tolist(), strict=True)]
    first = {row: j for j, row in reversed(list(enumerate(rows)))}
    distinct = sorted(first.values())
    slopes, offsets = keys[distinct].tolist(), bias[distinct].tolist()
    wins = [
        j for k, j in enumerate(distinct) if wins_somewhere_by_linear_program(slopes, offsets, (k,))
    ]
    return [j in wins for j in range(len(rows))]


@examples(60)
@given(keys_and_bias())
@example((np.array([[1.0, 1], [1, 1], [1, 1]]), None))
@example((np.array([[0.0, 0], [2, 0], [1, 0], [0, 2], [1, 1], [0.5, 0.5]]), None))
@example((np.array([[0.0, 0], [1, 1], [2, 2], [3, 3]]), None))
@example((np.array([[2.0]]), np.array([1.0])))
@example((np.array([[1.0], [1], [1]]), np.array([0.0, 1, 1])))
def test_active_sites_match_the_definition(case):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    assert diagram.active.tolist() == active_by_definition(keys, offsets_of(keys, bias))
    assert diagram.n_cells == len(diagram.cells())


@examples(50)
@given(keys_and_bias(max_dim=3))
def test_the_two_engines_find_the_same_cells(case):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    box = Box([-1.5] * diagram.dim, [2.0] * diagram.dim)
    names = np.flatnonzero(diagram.active)
    forms = [tuple(f) for f in diagram.coefficients.integers[names].tolist()]
    rows = [tuple(r) for r in Polytope(*box.inequalities).rows.tolist()]
    for domain, inequalities in ((None, []), (box, rows)):
        found = diagram.cells(domain)
        decided = cells_by_decisions(forms, diagram.dim, inequalities, names)
        assert [c.site for c in found] == [c.site for c in decided]
        for one, other in zip(found, decided, strict=True):
            assert one.neighbours.tolist() == other.neighbours.tolist()
            assert one.is_bounded == other.is_bounded
            assert one.polytope.f_vector == other.polytope.f_vector
            if not one.polytope.lineality.size:
                assert sorted(one.polytope.exact_vertices.tolist()) == sorted(
                    other.polytope.exact_vertices.tolist()
                )
                assert sorted(one.polytope.exact_rays.tolist()) == sorted(
                    other.polytope.exact_rays.tolist()
                )


@examples(50)
@given(keys_and_bias(max_dim=3))
def test_each_cell_is_where_its_site_wins(case):
    keys, bias = case
    offsets = offsets_of(keys, bias)
    diagram = PowerDiagram.from_keys(keys, bias)
    for cell in diagram.cells():
        inside = cell.polytope.interior_point
        assert winner(keys, offsets, inside)[0] == cell.site
        for vertex in cell.polytope.exact_vertices:
            scores = exact_scores(keys, offsets, vertex)
            assert scores[cell.site] == max(scores)
        for ray in cell.polytope.exact_rays.tolist() + cell.polytope.exact_lineality.tolist():
            slopes = exact_scores(keys, np.zeros(len(keys)), ray)
            assert slopes[cell.site] == max(slopes)
        for facet, row in enumerate(cell.polytope.facets.rows):
            rival = cell.row_sites[row]
            members = cell.polytope.facets.vertices[facet]
            middle = cell.polytope.exact_vertices[members].sum(axis=0) / Fraction(
                int(members.sum())
            )
            middle = middle + cell.polytope.exact_rays[cell.polytope.facets.rays[facet]].sum(axis=0)
            scores = exact_scores(keys, offsets, middle)
            assert scores[cell.site] == scores[rival] == max(scores)


@examples(40)
@given(keys_and_bias(max_dim=2), st.data())
def test_winners_on_a_grid_are_active_and_own_the_point(case, data):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    dim = diagram.dim
    grid = np.array(list(product(np.linspace(-2, 2, 9), repeat=dim)))
    found = diagram.locate(grid)
    wanted = [winner(keys, offsets_of(keys, bias), x) for x in grid]
    assert found.tolist() == [j for j, _ in wanted]
    assert diagram.n_winners(grid).tolist() == [n for _, n in wanted]
    alone = diagram.n_winners(grid) == 1
    assert diagram.active[found[alone]].all()
    cells = {cell.site: cell.polytope.contains(grid) for cell in diagram.cells()}
    assert np.any(list(cells.values()), axis=0).all()
    for x in np.flatnonzero(alone):
        assert [site for site in cells if cells[site][x]] == [found[x]]


@examples(40)
@given(st.data())
def test_sites_and_weights_match_the_power_distance(data):
    dim = data.draw(st.integers(1, 3))
    elements = data.draw(st.sampled_from([SMALL, WILD, SMALL.map(lambda x: x / 10)]))
    sites = data.draw(dense_matrices(st.integers(1, 5), dim, elements))
    weights = data.draw(dense(sites.shape[0], elements))
    points = data.draw(dense_matrices(4, dim, elements))
    diagram = PowerDiagram(sites, weights)
    wanted = [power_winner(sites, weights, x) for x in points]
    assert diagram.locate(points).tolist() == [j for j, _ in wanted]
    assert diagram.n_winners(points).tolist() == [n for _, n in wanted]
    assert diagram.sites.tolist() == sites.tolist()
    assert diagram.weights.tolist() == weights.tolist()


@pytest.mark.parametrize("dim", [2, 3])
def test_rounded_vertices_are_located_by_the_last_bit(dim):
    """At a rounded vertex several sites are as good as tied, and their forms do not fit float64."""
    sites = np.random.default_rng(dim).random((30, dim))
    diagram = PowerDiagram(sites, np.zeros(30))
    points = diagram.vertices
    wanted = [power_winner(sites, np.zeros(30), x) for x in points]
    assert diagram.locate(points).tolist() == [j for j, _ in wanted]
    assert diagram.n_winners(points).tolist() == [n for _, n in wanted]


@examples(30)
@given(st.integers(4, 5), st.data())
def test_active_sites_in_four_and_five_dimensions_match_the_definition(dim, data):
    keys = data.draw(dense_matrices(st.integers(1, 9), dim, st.integers(-1, 1).map(float)))
    bias = data.draw(dense(keys.shape[0], st.sampled_from([0.0, 0.0, 1.0])))
    diagram = PowerDiagram.from_keys(keys, bias)
    wanted = active_by_definition(keys, bias)
    assert diagram.active.tolist() == wanted
    assert [cell.site for cell in diagram.cells()] == np.flatnonzero(wanted).tolist()


@examples(40)
@given(keys_and_bias(max_dim=2, max_keys=6))
def test_clipped_areas_add_up_to_the_box_exactly(case):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    box = SQUARE if diagram.dim == 2 else Box([-3.0], [3.0])
    cells = diagram.cells(box)
    assert sum(cell.polytope.volume for cell in cells) == Polytope(*box.inequalities).volume
    for cell in cells:
        assert cell.is_bounded
        assert cell.polytope.affine_dim == diagram.dim
        assert box.contains(cell.vertices).all()
        if diagram.dim == 2:
            assert cell.polygon.shape == cell.vertices.shape


@pytest.mark.parametrize(("n_sites", "dim"), [(40, 2), (25, 3), (12, 4)])
def test_equal_weights_give_the_voronoi_diagram_of_qhull(n_sites, dim):
    sites = np.random.default_rng(3).random((n_sites, dim))
    ours, theirs = PowerDiagram(sites, np.ones(n_sites)), Voronoi(sites)
    assert ours.is_voronoi
    assert ours.active.all()
    found = {tuple(p) for p in ours.ridge_points.tolist()}
    simplices = Delaunay(sites).simplices.tolist()
    assert found == {tuple(sorted(e)) for s in simplices for e in combinations(s, 2)}
    # Qhull's own list leaves out unbounded ridges with a single vertex in three dimensions.
    listed = {tuple(sorted(p)) for p in theirs.ridge_points.tolist()}
    assert listed <= found
    assert ours.points.tolist() == sites.tolist()
    tree = cKDTree(theirs.vertices)
    assert ours.vertices.shape == theirs.vertices.shape
    distances, matched = tree.query(ours.vertices)
    assert sorted(matched.tolist()) == list(range(len(theirs.vertices)))
    assert (distances <= 1e-9 * (1 + np.abs(ours.vertices).max(axis=1))).all()
    points = np.random.default_rng(4).random((500, dim))
    assert ours.locate(points).tolist() == cKDTree(sites).query(points)[1].tolist()


@pytest.mark.parametrize("dim", [2, 3])
def test_keys_of_equal_norm_collapse_to_the_voronoi_diagram(dim):
    """Remark IV.6 of [SL26]; integer keys of norm 15 so that the norms are exactly equal."""
    keys = np.array(
        [v for v in product(range(-15, 16), repeat=dim) if sum(x * x for x in v) == 225]
    )[::7].astype(float)
    diagram = PowerDiagram.from_keys(keys)
    assert diagram.is_voronoi
    assert diagram.is_fan
    assert diagram.active.all()
    assert set(diagram.weights.tolist()) == {225.0}
    points = np.random.default_rng(1).standard_normal((400, dim)) * 20
    assert diagram.locate(points).tolist() == cKDTree(keys).query(points)[1].tolist()
    voronoi = PowerDiagram(keys, np.zeros(len(keys)))
    assert voronoi.neighbours.tolist() == diagram.neighbours.tolist()


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_a_bias_free_diagram_is_the_normal_fan_of_the_hull(dim):
    keys = np.random.default_rng(dim).standard_normal((18, dim))
    diagram, hull = PowerDiagram.from_keys(keys), ConvexHull(keys)
    assert np.flatnonzero(diagram.active).tolist() == sorted(hull.vertices.tolist())
    edges = {tuple(sorted(e)) for s in hull.simplices.tolist() for e in combinations(s, 2)}
    assert {tuple(p) for p in diagram.neighbours.tolist()} == edges
    assert diagram.vertices.tolist() == [[0.0] * dim]
    for cell in diagram.cells():
        assert cell.vertices.tolist() == [[0.0] * dim]
        assert not cell.is_bounded


def test_a_lifted_hull_gives_the_neighbours_of_a_weighted_diagram():
    rng = np.random.default_rng(8)
    sites, weights = rng.random((60, 2)), rng.random(60) * 0.05
    lifted = np.column_stack([sites, (sites**2).sum(axis=1) - weights])
    hull = ConvexHull(lifted)
    lower = hull.simplices[hull.equations[:, 2] < 0]
    diagram = PowerDiagram(sites, weights)
    assert set(np.flatnonzero(diagram.active)) == set(lower.ravel().tolist())
    assert not diagram.active.all()
    edges = {tuple(sorted(e)) for s in lower.tolist() for e in combinations(s, 2)}
    assert {tuple(p) for p in diagram.neighbours.tolist()} == edges


def test_fans_say_so_and_others_do_not():
    keys = [[1, 0], [0, 1], [-1, -1], [0, 0]]
    fan = PowerDiagram.from_keys(keys)
    assert (fan.is_fan, fan.apex.tolist()) == (True, [0, 0])
    assert repr(fan) == "PowerDiagram(4 sites in R^2, a fan)"
    assert PowerDiagram.from_keys(keys, [5, 5, 5, 5]).is_fan
    # The inactive key's own bias changes nothing as long as it stays inactive.
    assert PowerDiagram.from_keys(keys, [0, 0, 0, -1]).is_fan
    lifted = PowerDiagram.from_keys(keys, [0, 0, 0, 1])
    assert not lifted.is_fan
    assert lifted.apex is None
    moved = PowerDiagram.from_keys(keys[:3], [0, 1, 2])
    assert not moved.is_fan
    assert moved.n_winners(moved.apex.astype(float)[None]).tolist() == [3]
    assert repr(moved) == "PowerDiagram(3 sites in R^2)"


def test_a_key_at_the_exact_midpoint_owns_nothing():
    a, b = np.array([0.1, 0.7]), np.array([0.3, -0.2])
    a, b = np.round(a * 2**40) / 2**40, np.round(b * 2**40) / 2**40
    middle = (a + b) / 2
    others = [[0.0, 5.0], [4.0, 0.0]]
    keys = np.array([a, b, middle, *others])
    assert not PowerDiagram.from_keys(keys).active[2]
    assert not PowerDiagram.from_keys(keys, [0.0, 1.0, 0.5, 0, 0]).active[2]
    assert PowerDiagram.from_keys(keys, [1.0, 1.0, 1.0 + 2**-52, 0, 0]).active[2]
    assert not PowerDiagram.from_keys(keys, [1.0, 1.0, 1.0 - 2**-53, 0, 0]).active[2]


def test_a_weight_decides_in_its_last_bit():
    """Site 1 lies between the others: it wins somewhere iff its weight exceeds -1."""
    sites = [[0.0], [1.0], [2.0]]
    assert PowerDiagram(sites, [0, np.nextafter(-1, 0), 0]).active.tolist() == [True] * 3
    assert PowerDiagram(sites, [0, -1, 0]).active.tolist() == [True, False, True]
    # The rounded weight |k|^2 + 2c of a large key no longer knows a small bias; the forms do.
    keys = [[0.0], [1e9], [2e9]]
    assert PowerDiagram.from_keys(keys, [0, 1e-9, 0]).active.tolist() == [True] * 3
    assert PowerDiagram.from_keys(keys, [0, 1e-9, 0]).weights[1] == 1e18


def test_degenerate_sets_have_a_defined_answer():
    equal = PowerDiagram.from_keys(np.ones((4, 2)))
    assert equal.active.tolist() == [True, False, False, False]
    assert equal.cells()[0].polytope.lineality.shape == (2, 2)
    assert equal.neighbours.shape == (0, 2)
    assert equal.n_winners([[1, 2]]).tolist() == [4]
    single = PowerDiagram.from_keys([[3.0]])
    assert single.locate([[0], [-1]]).tolist() == [0, 0]
    assert single.cells(Box([0], [2]))[0].vertices.tolist() == [[2.0], [0.0]]
    collinear = PowerDiagram.from_keys([[0, 0], [1, 1], [2, 2], [3, 3]])
    assert collinear.active.tolist() == [True, False, False, True]
    assert collinear.neighbours.tolist() == [[0, 3]]
    line = PowerDiagram.from_keys([[2], [-1], [2], [0]])
    assert line.active.tolist() == [True, True, False, False]
    assert [c.neighbours.tolist() for c in line.cells()] == [[1], [0]]


def test_masked_keys_never_win():
    keys = [[1, 0], [5, 5], [0, 1], [-1, -1]]
    masked = PowerDiagram.from_keys(keys, [0, -np.inf, 0, 0])
    assert masked.active.tolist() == [True, False, True, True]
    assert masked.live.tolist() == [0, 2, 3]
    assert masked.coefficients.integers[1].tolist() == [0, 0, 0]
    assert masked.locate([[1, 1]]).tolist() == [0]
    assert masked.weights.tolist() == [1, -np.inf, 1, 2]
    assert masked.forms.n_forms == 3
    assert masked.to_polynomial().n_terms == 3
    assert repr(masked) == "PowerDiagram(4 sites in R^2, a fan, 1 masked)"
    pulled = masked.pull_back(np.eye(2))
    assert pulled.active.tolist() == masked.active.tolist()
    by_weight = PowerDiagram(keys, [0, -np.inf, 0, 0])
    assert by_weight.locate([[5, 5]]).tolist() == [0]
    assert by_weight.neighbours.tolist() == [[0, 2], [0, 3], [2, 3]]


@examples(30)
@given(keys_and_bias(max_dim=2), st.data())
def test_a_pull_back_routes_like_the_diagram_it_came_from(case, data):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    wide = data.draw(st.integers(1, 3))
    weight = data.draw(dense_matrices(wide, diagram.dim))
    shift = data.draw(dense(diagram.dim))
    points = data.draw(dense_matrices(5, wide))
    pulled = diagram.pull_back(weight, shift)
    queries = points @ weight + shift
    assert pulled.locate(points).tolist() == diagram.locate(queries).tolist()
    null = [v for v in product((-2, -1, 0, 1, 2), repeat=wide) if any(v) and not (v @ weight).any()]
    for cell in pulled.cells():
        lines = cell.polytope.exact_lineality
        for v in null:
            stacked = np.concatenate([lines, np.array([v], dtype=object)])
            assert np.linalg.matrix_rank(stacked.astype(float)) == len(lines)


def test_a_pull_back_does_not_round_its_products():
    """Both scores are x * 0.1 * 0.1 up to the last bits of the product, which decide."""
    diagram = PowerDiagram.from_keys([[0.1], [np.nextafter(0.1, 1)]])
    pulled = diagram.pull_back([[0.1]])
    assert pulled.locate([[1.0], [-1.0]]).tolist() == [1, 0]
    product_in_floats = 0.1 * 0.1
    exact = Fraction(0.1) * Fraction(0.1)
    assert Fraction(product_in_floats) != exact
    with pytest.raises(ArgumentError, match="do not fit float64"):
        pulled.forms
    assert pulled.sites[0, 0] == product_in_floats


def test_a_wide_pull_back_of_low_rank_keeps_its_lines():
    rng = np.random.default_rng(0)
    diagram = PowerDiagram.from_keys(rng.standard_normal((30, 2)), rng.standard_normal(30) * 0.1)
    pulled = diagram.pull_back(rng.standard_normal((12, 2)))
    assert pulled.active.tolist() == diagram.active.tolist()
    assert pulled.neighbours.tolist() == diagram.neighbours.tolist()
    assert {cell.polytope.lineality.shape[0] for cell in pulled.cells()} == {10}


@examples(30)
@given(keys_and_bias(max_dim=2))
def test_conversion_to_a_polynomial_and_back_keeps_everything(case):
    keys, bias = case
    diagram = PowerDiagram.from_keys(keys, bias)
    polynomial = diagram.to_polynomial()
    assert polynomial.slopes.tolist() == keys.tolist()
    assert polynomial.active_terms().tolist() == diagram.active.tolist()
    again = PowerDiagram.from_polynomial(polynomial)
    assert again.active.tolist() == diagram.active.tolist()
    assert again.forms.slopes.tolist() == keys.tolist()
    assert again.forms.offsets.tolist() == offsets_of(keys, bias).tolist()


def test_a_polynomial_keeps_forms_that_floats_cannot_hold():
    diagram = PowerDiagram([[0.1], [0.3]], [0, 0])
    assert diagram.to_polynomial().fits_float64 is False
    again = PowerDiagram.from_polynomial(diagram.to_polynomial())
    assert again.is_voronoi
    polynomial = TropicalPolynomial([[1], [-1]], [0, 0])
    assert PowerDiagram.from_polynomial(polynomial).locate([[-2]]).tolist() == [1]


def test_scales_from_subnormal_to_huge_are_right():
    tiny, huge = 5e-324, 1e300
    diagram = PowerDiagram.from_keys([[huge, 0], [0, tiny], [-huge, tiny]], [0, tiny, -huge])
    points = np.array([[1.0, 0], [-tiny, 0], [tiny, 1], [-1, -1], [-huge, 1]])
    wanted = [winner(diagram.sites, [0, tiny, -huge], x)[0] for x in points]
    assert diagram.locate(points).tolist() == wanted
    assert diagram.active.tolist() == [True, True, True]
    for cell in diagram.cells():
        inside = cell.polytope.interior_point
        assert winner(diagram.sites, [0, tiny, -huge], inside)[0] == cell.site


def test_high_dimensional_cells_are_decided_one_wall_at_a_time(monkeypatch):
    keys = np.random.default_rng(2).standard_normal((9, 6))
    by_vertices = PowerDiagram.from_keys(keys)
    assert by_vertices.neighbours.shape[0] > 0
    wanted = by_vertices.neighbours.tolist(), by_vertices.active.tolist()
    monkeypatch.setattr(power_diagrams, "_LOW_RANK", 0)
    monkeypatch.setattr(power_cells, "_MEDIUM_RANK", 0)
    monkeypatch.setattr(power_cells, "_MANY_VERTICES", 0)
    decided = PowerDiagram.from_keys(keys)
    assert (decided.neighbours.tolist(), decided.active.tolist()) == wanted
    box = Box([-1.0] * 6, [1.0] * 6)
    assert [c.site for c in decided.cells(box)] == np.flatnonzero(decided.active).tolist()


def test_keys_in_general_position_in_high_dimension_are_all_neighbours():
    keys = np.random.default_rng(6).standard_normal((20, 24))
    diagram = PowerDiagram.from_keys(keys)
    assert diagram.active.all()
    assert diagram.neighbours.tolist() == [list(p) for p in combinations(range(20), 2)]


def test_the_upper_bound_theorem_counts_facets():
    assert max_facets(8, 3) == 12
    assert max_facets(8, 4) == 20
    assert max_facets(5, 1) == 2
    assert max_facets(3, 7) == 3


@pytest.mark.parametrize(
    "domain",
    [Slice([0, 0], [[1.0, 0.0]], WholeSpace(1)), Segment([0, 0], [1, 1]), "segment:0,0;1,1"],
    ids=["slice", "segment", "text"],
)
def test_a_domain_that_is_not_full_dimensional_is_refused(domain):
    diagram = PowerDiagram.from_keys([[1, 0], [-1, 0], [0, 3]])
    match = "`domain` must be full-dimensional, .*; got "
    kind = "Segment" if isinstance(domain, str) else type(domain).__name__
    with pytest.raises(DtypeError, match=match + kind):
        diagram.cells(domain)
    with pytest.raises(DtypeError, match=match):
        Polytope([[1, 1]], [0]).intersection(domain)


@pytest.mark.parametrize("domain", [WholeSpace(2), None, Polytope([[1.0, 0.0]], [0.5])])
def test_unbounded_domains_are_fine(domain):
    diagram = PowerDiagram.from_keys([[1, 0], [-1, 0], [0, 3]], [0, 0, -3])
    cells = diagram.cells(domain)
    assert [cell.site for cell in cells] == [0, 1, 2]
    assert all(not cell.is_bounded for cell in cells)
    with pytest.raises(ArgumentError, match="To bound a polyhedron, intersect it"):
        cells[0].polygon


def test_a_small_box_sees_few_cells():
    diagram = PowerDiagram.from_keys([[1, 0], [-1, 0], [0, 1]])
    cells = diagram.cells(Box([1, -0.5], [2, 0.5]))
    assert [cell.site for cell in cells] == [0]
    assert cells[0].neighbours.tolist() == []
    assert repr(cells[0]) == "PowerCell(site 0 in R^2)"
    # A wall that runs along the side of the box is not crossed inside.
    touching = diagram.cells(Box([0, -2], [1, -1]))
    assert [cell.site for cell in touching] == [0]
    assert touching[0].neighbours.tolist() == []


def test_a_thousand_sites_in_the_plane_are_exact():
    rng = np.random.default_rng(12)
    sites = rng.random((1000, 2))
    diagram = PowerDiagram(sites, np.zeros(1000))
    theirs = Voronoi(sites)
    assert {tuple(p) for p in diagram.neighbours.tolist()} == {
        tuple(sorted(p)) for p in theirs.ridge_points.tolist()
    }
    cells = diagram.cells(Box([0, 0], [1, 1]))
    assert sum(cell.polytope.volume for cell in cells) == 1


def test_a_grid_of_sites_with_four_cells_at_every_vertex_is_exact():
    sites = np.array(list(product(range(8), repeat=2)), dtype=float)
    diagram = PowerDiagram(sites, np.zeros(64))
    assert diagram.vertices.shape == (49, 2)
    wanted = [
        [i, j] for i, j in combinations(range(64), 2) if np.abs(sites[i] - sites[j]).sum() == 1
    ]
    assert diagram.neighbours.tolist() == wanted
    volumes = [cell.polytope.volume for cell in diagram.cells()]
    assert volumes.count(1) == 36
    assert volumes.count(math.inf) == 28


def test_bad_diagrams_are_refused_by_name():
    with pytest.raises(EmptyInputError, match="`keys` must have n_keys >= 1"):
        PowerDiagram.from_keys(np.zeros((0, 2)))
    with pytest.raises(EmptyInputError, match="`keys` must have d_k >= 1"):
        PowerDiagram.from_keys(np.zeros((2, 0)))
    with pytest.raises(EmptyInputError, match="`sites`"):
        PowerDiagram(np.zeros((0, 2)), [])
    with pytest.raises(ShapeMismatchError, match="`bias` must have shape"):
        PowerDiagram.from_keys([[1.0]], [1.0, 2.0])
    with pytest.raises(ShapeMismatchError, match="`keys` must have shape"):
        PowerDiagram.from_keys([1.0, 2.0])
    with pytest.raises(NonFiniteError, match="`keys` must not hold NaN"):
        PowerDiagram.from_keys([[np.nan]])
    with pytest.raises(NonFiniteError, match="`bias` must not hold inf"):
        PowerDiagram.from_keys([[1.0]], [np.inf])
    with pytest.raises(NonFiniteError, match="`weights` must not hold NaN"):
        PowerDiagram([[1.0]], [np.nan])
    with pytest.raises(ArgumentError, match="`bias` must leave at least one site"):
        PowerDiagram.from_keys([[1.0], [2.0]], [-np.inf, -np.inf])
    with pytest.raises(ArgumentError, match="`weights` must leave at least one site"):
        PowerDiagram([[1.0]], [-np.inf])
    with pytest.raises(DtypeError, match="`keys`"):
        PowerDiagram.from_keys([["a"]])
    with pytest.raises(DtypeError, match="`polynomial` must be a TropicalPolynomial"):
        PowerDiagram.from_polynomial("x + y")
    diagram = PowerDiagram.from_keys([[1.0, 2.0]])
    with pytest.raises(ShapeMismatchError, match="`points`"):
        diagram.locate([[1.0]])
    with pytest.raises(NonFiniteError, match="`points`"):
        diagram.locate([[np.nan, 1.0]])
    with pytest.raises(ShapeMismatchError, match="`domain` must lie in"):
        diagram.cells(Box([0], [1]))
    with pytest.raises(ArgumentError, match="`domain` must have interior points"):
        diagram.cells(Polytope([[1, 0], [-1, 0]], [0, 0]))
    with pytest.raises(ShapeMismatchError, match="`query_weight`"):
        diagram.pull_back([[1.0]])
    with pytest.raises(ShapeMismatchError, match="`query_bias`"):
        diagram.pull_back([[1.0, 1.0]], [1.0])
