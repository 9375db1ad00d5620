"""Cells of networks of any shape against the dense engines and against exact evaluation."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.models import GraphBuilder, GraphNetwork
from tests.graph_models import Numbers, mixed_network, plane_of, residual_network, segment_of
from tests.graphs.sweep import check

CASES = [(seed, seed % 2 == 1) for seed in range(6)]


def networks(seed: int, are_integers: bool) -> tuple[GraphNetwork, Numbers]:
    numbers = Numbers(seed, are_integers=are_integers)
    if seed % 3 == 2:
        return mixed_network(numbers), numbers
    return residual_network(numbers, has_bias=seed % 3 == 0), numbers


@pytest.mark.parametrize(("seed", "are_integers"), CASES)
def test_a_segment_has_the_cells_that_dense_layers_have(seed, are_integers):
    net, numbers = networks(seed, are_integers)
    domain = segment_of(numbers, net.dim_in)
    part, dense = hm.enumerate_regions(net, domain), hm.enumerate_regions(net.network, domain)
    assert part.n_cells == dense.n_cells


@pytest.mark.parametrize(("seed", "are_integers"), CASES)
def test_a_plane_has_the_cells_that_dense_layers_have(seed, are_integers):
    net, numbers = networks(seed, are_integers)
    domain = plane_of(numbers, net.dim_in, is_triangle=seed % 2 == 0)
    part, dense = hm.enumerate_regions(net, domain), hm.enumerate_regions(net.network, domain)
    assert part.n_cells == dense.n_cells


@pytest.mark.parametrize("seed", [20098, 20542, 20652, 30000, 30003, 30005, 30010, 30015, 1004370])
def test_repeated_and_dead_units_make_the_walls_they_make(seed):
    """The first three have parts that are constant on a cell and differ beyond several edges.

    The last has a cell of the area 2^-55 at a vertex that three walls meet in.
    """
    assert check(seed) == ""


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**60])
def test_numbers_far_from_one_are_decided_exactly(scale):
    numbers = Numbers(1, are_integers=True, scale=scale)
    net, domain = residual_network(numbers), segment_of(numbers, 16)
    dense = hm.enumerate_regions(net.network, domain)
    assert hm.enumerate_regions(net, domain).n_cells == dense.n_cells


def test_subnormal_and_huge_weights_are_decided_exactly():
    build = GraphBuilder()
    x = build.input((2,))
    weights = np.array([[5e-324, 1e300, 1.0, 1.0], [-5e-324, 1e-300, -1.0, 1.0]])
    h = build.relu(build.multiply(x, weights, [0.0, -1e300, 0.0, -5e-324]))
    net = build.finish(build.multiply(h, np.ones((4, 2)) * [1.0, 2.0]))
    domain = hm.Segment([-2.0, 1.0], [2.0, -1.0])
    assert (
        hm.enumerate_regions(net, domain).n_cells
        == hm.enumerate_regions(net.network, domain).n_cells
    )


def test_maps_and_classes_agree_with_the_network_on_every_piece():
    net = residual_network(Numbers(4, are_integers=False))
    domain = plane_of(Numbers(5, are_integers=False), 16, is_triangle=True)
    part = hm.enumerate_regions(net, domain)
    centres = np.array([polygon.mean(axis=0) for polygon in part.polygons])
    outputs = net(part.points(centres))
    mapped = np.einsum("nk,nko->no", np.column_stack([centres, np.ones(len(centres))]), part.maps)
    assert np.allclose(outputs, mapped, atol=1e-9)
    assert (outputs.argmax(axis=1) == part.classes).all()
    signatures = [hm.cell_at(net, x).signature for x in part.points(centres[:8])]
    assert (np.array(signatures) == part.signatures[:8]).all()


def test_polygons_fill_the_domain():
    net = residual_network(Numbers(6, are_integers=True))
    part = hm.enumerate_regions(net, plane_of(Numbers(7, are_integers=True), 16, is_triangle=True))
    areas = [
        0.5 * abs(np.dot(p[:, 0], np.roll(p[:, 1], 1)) - np.dot(p[:, 1], np.roll(p[:, 0], 1)))
        for p in part.polygons
    ]
    assert np.isclose(sum(areas), 0.5, rtol=1e-12)


def test_outputs_tie_along_the_decision_boundary():
    net = residual_network(Numbers(4, are_integers=False))
    edges = hm.enumerate_regions(
        net, plane_of(Numbers(5, are_integers=False), 16, is_triangle=False)
    )
    boundary = edges.decision_boundary
    assert len(boundary) > 0
    outputs = net(edges.points(boundary.mean(axis=1)))
    assert np.allclose(outputs[:, 0], outputs[:, 1], atol=1e-8)


def test_a_breakpoint_is_where_winners_change():
    net = residual_network(Numbers(8, are_integers=False))
    segment = segment_of(Numbers(8, are_integers=False), 16)
    part = hm.enumerate_regions(net, segment)
    ends = [0.0, *part.breakpoints, 1.0]
    middles = (np.array(ends[1:]) + ends[:-1]) / 2
    found = [hm.cell_at(net, x).signature for x in segment.points(middles[:, None])]
    assert (np.array(found) == part.signatures).all()
    assert (part.found.radii < 1e-9).all()


def test_equal_windows_make_one_unit():
    """All windows over a flat image see the same: their units change together."""
    build = GraphBuilder()
    x = build.input((1, 6, 6))
    h = build.max_pool(build.relu(build.convolve(x, np.ones((1, 1, 3, 3)), [-4.5])), (2, 2))
    net = build.finish(build.flatten(h))
    part = hm.enumerate_regions(net, hm.Segment(np.zeros(36), np.ones(36)))
    assert part.n_cells == 2
    assert part.found.n_exact == 0
    assert part.breakpoints.tolist() == [0.5]


def test_a_search_that_is_stopped_says_at_least():
    net = residual_network(Numbers(4, are_integers=False))
    part = hm.enumerate_regions(
        net, plane_of(Numbers(5, are_integers=False), 16, is_triangle=False), max_cells=5
    )
    assert not part.is_complete
    assert part.n_pieces == hm.regions.AtLeast(5)
    with pytest.raises(hm.errors.IncompleteError):
        _ = part.decision_boundary


def test_unbounded_domains_are_refused():
    net = residual_network(Numbers(4, are_integers=False))
    with pytest.raises(hm.errors.ArgumentError, match="bounded"):
        hm.enumerate_regions(net, hm.Line(np.zeros(16), np.ones(16)))
    with pytest.raises(hm.errors.ArgumentError, match="bounded"):
        hm.enumerate_regions(net, hm.Slice(np.zeros(16), np.eye(16)[:2]))


def exact_value(net: GraphNetwork, point: list[Fraction], unit: int) -> Fraction:
    """One slot of a network, in fractions, node by node."""
    values = [*point, *[Fraction(0)] * (net.n_slots - len(point))]
    for node in net.nodes:
        if hasattr(node, "taps"):
            for row, taps in enumerate(node.taps.tolist()):
                for k, slot in enumerate(node.slots[row].tolist()):
                    values[slot] = Fraction(node.bias[k]) + sum(
                        Fraction(node.kernel[t, c, k]) * values[base + c]
                        for t, base in enumerate(taps)
                        if base >= 0
                        for c in range(node.kernel.shape[1])
                    )
            continue
        for row, slot in enumerate(node.slots.tolist()):
            entries = range(node.starts[row], node.starts[row + 1])
            if hasattr(node, "sign"):
                forms = [
                    Fraction(node.slopes[j])
                    * (values[node.columns[j]] if node.columns[j] >= 0 else 0)
                    + Fraction(node.offsets[j])
                    for j in entries
                ]
                values[slot] = int(node.sign) * max(forms)
            else:
                values[slot] = Fraction(node.bias[row]) + sum(
                    Fraction(node.weights[j]) * values[node.columns[j]] for j in entries
                )
    return values[unit]


def test_radii_bound_the_errors_of_maps():
    net = mixed_network(Numbers(3, are_integers=False))
    segment = segment_of(Numbers(3, are_integers=False), net.dim_in)
    part = hm.enumerate_regions(net, segment)
    ends = [0.0, *part.breakpoints, 1.0]
    for i in range(0, len(part.maps), 5):
        t = Fraction((ends[i] + ends[i + 1]) / 2)
        pairs = zip(segment.start.tolist(), segment.end.tolist(), strict=True)
        point = [Fraction(p) + t * (Fraction(q) - Fraction(p)) for p, q in pairs]
        for k, slot in enumerate(net.outputs.tolist()):
            slope, offset = (Fraction(x) for x in part.maps[i, :, k])
            off = abs(exact_value(net, point, slot) - (slope * t + offset))
            assert off <= 2 * Fraction(part.found.map_radii[i, k])


def test_a_decision_boundary_may_lie_on_other_walls():
    """Outputs -relu(x) and -relu(-x) tie where x = 0, the wall of both units."""
    build = GraphBuilder()
    h = build.relu(build.multiply(build.input((2,)), np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])))
    net = build.finish(build.multiply(h, np.array([[-1.0, 0.0], [0.0, -1.0], [0.0, 0.0]])))
    part = hm.enumerate_regions(net, hm.Box([-1.0, -1.0], [2.0, 1.0]))
    assert part.n_cells == 4
    edges = sorted(np.sort(edge, axis=0).tolist() for edge in part.decision_boundary)
    assert edges == [[[0.0, -1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]


def test_an_empty_batch_has_no_outputs():
    net, _ = networks(0, True)
    assert net(np.zeros((0, net.dim_in))).shape == (0, net.dim_out)
    assert net(np.zeros((0, *net.input_shape))).shape == (0, net.dim_out)
