"""The engine of the page against the library: the same cells, regions and maps."""

import hashlib
import json
import subprocess

import numpy as np

import hardmax as hm
from hardmax.explorer.plain_data import domain_data
from hardmax.regions._search import plane as planar
from tests.core.degenerate_models import model_and_domain
from tests.explorer.conftest import PAGE
from tests.sweeps import seeds

MOST_CELLS = 150
HARDEST_SEEDS = seeds(120)


def answers(node, engine, folder):
    command = [node, str(PAGE.parents[3] / "tests" / "explorer" / "count_cells.mjs")]
    done = subprocess.run([*command, str(PAGE), str(engine), str(folder)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def hash_of(cells):
    """Hash the stored floats of cells, and the codes of their walls."""
    found = hashlib.sha256()
    for array in (cells.vertices, cells.maps, cells.map_radii, cells.wall_names.codes):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def test_random_degenerate_models_have_the_same_cells_regions_and_maps(node, engine, tmp_path):
    items, wanted, hashes = [], [], []
    for seed in HARDEST_SEEDS:
        _, _, model, domain = model_and_domain(seed)
        counted = planar.explore(model.network, domain, count_only=True, max_cells=MOST_CELLS + 1)
        if counted.n_counted > MOST_CELLS:
            continue
        hm.save_model(model, tmp_path / f"{seed}.safetensors")
        items.append({"name": f"{seed}.safetensors", "domain": domain_data(domain, 2)})
        wanted.append(hm.enumerate_regions(model, domain))
        hashes.append(hash_of(planar.explore(model.network, domain)))
    (tmp_path / "domains.json").write_text(json.dumps(items))
    found = answers(node, engine, tmp_path)
    for item, answer, part, wanted_hash in zip(items, found, wanted, hashes, strict=True):
        counts = part.n_cells, part.n_regions, part.n_affine_maps
        assert (answer["n"], answer["nRegions"], answer["nMaps"]) == counts, item["name"]
        assert answer["signatures"] == part.signatures.astype(int).tolist(), item["name"]
        # Vertices, maps, radii and walls, bit for bit.
        assert answer["hash"] == wanted_hash, item["name"]
    assert len(wanted) > 100
    # What floats leave open is met often enough for the integers to be tried.
    assert sum(answer["nExact"] > 0 for answer in found) > 25
