"""Searches end when their time is up, also where it is up before their first step."""

import time
from itertools import pairwise

import numpy as np
import pytest

from hardmax import (
    AttentionHead,
    Block,
    Box,
    FeedForward,
    HardTransformer,
    Polytope,
    ReluNetwork,
    Segment,
    Slice,
    WholeSpace,
    enumerate_regions,
    open_partition,
)
from hardmax._ground import deadlines
from hardmax.geometry import double_description
from hardmax.models import GraphBuilder
from hardmax.models.graphs.exact_cells import _ExactNode
from hardmax.models.graphs.graph_networks import SparseMap
from hardmax.models.storage import model_bytes
from hardmax.regions._stores.jobs import Job, advance
from hardmax.regions._tree import split_tree


def relu(*widths, seed=0):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=pair) for pair in pairwise(widths)]
    return ReluNetwork(weights, [*(rng.normal(size=n) for n in widths[1:-1]), None])


def transformer(dim, n_heads, n_keys, seed=0):
    rng = np.random.default_rng(seed)
    square, keys = (dim, dim), (n_keys, dim)
    heads = [
        AttentionHead(*(rng.normal(size=size) for size in (square, keys, keys, square)))
        for _ in range(n_heads)
    ]
    after = FeedForward(rng.normal(size=(dim, 4)), np.zeros(4), rng.normal(size=(4, dim)), None)
    return HardTransformer([Block(heads, after)])


def graph():
    build = GraphBuilder()
    rng = np.random.default_rng(0)
    x = build.input((1, 4, 4))
    x = build.relu(build.convolve(x, rng.normal(size=(2, 1, 3, 3)), rng.normal(size=2)))
    return build.finish(build.multiply(build.flatten(x), rng.normal(size=(8, 3))))


def random_polytope(dim, n_rows, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, dim))
    return Polytope(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.ones(n_rows))


SQUARE = Box([-1, -1], [1, 1])
SEARCHES = {
    "line": (relu(3, 8, 8, 1), Segment([-1, -1, -1], [1, 2, 3]), {}),
    "line of a transformer": (transformer(3, 2, 6), Segment([-1, -1, -1], [1, 2, 3]), {}),
    "plane": (relu(2, 8, 8, 1), SQUARE, {}),
    "plane with threads": (relu(2, 8, 8, 1), SQUARE, {"workers": 2}),
    "space": (transformer(3, 2, 6), WholeSpace(3), {}),
    "polytope": (relu(4, 5, 1), random_polytope(4, 20), {}),
    "split tree": (relu(9, 6, 1), Box([-1] * 9, [1] * 9), {}),
    "integers": (relu(2, 6, 1), SQUARE, {"exact": True}),
    "graph on a line": (graph(), Segment(np.zeros(16), np.ones(16)), {}),
    "graph on a plane": (graph(), Slice(np.zeros(16), np.eye(16)[:2], SQUARE), {}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_time_that_is_up_at_once_leaves_some_of_the_cells(name, monkeypatch):
    model, domain, options = SEARCHES[name]
    whole = enumerate_regions(model, domain, **options)
    monkeypatch.setattr(deadlines, "GRACE_S", -1.0)
    for count_only in (False, True):
        part = enumerate_regions(model, domain, max_seconds=0.0, count_only=count_only, **options)
        assert not part.is_complete
        assert part.n_cells.lower <= whole.n_cells
        assert "at least" in repr(part)
        if not count_only:
            assert part.n_affine_maps.lower <= part.n_cells.lower
            assert part.n_regions.lower <= part.n_cells.lower
            assert len(part.signatures) >= part.n_cells.lower
    # The limit ends with the search.
    again = enumerate_regions(model, domain, **options)
    assert again.is_complete
    assert again.n_cells == whole.n_cells


def test_cells_found_before_time_is_up_are_some_of_all():
    model = relu(2, 16, 16, 1)
    whole = {tuple(row) for row in enumerate_regions(model, SQUARE).signatures.tolist()}
    for max_seconds in (0.0, 1e-4, 1e-3):
        part = enumerate_regions(model, SQUARE, max_seconds=max_seconds)
        assert {tuple(row) for row in part.signatures.tolist()} <= whole


# Without limits within the steps each of these takes a minute or more.
@pytest.mark.parametrize(
    ("model", "domain"),
    [
        (relu(7, 8, 1), random_polytope(7, 300)),
        (transformer(7, 4, 1000), Box([-1] * 7, [1] * 7)),
    ],
    ids=["vertices of a polytope", "a step with thousands of keys"],
)
def test_a_limit_holds_within_what_takes_long(model, domain):
    began = time.process_time()
    part = enumerate_regions(model, domain, max_seconds=0.1)
    assert not part.is_complete
    assert time.process_time() - began < 15.0


def test_a_store_goes_on_after_time_was_up_in_its_preparation(tmp_path, monkeypatch):
    model = relu(3, 10, 1)
    domain = random_polytope(3, 12)
    whole = enumerate_regions(model, domain)
    with monkeypatch.context() as patch:
        patch.setattr(deadlines, "GRACE_S", -1.0)
        part = enumerate_regions(model, domain, store=tmp_path, max_seconds=0.0)
        assert (part.n_found, part.is_complete) == (0, False)
    stored = enumerate_regions(model, domain, store=tmp_path)
    assert stored.n_cells == whole.n_cells
    with monkeypatch.context() as patch:
        # All shards are read before a search goes on; that takes time, too.
        patch.setattr(deadlines, "GRACE_S", -1.0)
        part = enumerate_regions(model, domain, store=tmp_path, max_seconds=0.0)
    assert open_partition(tmp_path).n_cells == whole.n_cells


def test_a_job_without_time_returns_its_task():
    model = relu(3, 10, 1)
    given = model_bytes(model.network), "box:-1,1^3", "spatial", b"", False
    job = Job(*given, seconds=600.0, most_bytes=1 << 30, is_split=False)
    late = advance(job._replace(most_seconds=-1.0))
    assert (late.n_cells, late.shard, late.left) == (0, b"", (b"",))
    whole = advance(job)
    n_cells = enumerate_regions(model, Box([-1] * 3, [1] * 3)).n_cells
    assert (whole.left, whole.n_cells) == ((), n_cells)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [0.75, -6.0, 0.0], [5e-324, 1.0], [8.0, 16.0]])
def test_the_exponent_of_a_node_is_that_of_its_integers(weights):
    n = len(weights)
    node = SparseMap("sum", np.array([0, n]), np.arange(n), np.array(weights), np.zeros(1), n)
    exact = _ExactNode(node)
    assert exact.exponent == exact.weights[1]


def test_preparations_show_their_progress(monkeypatch):
    shown = []

    def recorded(items, description, total=None):
        shown.append(description)
        return usual(items, description, total)

    usual = double_description.track
    monkeypatch.setattr(double_description, "track", recorded)
    enumerate_regions(relu(3, 4, 1), random_polytope(3, 12))
    assert shown == ["inequalities"]


def test_the_split_tree_says_which_group_it_decides_before_the_first_cell(monkeypatch):
    said = []

    class Recorder:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def advance(self, n_steps=1, more=None):
            said.append((n_steps, more()))

    monkeypatch.setattr(split_tree, "track", lambda *_: Recorder())
    enumerate_regions(relu(9, 3, 2, 1), WholeSpace(9))
    before = [more for n_steps, more in said[: said.index((1, ""))]]
    assert before[0] == "; layer 0, group 0 of 3"
    assert "; layer 1, group 1 of 2" in before
    assert all(more == "" for n_steps, more in said[len(before) :])
