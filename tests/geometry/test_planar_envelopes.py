"""Cells of many forms on the plane: the compiled hull against one double description."""

import numpy as np
import pytest

from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry.convex_hulls import limbs
from hardmax.geometry.descriptions import round_points
from hardmax.geometry.domains import Box
from hardmax.geometry.planar_envelopes import meeting_point, planar_envelope
from hardmax.geometry.polytopes import Polytope, domain_rows
from hardmax.tropical.coefficients import like_terms
from hardmax.tropical.diagrams.planar_cells import planar_cells
from hardmax.tropical.diagrams.power_cells import upper_envelope
from hardmax.tropical.diagrams.power_forms import forms_of_sites

ON_A_CIRCLE = [[x, y] for x in range(-5, 6) for y in range(-5, 6) if x * x + y * y == 25]


def small_integers(rng, n):
    return scaled_integers(rng.integers(-2, 3, (n, 3)).astype(float)).integers


def fans(rng, n):
    return scaled_integers(np.c_[rng.integers(-3, 4, (n, 2)), np.zeros(n)].astype(float)).integers


def lattice_sites(rng, n):
    sites = rng.integers(-3, 4, (n, 2)).astype(float)
    return forms_of_sites(sites, rng.integers(0, 2, n).astype(float)).integers


def one_plane(rng, n):
    """Nearly all points in one plane, so that faces have many corners and points inside."""
    slopes = rng.integers(-3, 4, (n, 2)).astype(float)
    lifted = slopes @ rng.integers(-2, 3, 2) + (rng.random(n) < 0.2)
    return scaled_integers(np.c_[slopes, lifted]).integers


def all_magnitudes(rng, n):
    sizes = rng.choice([0.0, 5e-324, 1e-300, 1e-20, 1.0, 3.0, 1e20, 1e300], (n, 3))
    return scaled_integers(sizes * rng.choice([-1, 1], (n, 3))).integers


def all_magnitudes_of_sites(rng, n):
    sites = rng.choice([0.0, 5e-324, 1e-160, 1.0, 1e150], (n, 2)) * rng.choice([-1, 1], (n, 2))
    return forms_of_sites(sites, rng.choice([0.0, 1e-300, 1.0], n)).integers


def last_bits(rng, n):
    sites = rng.random((n, 2))
    sites = np.r_[sites, sites[: n // 2]] + rng.choice([0, 0, 2**-53], (n + n // 2, 2))
    return forms_of_sites(sites, np.zeros(len(sites))).integers


def nearly_on_a_line(rng, n):
    t = rng.integers(-3, 4, n)
    rows = np.c_[t, 2 * t, rng.integers(0, 2, n) - t * t].astype(float)
    rows[rng.integers(0, n), 1] += rng.integers(0, 2)
    return scaled_integers(rows).integers


def circles(rng, n):
    sites = np.array([*ON_A_CIRCLE, [0, 0], [3, 0]], float)[rng.integers(0, 14, n)]
    return forms_of_sites(sites, rng.choice([0.0, 0.0, 0.0, 1.0], n)).integers


FAMILIES = [
    small_integers,
    fans,
    lattice_sites,
    one_plane,
    all_magnitudes,
    all_magnitudes_of_sites,
    last_bits,
    nearly_on_a_line,
    circles,
]


def examples(family, count):
    rng = np.random.default_rng(FAMILIES.index(family))
    for _ in range(count):
        yield rng, family(rng, int(rng.integers(1, 40)))


def by_double_description(rows, domain=()):
    names = np.sort(like_terms(rows))
    return upper_envelope([tuple(row) for row in rows[names].tolist()], 2, domain), names


def slopes_are_on_a_line(rows):
    differences = rows[:, :2] - rows[0, :2]
    return all(a[0] * b[1] == a[1] * b[0] for a in differences for b in differences)


@pytest.mark.parametrize("family", FAMILIES)
def test_winners_pairs_and_vertices_are_those_of_the_double_description(family):
    for _, rows in examples(family, 30):
        found = planar_envelope(rows)
        assert (found is None) == slopes_are_on_a_line(rows)
        if found is None:
            continue
        wanted, names = by_double_description(rows)
        assert found.sites.tolist() == names[wanted.owners].tolist()
        pairs = names[np.array(wanted.pairs(), dtype=int).reshape(-1, 2)].tolist()
        assert found.pairs.tolist() == sorted(pairs)
        exact = [found.exact_vertex(k) for k in range(len(found.triples))]
        assert sorted(exact) == sorted(wanted.vertices)
        np.testing.assert_array_equal(found.vertices, round_points(exact, 2))


def domains(rng):
    yield []
    low, high = np.sort(rng.integers(-3, 4, (2, 2)), axis=0)
    yield domain_rows(Box(low.astype(float), high + 0.5), 2)
    hull = Polytope.from_points(rng.integers(-3, 4, (5, 2)).astype(float))
    if hull.affine_dim == 2:
        yield domain_rows(hull, 2)
    yield domain_rows(Polytope([[1.0, 1.0], [0.0, 0.0], [-1.0, 0.0]], [1.0, 2.0, 1.0]), 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_clipped_cells_are_those_of_the_double_description(family):
    for rng, rows in examples(family, 10):
        envelope = planar_envelope(rows)
        if envelope is None:
            continue
        for domain in domains(rng):
            wanted, names = by_double_description(rows, domain)
            cells = planar_cells(envelope, np.arange(len(rows)), domain)
            others = [wanted.cell(j, names) for j in wanted.owners]
            assert [c.site for c in cells] == [c.site for c in others]
            for cell, other in zip(cells, others, strict=True):
                assert cell.neighbours.tolist() == other.neighbours.tolist()
                assert cell.is_bounded == other.is_bounded
                one, two = cell.polytope, other.polytope
                assert sorted(one.generators.points) == sorted(two.generators.points)
                assert sorted(one.generators.rays) == sorted(two.generators.rays)
                assert sorted(one.rows.tolist()) == sorted(two.rows.tolist())
                assert one.f_vector == two.f_vector
                np.testing.assert_array_equal(cell.vertices, one.vertices)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_the_forms_changes_only_their_names(family):
    rng = np.random.default_rng(5)
    for _, rows in examples(family, 10):
        rows = np.array(sorted(set(map(tuple, rows.tolist()))), dtype=object)
        order = rng.permutation(len(rows))
        found, again = planar_envelope(rows), planar_envelope(rows[order])
        if found is None:
            assert again is None
            continue
        assert found.sites.tolist() == sorted(order[again.sites].tolist())
        assert found.pairs.tolist() == sorted(map(sorted, order[again.pairs].tolist()))
        assert sorted(found.vertices.tolist()) == sorted(again.vertices.tolist())


def test_floats_give_what_their_integers_give():
    rng = np.random.default_rng(11)
    for spread in (0.0, 1.0):
        for _ in range(10):
            few = rng.choice([0.0, 1.0, -1.0, 0.1, 1e-300, 1e200], (12, 3))
            floats = np.r_[few, few[:3], rng.standard_normal((20, 3))]
            floats[:, -1] *= spread
            rows = scaled_integers(floats).integers
            found, wanted = planar_envelope(rows, floats), planar_envelope(rows)
            for name in ("sites", "starts", "neighbours", "corners", "triples", "vertices"):
                np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_the_corners_of_a_cell_are_counter_clockwise():
    rng = np.random.default_rng(0)
    envelope = planar_envelope(forms_of_sites(rng.random((300, 2)), np.zeros(300)).integers)
    for i in range(len(envelope.sites)):
        corners = envelope.corners[envelope.starts[i] : envelope.starts[i + 1]]
        assert (corners[:-1] >= 0).all()
        if corners[-1] >= 0:
            sides = np.roll(envelope.vertices[corners], -1, axis=0) - envelope.vertices[corners]
            after = np.roll(sides, -1, axis=0)
            assert (sides[:, 0] * after[:, 1] > sides[:, 1] * after[:, 0]).all()


@pytest.mark.parametrize("step", [1.0, 0.1])
def test_a_large_lattice_meets_by_fours(step):
    """Steps of 0.1 are rounded, and only those squares meet in one point that still are cyclic."""
    side = 40
    lattice = np.stack(np.meshgrid(*2 * [np.arange(side) * step]), axis=-1).reshape(-1, 2)
    envelope = planar_envelope(forms_of_sites(lattice, np.zeros(len(lattice))).integers)
    # A product of two sets of numbers has rectangles for its cells, whatever the numbers are.
    assert len(envelope.sites) == side**2
    assert len(envelope.triples) == (side - 1) ** 2
    assert len(envelope.pairs) == 2 * side * (side - 1)


def test_a_vertex_that_floats_cannot_round_is_rounded_all_the_same():
    """The first coordinate is half way between two floats, or next to that."""
    half_way = 2**53 + 1
    for wanted, shift in ((2.0**53, 0), (2.0**53 + 2, 1)):
        top, bottom = half_way * 2**120 + shift, 2**120
        rows = np.array([[0, 0, 0], [bottom, 0, -top], [0, 1, -1]], dtype=object)
        envelope = planar_envelope(rows)
        assert envelope.vertices.tolist() == [[wanted, 1.0]]
        assert meeting_point(rows)[2] > 0


def test_limbs_hold_negative_and_long_integers():
    numbers = [0, -1, 2**61, -(2**61), 2**200 + 1, -(2**200)]
    packed, shift = limbs(np.array(numbers, dtype=object))
    values = [int.from_bytes(row.tobytes(), "little", signed=True) for row in packed]
    assert [value << shift for value in values] == numbers
