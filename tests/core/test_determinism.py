"""What is stored is the same in every bit: for every instruction set and number of threads."""

import hashlib
from ctypes import c_int32

import numpy as np
import pytest

from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions._search import plane as planar
from hardmax.regions._search import runs as core_runs
from hardmax.regions._search import runs as shared_searches
from hardmax.regions._search import space as spatial
from hardmax.regions._search.searches import BUDGET, DONE, Task
from tests.core.degenerate_models import model_and_domain
from tests.core.instruction_sets import RUNNABLE, printed
from tests.core.searches_in_pieces import differences, different, in_pieces
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.sweeps import seeds

MODELS = [
    *(gaussian_relu(seed, [2, *widths]) for seed, widths in enumerate(([9, 8], [7] * 6, [30, 28]))),
    *(integer_relu(seed, [2, 6, 5]) for seed in range(3)),
    repeated_units(2),
    integer_maxout(4, 2, [[3, 2, 2], [2, 3]]),
    *(integer_transformer(seed, 2, 4, 2, n_blocks=2, repeat=seed == 1) for seed in range(2)),
]


SPATIAL_MODELS = [
    gaussian_relu(1, [3, 7, 6]),
    gaussian_relu(2, [4, 6, 5]),
    gaussian_relu(3, [1, 9, 8]),
    integer_relu(1, [3, 5, 4]),
    integer_relu(2, [5, 4, 3]),
    integer_maxout(4, 3, [[3, 2, 2], [2, 3]]),
    integer_transformer(1, 3, 4, 2, n_blocks=2, repeat=True),
    integer_transformer(2, 1, 5, 2, n_blocks=2),
]
MANY = "2ee9a68483cc8ac66f2276f87670c0ea36cf6bc32b0e6a07ff906863d35c105f"
"""What `digest_of_many` gives, whatever compiled the core."""


def digest(cells):
    found = hashlib.sha256()
    arrays = [cells.signatures, cells.maps, cells.map_radii, cells.vertices, cells.starts]
    arrays += [cells.wall_names.codes] if cells.facets is None else cells.facets
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digests(**options):
    planes = Box([-2, -2], [3, 3]), WholeSpace(2)
    found = [
        digest(planar.explore(model.network, domain, **options))
        for model in MODELS
        for domain in planes
    ]
    for model in SPATIAL_MODELS:
        dim = model.network.dim_in
        for domain in (Box([-2] * dim, [3] * dim), WholeSpace(dim)):
            found.append(digest(spatial.explore(model.network, domain, **options)))
    return found


def digest_of_many(**options):
    """Return one digest of 500 degenerate models, at most 200 cells of each."""
    found = hashlib.sha256()
    for seed in range(500):
        _, _, model, domain = model_and_domain(seed)
        cells = planar.explore(model.network, domain, max_cells=200, **options)
        found.update(digest(cells).encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def alone():
    """Return the digests that one thread finds with the instruction set at hand."""
    return digests()


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_compiler_and_instruction_set_finds_the_same_in_every_bit(name, alone):
    program = (
        "from tests.core.test_determinism import digest_of_many, digests; "
        "print(digest_of_many(), *digests())"
    )
    many, *few = printed(name, program)
    assert many == MANY
    assert few == alone


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_find_what_one_finds_in_every_bit(workers, alone, monkeypatch):
    # So short a slice that every search is given away in many pieces.
    monkeypatch.setattr(core_runs, "_FIRST_BUDGET", 7)
    monkeypatch.setattr(shared_searches, "SLICE_S", 1e-6)
    monkeypatch.setattr(shared_searches, "_BRIEF_S", 0.0)
    monkeypatch.setattr(shared_searches, "_WORTH_THREADS_S", -1.0)
    monkeypatch.setattr(shared_searches, "_MIN_STEPS_BETWEEN", 3)
    given, give = [], core_runs.Run.donate_work
    monkeypatch.setattr(
        core_runs.Run, "donate_work", lambda run: given.append(give(run)) or given[-1]
    )
    assert digests(workers=workers) == alone
    assert any(given)


def finished(run):
    while (status := run.run_slice(-1, 10**6)) != DONE:
        run.handle_stop(status)
    return run


@pytest.mark.parametrize("model", [*MODELS, *SPATIAL_MODELS], ids=repr)
def test_what_a_run_gives_away_is_found_by_others(model):
    network, dim = model.network, model.network.dim_in
    engine = planar if dim == 2 else spatial
    read = planar.read_planar_domain if dim == 2 else spatial.read_spatial_domain
    start = engine.search_domain(network, read(WholeSpace(dim), dim))
    none = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)
    tasks = [Task(0, False, *none, start.cell, False)]
    runs = []
    while tasks:
        run = core_runs.Run(start, [tasks.pop()], c_int32(0), stores=True)
        for _ in range(4):
            if (status := run.run_slice(-1, 1)) == DONE:
                break
            if status != BUDGET:
                run.handle_stop(status)
        # The lower half of the stack, again and again.
        tasks += run.donate_work()
        runs.append(finished(run))
    assert len(runs) > 1
    found = core_runs.pack_cells(runs, True, 2)
    assert digest(found) == digest(engine.explore(network, WholeSpace(dim)))


# Each of these showed once what depended on how a search was cut: ties, vertices and their order,
# bounds of their errors, maps.
CUT = [(2, 20), (2, 180), (3, 61), (3, 15), (4, 61), (4, 67), *((dim, 7) for dim in (1, 2, 3, 4))]


@pytest.mark.parametrize(("dim", "seed"), CUT)
def test_a_search_in_pieces_finds_the_same_in_every_bit(dim, seed):
    for one in seeds(1):
        assert not differences(seed + 1000 * one, 300, dim, stores=False)


def test_ties_do_not_depend_on_how_a_search_is_cut():
    model = integer_transformer(79, 3, 3, 2, n_blocks=1, repeat=True)
    search = spatial.search_domain(
        model.network, spatial.read_spatial_domain(WholeSpace(3), model.network.dim_in)
    )
    whole = spatial.explore(model.network, WholeSpace(3))
    for seed in seeds(5):
        cells = in_pieces(search, np.random.default_rng(seed), 20)
        assert not different(whole, cells)


def test_parts_of_a_group_that_are_given_away_need_no_integers():
    # A vertex of a part lies on the walls of its group, where forms tie.
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(12, 3))
    network = HardTransformer([Block([AttentionHead(np.eye(3), keys, keys, np.eye(3))])]).network
    start = spatial.search_domain(network, spatial.read_spatial_domain(Box([-2] * 3, [2] * 3), 3))
    none = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)
    run = core_runs.Run(start, [Task(0, False, *none, start.cell, False)], c_int32(0), stores=True)
    while run.counts()[3] < 8:
        assert run.run_slice(-1, 1) == BUDGET
    for task in run.search.take_lowest(4):
        other = core_runs.Run(start, [task], c_int32(0), stores=True)
        assert other.run_slice(-1, 10**6) == DONE


class Listening:
    """A run whose slices end after no time at all, many of them."""

    first_budget, left = 20_000, 0.0

    def __init__(self, n_slices):
        self.budgets, self._n_slices = [], n_slices

    def run_slice(self, limit, budget, *, listens):
        self.budgets.append(budget)
        return BUDGET if len(self.budgets) < self._n_slices else DONE

    def close(self):
        pass


@pytest.mark.parametrize(("is_wanted", "most"), [(1, Listening.first_budget), (0, 1 << 22)])
def test_slices_that_end_at_once_do_not_make_the_next_one_long(is_wanted, most):
    run = Listening(400)
    shared_searches._SharedWork([run], None, c_int32(is_wanted), None, False)._search(run, None)
    assert max(run.budgets) == most


def test_whoever_takes_what_was_offered_lets_the_others_go_on():
    run, is_wanted = Listening(1), c_int32(1)
    team = shared_searches._SharedWork([run], lambda stack: run, is_wanted, None, False)
    team._waiting.append([])
    assert team._next_run(None) is run
    assert is_wanted.value == 0
