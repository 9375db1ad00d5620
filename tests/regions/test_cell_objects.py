"""The cells of a partition as objects."""

import pickle
import time

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, IncompleteError
from hardmax.regions import Cell
from tests.region_models import gaussian_relu, integer_relu, integer_transformer


def square():
    net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
    return hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]))


PARTS = {
    "line": lambda: hm.enumerate_regions(gaussian_relu(0, [1, 8]), hm.Box([-2], [2])),
    "segment": lambda: hm.enumerate_regions(
        integer_transformer(0, 2, 4, 2), hm.Segment([-3.0, 0.5], [3.0, 1.0])
    ),
    "plane": lambda: hm.enumerate_regions(integer_transformer(1, 2, 4, 2, 2), hm.WholeSpace(2)),
    "space": lambda: hm.enumerate_regions(gaussian_relu(1, [3, 6]), hm.Box([-2] * 3, [2] * 3)),
    "four dimensions": lambda: hm.enumerate_regions(integer_relu(0, [4, 5]), hm.WholeSpace(4)),
    "stopped early": lambda: hm.enumerate_regions(
        gaussian_relu(2, [2, 12]), hm.Box([-1] * 2, [1] * 2), max_cells=5
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_properties_are_the_entries_of_the_partition(name):
    part = PARTS[name]()
    beside = {i: set() for i in range(part.n_found)}
    for i, j in part.neighbours.pairs.tolist():
        beside[i].add(j)
        beside[j].add(i)
    cells = [*iter(part)]
    assert [cell.index for cell in cells] == list(range(part.n_found))
    for i, cell in enumerate(cells):
        assert cell == part[i]
        assert cell.partition is part
        assert cell.signature.tolist() == part.signatures[i].tolist()
        assert cell.volume == part.volumes[i]
        assert cell.witness.tolist() == part.witnesses[i].tolist()
        assert cell.affine_map.tolist() == part.affine_maps[i].tolist()
        assert [other.index for other in cell.neighbours] == sorted(beside[i])
        np.testing.assert_array_equal(cell.polytope.rows, part.polytope(i).rows)
        assert cell.polytope.volume == part.exact_volumes[i]


def test_indices_and_slices_are_those_of_sequences():
    part = square()
    numbers = range(4)
    for i in range(-4, 4):
        assert part[i].index == numbers[i]
        assert part[np.int64(i)] == part[i]
        assert type(part[np.int32(i)].index) is int
    for chosen in (slice(None), slice(1, 3), slice(None, None, -1), slice(-2, 99), slice(3, 1)):
        found = part[chosen]
        assert isinstance(found, tuple)
        assert [cell.index for cell in found] == [*numbers[chosen]]
    assert [cell.index for cell in part] == [cell.index for cell in list(part)] == [*numbers]
    assert [cell.index for cell in reversed(part)] == [3, 2, 1, 0]
    for beyond in (4, -5, 10**30, np.uint64(2**63)):
        with pytest.raises(IndexError, match=f"below 4, the number of cells found; got {beyond}"):
            part[beyond]
    for wrong in (1.0, "0", None, [0, 1], np.arange(2), (0, 1)):
        with pytest.raises(TypeError, match=rf"`part\[0\]`.*got {type(wrong).__name__}"):
            part[wrong]


def test_cells_are_compared_by_index_and_partition():
    part, other = square(), square()
    assert part[0] == part[-4] != part[1]
    assert part[0] != other[0]
    assert len({*part, part[0], *other}) == 8
    assert part[2] in part
    assert other[2] not in part
    with pytest.raises(AttributeError):
        part[0].index = 1


def test_a_partition_that_was_stopped_early_has_the_cells_found():
    part = PARTS["stopped early"]()
    assert not part.is_complete
    assert len([cell for cell in part]) == part.n_found
    assert part[-1].index == part.n_found - 1
    with pytest.raises(IncompleteError):
        list(part)


def test_cells_that_were_only_counted_are_refused():
    net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
    part = hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]), count_only=True)
    for ask in (lambda: part[0], lambda: part[:2], lambda: iter(part)):
        with pytest.raises(ArgumentError, match="counted but not stored"):
            ask()


def test_a_stored_partition_has_cells(tmp_path):
    pytest.importorskip("pyarrow")
    net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
    part = hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]), store=tmp_path)
    assert [cell.signature.tolist() for cell in part] == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_cells_at_points_are_those_located():
    part = square()
    points = [[0.5, 0.1], [0.5, 0.5], [-0.5, 0.1], [1.0, 0.0], [3.0, 0.0], [0.0, 0.0]]
    cells = part.cells_at(points)
    assert [-1 if cell is None else cell.index for cell in cells] == part.locate(points).tolist()
    assert [cell is None for cell in cells] == [False, True, False, True, True, True]
    assert part.cells_at(points[0]) == cells[:1]
    assert part.cells_at(np.empty((0, 2))) == []
    with pytest.raises(hm.errors.ShapeMismatchError, match="`points`"):
        part.cells_at([1.0, 2.0, 3.0])


def test_cells_survive_pickling():
    cell = pickle.loads(pickle.dumps(square()[3]))
    assert isinstance(cell, Cell)
    assert (cell.index, cell.signature.tolist(), cell.volume) == (3, [1, 1], 1.0)


def test_a_loop_computes_nothing_and_is_fast():
    net = gaussian_relu(3, [2, 64, 64])
    domain = hm.Box([-2] * 2, [2] * 2)
    began = time.process_time()
    part = hm.enumerate_regions(net, domain)
    searched = time.process_time() - began
    assert part.n_found > 5000
    before = set(vars(part))
    began = time.process_time()
    indices = [cell.index for cell in part]
    looped = time.process_time() - began
    assert len(indices) == part.n_found
    assert set(vars(part)) == before
    assert looped < 10.0 * searched
