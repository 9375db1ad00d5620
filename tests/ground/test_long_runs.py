"""A long-running process that calls the library: its memory does not grow with the calls."""

import gc
import time
import tracemalloc

import numpy as np
import pytest
from matplotlib import pyplot

import hardmax as hm
from tests.ground.examples import TAKES_LONG, prepare, public_examples
from tests.sweeps import TIMES

EXAMPLES = public_examples()
QUICK_S = 0.01
N_QUICK, N_SLOW = 4 * TIMES, 1
"""Number of calls of an example that is quick, and of one that is not: there are hundreds.

With `HARDMAX_SWEEP=500`, each quick example is called 2,000 times.
"""
MOST_BYTES, MOST_PER_CALL = 4_000, 1_500
"""What calls may leave behind: the tables of the interpreter grow in steps."""


@pytest.fixture
def trace_growth():
    """Return the growth of the memory in bytes while a function runs, after a collection."""

    def growth(run, n_calls):
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        gc.collect()
        # Then the collection at the end examines only new objects.
        gc.freeze()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(n_calls):
            run()
        # Figures belong to pyplot until they are closed.
        pyplot.close("all")
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    yield growth
    tracemalloc.stop()
    gc.unfreeze()


def test_examples_of_public_names_leave_nothing_behind(trace_growth):
    assert set(EXAMPLES) >= TAKES_LONG
    grown, quick = {}, {}
    runs = {name: prepare(EXAMPLES[name]) for name in sorted(EXAMPLES.keys() - TAKES_LONG)}
    # The first run of each example is not trace_growth, because tracing slows down imports.
    for name, run in runs.items():
        start = time.perf_counter()
        run()
        quick[name] = time.perf_counter() - start < QUICK_S
    for name, run in runs.items():
        n_calls = N_QUICK if quick[name] else N_SLOW
        most = MOST_BYTES + n_calls * MOST_PER_CALL
        # Caches of limited size fill up; a leak goes on.
        if all(trace_growth(run, n_calls) > most for _ in range(3)):
            grown[name] = trace_growth(run, n_calls) / n_calls
    assert grown == {}


def box(dim):
    return hm.Box(-np.ones(dim), np.ones(dim))


def simplex(dim):
    return hm.Polytope(np.vstack([np.eye(dim), -np.ones((1, dim))]), np.ones(dim + 1))


def plane_in_space():
    return hm.Slice(np.zeros(3), np.eye(3)[:2], box(2))


@pytest.mark.parametrize(
    ("dim", "domain", "n_calls"),
    [
        (1, lambda: box(1), 100),
        (1, lambda: hm.Segment([-1.0], [1.0]), 100),
        (2, lambda: box(2), 2_000),
        (2, lambda: simplex(2), 100),
        (3, lambda: box(3), 2_000),
        (3, lambda: hm.WholeSpace(3), 100),
        (3, plane_in_space, 100),
        (4, lambda: box(4), 100),
    ],
    ids=["interval", "segment", "square", "triangle", "cube", "space", "slice", "tesseract"],
)
def test_searches_with_new_models_and_domains_leave_nothing_behind(
    trace_growth, dim, domain, n_calls
):
    rng = np.random.default_rng(0)

    def run():
        weights = [rng.normal(size=(dim, 2)), rng.normal(size=(2, 1))]
        assert hm.enumerate_regions(hm.ReluNetwork(weights), domain()).n_cells >= 1

    run()
    assert trace_growth(run, n_calls) < 20_000 + 100 * n_calls
