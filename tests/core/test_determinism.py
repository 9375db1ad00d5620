"""What is stored is the same in every bit: for every instruction set and number of threads."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from hardmax._core.library import INSTRUCTION_SETS, core
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions import core_runs, planar, shared_searches
from hardmax.regions.core_searches import BUDGET, DONE, Task
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)

MODELS = [
    *(gaussian_relu(seed, [2, *widths]) for seed, widths in enumerate(([9, 8], [7] * 6, [30, 28]))),
    *(integer_relu(seed, [2, 6, 5]) for seed in range(3)),
    repeated_units(2),
    integer_maxout(4, 2, [[3, 2, 2], [2, 3]]),
    *(integer_transformer(seed, 2, 4, 2, n_blocks=2, repeat=seed == 1) for seed in range(2)),
]


def digest(cells):
    found = hashlib.sha256()
    arrays = (cells.signatures, cells.maps, cells.map_radii, cells.vertices, cells.starts)
    for array in (*arrays, cells.wall_names.codes):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digests(**options):
    return [
        digest(planar.explore(model.network, domain, **options))
        for model in MODELS
        for domain in (Box([-2, -2], [3, 3]), WholeSpace(2))
    ]


@pytest.mark.skipif(
    core().hm_widest_instruction_set() == b"baseline", reason="the processor has one set only"
)
def test_every_instruction_set_finds_the_same_in_every_bit():
    program = "from tests.core.test_determinism import digests; print(*digests())"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"HARDMAX_CPU": name, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in INSTRUCTION_SETS
    }
    assert len(found) == 1


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_find_what_one_finds_in_every_bit(workers, monkeypatch):
    alone = digests()
    # So short a slice that every search is given away in many pieces.
    monkeypatch.setattr(core_runs, "_FIRST_BUDGET", 7)
    monkeypatch.setattr(shared_searches, "SLICE_S", 1e-6)
    assert digests(workers=workers) == alone


def finished(run):
    while (status := run.go_on(-1, 10**6)) != DONE:
        run.make_way(status)
    return run


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_a_run_gives_away_is_found_by_others(model):
    domain = planar.planar_domain(WholeSpace(2), 2)
    start = planar.search_domain(model.network, domain)
    none = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)
    tasks = [Task(0, False, *none, start.cell, False)]
    runs = []
    while tasks:
        run = core_runs.Run(start, tasks.pop(), stores=True)
        for _ in range(4):
            if (status := run.go_on(-1, 1)) == DONE:
                break
            if status != BUDGET:
                run.make_way(status)
        # The lower half of the stack, again and again.
        tasks += run.give_away()
        runs.append(finished(run))
    assert len(runs) > 1
    found = core_runs.packed(runs, True)
    assert digest(found) == digest(planar.explore(model.network, WholeSpace(2)))
