"""Edges matched by their names: what that proves is what integers find."""

import pickle

import numpy as np
import pytest

from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.planar_adjacency import overlapping_edges
from hardmax.regions.planar_matching import match_edges
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)

DOMAINS = {"box": Box([-2, -2], [3, 3]), "plane": WholeSpace(2)}
MODELS = {
    "gaussian": gaussian_relu(1, [2, 8, 7, 6]),
    **{f"integers {seed}": integer_relu(seed, [2, 5, 4]) for seed in range(6)},
    "no biases": integer_relu(3, [2, 5, 4], zero_bias=True),
    "repeated units": repeated_units(2),
    **{f"maxout {seed}": integer_maxout(seed, 2, [[3, 2, 2], [2, 3], [2, 2]]) for seed in range(3)},
    **{
        f"transformer {seed}": integer_transformer(seed, 2, 4, 2, n_blocks=2, repeat=seed == 2)
        for seed in range(4)
    },
}


def by_integers(part):
    return overlapping_edges(part.network, part.domain, part.cells, np.arange(len(part.cells.vertices)))


@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("name", MODELS)
def test_neighbours_are_those_that_integers_find(name, where):
    part = enumerate_regions(MODELS[name], DOMAINS[where])
    truth = by_integers(part)
    assert [tuple(pair) for pair in part.neighbours.pairs.tolist()] == sorted(truth)
    assert list(part.neighbours.walls) == [truth[pair] for pair in sorted(truth)]


def test_names_alone_prove_the_neighbours_of_generic_networks():
    for seed in range(3):
        part = enumerate_regions(gaussian_relu(seed, [2, 9, 8, 7]), DOMAINS["box"])
        matching = match_edges(part.network, part.cells)
        assert not matching.is_open.any()
        assert matching.pairs.tolist() == [list(pair) for pair in sorted(by_integers(part))]


def test_a_wall_named_otherwise_on_its_other_side_is_left_to_integers():
    # Of three keys on a line the middle one never wins, but names the wall seen from one side.
    keys = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    head = AttentionHead(np.eye(2), keys, keys, np.eye(2))
    part = enumerate_regions(HardTransformer([Block([head])]), DOMAINS["plane"])
    assert part.n_cells == 2
    assert match_edges(part.network, part.cells).is_open.all()
    assert part.neighbours.pairs.tolist() == [[0, 1]]


def test_some_cells_have_the_neighbours_among_them():
    part = enumerate_regions(MODELS["gaussian"], DOMAINS["box"])
    chosen = list(range(0, part.n_cells, 2))
    expected = [p for p in part.neighbours.pairs.tolist() if not (p[0] % 2 or p[1] % 2)]
    assert part._neighbours_among(chosen).pairs.tolist() == expected


def test_neighbours_are_pickled_with_their_walls():
    neighbours = enumerate_regions(MODELS["repeated units"], DOMAINS["box"]).neighbours
    again = pickle.loads(pickle.dumps(neighbours))
    assert again.pairs.tolist() == neighbours.pairs.tolist()
    assert again.walls == neighbours.walls
