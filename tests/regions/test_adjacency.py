from math import comb

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._neighbours.adjacency import cell_facets, neighbouring_cells
from hardmax.regions.engines import enumerate_regions
from tests.reference import regions as reference
from tests.region_models import (
    box_and_space,
    gaussian_relu,
    integer_relu,
    integer_transformer,
    reference_cells,
    repeated_units,
)
from tests.sweeps import seeds


def named_pairs(partition):
    names = [tuple(s) for s in partition.signatures.tolist()]
    return {frozenset((names[i], names[j])) for i, j in partition.neighbours.pairs.tolist()}


def reference_pairs(model, domain):
    found = reference_cells(model, domain)
    return {frozenset((found[i][0], found[j][0])) for i, j in reference.neighbours(found)}


def shifted_halves():
    """A head that moves the right half-plane up by 1, then a unit that asks whether y > 0.

    The wall x = 0 has y = 0 ending on it from the left and y = -1 from the right: two T-junctions.
    """
    head = AttentionHead(
        np.array([[1.0], [0.0]]), [[-1.0], [1.0]], [[0.0, 0.0], [0.0, 1.0]], np.eye(2)
    )
    ffn = FeedForward([[0.0], [1.0]], [0.0], [[1.0, 0.0]], [0.0, 0.0])
    return HardTransformer([Block([head], ffn)])


@pytest.mark.parametrize("domain", [Box([-3, -3], [3, 3]), WholeSpace(2)])
def test_cells_touch_across_t_junctions(domain):
    part = enumerate_regions(shifted_halves(), domain)
    left_low, left_high, right_low, right_high = (0, 0), (0, 1), (1, 0), (1, 1)
    assert named_pairs(part) == {
        frozenset((left_low, left_high)),
        frozenset((right_low, right_high)),
        frozenset((left_low, right_low)),
        frozenset((left_high, right_high)),
        # Between y = -1 and y = 0, neighbours differ in two entries.
        frozenset((left_low, right_high)),
    }
    # No two facets on x = 0 are equal, so matching facets would find only two of the five pairs.
    walls = dict(
        zip(map(tuple, part.neighbours.pairs.tolist()), part.neighbours.walls, strict=True)
    )
    assert sorted(walls.values()) == [((0, 0),), ((0, 0),), ((0, 0),), ((1, 0),), ((1, 0),)]


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_neighbours_of_hard_transformers_are_those_of_the_definition(dim, seed):
    model = integer_transformer(seed, dim, 3, 2 if dim < 3 else 1, 1, 2 if dim < 3 else 1)
    for domain in box_and_space(dim):
        assert named_pairs(enumerate_regions(model, domain)) == reference_pairs(model, domain)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_neighbours_of_degenerate_networks_are_those_of_the_definition(dim):
    for model in (repeated_units(dim), integer_relu(dim, [dim, 3, 1], zero_bias=True)):
        for domain in box_and_space(dim):
            assert named_pairs(enumerate_regions(model, domain)) == reference_pairs(model, domain)


def test_coincident_walls_are_all_named():
    part = enumerate_regions(repeated_units(2), WholeSpace(2))
    first = {wall for walls in part.neighbours.walls for wall in walls if wall[0] == 0}
    assert {(0, 0), (0, 1), (0, 2)} <= first
    for walls in part.neighbours.walls:
        # The first three units have one wall: all of them or none.
        assert len({(0, 0), (0, 1), (0, 2)} & set(walls)) in (0, 3)


def test_neighbours_in_a_generic_network_differ_in_the_unit_of_their_wall():
    part = enumerate_regions(gaussian_relu(2, [3, 5, 4]), Box([-2] * 3, [2] * 3))
    starts = [0, 5]
    for (i, j), walls in zip(part.neighbours.pairs.tolist(), part.neighbours.walls, strict=True):
        assert len(walls) == 1
        ((layer, group),) = walls
        changed = np.flatnonzero(part.signatures[i] != part.signatures[j]).tolist()
        assert changed == [starts[layer] + group]


def test_a_planar_partition_satisfies_euler():
    # Bounded cells of a planar map whose walls are not on the boundary: V - E + F = 1, where each
    # neighbour pair of a face-to-face partition is one inner edge.
    part = enumerate_regions(gaussian_relu(65, [2, 8, 8]), Box([-5, -5], [5, 5]))
    corners, boundary_edges = set(), 0
    for i in range(part.n_cells):
        polygon = part.polytope(i)
        corners |= {tuple(v) for v in polygon.exact_vertices.tolist()}
        boundary_edges += len(polygon.facets.rows) - len(cell_facets(i, part.rows(i), 2))
    n_edges = len(part.neighbours) + boundary_edges
    assert len(corners) - n_edges + part.n_cells == 1


@pytest.mark.parametrize("seed", seeds(5))
def test_the_planar_method_and_the_general_one_agree_on_pairs_and_walls(seed):
    models = (
        integer_transformer(seed, 2, 5, 2, 2, 3, repeat=bool(seed % 2)),
        integer_relu(seed, [2, 6, 4], zero_bias=bool(seed % 2)),
        repeated_units(2),
    )
    triangle = Polytope([[1, 1], [-1, 0], [0, -1]], [3, 2, 2])
    for model in models:
        for domain in (*box_and_space(2), triangle):
            part = enumerate_regions(model, domain)
            general = neighbouring_cells(((i, part.rows(i)) for i in range(part.n_cells)), 2)
            assert part.neighbours.pairs.tolist() == general.pairs.tolist()
            assert part.neighbours.walls == general.walls


def test_the_planar_method_works_on_slices():
    piece = Slice([0.5, 0.0, 1.0], [[1.0, 0.5, 0.0], [0.0, 1.0, -0.25]])
    part = enumerate_regions(integer_transformer(1, 3, 4, 2, 2, 2), piece)
    general = neighbouring_cells(((i, part.rows(i)) for i in range(part.n_cells)), 2)
    assert part.neighbours.pairs.tolist() == general.pairs.tolist()
    assert part.neighbours.walls == general.walls


def test_a_simple_arrangement_in_four_dimensions_has_its_known_number_of_neighbours():
    # n hyperplanes in general position: each is cut by the others into the cells of an
    # arrangement of n - 1 in one dimension less, and each such piece separates two cells.
    part = enumerate_regions(gaussian_relu(3, [4, 6]), WholeSpace(4))
    assert part.n_cells == sum(comb(6, k) for k in range(5))
    assert len(part.neighbours) == 6 * sum(comb(5, k) for k in range(4))


def test_degrees_count_each_pair_twice():
    part = enumerate_regions(integer_relu(3, [2, 4]), WholeSpace(2))
    degrees = part.neighbours.degrees(part.n_cells)
    assert degrees.sum() == 2 * len(part.neighbours)
    assert (part.neighbours.pairs[:, 0] < part.neighbours.pairs[:, 1]).all()
