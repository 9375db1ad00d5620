"""Degenerate models of every family against the all-integer search."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.regions._search import plane as planar
from hardmax.regions._search import space as spatial
from tests.core.degenerate_models import FAMILIES, differences, model_and_domain
from tests.sweeps import seeds

SEEDS = seeds(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_same_as_integers(seed):
    assert not differences(seed, most_cells=60, max_seconds=2.0)


def test_every_family_occurs():
    assert {model_and_domain(seed)[0] for seed in SEEDS} == set(FAMILIES)


@pytest.mark.parametrize("count_only", [True, False])
def test_more_units_than_a_word_has_bits(count_only):
    # A grid of 50 by 45 lines, each given again, upside down or scaled, in a shuffled order.
    rng = np.random.default_rng(3)
    places = [(0, 0.5 * i) for i in range(50)] + [(1, 0.25 * i) for i in range(45)]
    rows = [[(axis == 0) * 1.0, (axis == 1) * 1.0, -place] for axis, place in places]
    rows += [[factor * x for x in row] for row in rows for factor in (-1.0, 2.0)]
    table = np.array(rows)[rng.permutation(len(rows))]
    model = hm.ReluNetwork([table[:, :2].T, np.ones((len(table), 1))], [table[:, 2], None])
    part = hm.enumerate_regions(model, hm.WholeSpace(2), count_only=count_only)
    assert part.n_cells == 51 * 46


@pytest.mark.parametrize("dim", [1, 3, 4])
@pytest.mark.parametrize("seed", seeds(14))
def test_same_as_integers_on_lines_and_in_space(seed, dim):
    assert not differences(seed, 40, 2.0, dim)


def _head_of_many_keys(rng, kind):
    keys, query_bias = rng.normal(size=(40, 2)), None
    if kind == "on a circle":
        keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    elif kind == "on a lattice":
        keys = rng.integers(-5, 6, size=keys.shape).astype(float)
    elif kind == "on a line":
        keys = np.outer(rng.integers(-9, 10, size=40), [1.0, 2.0])
    elif kind == "away from the origin":
        query_bias = rng.normal(size=2)
    values = rng.normal(size=(40, 2))
    return hm.AttentionHead(np.eye(2), keys, values, np.eye(2), query_bias=query_bias)


@pytest.mark.parametrize(
    "domain", [hm.Box([-1, -1], [1, 1]), hm.Box([1, 2], [3, 3]), hm.WholeSpace(2)]
)
@pytest.mark.parametrize(
    "kind", ["Gaussian", "on a circle", "on a lattice", "on a line", "away from the origin"]
)
def test_many_forms_that_are_equal_in_one_point(kind, domain):
    rng = np.random.default_rng(5)
    heads = [_head_of_many_keys(rng, kind) for _ in range(2)]
    for model in (hm.HardTransformer([hm.Block(heads[:n])]) for n in (1, 2)):
        wanted = hm.enumerate_regions(model, domain, exact=True).signatures.tolist()
        found = hm.enumerate_regions(model, domain).signatures.tolist()
        assert found == sorted(wanted)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("dim", "d_k"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 3)])
def test_heads_with_short_keys_leave_nothing_to_integers(dim, d_k, has_bias, n_heads):
    # All differences of the scores of a head vanish where d_k independent ones do.
    rng = np.random.default_rng([dim, d_k])
    heads = [
        hm.AttentionHead(
            rng.normal(size=(dim, d_k)),
            rng.normal(size=(30, d_k)),
            rng.normal(size=(30, dim)),
            np.eye(dim),
            query_bias=rng.normal(size=d_k) if has_bias else None,
        )
        for _ in range(n_heads)
    ]
    model = hm.HardTransformer([hm.Block(heads)])
    explore = planar.explore if dim == 2 else spatial.explore
    for domain in (hm.Box([-2] * dim, [2] * dim), hm.WholeSpace(dim)):
        found = explore(model.network, domain)
        assert found.decisions.rational == 0
        if n_heads == 1:
            wanted = hm.enumerate_regions(model, domain, exact=True).signatures.tolist()
            assert found.signatures.tolist() == sorted(wanted)


@pytest.mark.parametrize("height", [2.0**-60, -(2.0**-60), 0.0])
@pytest.mark.parametrize(("dim", "d_k"), [(2, 2), (3, 2), (4, 2), (3, 3), (4, 3)])
def test_a_key_beside_the_middle_of_two_others_wins_in_a_sliver(dim, d_k, height):
    # On the wall of two the fourth ties with them but for its height, which floats miss.
    keys = np.array([[0.0, -1.0, -1.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])[
        :, :d_k
    ]
    keys[3, -1] = height
    query = np.random.default_rng(1).normal(size=(dim, d_k))
    values = np.ones((d_k, dim))
    model = hm.HardTransformer([hm.Block([hm.AttentionHead(query, keys, keys, values)])])
    domain = hm.Box([-1] * dim, [1] * dim)
    found = hm.enumerate_regions(model, domain)
    wanted = hm.enumerate_regions(model, domain, exact=True)
    assert found.signatures.tolist() == sorted(wanted.signatures.tolist())
    assert found.n_cells >= 3 + (height > 0)
