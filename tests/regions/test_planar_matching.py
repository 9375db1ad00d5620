"""Edges matched by their names: what that proves is what integers find."""

import pickle

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._neighbours.plane import Regions, StoredCells, normalised, overlapping_edges
from hardmax.regions.engines import enumerate_regions
from tests.extreme_models import model_and_domain
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.regions.test_planar_walks import KEYS, TILTED, model
from tests.sweeps import seeds

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


def gaussian_transformer(seed, n_keys, n_blocks):
    """Two heads and four units in each block."""
    rng = np.random.default_rng(seed)

    def head():
        arrays = (rng.normal(size=shape) for shape in ((2, 2), (n_keys, 2), (n_keys, 2), (2, 2)))
        return AttentionHead(*arrays)

    def units():
        return FeedForward(*(rng.normal(size=shape) for shape in ((2, 4), 4, (4, 2), 2)))

    return HardTransformer([Block([head(), head()], units()) for _ in range(n_blocks)])


def degenerate_model(seed):
    """Draw a model whose walls coincide, meet in points and are repeated, and a planar domain."""
    rng = np.random.default_rng(seed)
    if seed % 4 == 0:
        planar = (model_and_domain(other) for other in range(1000 * seed, 1000 * seed + 1000))
        return next(drawn for drawn in planar if drawn[1].dim == 2)
    dim = 2 + int(rng.integers(4) == 0)
    sizes, is_even = rng.integers(2, 5, 3).tolist(), bool(rng.integers(2))
    drawn = [
        lambda: integer_relu(seed, [dim, *sizes], zero_bias=is_even),
        lambda: integer_maxout(seed, dim, [sizes[:2], [*sizes[1:], 26 if is_even else 2]]),
        lambda: integer_transformer(seed, dim, *sizes, repeat=is_even),
    ][seed % 4 - 1]()
    if dim == 3:
        axes = np.array([[3.0, 0.0, 1.0], [-1.0, 2.0, 0.0]])
        return drawn, Slice(rng.integers(-2, 3, 3).astype(float), axes)
    triangle = Polytope([[1, 1], [-1, 0], [0, -1]], [3, 2, 2])
    return drawn, [DOMAINS["box"], triangle, DOMAINS["plane"]][int(rng.integers(3))]


def by_integers(part):
    return overlapping_edges(
        part.network, part.domain, part.cells, np.arange(len(part.cells.vertices))
    )


@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("name", MODELS)
def test_neighbours_are_those_that_integers_find(name, where):
    part = enumerate_regions(MODELS[name], DOMAINS[where])
    truth = by_integers(part)
    assert [tuple(pair) for pair in part.neighbours.pairs.tolist()] == sorted(truth)
    assert list(part.neighbours.walls) == [truth[pair] for pair in sorted(truth)]


def stored(part):
    return StoredCells(part.network, part.domain, part.cells)


GENERIC = {
    **{f"relu {seed}": gaussian_relu(seed, [2, 9, 8, 7]) for seed in range(3)},
    **{f"transformer {seed}": gaussian_transformer(seed, 5, n_blocks=2) for seed in range(3)},
}


@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("name", GENERIC)
def test_floats_and_names_prove_the_neighbours_and_walls_of_generic_models(name, where):
    part = enumerate_regions(GENERIC[name], DOMAINS[where])
    matching = stored(part).matching()
    assert not matching.is_open.any()
    assert not stored(part).may_tie().any()
    assert matching.pairs.tolist() == [list(pair) for pair in sorted(by_integers(part))]


def test_a_wall_named_otherwise_on_its_other_side_is_left_to_integers():
    # Of three keys on a line the middle one never wins, but names the wall seen from one side.
    keys = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    head = AttentionHead(np.eye(2), keys, keys, np.eye(2))
    part = enumerate_regions(HardTransformer([Block([head])]), DOMAINS["plane"])
    assert part.n_cells == 2
    is_open = stored(part).matching().is_open
    assert is_open.tolist() == (part.cells.walls[:, 0] == 0).tolist()
    assert part.neighbours.pairs.tolist() == [[0, 1]]


def test_a_unit_that_vanishes_along_a_wall_without_a_change_of_sign_names_it():
    # |x| is positive on both sides of x = 0.
    network = ReluNetwork([[[1.0, -1.0], [0.0, 0.0]], [[1.0], [1.0]], [[1.0]]])
    part = enumerate_regions(network, DOMAINS["box"])
    assert stored(part).may_tie().sum() == 2
    assert part.neighbours.walls == (((0, 0), (0, 1), (1, 0)),)


def test_a_mean_that_is_passed_on_beside_a_continuous_wall_moves_later_walls():
    # Where x > 0 the unit takes x away: both keys tie, and the mean of their values moves y by 1/2.
    still = AttentionHead(np.eye(2), [[0.0, 0.0]], [[0.0, 0.0]], np.eye(2))
    take = FeedForward([[1.0], [0.0]], [0.0], [[-1.0, 0.0]], [0.0, 0.0])
    head = AttentionHead(np.eye(2), [[1.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], np.eye(2))
    above = FeedForward([[0.0], [1.0]], [0.0], [[1.0, 0.0]], [0.0, 0.0])
    part = enumerate_regions(
        HardTransformer([Block([still], take), Block([head], above)]), DOMAINS["box"]
    )
    # The head has the same winner everywhere, and y = 0 and y = -1/2 end on x = 0.
    assert part.signatures.tolist() == [[0, x, 0, y] for x in (0, 1) for y in (0, 1)]
    assert part.cells.has_means
    assert part.neighbours.pairs.tolist() == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]


NAMED = {
    **MODELS,
    **{name: model(*keys) for name, keys in KEYS.items()},
    # Scores that are rounded: integers decide what ties.
    **{f"{name}, tilted": model(*keys, TILTED) for name, keys in KEYS.items()},
}


def canonical_name(layers, wall):
    """The first group with a tie along a wall of a cell, and the first form that ties there."""
    index, group, winner, rival = wall
    line = normalised(layers[index][0].row(group, winner, rival))
    for first, (forms, winners) in enumerate(layers):
        for g in sorted(forms.groups_on(line, winners)):
            size = int(forms.layer.starts[g + 1] - forms.layer.starts[g])
            rows = [forms.row(g, winners[g], form) for form in range(size)]
            ties = [form for form, row in enumerate(rows) if any(row[:-1])]
            return first, g, next(form for form in ties if normalised(rows[form]) == line)
    raise AssertionError


@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("name", NAMED)
def test_an_edge_is_named_by_the_first_forms_that_tie_along_it(name, where):
    part = enumerate_regions(NAMED[name], DOMAINS[where])
    regions = Regions(part.network, part.domain)
    for cell, signature in enumerate(part.signatures.tolist()):
        layers = regions.layers(tuple(signature))
        for wall in part.cells.walls[slice(*part.cells.starts[cell : cell + 2])].tolist():
            if wall[0] >= 0:
                assert (wall[0], wall[1], wall[3]) == canonical_name(layers, wall)


@pytest.mark.parametrize("first", [50 * i for i in seeds(3)])
def test_neighbours_of_random_degenerate_models_are_those_that_integers_find(first):
    for seed in range(first, first + 50):
        part = enumerate_regions(*degenerate_model(seed), max_cells=100)
        truth = by_integers(part)
        assert [tuple(pair) for pair in part.neighbours.pairs.tolist()] == sorted(truth), seed
        assert list(part.neighbours.walls) == [truth[pair] for pair in sorted(truth)], seed


def test_some_cells_have_the_neighbours_among_them():
    part = enumerate_regions(MODELS["gaussian"], DOMAINS["box"])
    chosen = list(range(0, part.n_cells, 2))
    expected = [p for p in part.neighbours.pairs.tolist() if not (p[0] % 2 or p[1] % 2)]
    assert part.found.neighbours(chosen).pairs.tolist() == expected


def test_neighbours_are_pickled_with_their_walls():
    neighbours = enumerate_regions(MODELS["repeated units"], DOMAINS["box"]).neighbours
    again = pickle.loads(pickle.dumps(neighbours))
    assert again.pairs.tolist() == neighbours.pairs.tolist()
    assert again.walls == neighbours.walls
