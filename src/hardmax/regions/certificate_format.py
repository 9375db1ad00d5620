r"""Certificates of a partition as records and as files.

A certificate claims that a list of cells is complete for a model on a domain. It contains all the
data that a verifier needs to check this claim from the weights alone, and nothing that the verifier
must trust. The file is plain JSON (format: `docs/certificates.md`); reading it executes no code.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._ground.display import html_card, pluralize
from hardmax._ground.files import read_text, write_text
from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.typing import IntArray, WideArray

FORMAT = "hardmax.certificate/1"
TILING, REFUSALS = "tiling", "refusals"
_FIELDS = {
    "format",
    "model",
    "domain",
    "domain_fingerprint",
    "signatures",
    "witnesses",
    "completeness",
}
_JSON_SAFE = 1 << 53
_HEXADECIMAL = re.compile("-?0x[0-9a-fA-F]+")
_MOST_DIMENSIONS = 1 << 20
MOST_DOMAIN_BITS = 1 << 14
"""Maximum length of the integers of a domain. The hash uses decimal digits, and converting an
integer to decimal takes quadratic time."""

Proof = tuple[tuple[int, int], ...]
"""Pairs (row, multiplier): a positive combination of inequalities that is zero."""


@dataclass(frozen=True, eq=False)
class Certificate:
    r"""A proof that a list of signatures is the complete list of cells of a model on a domain.

    `Partition.certificate` makes a certificate and `verify_certificate` checks it. The domain is
    $\{x = (W^\top t + b) / q : \langle a_i, t\rangle \le b_i\}$, where all numbers except $t$ and
    $x$ are integers.

    Attributes:
        model: The fingerprint of the argmax network.
        chart: The rows $(W^\top, b)$, integers of shape `(dim_in, dim + 1)`.
        chart_denominator: The integer $q \ge 1$.
        rows: The rows $(a_i, b_i)$, integers of shape `(n_rows, dim + 1)`.
        domain_fingerprint: The fingerprint of the chart, its denominator and the rows.
        signatures: The cells, shape `(n_cells, n_groups)`.
        witnesses: Integers $(p, q)$ with $q > 0$ of shape `(n_cells, dim + 1)`, one row for each
            cell: the point $t = p / q$ lies in the interior of the cell.
        kind: The proof of completeness: `"tiling"` (the polygons of the cells fill the domain, in
            dimensions 1 and 2) or `"refusals"` (a proof that every missing branch of the search is
            empty, in any dimension).
        proofs: The refusal proofs, in the order of the search; empty for a tiling.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> certificate = part.certificate()
        >>> certificate.kind, certificate.n_cells, certificate.signatures.tolist()
        ('tiling', 4, [[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> Certificate.from_json(certificate.to_json()).n_cells
        4
    """

    model: str
    chart: WideArray
    chart_denominator: int
    rows: WideArray
    domain_fingerprint: str
    signatures: IntArray
    witnesses: WideArray
    kind: str
    proofs: tuple[Proof, ...] = ()

    _repr_html_ = html_card

    def __repr__(self) -> str:
        dim = self.chart.shape[1] - 1
        n_cells = pluralize(len(self.signatures), "cell")
        return f"Certificate({n_cells}, dimension {dim}, by {self.kind})"

    @property
    def n_cells(self) -> int:
        """The number of cells in the list."""
        return len(self.signatures)

    def subject(self) -> tuple[Any, ...]:
        """Return the data that all parts of a certificate share: all but the cells and proofs."""
        tables = [tuple(map(tuple, table.tolist())) for table in (self.chart, self.rows)]
        denominator, width = self.chart_denominator, self.signatures.shape[1]
        return self.model, self.domain_fingerprint, *tables, denominator, width, self.kind

    def to_json(self) -> str:
        """Return the certificate as JSON; integers of more than 53 bits become hexadecimal text."""
        completeness: dict[str, Any] = {"kind": self.kind}
        if self.kind == REFUSALS:
            completeness["proofs"] = [
                [[row, _written(multiplier)] for row, multiplier in proof] for proof in self.proofs
            ]
        content = {
            "format": FORMAT,
            "model": self.model,
            "domain": {
                "chart": _written_rows(self.chart),
                "chart_denominator": _written(self.chart_denominator),
                "dim": self.chart.shape[1] - 1,
                "rows": _written_rows(self.rows),
            },
            "domain_fingerprint": self.domain_fingerprint,
            "signatures": self.signatures.tolist(),
            "witnesses": _written_rows(self.witnesses),
            "completeness": completeness,
        }
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate from JSON text, written by `to_json` or by another program.

        This does not check that the certificate is correct; `verify_certificate` does.

        Raises:
            RecordFormatError: If the text is not a certificate in the current format.
        """
        content = parse_json(text, floats=False)
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        if found != FORMAT:
            raise RecordFormatError(
                f"`text` must be a certificate of format {FORMAT!r}; got {_shown(found)}."
            )
        _fields("certificate", content, _FIELDS)
        return _certificate(cls, content)

    @classmethod
    def joined(cls, parts: Iterable["Certificate"]) -> "Certificate":
        """Join parts of a certificate, given in any order, into one certificate.

        Raises:
            ArgumentError: If `parts` is empty, or if the parts differ in model, domain or kind.
        """
        own = sorted(parts, key=lambda part: part.signatures[:1].tolist())
        if not own or any(part.subject() != own[0].subject() for part in own):
            raise ArgumentError(
                "`parts` must contain at least one certificate, and all certificates must have the "
                "same model, domain and kind."
            )
        signatures = np.concatenate([part.signatures for part in own])
        witnesses = np.concatenate([part.witnesses for part in own])
        proofs = tuple(proof for part in own for proof in part.proofs)
        return replace(own[0], signatures=signatures, witnesses=witnesses, proofs=proofs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file; if writing fails, an existing file is unchanged."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certificate":
        """Read a certificate from a file written by `save`.

        Raises:
            RecordFormatError: If the file does not hold a certificate. The message names the file.
        """
        text = read_text(path)
        try:
            return cls.from_json(text)
        except RecordFormatError as error:
            raise RecordFormatError(
                f"`path` must be a file with a certificate; {path}: {error}"
            ) from None


def domain_fingerprint(chart: WideArray, chart_denominator: int, rows: WideArray) -> str:
    """Return a hash of the chart and the inequalities of a domain.

    Raises:
        ArgumentError: If an integer of the domain is longer than `MOST_DOMAIN_BITS`.
    """
    if has_long_integers(chart, chart_denominator, rows):
        raise ArgumentError(
            f"The integers that define `domain` must have at most {MOST_DOMAIN_BITS} bits for a "
            "certificate. Use coordinates of moderate size."
        )
    return fingerprint([chart, chart_denominator, rows])


def has_long_integers(chart: WideArray, chart_denominator: int, rows: WideArray) -> bool:
    """Return whether an integer of a domain is longer than `MOST_DOMAIN_BITS`."""
    integers = [chart_denominator, *chart.ravel().tolist(), *rows.ravel().tolist()]
    return any(integer.bit_length() > MOST_DOMAIN_BITS for integer in integers)


def integer_table(rows: list[list[int]], n_columns: int) -> WideArray:
    """Return rows of Python integers as an object array of shape `(n_rows, n_columns)`."""
    table = np.empty((len(rows), n_columns), dtype=object)
    for target, row in zip(table, rows, strict=True):
        target[:] = row
    table.setflags(write=False)
    return table


def _certificate(cls: type[Certificate], content: dict[str, Any]) -> Certificate:
    domain, completeness = content["domain"], content["completeness"]
    _fields("domain", domain, {"chart", "chart_denominator", "dim", "rows"})
    dim = domain["dim"]
    if type(dim) is not int or not 1 <= dim <= _MOST_DIMENSIONS:
        raise RecordFormatError(
            f"`dim` must be an integer from 1 to {_MOST_DIMENSIONS}; got {_shown(dim)}."
        )
    kind = completeness.get("kind") if isinstance(completeness, dict) else None
    if kind not in (TILING, REFUSALS):
        raise RecordFormatError(f"`kind` must be {TILING!r} or {REFUSALS!r}; got {_shown(kind)}.")
    _fields("completeness", completeness, {"kind"} | ({"proofs"} if kind == REFUSALS else set()))
    for name in ("model", "domain_fingerprint"):
        if not isinstance(content[name], str):
            raise RecordFormatError(f"`{name}` must be text; got {_shown(content[name])}.")
    denominator = _read("chart_denominator", domain["chart_denominator"])
    if denominator < 1:
        raise RecordFormatError(f"`chart_denominator` must be positive; got {_shown(denominator)}.")
    chart, rows = (_table(name, domain[name], dim + 1) for name in ("chart", "rows"))
    if has_long_integers(chart, denominator, rows):
        raise RecordFormatError(
            f"The integers of `domain` must have at most {MOST_DOMAIN_BITS} bits; one is longer."
        )
    return cls(
        model=content["model"],
        chart=chart,
        chart_denominator=denominator,
        rows=rows,
        domain_fingerprint=content["domain_fingerprint"],
        signatures=_signatures(content["signatures"]),
        witnesses=_table("witnesses", content["witnesses"], dim + 1),
        kind=kind,
        proofs=tuple(_proof(proof) for proof in _list("proofs", completeness.get("proofs", []))),
    )


def _signatures(given: Any) -> IntArray:
    rows = _list("signatures", given)
    width = len(_list("signatures[0]", rows[0])) if rows else 0
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            raise RecordFormatError(
                f"`signatures[{i}]` must list {width} winners, like `signatures[0]`; "
                f"got {_shown(row)}."
            )
        for entry in row:
            if type(entry) is not int or not 0 <= entry < _JSON_SAFE:
                raise RecordFormatError(
                    f"`signatures[{i}]` must list nonnegative integers; got {_shown(entry)}."
                )
    table = np.array(rows, dtype=np.int64).reshape(len(rows), width)
    table.setflags(write=False)
    return table


def _proof(given: Any) -> Proof:
    pairs = []
    for pair in _list("proof", given):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int:
            raise RecordFormatError(
                f"`proofs` must contain pairs of a row and a multiplier; got {_shown(pair)}."
            )
        pairs.append((_read("row", pair[0]), _read("multiplier", pair[1])))
    return tuple(pairs)


def _table(name: str, given: Any, n_columns: int) -> WideArray:
    rows = _list(name, given)
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != n_columns:
            raise RecordFormatError(
                f"`{name}[{i}]` must list {n_columns} integers; got {_shown(row)}."
            )
    return integer_table([[_read(name, entry) for entry in row] for row in rows], n_columns)


def _read(name: str, entry: Any) -> int:
    if type(entry) is int and -_JSON_SAFE < entry < _JSON_SAFE:
        return entry
    # `int` alone would also accept spaces, underscores and digits of other alphabets.
    if isinstance(entry, str) and _HEXADECIMAL.fullmatch(entry):
        return int(entry, 16)
    raise RecordFormatError(
        f"`{name}` must contain integers below 2**53 in absolute value, or hexadecimal text such "
        f"as '-0x1f'; got {_shown(entry)}."
    )


def _list(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise RecordFormatError(f"`{name}` must be a list; got {_shown(given)}.")
    return given


def _fields(name: str, content: Any, wanted: set[str]) -> None:
    found = set(content) if isinstance(content, dict) else None
    if found != wanted:
        shown = type(content).__name__ if found is None else _shown(sorted(found))
        raise RecordFormatError(f"`{name}` must have the fields {sorted(wanted)}; got {shown}.")


def _written_rows(table: WideArray) -> list[list[int | str]]:
    return [[_written(entry) for entry in row] for row in table.tolist()]


def _written(integer: int) -> int | str:
    return integer if -_JSON_SAFE < integer < _JSON_SAFE else hex(integer)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # The integer has too many digits for `repr`.
        text = f"a long {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
