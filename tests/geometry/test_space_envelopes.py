"""Cells of many forms in space: the compiled hull against one double description."""

import numpy as np
import pytest

from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry.descriptions import round_points
from hardmax.geometry.space_envelopes import space_envelope
from hardmax.tropical.coefficients import like_terms
from hardmax.tropical.diagrams.power_cells import upper_envelope
from hardmax.tropical.diagrams.power_forms import difference_rank, forms_of_sites
from hardmax.tropical.diagrams.space_cells import space_cells


def integers(array):
    return scaled_integers(np.asarray(array, dtype=float)).integers


def small_integers(rng, n, dim):
    return integers(rng.integers(-2, 3, (n, dim + 1)))


def bits(rng, n, dim):
    return integers(rng.integers(0, 2, (n, dim + 1)))


def fans(rng, n, dim):
    return integers(np.c_[rng.integers(-3, 4, (n, dim)), np.zeros(n)])


def fans_of_floats(rng, n, dim):
    return integers(np.c_[rng.standard_normal((n, dim)), np.full(n, 0.1)])


def lattice_sites(rng, n, dim):
    sites = rng.integers(-2, 3, (n, dim)).astype(float)
    return forms_of_sites(sites, rng.integers(0, 2, n).astype(float)).integers


def one_plane(rng, n, dim):
    """Nearly all points in one plane, so that faces have many corners and points inside."""
    slopes = rng.integers(-3, 4, (n, dim)).astype(float)
    return integers(np.c_[slopes, slopes @ rng.integers(-2, 3, dim) + (rng.random(n) < 0.2)])


def all_magnitudes(rng, n, dim):
    sizes = rng.choice([0.0, 5e-324, 1e-300, 1e-20, 1.0, 3.0, 1e20, 1e300], (n, dim + 1))
    return integers(sizes * rng.choice([-1, 1], (n, dim + 1)))


def all_magnitudes_of_sites(rng, n, dim):
    sites = rng.choice([0.0, 5e-324, 1e-160, 1.0, 1e150], (n, dim))
    sites *= rng.choice([-1, 1], (n, dim))
    return forms_of_sites(sites, rng.choice([0.0, 1e-300, 1.0], n)).integers


def last_bits(rng, n, dim):
    sites = rng.random((n, dim))
    sites = np.r_[sites, sites[: n // 2]] + rng.choice([0, 0, 2**-53], (n + n // 2, dim))
    return forms_of_sites(sites, np.zeros(len(sites))).integers


def spheres(rng, n, dim):
    points = np.array(list(np.ndindex(*(7,) * dim))) - 3
    points = points[(points**2).sum(axis=1) == 9].astype(float)
    weights = rng.choice([0.0, 0.0, 0.0, 1.0], n)
    return forms_of_sites(points[rng.integers(0, len(points), n)], weights).integers


def nearly_in_a_plane(rng, n, dim):
    t = rng.integers(-3, 4, (n, dim - 1))
    rows = np.c_[t, t.sum(axis=1), rng.integers(0, 2, n) - (t * t).sum(axis=1)].astype(float)
    rows[rng.integers(0, n), dim - 1] += rng.integers(0, 2)
    return integers(rows)


def sites_far_out(rng, n, dim):
    return forms_of_sites(2.0**40 + rng.random((n, dim)), rng.random(n) / n).integers


FAMILIES = [
    small_integers,
    bits,
    fans,
    fans_of_floats,
    lattice_sites,
    one_plane,
    all_magnitudes,
    all_magnitudes_of_sites,
    last_bits,
    spheres,
    nearly_in_a_plane,
    sites_far_out,
]


def description(cell):
    generators = cell.polytope.generators
    names = (*generators.points, *(("towards", *ray) for ray in generators.rays))
    tight = dict(zip(names, generators.tight, strict=True))
    return cell.site, cell.polytope.rows.tolist(), cell.row_sites.tolist(), tight


def compare(rows, dim):
    """Compare everything about an envelope with the double description of all cells."""
    found = space_envelope(rows)
    assert (found is None) == (difference_rank(rows) < dim)
    if found is None:
        return
    rivals = np.sort(like_terms(rows))
    wanted = upper_envelope([tuple(row) for row in rows[rivals].tolist()], dim)
    assert found.sites.tolist() == rivals[wanted.owners].tolist()
    pairs = rivals[np.array(wanted.pairs(), dtype=np.int64).reshape(-1, 2)]
    assert found.pairs.tolist() == sorted(pairs.tolist())
    vertices = [found.exact_vertex(k) for k in range(len(found.points.simplices))]
    assert sorted(vertices) == sorted(wanted.vertices)
    assert found.vertices.tolist() == round_points(vertices, dim).tolist()
    cells = space_cells(found, np.arange(len(rows)))
    assert list(map(description, cells)) == [
        description(wanted.cell(j, rivals)) for j in wanted.owners
    ]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize(("dim", "most", "rounds"), [(3, 24, 12), (4, 14, 5)])
def test_cells_are_those_of_the_double_description(family, dim, most, rounds):
    rng = np.random.default_rng(7)
    for _ in range(rounds):
        compare(family(rng, int(rng.integers(1, most)), dim), dim)


def some_domain(rng, dim):
    """A box, or some of its sides, often in the walls of cells."""
    low = rng.integers(-4, 2, dim)
    high = low + rng.integers(1, 4, dim)
    scale = int(rng.choice([1, 1, 2, 10]))
    sides = np.r_[np.c_[scale * np.eye(dim, dtype=int), high], np.c_[-scale * np.eye(dim), -low]]
    rows = [tuple(int(x) for x in row) for row in sides]
    return rows if rng.random() < 0.7 else rows[: rng.integers(1, 2 * dim)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize(("dim", "most", "rounds"), [(3, 14, 8), (4, 9, 3)])
def test_clipped_cells_are_those_of_the_double_description(family, dim, most, rounds):
    rng = np.random.default_rng(9)
    for _ in range(rounds):
        rows = family(rng, int(rng.integers(dim + 1, most)), dim)
        domain = some_domain(rng, dim)
        found = space_envelope(rows)
        if found is None:
            continue
        rivals = np.sort(like_terms(rows))
        wanted = upper_envelope([tuple(row) for row in rows[rivals].tolist()], dim, domain)
        cells = space_cells(found, np.arange(len(rows)), domain)
        assert list(map(description, cells)) == [
            description(wanted.cell(j, rivals)) for j in wanted.owners
        ]


@pytest.mark.parametrize("dim", [3, 4])
def test_floats_give_what_their_integers_give(dim):
    rng = np.random.default_rng(11)
    for spread in (0.0, 1.0):
        for _ in range(5):
            few = rng.choice([0.0, 1.0, -1.0, 0.1, 1e-300, 1e200], (12, dim + 1))
            floats = np.r_[few, few[:3], rng.standard_normal((20, dim + 1))]
            floats[:, -1] *= spread
            rows = integers(floats)
            found, wanted = space_envelope(rows, floats), space_envelope(rows)
            assert found.sites.tolist() == wanted.sites.tolist()
            assert found.pairs.tolist() == wanted.pairs.tolist()
            for name in ("points", "directions"):
                one, other = getattr(found, name), getattr(wanted, name)
                assert one.starts.tolist() == other.starts.tolist()
                assert one.forms.tolist() == other.forms.tolist()
            assert found.vertices.tolist() == wanted.vertices.tolist()


@pytest.mark.parametrize("dim", [3, 4])
def test_many_sites_of_a_lattice_have_cubes_as_cells(dim):
    """Inner sites of a lattice have 2 d neighbours; 2^d sites meet at each vertex."""
    side = {3: 6, 4: 4}[dim]
    sites = np.array(list(np.ndindex(*(side,) * dim)), dtype=float)
    sites = np.random.default_rng(0).permutation(sites)
    found = space_envelope(forms_of_sites(sites, np.zeros(len(sites))).integers)
    assert len(found.sites) == side**dim
    assert len(found.pairs) == dim * (side - 1) * side ** (dim - 1)
    assert np.diff(found.points.starts).tolist() == [2**dim] * (side - 1) ** dim
    assert np.diff(found.directions.starts).tolist() == [side ** (dim - 1)] * 2 * dim
    halves = np.array(list(np.ndindex(*(side - 1,) * dim))) + 0.5
    assert sorted(found.vertices.tolist()) == halves.tolist()


@pytest.mark.parametrize("dim", [3, 4])
def test_the_result_does_not_depend_on_the_order_of_the_forms(dim):
    rng = np.random.default_rng(3)
    rows = np.r_[lattice_sites(rng, 40, dim), small_integers(rng, 10, dim)]
    order = rng.permutation(len(rows))
    one, other = space_envelope(rows), space_envelope(rows[order])
    # Of equal forms the first is named, which is another one now.
    kinds = {tuple(row): k for k, row in enumerate(rows.tolist())}
    names = [kinds[tuple(row)] for row in rows.tolist()]
    there = [names[k] for k in order]
    assert sorted(names[k] for k in one.sites) == sorted(there[k] for k in other.sites)
    assert {frozenset((names[i], names[j])) for i, j in one.pairs} == {
        frozenset((there[i], there[j])) for i, j in other.pairs
    }
    assert sorted(one.vertices.tolist()) == sorted(other.vertices.tolist())
