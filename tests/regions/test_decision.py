"""Classes of cells and decision boundaries, against the exact maps on the cells."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, IncompleteError
from hardmax.regions.decision import with_decision
from tests.core.degenerate_models import model_and_domain
from tests.graph_models import Numbers, plane_of, residual_network
from tests.region_models import integer_transformer


def exact_outputs(part, cell, point):
    """Return all outputs at a point of a cell, as fractions up to a common positive factor."""
    rows = part.exact_map(cell).rows
    return [sum(int(a) * x for a, x in zip(row, [*point, 1], strict=True)) for row in rows]


def small_cases(n):
    """Return degenerate models with few cells, on lines, planes and in space."""
    found = []
    for seed in range(n):
        for dim in (1, 2, 3):
            *_, model, domain = model_and_domain(seed, dim)
            part = hm.enumerate_regions(model, domain, max_cells=41)
            if part.is_complete:
                found.append(part)
    return found


@pytest.mark.parametrize("part", small_cases(12), ids=repr)
def test_the_class_of_a_piece_is_the_first_largest_output_inside(part):
    decision = part.decision
    for i, point in enumerate(decision.partition.exact_witnesses.tolist()):
        outputs = exact_outputs(part, int(decision.cell_of[i]), point)
        assert decision.classes[i] == outputs.index(max(outputs))
    assert sorted(set(decision.cell_of.tolist())) == list(range(part.n_found))


@pytest.mark.parametrize("part", small_cases(6), ids=repr)
def test_a_cell_has_a_class_if_it_is_one_piece(part):
    for cell, name in enumerate(part.classes.tolist()):
        own = part.decision.classes[part.decision.cell_of == cell]
        assert name == (own[0] if len(own) == 1 else -1)
        assert len(set(own.tolist())) == len(own)


@pytest.mark.parametrize("seed", range(6))
def test_a_line_has_one_point_of_the_boundary_between_two_runs_of_a_class(seed):
    model = integer_transformer(seed, 2, 4, 2, 2)
    part = hm.enumerate_regions(model, hm.Segment([-2.0, 1.0], [3.0, -1.0]))
    decision = part.decision
    order = np.argsort(decision.partition.exact_witnesses[:, 0])
    runs = 1 + int((np.diff(decision.classes[order]) != 0).sum())
    assert len(part.decision_boundary) == runs - 1
    for (point,) in part.decision_boundary.tolist():
        near = [Fraction(point) - Fraction(1, 2**30), Fraction(point) + Fraction(1, 2**30)]
        left, right = decision.partition.locate([[float(x)] for x in near])
        assert decision.classes[left] != decision.classes[right]


@pytest.mark.parametrize("seed", range(8))
def test_graphs_and_their_dense_forms_have_one_boundary(seed):
    numbers = Numbers(seed, are_integers=seed % 2 == 0)
    graph = residual_network(numbers, has_bias=seed % 3 > 0)
    domain = plane_of(numbers, graph.dim_in, is_triangle=seed % 4 < 2)
    sparse = hm.enumerate_regions(graph, domain)
    dense = hm.enumerate_regions(graph.network, domain)
    lengths = [
        np.linalg.norm(np.diff(edges, axis=1)[:, 0], axis=1).sum()
        for edges in (sparse.decision_boundary, dense.decision_boundary)
    ]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-9, abs=1e-12)
    assert sorted(set(sparse.classes.tolist())) == sorted(set(dense.decision.classes.tolist()))


def test_jumps_of_attention_are_part_of_the_boundary():
    # The value of the winner is the output: classes change only where the winner does.
    keys = np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    head = hm.AttentionHead(np.eye(2), keys, np.eye(3), np.eye(3))
    block = hm.Block([head], attention_residual=False)
    part = hm.enumerate_regions(block, "box:-1,1^2")
    assert sorted(part.classes.tolist()) == [0, 1, 2]
    assert len(part.decision.walls) == 3
    for piece, (i, j) in zip(part.decision.boundary_pieces, part.decision.walls, strict=True):
        assert piece.affine_dim == 1
        tied = [keys[part.classes[k]] @ piece.vertices.T for k in (i, j)]
        np.testing.assert_allclose(tied[0], tied[1], atol=1e-12)


def test_one_output_is_one_class():
    single = hm.ReluNetwork([np.eye(2), np.ones((2, 1))])
    part = hm.enumerate_regions(single, "box:-1,1^2")
    assert part.classes.tolist() == [0] * part.n_cells
    assert part.decision_boundary.shape == (0, 2, 2)
    assert with_decision(single.network).dim_out == 1


def test_errors_say_what_to_use_instead():
    model = hm.ReluNetwork([np.eye(3), np.eye(3)])
    part = hm.enumerate_regions(model, "box:-1,1^3")
    with pytest.raises(ArgumentError, match="`boundary_pieces`, or a `Slice`"):
        _ = part.decision_boundary
    assert {piece.affine_dim for piece in part.decision.boundary_pieces} == {2}
    plane = hm.ReluNetwork([np.eye(2), np.eye(2)])
    with pytest.raises(ArgumentError, match="rays or lines"):
        _ = hm.enumerate_regions(plane, "space:2").decision_boundary
    with pytest.raises(IncompleteError, match="`decision`"):
        _ = hm.enumerate_regions(plane, "space:2", max_cells=2).classes
    with pytest.raises(ArgumentError, match="counted but not stored"):
        _ = hm.enumerate_regions(plane, "space:2", count_only=True).classes
