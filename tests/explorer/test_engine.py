"""The engine of the page, compared with the library: the same cells, regions and maps."""

import base64
import hashlib
import json
import subprocess

import numpy as np

import hardmax as hm
from hardmax.explorer.plain_data import domain_to_data, model_to_data
from hardmax.regions._search import plane as planar
from hardmax.verify import verify
from tests.core.degenerate_models import model_and_domain
from tests.explorer.conftest import PAGE
from tests.models.test_layer_words import MODELS
from tests.sweeps import seeds

MOST_CELLS = 150
HARDEST_SEEDS = seeds(240)
CERTIFIED_SEEDS = range(160, 174)


def answers(node, engine, folder, script="count_cells.mjs"):
    command = [node, str(PAGE.parents[3] / "tests" / "explorer" / script)]
    done = subprocess.run([*command, str(PAGE), str(engine), str(folder)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def hash_of(cells):
    """Hash the stored floats of cells, and the codes of their walls."""
    found = hashlib.sha256()
    for array in (cells.vertices, cells.maps, cells.map_radii, cells.wall_names.codes):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def test_the_engine_refuses_networks_with_sizes_and_indices_that_are_not_there(node, engine):
    searched, *refused = answers(node, engine, "", "refuse_networks.mjs")
    assert searched == "searched"
    assert set(refused) == {"A size or an index of the model is out of range."}


def models_in(folder, seeds, most_cells):
    """Write degenerate models with few cells to a folder; return them with their domains."""
    items, chosen = [], []
    for seed in seeds:
        _, _, model, domain = model_and_domain(seed)
        counted = planar.explore(model.network, domain, count_only=True, max_cells=most_cells + 1)
        if counted.n_counted > most_cells:
            continue
        hm.save_model(model, folder / f"{seed}.safetensors")
        items.append({"name": f"{seed}.safetensors", "domain": domain_to_data(domain, 2)})
        chosen.append((model, domain))
    (folder / "domains.json").write_text(json.dumps(items))
    return items, chosen


def test_random_degenerate_models_have_the_same_cells_regions_and_maps(node, engine, tmp_path):
    items, chosen = models_in(tmp_path, HARDEST_SEEDS, MOST_CELLS)
    wanted = [hm.enumerate_regions(model, domain) for model, domain in chosen]
    hashes = [hash_of(part.cells) for part in wanted]
    found = answers(node, engine, tmp_path)
    for item, answer, part, wanted_hash in zip(items, found, wanted, hashes, strict=True):
        counts = part.n_cells, part.n_regions, part.n_affine_maps
        assert (answer["n"], answer["nRegions"], answer["nMaps"]) == counts, item["name"]
        assert answer["signatures"] == part.signatures.astype(int).tolist(), item["name"]
        # Vertices, maps, radii and walls, bit for bit.
        assert answer["hash"] == wanted_hash, item["name"]
    assert len(wanted) > 220
    # Undecided signs are frequent enough to test the integer code.
    assert sum(answer["nExact"] > 0 for answer in found) > 60


def verdict(model, text):
    """Return the verdict of the library's verifier: the number of cells, or None."""
    try:
        return verify.check(model, text)
    except verify.RefusedError:
        return None


def test_the_page_and_the_library_agree_on_certificates_and_on_spoiled_ones(node, engine, tmp_path):
    items, chosen = models_in(tmp_path, CERTIFIED_SEEDS, 40)
    found = answers(node, engine, tmp_path, "make_certificates.mjs")
    by_name = {item["name"]: pair for item, pair in zip(items, chosen, strict=True)}
    n_refused = 0
    for one in found:
        stored = (tmp_path / f"{one['name']}.network").read_bytes()
        model = base64.b64decode(one["model"]) if "model" in one else stored
        assert verdict(model, one["text"]) == one.get("n"), (one["name"], one["how"])
        n_refused += "n" not in one
        if one["how"] == "true":
            # The certificate is about the library's model and domain.
            claim, pair = hm.Certificate.from_json(one["text"]), by_name[one["name"]]
            assert hm.verify_certificate(pair[0], claim, pair[1]).n_cells == one["n"]
    assert len(items) > 8
    # One of each is valid; a changed winner or witness may be valid by chance.
    assert n_refused > 0.8 * len(found)


def test_the_page_has_the_words_of_the_library(node, engine, tmp_path):
    wanted = {}
    for name, model in MODELS.items():
        network = (
            model.network
            if hasattr(model, "network")
            else hm.HardTransformer([hm.Block([model], attention_residual=False)]).network
        )
        words = [[words.title, words.name(1)] for words in network.words]
        hm.save_model(model, tmp_path / f"{name}.safetensors")
        wanted[f"{name}.safetensors"] = words
        # A network passed to the page in memory includes its words.
        for kind, data in (("model", model_to_data(model)), ("network", model_to_data(network))):
            (tmp_path / f"{name}.{kind}.json").write_text(json.dumps(data))
            wanted[f"{name}.{kind}.json"] = words
    assert answers(node, engine, tmp_path, "list_words.mjs") == wanted
