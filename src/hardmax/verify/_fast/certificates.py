"""The fast verifier: check the shapes, then the witnesses, then that no cell is missing."""

from itertools import pairwise
from typing import Any

import numpy as np
from flint import fmpz_mat

from hardmax._ground.progress import track
from hardmax._ground.records import fingerprint
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import (
    MOST_DOMAIN_BITS,
    REFUSALS,
    TILING,
    Certificate,
    domain_fingerprint,
    has_long_integers,
    integer_table,
)
from hardmax.typing import IntArray, WideArray
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.refusals import RefusedError, check_refusals
from hardmax.verify._fast.shares import check_in_shares


def check_certificate(network: ArgmaxNetwork, certificate: Certificate, workers: int) -> None:
    """Check that a certificate proves its claim about a network.

    Args:
        network: The network.
        certificate: The certificate; its shapes must be correct (`check_shapes`).
        workers: The number of processes that check a tiling.

    Raises:
        RefusedError: If it does not; `cell` is the index of the cell in the certificate.
    """
    order = order_of(certificate.signatures)
    try:
        _check_claim(network, certificate, order, workers)
    except RefusedError as refusal:
        if refusal.cell is not None:
            refusal.cell = int(order[refusal.cell])
        raise


def _check_claim(
    network: ArgmaxNetwork, certificate: Certificate, order: IntArray, workers: int
) -> None:
    signatures = np.ascontiguousarray(certificate.signatures[order], dtype=np.int64)
    table = certificate.witnesses.tolist()
    witnesses = [table[i] for i in order.tolist()]
    chart, rows = certificate.chart, certificate.rows
    denominator = certificate.chart_denominator
    if certificate.kind == REFUSALS:
        exact = exact_network(network, chart, denominator)
        with track(iter(()), "cells", certificate.n_cells) as bar:
            proofs = certificate.proofs
            check_refusals(exact, rows, signatures, witnesses, proofs, advance=bar.advance)
        return
    if chart.shape[1] == 2:
        chart, rows, witnesses = as_strip(chart, rows, witnesses)
    check_in_shares((network, (chart, denominator, rows), signatures, witnesses), workers)


def check_shapes(network: ArgmaxNetwork, certificate: Certificate) -> None:
    """Refuse a certificate whose fields do not match the model; not even types are trusted.

    Raises:
        RefusedError: If a field has the wrong type, shape or value.
    """
    for name in ("model", "domain_fingerprint", "kind"):
        if not isinstance(getattr(certificate, name), str):
            raise RefusedError(f"`{name}` is not text")
    if not isinstance(certificate.proofs, tuple):
        raise RefusedError("`proofs` is not a tuple of proofs")
    if certificate.model != fingerprint(network):
        raise RefusedError("the certificate is about another model")
    chart, rows, witnesses = certificate.chart, certificate.rows, certificate.witnesses
    for name, table in (("chart", chart), ("rows", rows), ("witnesses", witnesses)):
        is_table = isinstance(table, np.ndarray) and table.ndim == 2
        if not is_table or not {*map(type, table.ravel().tolist())} <= {int}:
            raise RefusedError(f"`{name}` is not a table of integers")
    dim = chart.shape[1] - 1
    denominator = certificate.chart_denominator
    if type(denominator) is not int or denominator < 1:
        raise RefusedError("`chart_denominator` is not a positive integer")
    if has_long_integers(chart, denominator, rows):
        raise RefusedError(f"the domain has an integer of more than {MOST_DOMAIN_BITS} bits")
    if certificate.domain_fingerprint != domain_fingerprint(chart, denominator, rows):
        raise RefusedError("the domain does not match `domain_fingerprint`")
    if dim < 1 or chart.shape[0] != network.dim_in or rows.shape[1] != dim + 1:
        raise RefusedError(f"the domain does not lie in R^{network.dim_in}")
    if fmpz_mat(chart[:, :-1].tolist()).rank() < dim:
        raise RefusedError("the chart is not injective")
    if certificate.kind not in (TILING, REFUSALS) or (certificate.kind == TILING and dim > 2):
        raise RefusedError(f"a proof by {certificate.kind!r} proves nothing in dimension {dim}")
    if certificate.kind == TILING and certificate.proofs:
        raise RefusedError("a tiling has no proofs")
    if not all(_is_proof(proof) for proof in certificate.proofs):
        raise RefusedError("a proof is not a list of pairs of integers")
    signatures = certificate.signatures
    is_table = isinstance(signatures, np.ndarray) and signatures.ndim == 2
    if not is_table or signatures.dtype.kind not in "iu":
        raise RefusedError("`signatures` is not a table of indices")
    n_cells, n_groups = signatures.shape
    if n_cells == 0:
        raise RefusedError("the certificate lists no cells")
    if n_groups != network.n_groups:
        raise RefusedError(f"signatures have {n_groups} entries, not {network.n_groups}")
    sizes = np.concatenate(
        [np.zeros(0, np.int64), *(np.diff(layer.starts) for layer in network.layers)]
    )
    outside = (signatures < 0) | (signatures >= sizes)
    if outside.any():
        cell, column = (int(i) for i in np.argwhere(outside)[0])
        place = next(place for place in network.places if column < place.groups.stop)
        words, n = network.words[place.depth], int(sizes[column])
        raise RefusedError(
            f"cell {cell}: {words.name(column - place.groups.start)} has {n} {words.form}"
            f"{'s' * (n != 1)}, so {words.form} {signatures[cell, column]} does not exist"
        )
    if witnesses.shape != (n_cells, dim + 1):
        raise RefusedError(f"there are {len(witnesses)} witnesses for {n_cells} cells")
    for cell, weight in enumerate(witnesses[:, -1].tolist()):
        if weight <= 0:
            raise RefusedError(f"cell {cell}: the denominator of the witness is not positive")


def _is_proof(proof: Any) -> bool:
    return isinstance(proof, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(type(x) is int for x in pair)
        for pair in proof
    )


def order_of(signatures: IntArray) -> IntArray:
    """Return the lexicographic order of signatures; refuse repeated signatures."""
    # The entries are nonnegative, so big-endian bytes compare like the numbers.
    big_endian = np.min_scalar_type(signatures.max(initial=0)).newbyteorder(">")
    keys = [row.tobytes() for row in signatures.astype(big_endian)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for first, second in pairwise(order):
        if keys[first] == keys[second]:
            # The sort is stable, so equal keys keep the order of the cells.
            raise RefusedError(f"cells {first} and {second} have the same signature")
    return np.array(order)


def as_strip(
    chart: WideArray, rows: WideArray, witnesses: list[list[int]]
) -> tuple[WideArray, WideArray, list[list[int]]]:
    """Turn an interval into a strip of height 1; no form depends on the second coordinate."""
    wide_chart = [[slope, 0, constant] for slope, constant in chart.tolist()]
    wide_rows = [[slope, 0, bound] for slope, bound in rows.tolist()]
    wide_rows += [[0, 1, 1], [0, -1, 0]]
    points = [[2 * p, q, 2 * q] for p, q in witnesses]
    return integer_table(wide_chart, 3), integer_table(wide_rows, 3), points
