"""What is stored is the same in every bit: for every instruction set and number of threads."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from hardmax._core.library import INSTRUCTION_SETS, core
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions import planar, shared_searches
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
    monkeypatch.setattr(planar, "_FIRST_BUDGET", 7)
    monkeypatch.setattr(shared_searches, "SLICE_S", 1e-6)
    assert digests(workers=workers) == alone


def test_threads_share_a_search(monkeypatch):
    given = []
    give_away = planar._Run.give_away
    monkeypatch.setattr(planar._Run, "give_away", lambda run: given.append(1) or give_away(run))
    monkeypatch.setattr(planar, "_FIRST_BUDGET", 50)
    monkeypatch.setattr(shared_searches, "SLICE_S", 1e-6)
    rng = np.random.default_rng(0)
    wide = ReluNetwork([rng.normal(size=s) for s in ((2, 40), (40, 40), (40, 1))])
    found = planar.explore(wide.network, Box([-1, -1], [1, 1]), workers=3)
    assert given
    assert found.is_complete
    assert found.signatures.tolist() == sorted(found.signatures.tolist())
