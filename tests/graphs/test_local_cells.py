"""The cell around one point: its map, its walls, what is beyond."""

import numpy as np
import pytest

import hardmax as hm
from tests.graph_models import Numbers, mixed_network, residual_network


def far_networks():
    numbers = Numbers(2, are_integers=False)
    relu = hm.ReluNetwork(
        [numbers(40, 12), numbers(12, 8), numbers(8, 3)], [numbers(12), numbers(8), numbers(3)]
    )
    maxout = hm.MaxoutNetwork([numbers(5, 3, 40), numbers(5, 3)], [numbers(5, 3), None])
    return [relu, maxout, residual_network(numbers), mixed_network(numbers)]


@pytest.mark.parametrize("model", far_networks(), ids=["relu", "maxout", "residual", "mixed"])
def test_no_winner_changes_within_the_certified_distance(model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=model.dim_in)
    cell = hm.cell_at(model, x)
    assert np.allclose(x @ cell.weight + cell.bias, model(x))
    assert cell.wall.low <= cell.wall.distance <= cell.wall.high
    for _ in range(20):
        way = rng.normal(size=model.dim_in)
        way /= np.linalg.norm(way)
        near = hm.cell_at(model, x + 0.999 * cell.wall.low * way)
        assert (near.signature == cell.signature).all()
        hit = cell.along(way, 100.0)
        assert hit is None or hit.high >= cell.wall.low


@pytest.mark.parametrize("model", far_networks(), ids=["relu", "maxout", "residual", "mixed"])
def test_one_winner_changes_across_the_nearest_wall(model):
    cell = hm.cell_at(model, np.random.default_rng(1).normal(size=model.dim_in))
    beyond = cell.beyond
    assert (beyond.signature != cell.signature).sum() == 1
    way = (beyond.point - cell.point) / np.linalg.norm(beyond.point - cell.point)
    hit = cell.along(way)
    assert (hit.layer, hit.group, hit.rival) == (cell.wall.layer, cell.wall.group, cell.wall.rival)
    assert np.isclose(hit.distance, cell.wall.distance, rtol=1e-5)


def test_the_class_changes_along_a_direction_where_the_outputs_tie():
    model = residual_network(Numbers(4, are_integers=False))
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(10):
        x, way = rng.normal(size=(2, 16))
        cell = hm.cell_at(model, x)
        hit = cell.decision_along(way, 4.0)
        if hit is None:
            classes = {int(model(x + t * way).argmax()) for t in np.linspace(0, 4, 200)}
            assert classes == {cell.class_index}
            continue
        found += 1
        outputs = model(x + hit.distance * way)
        assert np.isclose(outputs[0], outputs[1], atol=1e-9)
        assert hit.rival != cell.class_index
        assert hit.high * np.linalg.norm(way) >= cell.certified_radius
    assert found > 2


def test_a_point_on_a_wall_has_distance_zero():
    net = hm.ReluNetwork([np.eye(3), np.ones((3, 2)) * [1.0, -1.0]])
    cell = hm.cell_at(net, [0.0, 1.0, 2.0])
    assert cell.signature.tolist() == [0, 1, 1]
    assert cell.wall.low == 0.0
    assert cell.wall.group == 0


def test_a_network_without_maxima_has_no_wall():
    cell = hm.cell_at(hm.ReluNetwork([np.ones((3, 1))]), [1.0, 2.0, 3.0])
    assert cell.wall is None
    assert cell.certified_radius == np.inf
    with pytest.raises(hm.errors.ArgumentError, match="no"):
        _ = cell.beyond


def test_batches_and_domains_are_refused():
    with pytest.raises(hm.errors.ShapeMismatchError):
        hm.cell_at(hm.ReluNetwork([np.eye(2), np.eye(2)]), np.zeros((3, 2)))
    with pytest.raises(hm.errors.DtypeError, match="`x`"):
        hm.cell_at(hm.ReluNetwork([np.eye(2), np.eye(2)]), hm.WholeSpace(2))
