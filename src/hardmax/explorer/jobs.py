"""Searches for the page: slice by slice, with progress reports and cancellation."""

import json
import struct
import time
from collections.abc import Callable
from ctypes import c_int32
from typing import Any, NamedTuple

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.explorer.plain_data import domain_from_data, model_from_data
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._plane.cells import PlaneCells
from hardmax.regions._search.plane import search_domain
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.runs import SLICE_S, Run, next_budget, pack_cells
from hardmax.regions._search.searches import BUDGET, CELL_LIMIT, DONE
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.verify.checking import verify_certificate

MOST_CELLS = 2_000_000
"""The maximum number of cells of a search."""
MOST_SECONDS = 300.0
"""The approximate time limit of a search."""
MOST_NUMBERS = 1_000_000
"""The maximum number of entries of a model."""
MOST_CERTIFIED = 20_000
"""The maximum number of cells of a certificate."""
MOST_DOMAIN_NUMBERS = 20_000
"""The maximum number of entries of a domain, including the directions of a plane."""


class SearchRequest(NamedTuple):
    """A request of the page: the cells of a network on a planar domain."""

    network: ArgmaxNetwork
    domain: Any


def parse_request(message: dict[str, Any]) -> SearchRequest:
    """Read a request of the page; the message is not trusted.

    Args:
        message: A mapping with `model` and `domain` as plain data, and optionally `depth`, the
            number of layers to keep.

    Raises:
        HardmaxError: If the request is malformed or too large.

    Examples:
        >>> net = {"kind": "ReluNetwork", "weights": [[[1.0], [2.0]], [[1.0]]],
        ...        "biases": [[0.0], [0.0]]}
        >>> parse_request({"model": net, "domain": {"plane": True}}).network.n_groups
        1
        >>> parse_request({"model": 3, "domain": {}})
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `model` must be an object; got int.
    """
    model, depth = message.get("model"), message.get("depth")
    if not isinstance(model, dict):
        raise ArgumentError(f"`model` must be an object; got {type(model).__name__}.")
    for name, most in (("model", MOST_NUMBERS), ("domain", MOST_DOMAIN_NUMBERS)):
        if _count_numbers(message.get(name), most) > most:
            raise ArgumentError(f"`{name}` must have at most {most} numbers; got more.")
    if depth is not None and (type(depth) is not int or depth < 0):
        raise ArgumentError(f"`depth` must be a nonnegative integer; got {depth!r:.60}.")
    network, domain = model_from_data(model), domain_from_data(message.get("domain"))
    if depth is not None and depth < len(network.layers):
        layers = network.layers[:depth]
        width = layers[-1].dim_out if layers else network.embedding.dim_out
        network = ArgmaxNetwork(layers, network.embedding, AffineMap.identity(width))
    charted(domain, network.dim_in)
    return SearchRequest(network, domain)


def _count_numbers(value: Any, most: int) -> int:
    """Count the entries of nested lists and objects; stop soon after `most`."""
    stack, count = [value], 0
    while stack and count <= most:
        one = stack.pop()
        if isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, list):
            stack += one
        else:
            count += 1
    return count


def find_cells(
    request: SearchRequest, is_cancelled: Callable[[], bool], report: Callable[[int], None]
) -> Partition | None:
    """Find all cells, up to the limits; return None if the search was cancelled.

    Args:
        request: The network and the domain.
        is_cancelled: Returns whether to cancel; called between slices.
        report: Called with the number of cells found so far.
    """
    network, domain = request
    where = search_domain(network, read_planar_domain(domain, network.dim_in))
    run = Run(where, None, c_int32(0), stores=True)
    budget, deadline = run.first_budget, time.monotonic() + MOST_SECONDS
    while True:
        began = time.perf_counter()
        status = run.run_slice(MOST_CELLS, budget)
        if status in (DONE, CELL_LIMIT) or time.monotonic() > deadline:
            cells = pack_cells([run], status == DONE, 1)
            charts = charted(domain, network.dim_in)
            return Partition(network, charts, PlaneCells(network, charts, cells), "planar")
        if status == BUDGET:
            budget = next_budget(budget, time.perf_counter() - began, SLICE_S)
        else:
            run.handle_stop(status)
        if is_cancelled():
            return None
        report(run.n_found)


def certify(request: SearchRequest) -> dict[str, Any]:
    """Make a certificate of all cells, and check it from its text and the weights only.

    Returns:
        The text of the certificate, whether it proves its claim, and the number of cells.

    Raises:
        ArgumentError: If there are too many cells.
    """
    network, domain = request
    part = enumerate_regions(network, domain, max_cells=MOST_CERTIFIED + 1)
    if part.n_found > MOST_CERTIFIED:
        raise ArgumentError(
            f"The page makes certificates for at most {MOST_CERTIFIED} cells; this model has more. "
            "Use `hardmax regions --certificate`."
        )
    text = part.certificate().to_json()
    verdict = verify_certificate(network, Certificate.from_json(text), domain)
    return {"certificate": text, "isProved": verdict.ok, "n": verdict.n_cells}


def encode_cells(number: int, part: Partition) -> bytes:
    """Encode cells for the page: the length of a JSON header, the header, and arrays."""
    cells = part.cells
    assert cells.vertices is not None
    assert cells.starts is not None
    assert cells.wall_names is not None
    assert cells.maps is not None
    assert cells.map_radii is not None
    signatures = cells.signatures
    is_short = signatures.dtype == np.uint8
    arrays = {
        "starts": cells.starts.astype("<i4"),
        "signatures": signatures if is_short else signatures.astype("<i4"),
        "maps": cells.maps.astype("<f8"),
        "radii": cells.map_radii.astype("<f4"),
        "points": cells.vertices.astype("<f8"),
        "walls": np.asarray(cells.wall_names.codes).astype("<i4"),
    }
    if cells.directions is not None:
        arrays["directions"] = cells.directions.astype("<f8")
    header = {
        "id": number,
        "n": part.n_found,
        "nGroups": part.network.n_groups,
        "isComplete": part.is_complete,
        "hasMeans": bool(cells.has_means),
        "arrays": [[name, array.dtype.str, array.size] for name, array in arrays.items()],
    }
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 4) % 8)
    body = b"".join(array.tobytes() + b"\0" * (-array.nbytes % 8) for array in arrays.values())
    return struct.pack("<I", len(text)) + text + body
