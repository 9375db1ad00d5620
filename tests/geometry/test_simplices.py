"""Simplices against polytopes, slices and segments, exactly."""

from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import hardmax as hm
from hardmax.cli.main import app
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domain_protocol import compose_charts
from hardmax.regions.charted_domains import charted
from tests.sweeps import examples

mpl.use("Agg")

SHAPES = [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3), (3, 5), (4, 4), (4, 6)]


def random_net(rng, dim):
    shapes = [(dim, 4), (4, 3), (3, 1)]
    return hm.ReluNetwork(
        [rng.integers(-8, 9, size=shape) / 4 for shape in shapes],
        [rng.integers(-8, 9, size=4) / 4, rng.integers(-8, 9, size=3) / 4, None],
    )


def same_domain(vertices):
    """The simplex as a polytope, or as a slice of a polytope of its weights."""
    start, edges = vertices[0], vertices[1:] - vertices[0]
    dim = len(edges)
    if dim == vertices.shape[1]:
        return hm.Polytope.from_points(vertices)
    weights = hm.Polytope([np.ones(dim), *-np.eye(dim)], [1, *[0] * dim])
    return hm.Slice(start, edges, weights)


def cells(partition):
    return sorted(map(tuple, partition.signatures.tolist()))


@pytest.mark.parametrize(("dim", "space"), SHAPES)
@examples(6)
@given(st.integers(0, 10**6))
def test_a_simplex_has_the_cells_and_certificates_of_the_same_polytope_or_slice(dim, space, seed):
    rng = np.random.default_rng(seed)
    vertices = rng.integers(-20, 21, size=(dim + 1, space)) / 8
    assume(np.linalg.matrix_rank(vertices[1:] - vertices[0]) == dim)
    simplex, other, net = hm.Simplex(vertices), same_domain(vertices), random_net(rng, space)
    found, wanted = hm.enumerate_regions(net, simplex), hm.enumerate_regions(net, other)
    assert cells(found) == cells(wanted)
    assert (found.n_cells, found.n_regions) == (wanted.n_cells, wanted.n_regions)
    text = hm.geometry.domain_text(simplex)
    for part in (found, wanted):
        certificate = part.certificate()
        for domain in (simplex, other, text):
            for method in ("fast", "integers"):
                assert hm.verify_certificate(net, certificate, domain, method=method).ok
    moved = hm.Simplex(vertices + np.eye(1, space))
    assert not hm.verify_certificate(net, found.certificate(), moved).ok


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@examples(10)
@given(st.integers(0, 10**6))
def test_the_inequalities_are_those_of_the_hull(dim, seed):
    rng = np.random.default_rng(seed)
    vertices = np.ldexp(
        rng.integers(-99, 100, size=(dim + 1, dim)).astype(float), int(rng.integers(-60, 60))
    )
    assume(np.linalg.matrix_rank(vertices[1:] - vertices[0]) == dim)
    rows = hm.Simplex(vertices).exact_rows.tolist()
    hull = hm.Polytope.from_points(vertices)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, hull.rows.tolist()))
    exact = [[Fraction(x) for x in vertex] for vertex in vertices.tolist()]
    for i, (*normal, bound) in enumerate(rows):
        values = [sum(a * x for a, x in zip(normal, v, strict=True)) for v in exact]
        # Each vertex lies on all facets but the opposite one.
        assert [value == bound for value in values] == [k != i for k in range(dim + 1)]
        assert values[i] < bound


def test_a_segment_is_a_simplex_of_dimension_1():
    rng = np.random.default_rng(0)
    net = random_net(rng, 3)
    for _ in range(20):
        ends = rng.normal(size=(2, 3))
        simplex, segment = hm.Simplex(ends), hm.Segment(*ends)
        assert simplex.exact_rows.tolist() == segment.exact_rows.tolist()
        found, wanted = (hm.enumerate_regions(net, domain) for domain in (simplex, segment))
        assert found.signatures.tolist() == wanted.signatures.tolist()
        assert found.certificate().domain_fingerprint == wanted.certificate().domain_fingerprint
        assert hm.verify_certificate(net, found.certificate(), segment).ok
        np.testing.assert_allclose(found.volumes, wanted.volumes, rtol=1e-12)


EXTREME = [
    [[0.1, 0.7, 3.0], [0.3, -0.1, 4.0], [1e-5, 7.0, 0.1]],
    [[0.1, 1e300, 3.0], [0.3, -1e-300, 4.0], [1e-200, 7.0, 0.1]],
    [[1e308, 0.0, 1.0], [-1e308, 1.0, 0.0], [0.0, 1e308, -1e308]],
    [[5e-324, 0.0, 0.0], [0.0, 5e-324, 0.0], [0.0, 0.0, 1e-310]],
    [[1e200, 1e-200, 0.0], [1e-200, 1e200, 1.0]],
    [
        [1e308, 0.1, 0.0, 1.0],
        [-1e308, 0.3, 0.5, 0.0],
        [0.3, 1e-300, 1.0, 0.7],
        [1.0, 2.0, 0.1, 9.0],
    ],
    [[1e300, 0.0], [0.0, 1e-300], [1e-300, 1e300]],
]


@pytest.mark.parametrize("vertices", EXTREME)
def test_vertices_of_any_magnitude_are_exact(vertices, tmp_path):
    simplex = hm.Simplex(vertices)
    net = random_net(np.random.default_rng(3), simplex.ambient_dim)
    found = hm.enumerate_regions(net, simplex)
    assert cells(found) == cells(hm.enumerate_regions(net, simplex, exact=True))
    certificate = found.certificate()
    for method in ("fast", "integers"):
        assert hm.verify_certificate(net, certificate, simplex, method=method).ok
    read = charted(simplex, simplex.ambient_dim)
    if not read.is_identity:
        # The exact chart maps the origin and the unit vectors to the vertices.
        forms = compose_charts(simplex.exact_chart or (simplex.chart,))
        scale = Fraction(2) ** forms.exponent
        columns = [[x * scale for x in column] for column in forms.integers.T.tolist()]
        corners = [columns[-1]] + [
            [p + way for p, way in zip(columns[-1], column, strict=True)] for column in columns[:-1]
        ]
        assert corners == [[Fraction(x) for x in vertex] for vertex in vertices]
    hm.save_partition(found, tmp_path / "cells.parquet")
    again = hm.load_partition(tmp_path / "cells.parquet")
    assert hm.geometry.domain_text(simplex) == hm.geometry.domain_text(again.domain.source)
    assert hm.verify_certificate(net, again.certificate(), simplex).ok
    if simplex.dim > 1:
        hm.enumerate_regions(net, simplex, store=tmp_path / "store")
        stored = hm.open_partition(tmp_path / "store")
        assert stored.n_cells == found.n_cells


def test_an_exact_chart_is_given_only_if_an_edge_must_be_rounded():
    assert hm.Simplex([[0, 0, 1], [1, 0, 1], [0, 2, 1]]).exact_chart is None
    assert hm.Simplex([[0.1, 0, 1], [0.7, 0, 1], [0, 2, 1]]).exact_chart is not None
    assert hm.Simplex([[0.1, 0], [0.7, 0], [0, 2]]).exact_chart is None


def test_points_are_those_with_the_given_weights():
    triangle = hm.Simplex([[0, 0, 1], [2, 0, 1], [0, 4, 1]])
    assert triangle.points([[0, 0], [1, 0], [0, 1]]).tolist() == triangle.vertices.tolist()
    assert hm.Simplex([[0], [4]]).points([[3]]).tolist() == [[3.0]]
    with pytest.raises(ShapeMismatchError, match="`coordinates` must have shape"):
        triangle.points([[1.0]])


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_pictures_and_samples_take_simplices(dim):
    rng = np.random.default_rng(dim)
    for space in (dim, dim + 1):
        simplex = hm.Simplex(rng.normal(size=(dim + 1, space)))
        net = random_net(rng, space)
        found = hm.enumerate_regions(net, simplex)
        assert hm.plot(found) is not None
        assert 1 <= hm.sample_regions(net, simplex, 500, seed=0).distinct <= found.n_cells
        if space == dim:
            hull = hm.Polytope.from_points(simplex.vertices)
            assert found.domain.exact_rows.shape == hull.rows.shape
            assert abs(np.sum(found.volumes) - hull.volume_float) <= 1e-9 * hull.volume_float


@pytest.mark.parametrize(
    "text", ["simplex:0.1,0.7,3;0.3,-0.1,4;1e-05,7,0.1", "simplex:0.1,0,1;0.7,0,1"]
)
def test_the_commands_read_and_print_simplices(text, tmp_path):
    hm.save_model(random_net(np.random.default_rng(0), 3), tmp_path / "net.safetensors")
    net, proof = str(tmp_path / "net.safetensors"), str(tmp_path / "proof.json")
    words = ["regions", net, "--domain", text, "--certificate", proof]
    found = CliRunner().invoke(app, [*words, "--plot", str(tmp_path / "cells.png")])
    assert found.exit_code == 0, found.output
    assert f"domain        {text}\n" in found.stdout
    checked = CliRunner().invoke(app, ["verify", net, proof, "--domain", text])
    assert checked.exit_code == 0, checked.output
    alone = CliRunner().invoke(app, ["verify", net, proof])
    # A certificate does not tell a segment from a simplex of dimension 1.
    shown = text if text.count(";") > 1 else text.replace("simplex", "segment")
    assert shown in alone.stdout
    drawn = CliRunner().invoke(app, ["plot", net, "--domain", text, "-o", str(tmp_path / "a.png")])
    assert drawn.exit_code == 0, drawn.output


def test_the_page_shows_a_triangle_whose_chart_is_in_float64():
    net = random_net(np.random.default_rng(0), 3)
    assert hm.explore(net, hm.Simplex([[0, 0, 1], [1, 0, 1], [0, 2, 1]])) is not None
    with pytest.raises(ArgumentError, match="`domain` must have a chart in float64"):
        hm.explore(net, hm.Simplex([[0.1, 0.7, 3.0], [0.3, -0.1, 4.0], [1e-5, 7.0, 0.1]]))


def test_a_diagram_is_clipped_to_a_simplex():
    diagram = hm.PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
    corners = [[-1, -1], [3, -1], [-1, 3]]
    clipped = diagram.cells(hm.Simplex(corners))
    assert sum(cell.polytope.volume for cell in clipped) == 8
    assert hm.Polytope([[1, 0]], [0]).intersection(hm.Simplex(corners)).volume == Fraction(7, 2)
    with pytest.raises(DtypeError, match="must be full-dimensional"):
        diagram.cells(hm.Simplex(corners[:2]))


def test_degenerate_vertices_are_refused():
    with pytest.raises(
        ArgumentError, match=r"`vertices` must be affinely independent; got 3 points.*dimension 1"
    ):
        hm.Simplex([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]])
    with pytest.raises(ArgumentError, match=r"got 2 points in a common affine subspace of dim.* 0"):
        hm.Simplex([[1, 2], [1, 2]])
    with pytest.raises(ArgumentError, match=r"from 2 to 3 rows.*R\^2; got 4.*from_points"):
        hm.Simplex([[0, 0], [1, 0], [0, 1], [1, 1]])
    with pytest.raises(ArgumentError, match=r"from 2 to 3 rows.*got 1"):
        hm.Simplex([[0, 0]])
    with pytest.raises(NonFiniteError, match="`vertices` must not hold NaN"):
        hm.Simplex([[0, 0], [1, np.nan]])
    with pytest.raises(ShapeMismatchError, match="`vertices` must have shape"):
        hm.Simplex([0, 1])
    nearly = [[0.0, 0.0], [1.0, 1.0], [2.0, np.nextafter(2.0, 3.0)]]
    assert hm.Simplex(nearly).dim == 2
    with pytest.raises(
        ArgumentError, match="In 'simplex:0,0;1,1;2,2': `vertices` must be affinely"
    ):
        hm.parse_domain("simplex:0,0;1,1;2,2")


@given(st.integers(1, 3), st.data())
def test_simplices_come_back_bit_for_bit(dim, data):
    floats = st.floats(allow_nan=False, allow_infinity=False)
    points = data.draw(st.lists(floats, min_size=3 * (dim + 1), max_size=3 * (dim + 1)))
    try:
        simplex = hm.Simplex(np.array(points).reshape(dim + 1, 3))
    except ArgumentError:
        return
    again = hm.parse_domain(hm.geometry.domain_text(simplex))
    assert again.vertices.tobytes() == simplex.vertices.tobytes()
