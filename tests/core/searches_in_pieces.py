"""Searches of random degenerate models in pieces, compared in every bit with those of one thread.

A piece makes a few steps and is written down as bytes; what is left of it is cut in two, read, and
gone on with. A test compares some; `python -m tests.core.searches_in_pieces FIRST LAST MOST_CELLS
DIM` compares as many as one likes, with threads and, in two and more dimensions, with stores and
their certificates, and says which differ.
"""

import sys
import tempfile
from contextlib import contextmanager
from unittest import mock

import numpy as np

from hardmax.regions._search import plane, runs, space
from hardmax.regions._stores import durable
from hardmax.regions._stores.tasks import read_stack, stack_bytes
from hardmax.regions.engines import enumerate_regions
from tests.core.degenerate_models import model_and_domain

ARRAYS = ("signatures", "maps", "map_radii", "vertices", "starts", "directions", "walls")


@contextmanager
def short_jobs():
    """Let threads and jobs make a few steps at a time."""
    with (
        mock.patch.multiple(durable, LONG_S=0.0, SHORT_S=0.0, BRIEF_S=0.0),
        mock.patch.multiple(runs, _FIRST_BUDGET=20, SLICE_S=1e-6),
    ):
        yield


def different(cells, others):
    """List the arrays that are not the same in every bit."""
    pairs = [(name, getattr(cells, name), getattr(others, name)) for name in ARRAYS]
    if cells.facets is not None:
        pairs += zip(cells.facets._fields, cells.facets, others.facets, strict=True)
    return [
        name
        for name, one, other in pairs
        if (one is None) != (other is None)
        or (one is not None and (one.dtype, one.tobytes()) != (other.dtype, other.tobytes()))
    ]


def in_pieces(search, rng, n_steps):
    """Search a domain in pieces of at most so many steps."""
    stacks, found = [None], []
    while stacks:
        run = runs.Run(search, stacks.pop(), runs.c_int32(0), stores=True)
        found.append(run)
        for _ in range(int(rng.integers(n_steps // 2, n_steps))):
            if (status := run.run_slice(-1, 1)) == runs.DONE:
                break
            if status != runs.BUDGET:
                run.handle_stop(status)
        else:
            left = run.search.take_lowest(run.search.counts()[3])
            cut = int(rng.integers(0, len(left)))
            parts = filter(None, (left[:cut], left[cut:]))
            # In one dimension there are no stores, and tasks are not written.
            stacks += parts if search.dim == 1 else (_written(part, search) for part in parts)
    return runs.pack_cells(found, True, 1)


def _written(stack, search):
    return read_stack(stack_bytes(stack), search.network, search.dim, search.cell.walls)


def differences(seed, most_cells, dim, *, stores):
    """Return what differs, or None if there are too many cells."""
    _, _, model, domain = model_and_domain(seed, dim)
    rng, network = np.random.default_rng(seed), model.network
    engine = plane if dim == 2 else space
    whole = engine.explore(network, domain, max_cells=most_cells + 1)
    if whole.n_counted > most_cells:
        return None
    read = plane.read_planar_domain if dim == 2 else space.read_spatial_domain
    search = engine.search_domain(network, read(domain, dim))
    found = []
    for n_steps in (20, 100):
        found += different(whole, in_pieces(search, rng, n_steps))
    with short_jobs():
        found += different(whole, engine.explore(network, domain, workers=3))
        if stores and dim > 1:
            part = enumerate_regions(model, domain)
            with tempfile.TemporaryDirectory() as folder:
                stored = enumerate_regions(model, domain, store=folder, workers=seed % 3 + 1)
                found += different(whole, stored.cells)
                if stored.certificate().to_json() != part.certificate().to_json():
                    found.append("the certificate")
    return found


def main():
    """Compare the models of a range of seeds."""
    first, last, most_cells, dim = map(int, sys.argv[1:5])
    n_compared = n_different = 0
    for seed in range(first, last):
        found = differences(seed, most_cells, dim, stores=seed % 50 == 0)
        n_compared += found is not None
        if found:
            n_different += 1
            family, style, *_ = model_and_domain(seed, dim)
            print(f"seed {seed} ({family}, {style}): {', '.join(found)}", flush=True)
        if seed % 100 == 99 or seed + 1 == last:
            print(f"{n_compared} models compared, {n_different} differ", flush=True)


if __name__ == "__main__":
    main()
