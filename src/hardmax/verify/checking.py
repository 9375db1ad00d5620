"""Check a certificate from the stored weights alone.

There are two verifiers, which must agree. `verify` is a single file in integers; it is the one to
trust. `_fast` makes the same checks with floats that have proven error bounds, and with integers
where these bounds leave a sign open. Neither runs code that enumerates cells or makes certificates.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from math import gcd
from operator import mul
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice
from hardmax._ground.display import html_card
from hardmax._ground.workers import Workers, n_workers
from hardmax.errors import DtypeError, SizeLimitError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.certificate_format import Certificate
from hardmax.typing import DomainLike, ModelLike, WideArray
from hardmax.verify import verify
from hardmax.verify._fast.certificates import check_certificate, check_shapes
from hardmax.verify._fast.composition import integers_of
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify.parts import Part, check_parts, load_part

_MOST_NUMBERS, _MOST_TIMES = 1 << 27, 64


@dataclass(frozen=True)
class Verdict:
    """The result of checking a certificate.

    Attributes:
        ok: Whether the certificate proves its claim that the listed cells are all cells.
        n_cells: The proven number of cells; 0 if nothing is proven.
        reason: The reason for a refusal; empty if the certificate was accepted.

    Examples:
        >>> bool(Verdict(True, 4)), Verdict(False, 0, "a cell is missing.").reason
        (True, 'a cell is missing.')
    """

    ok: bool
    n_cells: int
    reason: str = ""

    _repr_html_ = html_card

    def __bool__(self) -> bool:
        return self.ok


# The error bounds of the quick method allow for underflow.
@np.errstate(under="ignore")
def verify_certificate(
    model: ModelLike,
    certificate: Certificate | str | os.PathLike[str] | Sequence[Part],
    domain: DomainLike | None = None,
    *,
    method: str = "fast",
    workers: int | None = None,
    executor: Workers | None = None,
) -> Verdict:
    """Decide whether a certificate proves that the cells it lists are all cells of a model.

    Args:
        model: The model, as for `enumerate_regions`. The library, not the verifier, reads a file or
            a torch module before the check begins.
        certificate: The certificate or its file, or a list of the parts of a certificate or of
            their files, in any order. The claim is about the domain that the certificate states.
        domain: A domain or its text. A certificate about another domain is refused.
        method: `"fast"`, or `"integers"` for `hardmax.verify.verify`, which uses only integers and
            takes longer.
        workers: The number of processes that check a tiling or parts, if the method is `"fast"`
            (see `set_workers`).
        executor: Where parts are checked instead: any `concurrent.futures.Executor`, or the address
            of a Dask scheduler. It must be able to read the files.

    Returns:
        A verdict. A wrong certificate is refused with a reason, whatever is wrong with it.

    Raises:
        ArgumentError: If `method` or `workers` has an invalid value.
        DtypeError: If another argument has an unsupported type.
        RecordFormatError: If a file is not a certificate.
        SizeLimitError: If `method` is `"fast"` and its tables of the model would have more than
            2^27 numbers and more than 64 for each number of the model.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions import make_certificate
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> square = Box([-1, -1], [1, 1])
        >>> all_four = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> verify_certificate(net, make_certificate(net, square, all_four))
        Verdict(ok=True, n_cells=4, reason='')
        >>> verify_certificate(net, make_certificate(net, square, all_four[:3])).ok
        False
        >>> verify_certificate(net, make_certificate(net, square, all_four), method="integers").ok
        True
    """
    network = _read_network(model)
    domain = _read_domain(domain)
    choice("method", method, ("fast", "integers"))
    n_processes = n_workers(workers, executor)
    parts: list[Any] = [*certificate] if isinstance(certificate, list | tuple) else [certificate]
    readable = Certificate, str, os.PathLike
    if not parts or not all(isinstance(part, readable) for part in parts):
        wrong = next((part for part in parts if not isinstance(part, readable)), certificate)
        raise DtypeError(
            "`certificate` must be a Certificate, the path of its file, or a list of parts; got "
            f"{type(wrong).__name__}."
        )
    if method == "fast":
        _check_density(network)
    try:
        if len(parts) > 1 and method == "fast":
            is_meant = partial(_check_domain, domain=domain)
            return Verdict(True, check_parts(network, parts, is_meant, n_processes, executor))
        certificates = [load_part(part) for part in parts]
        for own in certificates:
            check_shapes(network, own)
        _check_domain(certificates[0], domain)
        if method == "fast":
            check_certificate(network, certificates[0], n_processes)
            return Verdict(True, certificates[0].n_cells)
        claims = [verify.read_certificate(own.to_json()) for own in certificates]
        integers = verify.network_of(stored_network(network))
        return Verdict(True, verify.check_claim(integers, verify.join_parts(claims)))
    except (RefusedError, verify.RefusedError) as refusal:
        cell = getattr(refusal, "cell", None)
        where = "" if cell is None else f"cell {cell}: "
        return Verdict(False, 0, f"{where}{refusal}.")


def _read_network(model: Any) -> ArgmaxNetwork:
    """Return the network of a model; files are read by the library's common reader."""
    network = model if isinstance(model, ArgmaxNetwork) else getattr(model, "network", None)
    if isinstance(network, ArgmaxNetwork):
        return network
    from hardmax.models.model_arguments import read_network

    return read_network(model)


def _read_domain(domain: Any) -> Any:
    """Return a domain, parsed if it is given as text, and checked if its class is unknown."""
    if domain is None or hasattr(domain, "coordinates"):
        return domain
    from hardmax.geometry.domain_text import read_checked_domain

    return read_checked_domain(domain)


def _check_domain(certificate: Certificate, domain: Any) -> None:
    """Refuse a certificate about a domain other than the given one, unless that is None."""
    if domain is not None and not is_domain_of(certificate, domain):
        raise RefusedError("the certificate is about another domain")


def _check_density(network: ArgmaxNetwork) -> None:
    """Refuse a model for which the fast verifier needs far more memory than the model itself.

    It stores the scores of a layer as forms of all inputs. An identity map has no matrix in a file,
    so the forms of `n` units on an identity have `n` squared numbers.
    """
    for layer in network.layers:
        n_stored = layer.slopes.size + (0 if layer.query.is_identity else layer.query.weight.size)
        n_dense = len(layer.offsets) * (layer.dim_in + 1)
        if n_dense > max(_MOST_NUMBERS, _MOST_TIMES * n_stored):
            raise SizeLimitError(
                f"The forms of a layer have {n_dense} coefficients as functions of its inputs, too "
                'many for `method="fast"`. Use `method="integers"`, which does not store zeros.'
            )


def stored_network(network: ArgmaxNetwork) -> dict[str, Any]:
    """Return a network in the form that `verify.network_of` takes: numbers in dictionaries."""
    layers = [_to_plain_data(layer) for layer in network.layers]
    maps = {"embedding": network.embedding, "readout": network.readout}
    stored = {k: _to_plain_data(v) for k, v in maps.items()}
    return {"": "ArgmaxNetwork", "layers": layers, **stored, "words": network.words}


def _to_plain_data(part: Any) -> Any:
    if isinstance(part, AffineMap):
        part = part.hashed_parts()
    elif isinstance(part, ArgmaxLayer):
        part = {"": "ArgmaxLayer", **{f.name: getattr(part, f.name) for f in fields(part)}}
    if isinstance(part, dict):
        return {name: _to_plain_data(value) for name, value in part.items()}
    if isinstance(part, np.ndarray):
        kind = "q" if part.dtype.kind == "i" else "d"
        return verify.Tensor(part.shape, part.ravel().tolist(), kind)
    return part


def is_domain_of(certificate: Certificate, domain: Any) -> bool:
    """Return whether a certificate is about a domain: the same chart and the same inequalities.

    Raises:
        DtypeError: If `domain` is not a domain.
    """
    domain = _read_domain(domain)
    rows = domain.exact_rows
    chart, scale = _compute_chart(domain)
    unit = Fraction(1, certificate.chart_denominator)
    same_chart = [[scale * x for x in row] for row in chart] == [
        [unit * x for x in row] for row in certificate.chart.tolist()
    ]
    return same_chart and _normalize_inequalities(rows) == _normalize_inequalities(certificate.rows)


def _compute_chart(domain: Any) -> tuple[list[list[int]], Fraction]:
    """Return the exact chart of a domain and its scale."""
    forms = getattr(domain, "coordinates", None)
    if forms is not None:
        scale = Fraction(2) ** forms.exponent / forms.denominator
        return [[int(x) for x in row] for row in forms.matrix.tolist()], scale
    maps = getattr(domain, "exact_chart", None) or (domain.chart,)
    if maps == (None,):
        return np.eye(domain.dim, domain.dim + 1, dtype=np.int64).tolist(), Fraction(1)
    chart: list[list[int]] = []
    denominator = 1
    for weight, bias in maps:
        rows, own = integers_of(np.column_stack([np.transpose(weight), bias]))
        if chart:
            constant = [0] * domain.dim + [denominator]
            columns = list(zip(*chart, constant, strict=True))
            rows = [[sum(map(mul, row, column)) for column in columns] for row in rows]
        chart, denominator = rows, denominator * own
    return chart, Fraction(1, denominator)


def _normalize_inequalities(rows: WideArray) -> set[tuple[int, ...]]:
    """Return inequalities without common factors, repetitions and trivially true ones."""
    integers = [tuple(int(x) for x in row) for row in rows.tolist()]
    return {tuple(x // gcd(*row) for x in row) for row in integers if any(row[:-1]) or row[-1] < 0}
