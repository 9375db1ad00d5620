"""What a user does with models and cells that come from files, within small limits."""

from contextlib import suppress

import numpy as np

import hardmax as hm
from hardmax.errors import HardmaxError, SizeLimitError
from hardmax.models.evaluation import forward
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.model_arguments import read_network
from hardmax.models.storage import model_bytes
from hardmax.regions.charted_domains import as_domain
from hardmax.regions.graph_partitions import GraphPartition
from hardmax.verify import verify
from tests.fuzz.trials import FalseClaimError

MOST_CELLS, MOST_SECONDS = 40, 0.3
WIDEST = 12
"""Models that read more coordinates are searched along segments alone."""

QUESTIONS = {
    "n_regions": lambda part, points: part.n_regions,
    "n_affine_maps": lambda part, points: part.n_affine_maps,
    "affine_maps": lambda part, points: part.affine_maps,
    "exact_map": lambda part, points: part.exact_map(0),
    "volumes": lambda part, points: (part.volumes, part.volume_radii),
    "exact_volumes": lambda part, points: part.exact_volumes,
    "witnesses": lambda part, points: part.witnesses,
    "chebyshev_centres": lambda part, points: part.chebyshev_centres,
    "neighbours": lambda part, points: part.neighbours,
    "locate": lambda part, points: part.locate(points),
    "polytope": lambda part, points: part.polytope(-1),
    "breakpoints": lambda part, points: part.breakpoints,
    "statistics": lambda part, points: part.statistics,
    "level_set": lambda part, points: hm.regions.level_set(part),
}

SHORT = ("n_affine_maps", "affine_maps", "exact_map", "witnesses", "locate")
"""Questions whose time does not grow fast with the dimension."""


def use_model(rng, model):
    """Evaluate a model, search it on a domain, ask about its cells, prove them and save it."""
    network = read_network(model) if isinstance(model, hm.AttentionHead) else model
    dim = network.dim_in
    generator = np.random.default_rng(rng.randrange(1000))
    points = generator.normal(size=(3, dim)) * rng.choice([1.0, 1.0, 1e-3, 1e6, 1e300])
    with suppress(HardmaxError):
        network(points) if callable(network) else forward(network, points)
    if not isinstance(model, GraphNetwork):
        content = model_bytes(model)
        if model_bytes(hm.models.storage.model_from_bytes(content, "again")) != content:
            raise FalseClaimError("a model that was saved and read is another one")
    if rng.random() < 0.3:
        with suppress(HardmaxError):
            hm.cell_at(model, points[0])
    with suppress(HardmaxError):
        search(rng, network, points)
    return "read"


def search(rng, model, points):
    """Search a model on a domain of some kind."""
    dim = points.shape[1]
    kinds = ["segment", "slice"] + ["box", "box", "space"] * (dim <= WIDEST)
    kind = rng.choice(kinds)
    if kind == "box":
        side = rng.choice([1.0, 1.0, 2.0**-40, 1e9])
        domain = hm.Box([-side] * dim, [side] * dim)
    elif kind == "space":
        domain = hm.WholeSpace(dim)
    elif kind == "segment":
        domain = hm.Segment(points[0], points[1])
    else:
        domain = hm.Slice(points[0], points[1:], hm.Box([-1, -1], [1, 1]))
    limits = {"max_cells": MOST_CELLS, "max_seconds": MOST_SECONDS}
    part = hm.enumerate_regions(model, domain, **limits)
    if isinstance(part, GraphPartition):
        part.n_cells, part.n_affine_maps, part.maps
        return
    if rng.random() < 0.2:
        hm.enumerate_regions(model, domain, count_only=True, **limits)
    if rng.random() < 0.1:
        part = hm.enumerate_regions(model, domain, exact=True, **limits)
    ask(rng, part)
    if check(part) is False:
        raise FalseClaimError("the certificate of a search is refused")


def ask(rng, part, n=3):
    """Ask a few questions; each may be refused."""
    names = [name for name in QUESTIONS if part.domain.dim <= 4 or name in SHORT]
    scale = rng.choice([1.0, 1.0, 1e-3, 1e300])
    points = np.random.default_rng(rng.randrange(1000)).normal(size=(5, part.domain.dim)) * scale
    for name in rng.sample(names, n):
        with suppress(HardmaxError):
            QUESTIONS[name](part, points)


def check(part):
    """Prove cells, and verify the proof in three ways; None if there is none.

    Raises:
        FalseClaimError: If the ways disagree, or if they accept other cells than a search finds.
    """
    if not part.is_complete or part.n_found > 4 * MOST_CELLS:
        return None
    try:
        certificate = part.certificate()
        is_fast = hm.verify_certificate(part.network, certificate).ok
    except SizeLimitError:
        return None
    answers = [is_fast, hm.verify_certificate(part.network, certificate, method="integers").ok]
    text = certificate.to_json()
    try:
        answers.append(verify.check(model_bytes(part.network), text.encode()) == part.n_found)
    except verify.RefusedError:
        answers.append(False)
    if len(set(answers)) != 1:
        raise FalseClaimError(f"the verifiers answer {answers}")
    if answers[0]:
        again = hm.enumerate_regions(part.network, as_domain(part.domain), max_seconds=5.0)
        if again.is_complete and sorted(again.signatures.tolist()) != sorted(
            part.signatures.tolist()
        ):
            raise FalseClaimError(
                "a certificate of other cells than those of the model is accepted"
            )
    return answers[0]
