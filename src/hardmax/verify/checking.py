r"""Check a certificate from the stored weights alone, in exact arithmetic.

The verifier shares no code with what enumerates cells. It reads the weights of the model and the
certificate, composes the layers itself (`composition`), and checks that every listed
cell has a rational point inside, and that no cell is missing: in one and two dimensions because the
cells' polygons tile the domain (`tiling`), in any dimension because every branch not
taken is refused by a proof (`refusals`).
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
from flint import fmpz_mat

from hardmax.display import html_card
from hardmax.errors import DtypeError
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.records import fingerprint
from hardmax.regions.certificate_format import (
    REFUSALS,
    TILING,
    Certificate,
    domain_fingerprint,
    integer_table,
)
from hardmax.verify._fast.composition import exact_network, integers_of
from hardmax.verify._fast.refusals import RefusedError, check_refusals
from hardmax.verify._fast.tiling import check_tiling
from hardmax.typing import IntArray, WideArray


@dataclass(frozen=True)
class Verdict:
    """What became of a certificate.

    Attributes:
        ok: Whether the certificate proves its claim: the listed cells are all cells.
        n_cells: The proved number of cells; 0 if nothing is proved.
        reason: Why it was refused; empty if it was not.
    """

    ok: bool
    n_cells: int
    reason: str = ""

    _repr_html_ = html_card

    def __bool__(self) -> bool:
        return self.ok


def verify_certificate(model: Any, certificate: Certificate, domain: Any = None) -> Verdict:
    """Decide whether a certificate proves what the cells of a model are.

    Args:
        model: The model, or its `ArgmaxNetwork`.
        certificate: The certificate. The claim is about the domain it names.
        domain: Refuse a certificate about any other domain than this one.

    Returns:
        A verdict; a wrong certificate is refused with the reason, whatever is wrong with it.

    Raises:
        DtypeError: If an argument is something else.

    Examples:
        >>> from hardmax.geometry.domains import Box
        >>> from hardmax.models.networks import ReluNetwork
        >>> from hardmax.regions.certificates import make_certificate
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> square = Box([-1, -1], [1, 1])
        >>> all_four = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> verify_certificate(net, make_certificate(net, square, all_four))
        Verdict(ok=True, n_cells=4, reason='')
        >>> verify_certificate(net, make_certificate(net, square, all_four[:3])).ok
        False
    """
    network = model if isinstance(model, ArgmaxNetwork) else getattr(model, "network", None)
    if not isinstance(network, ArgmaxNetwork):
        raise DtypeError(
            f"`model` must be a model or an ArgmaxNetwork; got {type(model).__name__}."
        )
    if not isinstance(certificate, Certificate):
        raise DtypeError(
            f"`certificate` must be a Certificate; got {type(certificate).__name__}. "
            "Certificate.load reads one from a file."
        )
    order: IntArray | None = None
    try:
        _check_shapes(network, certificate)
        if domain is not None and not is_domain_of(certificate, domain):
            raise RefusedError("the certificate is about another domain")
        order = _order(certificate.signatures)
        _check(network, certificate, order)
    except RefusedError as refusal:
        where = ""
        if refusal.cell is not None and order is not None:
            where = f"cell {order[refusal.cell]}: "
        return Verdict(False, 0, f"{where}{refusal}.")
    return Verdict(True, certificate.n_cells)


def is_domain_of(certificate: Certificate, domain: Any) -> bool:
    """Say whether a certificate is about a domain: the same chart and the same inequalities.

    Raises:
        DtypeError: If `domain` is not a domain.
    """
    rows = getattr(domain, "exact_rows", getattr(domain, "rows", None))
    if rows is None:
        raise DtypeError(f"`domain` must be a domain; got {type(domain).__name__}.")
    chart, scale = _given_chart(domain, rows.shape[1] - 1)
    unit = Fraction(1, certificate.chart_denominator)
    same_chart = [[scale * x for x in row] for row in chart] == [
        [unit * x for x in row] for row in certificate.chart.tolist()
    ]
    return same_chart and _half_spaces(rows) == _half_spaces(certificate.rows)


def _given_chart(domain: Any, dim: int) -> tuple[list[list[int]], Fraction]:
    """Return the chart of a domain, which is not rounded where it has an exact one."""
    forms, exact = getattr(domain, "coordinates", None), getattr(domain, "exact_chart", None)
    if forms is not None:
        scale = Fraction(2) ** forms.exponent / forms.denominator
        return [[int(x) for x in row] for row in forms.matrix.tolist()], scale
    if exact is not None:
        return exact.integers.tolist(), Fraction(2) ** exact.exponent
    if not hasattr(domain, "chart"):
        return np.eye(dim, dim + 1, dtype=np.int64).tolist(), Fraction(1)
    weight, bias = domain.chart
    chart, denominator = integers_of(np.column_stack([np.transpose(weight), bias]))
    return chart, Fraction(1, denominator)


def _half_spaces(rows: WideArray) -> set[tuple[int, ...]]:
    """Return inequalities without common factors, repeats, and those that always hold."""
    integers = [tuple(int(x) for x in row) for row in rows.tolist()]
    return {tuple(x // gcd(*row) for x in row) for row in integers if any(row[:-1]) or row[-1] < 0}


def _check(network: ArgmaxNetwork, certificate: Certificate, order: IntArray) -> None:
    signatures = np.ascontiguousarray(certificate.signatures[order], dtype=np.int64)
    table = certificate.witnesses.tolist()
    witnesses = [table[i] for i in order.tolist()]
    chart, rows = certificate.chart, certificate.rows
    denominator = certificate.chart_denominator
    if certificate.kind == TILING:
        if chart.shape[1] == 2:
            chart, rows, witnesses = as_strip(chart, rows, witnesses)
        domain = chart, denominator, rows
        check_tiling(network, domain, signatures, witnesses, (0, len(signatures)))
    else:
        exact = exact_network(network, chart, denominator)
        check_refusals(exact, rows, signatures, witnesses, certificate.proofs)


def _check_shapes(network: ArgmaxNetwork, certificate: Certificate) -> None:
    """Refuse what is not even a statement about this model."""
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
        if not is_table or not all(type(x) is int for x in table.ravel().tolist()):
            raise RefusedError(f"`{name}` is not a table of integers")
    dim = chart.shape[1] - 1
    denominator = certificate.chart_denominator
    if type(denominator) is not int or denominator < 1:
        raise RefusedError("`chart_denominator` is not a positive integer")
    if certificate.domain_fingerprint != domain_fingerprint(chart, denominator, rows):
        raise RefusedError("the domain is not the one the certificate was made for")
    if dim < 1 or chart.shape[0] != network.dim_in or rows.shape[1] != dim + 1:
        raise RefusedError(f"the domain does not lie in R^{network.dim_in}")
    if fmpz_mat(chart[:, :-1].tolist()).rank() < dim:
        raise RefusedError("the chart maps different coordinates to one point")
    if certificate.kind not in (TILING, REFUSALS) or (certificate.kind == TILING and dim > 2):
        raise RefusedError(f"{certificate.kind!r} shows nothing in dimension {dim}")
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
        raise RefusedError("no cell is listed")
    if n_groups != network.n_groups:
        raise RefusedError(f"signatures have {n_groups} entries, not {network.n_groups}")
    sizes = np.concatenate(
        [np.zeros(0, np.int64), *(np.diff(layer.starts) for layer in network.layers)]
    )
    outside = (signatures < 0) | (signatures >= sizes)
    if outside.any():
        cell, group = (int(i) for i in np.argwhere(outside)[0])
        raise RefusedError(
            f"cell {cell}: group {group} has {sizes[group]} forms, and none is number "
            f"{signatures[cell, group]}"
        )
    if witnesses.shape != (n_cells, dim + 1):
        raise RefusedError(f"there are {len(witnesses)} witnesses for {n_cells} cells")
    for cell, point in enumerate(witnesses):
        if point[-1] <= 0:
            raise RefusedError(f"cell {cell}: the witness has no positive denominator")


def _is_proof(proof: Any) -> bool:
    return isinstance(proof, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(type(x) is int for x in pair)
        for pair in proof
    )


def _order(signatures: IntArray) -> IntArray:
    """Return the lexicographic order; refuse a signature listed twice."""
    # Entries are not negative, so most significant bytes first compare as the numbers do.
    big_endian = np.min_scalar_type(signatures.max(initial=0)).newbyteorder(">")
    keys = [row.tobytes() for row in signatures.astype(big_endian)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for first, second in pairwise(order):
        if keys[first] == keys[second]:
            # Equal keys stay in the order of the cells.
            raise RefusedError(f"cells {first} and {second} are the same")
    return np.array(order)


def as_strip(
    chart: WideArray, rows: WideArray, witnesses: list[list[int]]
) -> tuple[WideArray, WideArray, list[list[int]]]:
    """Turn an interval into a strip of height 1: a second coordinate that no form depends on."""
    wide_chart = [[slope, 0, constant] for slope, constant in chart.tolist()]
    wide_rows = [[slope, 0, bound] for slope, bound in rows.tolist()]
    wide_rows += [[0, 1, 1], [0, -1, 0]]
    points = [[2 * p, q, 2 * q] for p, q in witnesses]
    return integer_table(wide_chart, 3), integer_table(wide_rows, 3), points
