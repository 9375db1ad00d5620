r"""Check a certificate with one file, the standard library and integer arithmetic.

    python verify.py MODEL CERTIFICATE

MODEL is a file written by `hm.save_model`. CERTIFICATE is a file written by `Certificate.save`, or
several files: the parts of a certificate. The exit status is 0 if the certificate proves its claim,
1 if it does not, and 2 if a file cannot be read. The verifier neither needs nor uses any other part
of the library, does no floating-point arithmetic, and trusts nothing in the certificate.
`docs/certificates.md` describes every field of the files, and everything that is refused.

The claim
---------
A layer maps z to q = z W + b. In each of its groups, affine forms of q, the scores, compete, and
the largest wins. A winner with gain g, score s and value v adds (g s, 0, ..., 0) + v to a block of
y. The layer returns y W' + b', plus z if it is residual. The domain is the set of
x = (A t + b) / q with <a_i, t> <= b_i. If the winners of the earlier layers are known, scores are
affine forms of t. Forms of one group that are the same form of t *coincide*: the signature records
the first of them, and the group contributes their mean. The *cell* of a signature (one winner for
every group of every layer) is the open convex set of all t in the interior of the domain at which
every winner is strictly larger than all forms that do not coincide with it. The certificate claims
that the listed signatures are exactly those whose cell is nonempty.

Theorem. The claim is true if the following checks succeed.

1. *Every listed cell is a cell* (`_check_winners`). Each winner is the first of the forms that
   coincide with it, and at the cell's witness, a rational point in the interior of the domain, it
   is strictly larger than all others. So the cell is nonempty. Since no signature is listed twice,
   the listed cells are disjoint.

2. *No cell is missing*. This is shown in one of two ways.

   Tiling (dimension 2; an interval is treated as its product with [0, 1]). The plane is the union
   of four quadrants. In homogeneous coordinates (x, y, w) with w >= 0, each quadrant is the cone
   over a triangle with the corners (0, 0, 1), (+-1, 0, 0) and (0, +-1, 0), and the part of the
   domain in it is the cone over a convex polygon. An affine form is nonnegative on a polygon if it
   is nonnegative at its corners. Start with these polygons and all listed signatures, and process
   the groups from first to last. Cut a polygon P into the parts P_j on which j is the largest of
   the winners that the current signatures list. At every point, some listed winner is the largest,
   so the parts cover P. Check that no other form of the group is larger than j at the corners of
   P_j. Then no other form is larger than j anywhere on P_j, and j wins there. Continue with P_j and
   the signatures that list j. In this way, every point of the domain that lies on no wall reaches a
   signature with all its winners, so its cell is listed (`_check_tiling`).

   Refusals (any dimension). The listed signatures form a tree, split group by group. At each node,
   every form that does not occur in a listed signature below is refused by a proof: positive
   multiples of inequalities that would hold strictly where the form wins, and whose sum is zero. At
   a point of such a cell the sum would be positive, so there is no such cell (`_check_refusals`).
   Every nonempty cell can be followed down the tree. It never meets a refused form, so it arrives
   at a listed cell with the same winners everywhere.

Arithmetic
----------
A float64 is an integer divided by a power of two. A list of affine forms f_1, ..., f_n of t is
stored as an integer matrix with the rows q f_1, ..., q f_n (the constant last) and then the row
(0, ..., 0, q) of the constant 1, for some q >= 1. An affine map z W + b is stored as such a matrix,
too, which acts from the left. The only operations are products, sums, and division by common
factors.
"""

import hashlib
import json
import re
import struct
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from math import gcd, isfinite, lcm, prod
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

CERTIFICATE_FORMATS = ("hardmax.certificate/1",)
MODEL_FORMATS = ("hardmax.model/1", "hardmax.model/2")

MOST_HEADER_BYTES = 100_000_000
MOST_DIMENSIONS = 1 << 20
MOST_DOMAIN_BITS = 1 << 14
MOST_PADDING = 64
JSON_SAFE = 1 << 53
"""The bound on the absolute value of JSON numbers; larger integers are hexadecimal text."""

Row = list[int]
Point = tuple[int, ...]
Terms = list[tuple[int, int]]
"""A row of a matrix without its zeros, as pairs (column, entry)."""
Words = tuple[str, str, str]
"""The names of a layer, its groups and their forms, such as ("block 0", "head", "key")."""


class RefusedError(Exception):
    """The certificate does not prove its claim."""


class UnreadableError(RefusedError):
    """A file cannot be read, or is not of the required format."""


def check(model: bytes, *certificate: bytes | str) -> int:
    """Check a certificate, and return the number of cells that it proves.

    Args:
        model: The content of a model file.
        certificate: The content of a certificate file, or of the files of its parts.

    Raises:
        UnreadableError: If a file does not have the required format.
        RefusedError: If the certificate does not prove its claim about the model.
    """
    network = read_model(model)
    claims, refusals = [], []
    for text in certificate:
        try:
            claims.append(read_certificate(text))
        except UnreadableError:
            raise
        except RefusedError as refusal:
            # Another part may be unreadable, and that error takes precedence.
            refusals.append(refusal)
    if refusals:
        raise refusals[0]
    return check_claim(network, join_parts(claims))


def check_claim(network: "Network", claim: "Claim") -> int:
    """Check the claim of a certificate about a network; return the number of cells."""
    if claim.model != network.fingerprint:
        raise RefusedError("the certificate is about another model")
    _check_shapes(network, claim)
    if claim.proofs is None:
        _check_tiling(network, _as_strip(claim) if claim.dim == 1 else claim)
    else:
        _check_refusals(network, claim, claim.proofs)
    return len(claim.signatures)


# The certificate.


class Claim(NamedTuple):
    """The claim of a certificate.

    Attributes:
        model: The `fingerprint` of the model.
        dim: The dimension of t.
        chart: Integer rows (A, b), one for each coordinate of x.
        denominator: The denominator q.
        rows: Integer rows (-a_i, b_i), positive at (t, 1) in the interior of the domain.
        signatures: The cells, in lexicographic order.
        witnesses: For each cell, integers (p, r) with r > 0, which stand for the point p / r.
        proofs: The proofs of each part, for a certificate by refusals; None for a tiling.
        ends: The number of cells up to the end of each part.
        is_ordered: Whether the file lists the cells in lexicographic order.
    """

    model: str
    dim: int
    chart: list[Row]
    denominator: int
    rows: list[Row]
    signatures: list[Row]
    witnesses: list[Row]
    proofs: list[list[Terms]] | None
    ends: list[int]
    is_ordered: bool


def join_parts(parts: Sequence[Claim]) -> Claim:
    """Join the parts of a certificate; a single part is a whole certificate.

    Raises:
        RefusedError: If the parts have different models, domains or kinds, or list cells out of
            order, twice, or between two cells of another part.
    """
    if not parts:
        raise RefusedError("the certificate has no parts")
    if len(parts) == 1:
        return parts[0]
    if not all(part.signatures for part in parts):
        raise RefusedError("a part lists no cells")
    parts = sorted(parts, key=lambda part: part.signatures[0])
    for part in parts:
        if _shared_fields(part) != _shared_fields(parts[0]):
            raise RefusedError("the parts are about different models or domains")
        if not part.is_ordered:
            raise RefusedError("the cells of a part must be in lexicographic order")
    for one, other in pairwise(parts):
        if one.signatures[-1] >= other.signatures[0]:
            raise RefusedError("two parts overlap, or list the same cell")
    return parts[0]._replace(
        signatures=[signature for part in parts for signature in part.signatures],
        witnesses=[witness for part in parts for witness in part.witnesses],
        proofs=None
        if parts[0].proofs is None
        else [proofs for part in parts for proofs in part.proofs or ()],
        ends=[*accumulate(len(part.signatures) for part in parts)],
    )


def _shared_fields(claim: Claim) -> tuple[Any, ...]:
    """Return the fields that all parts of a certificate must share."""
    return *claim[: Claim._fields.index("signatures")], claim.proofs is None


def read_certificate(text: bytes | str) -> Claim:
    """Read a certificate: JSON without fractions, in which long integers are hexadecimal text."""
    content = _parse_json(text, "the certificate")
    if _get_field(content, "format", str) not in CERTIFICATE_FORMATS:
        raise UnreadableError(f"the format of the certificate must be in {CERTIFICATE_FORMATS}")
    domain, completeness = (
        _get_field(content, "domain", dict),
        _get_field(content, "completeness", dict),
    )
    kind = _get_field(completeness, "kind", str)
    if kind not in ("tiling", "refusals"):
        raise UnreadableError("`kind` must be 'tiling' or 'refusals'")
    fields = {"format", "model", "domain", "domain_fingerprint", "signatures", "witnesses"}
    _require_fields(content, fields | {"completeness"})
    _require_fields(domain, {"dim", "chart", "chart_denominator", "rows"})
    _require_fields(completeness, {"kind", "proofs"} if kind == "refusals" else {"kind"})
    dim = _get_field(domain, "dim", int)
    if not 1 <= dim <= MOST_DIMENSIONS:
        raise UnreadableError(f"`dim` must be from 1 to {MOST_DIMENSIONS}")
    chart, rows = _read_table(domain, "chart", dim + 1), _read_table(domain, "rows", dim + 1)
    denominator = _read_integer(domain["chart_denominator"])
    if denominator < 1:
        raise UnreadableError("`chart_denominator` must be positive")
    if any(x.bit_length() > MOST_DOMAIN_BITS for x in chain([denominator], *chart, *rows)):
        raise UnreadableError(f"integers of the domain must have at most {MOST_DOMAIN_BITS} bits")
    signatures = [
        [_read_index(winner) for winner in _read_list(row)]
        for row in _get_field(content, "signatures", list)
    ]
    if len({len(signature) for signature in signatures}) > 1:
        raise UnreadableError("`signatures` must list the same number of winners for each cell")
    witnesses = _read_table(content, "witnesses", dim + 1)
    proofs = None
    if kind == "refusals":
        proofs = [
            [_read_pair(pair) for pair in _read_list(proof)]
            for proof in _get_field(completeness, "proofs", list)
        ]
    model, domain_hash = (
        _get_field(content, "model", str),
        _get_field(content, "domain_fingerprint", str),
    )
    tables = [Tensor((len(table), dim + 1), table, "O") for table in (chart, rows)]
    if domain_hash != fingerprint([tables[0], denominator, tables[1]]):
        raise RefusedError("the domain does not match `domain_fingerprint`")
    if len(witnesses) != len(signatures):
        raise RefusedError(f"there are {len(witnesses)} witnesses for {len(signatures)} cells")
    order = sorted(range(len(signatures)), key=signatures.__getitem__)
    return Claim(
        model=model,
        dim=dim,
        chart=chart,
        denominator=denominator,
        rows=[[-x for x in row[:-1]] + row[-1:] for row in rows],
        signatures=[signatures[i] for i in order],
        witnesses=[witnesses[i] for i in order],
        proofs=None if proofs is None else [proofs],
        ends=[len(signatures)],
        is_ordered=order == [*range(len(signatures))],
    )


def _parse_json(text: bytes | str, what: str, integer: Callable[[str], int] = int) -> Any:
    """Read JSON with valid characters, without fractions and without repeated names."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word:.60} is not an integer")

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("an object has a repeated name")
        return dict(pairs)

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = json.loads(
            text,
            parse_int=integer,
            parse_float=refuse,
            parse_constant=refuse,
            object_pairs_hook=without_repeats,
        )
        todo = [value]
        while todo:
            entry = todo.pop()
            if type(entry) is str:
                # JSON can spell half of a surrogate pair, which is not a character.
                entry.encode("utf-8")
            elif type(entry) is list:
                todo += entry
            elif type(entry) is dict:
                todo += [*entry, *entry.values()]
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{what} must be JSON: {error}") from None
    return value


def _parse_natural(word: str) -> int:
    if word.startswith("-"):
        raise ValueError(f"{word:.60} is negative")
    return int(word)


def _get_field(content: Any, name: str, kind: type) -> Any:
    """Return a field of one exact type."""
    value = content.get(name) if isinstance(content, dict) else None
    if type(value) is not kind:
        raise UnreadableError(f"`{name}` is missing or not of type {kind.__name__}")
    return value


def _require_fields(content: Any, names: set[str]) -> None:
    if type(content) is not dict:
        raise UnreadableError(f"an object with the fields {sorted(names)} is required")
    if set(content) != names:
        raise UnreadableError(f"the fields must be {sorted(names)}; got {sorted(content)!s:.200}")


def _read_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise UnreadableError(f"a list is required; got {type(value).__name__}")
    return value


def _read_integer(entry: Any) -> int:
    if type(entry) is int and -JSON_SAFE < entry < JSON_SAFE:
        return entry
    if type(entry) is str and re.fullmatch("-?0x[0-9a-fA-F]+", entry):
        return int(entry, 16)
    raise UnreadableError(
        "an integer must be a number below 2**53 in absolute value, or hexadecimal text like -0x1f"
    )


def _read_index(entry: Any) -> int:
    if type(entry) is not int or not 0 <= entry < JSON_SAFE:
        raise UnreadableError("`signatures` must contain indices below 2**53")
    return entry


def _read_table(content: dict[str, Any], name: str, n_columns: int) -> list[Row]:
    table = [
        [_read_integer(entry) for entry in _read_list(row)]
        for row in _get_field(content, name, list)
    ]
    if any(len(row) != n_columns for row in table):
        raise UnreadableError(f"`{name}` must have rows of {n_columns} integers")
    return table


def _read_pair(pair: Any) -> tuple[int, int]:
    if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not int:
        raise UnreadableError("a proof must be a list of pairs (row, multiplier)")
    return _read_integer(pair[0]), _read_integer(pair[1])


# The model. Every kind of model is a network of argmax layers. A file contains these layers, or
# weights from which they are assembled. The stored layers have float entries, and the fingerprint
# is computed from them. Afterwards they are converted to integers.


class Tensor(NamedTuple):
    """An array.

    Attributes:
        shape: The shape.
        numbers: The entries, row by row; for a table of arbitrary integers, the rows.
        kind: "d" for float64, "q" for int64, "O" for arbitrary integers.
    """

    shape: tuple[int, ...]
    numbers: Sequence[Any]
    kind: str = "d"

    def rows(self) -> list[Sequence[Any]]:
        """The rows of a matrix."""
        n = self.shape[1]
        return [self.numbers[i * n : (i + 1) * n] for i in range(self.shape[0])]

    def columns(self) -> list[Sequence[Any]]:
        """The columns of a matrix."""
        return [self.numbers[i :: self.shape[1]] for i in range(self.shape[1])]


def fingerprint(parts: Any) -> str:
    """Hash tensors, numbers and text, nested in lists and dictionaries."""
    digest = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, dict):
            digest.update(f"map {len(value)};".encode())
            for name in sorted(value):
                feed(name)
                feed(value[name])
        elif isinstance(value, Tensor):
            kind = {"d": "<f8", "q": "<i8", "O": "O"}[value.kind]
            digest.update(f"array {kind} {value.shape};".encode())
            if value.kind == "O":
                feed([entry for row in value.numbers for entry in row])
            else:
                digest.update(struct.pack(f"<{len(value.numbers)}{value.kind}", *value.numbers))
        elif isinstance(value, list):
            digest.update(f"list {len(value)};".encode())
            for item in value:
                feed(item)
        else:
            text = _to_decimal(value) if type(value) is int else str(value)
            digest.update(f"{type(value).__name__} {len(text)} {text};".encode())

    feed(parts)
    return digest.hexdigest()


def _to_decimal(integer: int) -> str:
    """Write an integer in decimal digits, even if it is too long for `str`."""
    pieces, rest = [], abs(integer)
    while rest >= 10**500:
        rest, piece = divmod(rest, 10**500)
        pieces.append(f"{piece:0500d}")
    return "-" * (integer < 0) + "".join([str(rest), *reversed(pieces)])


class Tensors:
    """The tensors of a file; each is taken once, by its name and shape."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._left = tensors
        self.n_numbers = sum(len(tensor.numbers) for tensor in tensors.values())

    def content_hash(self, fields: dict[str, Any]) -> str:
        """Hash the tensors and the fields of the metadata, except for the stored hash."""
        return fingerprint([json.dumps(fields, sort_keys=True), self._left])

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, *shape: int | None, masks: bool = False) -> Tensor:
        """Take a tensor of the given shape, in which None stands for any positive number."""
        tensor = self._left.pop(name, None)
        if tensor is None:
            raise UnreadableError(f"the tensor `{name:.60}` is missing")
        sizes = [n or max(1, m) for n, m in zip(shape, tensor.shape, strict=False)]
        if list(tensor.shape) != sizes or len(shape) != len(sizes):
            raise UnreadableError(f"the tensor `{name:.60}` has the shape {tensor.shape!s:.60}")
        if not all(isfinite(x) or (masks and x < 0) for x in tensor.numbers):
            raise UnreadableError(f"the tensor `{name:.60}` has an entry that is not finite")
        return tensor


def read_model(content: bytes) -> "Network":
    """Read a model file: safetensors, whose metadata describes the structure of the model."""
    text, tensors = _read_tensors(content)
    fields = _parse_json(text, "the metadata of the model")
    if type(fields) is not dict:
        raise UnreadableError("the metadata of the model must be an object")
    if _get_field(fields, "format", str) not in MODEL_FORMATS:
        raise UnreadableError(
            f"the format of the model must be in {MODEL_FORMATS}; "
            "`hm.save_model(model.network, path)` writes any model in such a format"
        )
    kind = _get_field(fields, "kind", str)
    if kind not in _KINDS:
        raise UnreadableError(f"the kind of the model must be one of {sorted(_KINDS)}")
    if not fields["format"].endswith("/1"):
        found = _get_field(fields, "content", str)
        del fields["content"]
        if found != tensors.content_hash(fields):
            raise UnreadableError("the model was modified: its hash `content` does not match")
    del fields["format"], fields["kind"]
    stored = _KINDS[kind](fields, tensors)
    if len(tensors):
        raise UnreadableError("the model file has unknown tensors")
    return network_of(stored)


def _read_tensors(content: bytes) -> tuple[str, Tensors]:
    """Split a safetensors file into the text of its metadata and its tensors."""
    n = int.from_bytes(content[:8], "little")
    if len(content) < 8 or n > min(len(content) - 8, MOST_HEADER_BYTES) or content[8:9] != b"{":
        raise UnreadableError("the model is not a safetensors file")
    header, data = (
        _parse_json(content[8 : 8 + n], "the header of the model", _parse_natural),
        content[8 + n :],
    )
    metadata = _get_field(header, "__metadata__", dict)
    text = _get_field(metadata, "hardmax", str)
    if not all(type(entry) is str for entry in metadata.values()):
        raise UnreadableError("`__metadata__` must contain text")
    places = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, offsets = _get_field(entry, "dtype", str), _get_field(entry, "data_offsets", list)
        shape = tuple(_get_field(entry, "shape", list))
        _require_fields(entry, {"dtype", "shape", "data_offsets"})
        kind = "q" if name.rpartition(".")[2] in ("starts", "slots", "reads") else "d"
        if dtype != {"q": "I64", "d": "F64"}[kind]:
            raise UnreadableError(f"the tensor `{name:.60}` has the type {dtype:.20}")
        is_plain = all(type(x) is int and x <= len(data) for x in [*offsets, *shape])
        if not is_plain or len(offsets) != 2 or offsets[1] - offsets[0] != 8 * prod(shape):
            raise UnreadableError(f"the tensor `{name:.60}` does not fit into the file")
        places[name] = (*offsets, shape, kind)
    # Tensors must be contiguous, so that they have no more entries than the file has bytes for.
    ends = [0]
    for begin, end, _, _ in sorted(places.values()):
        if begin != ends[-1]:
            raise UnreadableError("the tensors are not contiguous")
        ends.append(end)
    if ends[-1] != len(data):
        raise UnreadableError("the tensors do not fill the file")
    tensors = {
        name: Tensor(shape, struct.unpack(f"<{prod(shape)}{kind}", data[begin:end]), kind)
        for name, (begin, end, shape, kind) in places.items()
    }
    return text, Tensors(tensors)


# Stored layers, as dictionaries.


def _make_vector(numbers: Sequence[Any], kind: str = "d") -> Tensor:
    return Tensor((len(numbers),), numbers, kind)


def _make_matrix(rows: Sequence[Sequence[Any]], n_columns: int, kind: str = "d") -> Tensor:
    """Return a matrix whose rows are padded with zeros (-1 for indices)."""
    filling = [-1 if kind == "q" else 0.0]
    numbers = [x for row in rows for x in [*row, *filling * (n_columns - len(row))]]
    return Tensor((len(rows), n_columns), numbers, kind)


def _make_affine(weight: Tensor, bias: Tensor) -> dict[str, Any]:
    n_in, n_out = weight.shape
    is_one = n_in == n_out and all(x == (i % (n_in + 1) == 0) for i, x in enumerate(weight.numbers))
    if is_one and not any(bias.numbers):
        return _make_identity(n_in)
    return {"": "AffineMap", "weight": weight, "bias": bias}


def _make_identity(n: int) -> dict[str, Any]:
    return {"": "AffineMap", "identity": n}


def _take_affine(
    tensors: Tensors, prefix: str, names: tuple[str, str] = ("weight", "bias")
) -> dict[str, Any]:
    weight = tensors.take(prefix + names[0], None, None)
    return _make_affine(weight, tensors.take(prefix + names[1], weight.shape[1]))


def _map_dimensions(affine: dict[str, Any]) -> tuple[int, int]:
    """Return the input and output dimensions of an affine map."""
    n = affine.get("identity")
    return (n, n) if n is not None else affine["weight"].shape


def _make_network(
    layers: list[dict[str, Any]],
    embedding: dict[str, Any],
    readout: dict[str, Any],
    words: list[Words],
) -> dict[str, Any]:
    maps = {"embedding": embedding, "readout": readout}
    return {"": "ArgmaxNetwork", "layers": layers, **maps, "words": words}


def _layer_words(layers: Sequence[Any], group: str) -> list[Words]:
    return [(f"layer {i}", group, "form") for i in range(len(layers))]


def _make_relu_layer(
    query: dict[str, Any], output: dict[str, Any], residual: bool
) -> dict[str, Any]:
    """Return a ReLU layer, in which unit i is the group of the forms 0 and q_i."""
    n = _map_dimensions(query)[1]
    return {
        "": "ArgmaxLayer",
        "query": query,
        "slopes": _make_matrix([[0.0], [1.0]] * n, 1),
        "offsets": _make_vector([0.0] * (2 * n)),
        "starts": _make_vector(range(0, 2 * n + 1, 2), "q"),
        "slots": _make_vector(range(n), "q"),
        "gains": _make_vector([0.0, 1.0] * n),
        "values": _make_matrix([[0.0]] * (2 * n), 1),
        "output": output,
        "residual": residual,
        "reads": _make_matrix([[i] for i in range(n)], 1, "q"),
    }


def _read_relu(fields: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    _require_fields(fields, {"n_layers"})
    n_layers = min(_get_field(fields, "n_layers", int), len(tensors))
    if n_layers < 1:
        raise UnreadableError("`n_layers` must be positive")
    maps = [_take_affine(tensors, "", (f"weights.{i}", f"biases.{i}")) for i in range(n_layers)]
    layers = [
        _make_relu_layer(query, _make_identity(_map_dimensions(query)[1]), False)
        for query in maps[:-1]
    ]
    words = _layer_words(layers, "unit")
    return _make_network(layers, _make_identity(_map_dimensions(maps[0])[0]), maps[-1], words)


def _read_maxout(fields: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Read a maxout network, in which each unit is a group of forms of z."""
    _require_fields(fields, {"widths"})
    layers: list[dict[str, Any]] = []
    for i, n_units in enumerate(_get_field(fields, "widths", list)):
        if type(n_units) is not int or n_units < 1:
            raise UnreadableError("`widths` must contain positive integers")
        starts: list[int] = [0]
        slopes: list[float] = []
        offsets: list[float] = []
        n_in: int | None = None
        for j in range(n_units):
            unit = tensors.take(f"weights.{i}.{j}", None, n_in)
            rank, n_in = unit.shape
            starts.append(starts[-1] + rank)
            slopes += unit.numbers
            offsets += tensors.take(f"biases.{i}.{j}", rank).numbers
        n_forms = starts[-1]
        layers.append(
            {
                "": "ArgmaxLayer",
                "query": _make_identity(n_in or 0),
                "slopes": Tensor((n_forms, n_in or 0), slopes),
                "offsets": _make_vector(offsets),
                "starts": _make_vector(starts, "q"),
                "slots": _make_vector(range(n_units), "q"),
                "gains": _make_vector([1.0] * n_forms),
                "values": _make_matrix([[0.0]] * n_forms, 1),
                "output": _make_identity(n_units),
                "residual": False,
                "reads": None,
            }
        )
    readout = _take_affine(tensors, "", ("weights.last", "biases.last"))
    width = _map_dimensions(layers[0]["query"])[0] if layers else _map_dimensions(readout)[0]
    return _make_network(layers, _make_identity(width), readout, _layer_words(layers, "unit"))


class _Head(NamedTuple):
    """A head: the query map by columns, and the scores and values of the keys not masked."""

    columns: list[Sequence[float]]
    query_bias: Sequence[float]
    keys: list[Sequence[float]]
    logits: list[float]
    values: list[Sequence[float]]
    output: list[Sequence[float]]


def _take_head(fields: Any, tensors: Tensors, prefix: str) -> _Head:
    weight = tensors.take(f"{prefix}query_weight", None, None)
    d_k = weight.shape[1]
    keys = tensors.take(f"{prefix}keys", None, d_k)
    n_keys = keys.shape[0]
    values = tensors.take(f"{prefix}values", n_keys, None)
    output = tensors.take(f"{prefix}output_weight", values.shape[1], None)
    _require_fields(fields, {"query_bias", "logit_bias"})
    query_bias: Sequence[float] = [0.0] * d_k
    logits: Sequence[float] = [0.0] * n_keys
    if _get_field(fields, "query_bias", bool):
        query_bias = tensors.take(f"{prefix}query_bias", d_k).numbers
    if _get_field(fields, "logit_bias", bool):
        logits = tensors.take(f"{prefix}logit_bias", n_keys, masks=True).numbers
    kept = [i for i, logit in enumerate(logits) if isfinite(logit)]
    if not kept:
        raise UnreadableError("a head must have a key that is not masked")
    key_rows, value_rows = keys.rows(), values.rows()
    return _Head(
        columns=weight.columns(),
        query_bias=query_bias,
        keys=[key_rows[i] for i in kept],
        logits=[logits[i] for i in kept],
        values=[value_rows[i] for i in kept],
        output=output.rows(),
    )


def _make_attention_layer(heads: list[_Head], residual: bool, n_numbers: int) -> dict[str, Any]:
    """Return the layer of some heads: each group is the keys of a head, each block its values."""
    dims = {(len(head.columns[0]), len(head.output[0])) for head in heads}
    if len(dims) > 1:
        raise UnreadableError("the heads of a block must have the same dimensions")
    ((dim, dim_out),) = dims
    d_k, d_v = max(len(head.columns) for head in heads), max(len(head.output) for head in heads)
    n_keys = [len(head.keys) for head in heads]
    n_padded = (sum(n_keys) + len(heads)) * (d_k + d_v) + len(heads) * d_v * dim_out
    if n_padded > MOST_PADDING * n_numbers:
        raise UnreadableError("the heads of a block must be of similar sizes")
    starts, firsts = (
        [*accumulate(sizes, initial=0)] for sizes in (n_keys, [len(head.columns) for head in heads])
    )
    columns = [column for head in heads for column in head.columns]
    query = [x for row in zip(*columns, strict=True) for x in row]
    zeros = [0.0] * dim_out
    rows = [row for h in heads for row in [*h.output, *[zeros] * (d_v - len(h.output))]]
    return {
        "": "ArgmaxLayer",
        "query": _make_affine(
            Tensor((dim, len(columns)), query),
            _make_vector([b for h in heads for b in h.query_bias]),
        ),
        "slopes": _make_matrix([key for h in heads for key in h.keys], d_k),
        "offsets": _make_vector([logit for h in heads for logit in h.logits]),
        "starts": _make_vector(starts, "q"),
        "slots": _make_vector([i * d_v for i in range(len(heads))], "q"),
        "gains": _make_vector([0.0] * sum(n_keys)),
        "values": _make_matrix([value for h in heads for value in h.values], d_v),
        "output": _make_affine(_make_matrix(rows, dim_out), _make_vector(zeros)),
        "residual": residual,
        "reads": _make_matrix([range(a, b) for a, b in pairwise(firsts)], d_k, "q"),
    }


def _read_head(fields: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    n_numbers = tensors.n_numbers
    layer = _make_attention_layer([_take_head(fields, tensors, "")], False, n_numbers)
    n_in, n_out = _map_dimensions(layer["query"])[0], _map_dimensions(layer["output"])[1]
    words = [("block 0", "head", "key")]
    return _make_network([layer], _make_identity(n_in), _make_identity(n_out), words)


def _read_transformer(fields: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    _require_fields(fields, {"blocks"})
    layers = []
    words: list[Words] = []
    for i, block in enumerate(_get_field(fields, "blocks", list)):
        _require_fields(block, {"heads", "ffn", "attention_residual", "ffn_residual"})
        heads = [
            _take_head(head, tensors, f"blocks.{i}.heads.{j}.")
            for j, head in enumerate(_get_field(block, "heads", list))
        ]
        residuals = [_get_field(block, f"{name}_residual", bool) for name in ("attention", "ffn")]
        if heads:
            layers.append(_make_attention_layer(heads, residuals[0], tensors.n_numbers))
            words.append((f"block {i}", "head", "key"))
        if _get_field(block, "ffn", bool):
            before = _take_affine(tensors, f"blocks.{i}.ffn.", ("w_in", "b_in"))
            after = _take_affine(tensors, f"blocks.{i}.ffn.", ("w_out", "b_out"))
            layers.append(_make_relu_layer(before, after, residuals[1]))
            words.append((f"block {i}", "unit", "form"))
        elif not heads:
            raise UnreadableError("a block must have a head or a feed-forward layer")
    if not layers:
        raise UnreadableError("`blocks` must not be empty")
    embedding, readout = (_take_affine(tensors, f"{name}.") for name in ("embedding", "readout"))
    return _make_network(layers, embedding, readout, words)


def _read_argmax(fields: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    _require_fields({"identities": [], **fields}, {"residuals", "identities"})
    names = fields.get("identities", [])
    if type(names) is not list or not all(type(name) is str for name in names):
        raise UnreadableError("`identities` must be a list of names")
    identities = set(names)
    if len(identities) < len(names):
        raise UnreadableError("`identities` must not repeat a name")

    def affine(prefix: str) -> dict[str, Any]:
        if prefix not in identities:
            return _take_affine(tensors, prefix)
        identities.remove(prefix)
        bias = tensors.take(f"{prefix}bias", None)
        if any(bias.numbers):
            raise UnreadableError(f"the tensor `{prefix:.60}bias` of an identity must be zero")
        return _make_identity(len(bias.numbers))

    layers = []
    for i, residual in enumerate(_get_field(fields, "residuals", list)):
        if type(residual) is not bool:
            raise UnreadableError("`residuals` must contain true or false")
        prefix = f"layers.{i}."
        slopes = tensors.take(f"{prefix}slopes", None, None)
        n_forms, n_read = slopes.shape
        slots = tensors.take(f"{prefix}slots", None)
        n_groups = slots.shape[0]
        has_reads = f"{prefix}reads" in tensors
        layers.append(
            {
                "": "ArgmaxLayer",
                "query": affine(f"{prefix}query."),
                "slopes": slopes,
                "offsets": tensors.take(f"{prefix}offsets", n_forms),
                "starts": tensors.take(f"{prefix}starts", n_groups + 1),
                "slots": slots,
                "gains": tensors.take(f"{prefix}gains", n_forms),
                "values": tensors.take(f"{prefix}values", n_forms, None),
                "output": affine(f"{prefix}output."),
                "residual": residual,
                "reads": tensors.take(f"{prefix}reads", n_groups, n_read) if has_reads else None,
            }
        )
    words = _layer_words(layers, "group")
    network = _make_network(layers, affine("embedding."), affine("readout."), words)
    if identities:
        raise UnreadableError(
            f"`identities` must name maps of the model; got {min(identities)!r:.60}"
        )
    return network


_KINDS = {
    "ReluNetwork": _read_relu,
    "MaxoutNetwork": _read_maxout,
    "AttentionHead": _read_head,
    "HardTransformer": _read_transformer,
    "ArgmaxNetwork": _read_argmax,
}


# Integer layers.


class Map(NamedTuple):
    """An affine map in integers: row i is the i-th output coordinate times the scale.

    Attributes:
        n_in: The input dimension; column `n_in` has the constants.
        rows: The rows, without zeros.
        scale: The scale, at least 1.
    """

    n_in: int
    rows: list[Terms]
    scale: int


class Layer(NamedTuple):
    """A layer in integers.

    Attributes:
        query: The map z -> q.
        scores: The forms of q times `scores_scale`, without zeros, constants last.
        scores_scale: The scale of `scores`, at least 1.
        groups: The forms of each group.
        slots: The first column of each group's block.
        gains: The gain of each form times `gains_scale`.
        gains_scale: The scale of `gains`, at least 1.
        values: The value of each form times `values_scale`, without zeros.
        values_scale: The scale of `values`, at least 1.
        output: The map from the blocks to the output.
        residual: Whether z is added.
    """

    query: Map
    scores: list[Terms]
    scores_scale: int
    groups: list[range]
    slots: list[int]
    gains: list[int]
    gains_scale: int
    values: list[Terms]
    values_scale: int
    output: Map
    residual: bool


class Network(NamedTuple):
    """The map before the first layer, the layers, the hash of the stored network, and the names.

    `words` has the names of each layer for messages.
    """

    embedding: Map
    layers: list[Layer]
    fingerprint: str
    words: list[Words]


def network_of(stored: dict[str, Any]) -> Network:
    """Convert a stored network to integers."""
    embedding = _integer_map(stored["embedding"])
    layers = [_integer_layer(layer) for layer in stored["layers"]]
    width = len(embedding.rows)
    for layer in layers:
        width_out = len(layer.output.rows)
        if layer.query.n_in != width or (layer.residual and width_out != width):
            raise UnreadableError("the layers of the model have inconsistent sizes")
        width = width_out
    if _map_dimensions(stored["readout"])[0] != width:
        raise UnreadableError("the layers of the model have inconsistent sizes")
    hashed = {name: part for name, part in stored.items() if name != "words"}
    return Network(embedding, layers, fingerprint(hashed), list(stored["words"]))


def name_form(words: Words, group: int, form: int) -> str:
    """Return the name of a form of a group, for messages."""
    return f"{words[0]}, {words[1]} {group}, {words[2]} {form}"


def _to_integers(rows: Sequence[Sequence[float]]) -> tuple[list[Terms], int]:
    """Write rows of floats as integers over a common power of two, without zeros."""
    ratios = [[(k, *x.as_integer_ratio()) for k, x in enumerate(row) if x] for row in rows]
    scale = max((q for row in ratios for _, _, q in row), default=1)
    return [[(k, p * (scale // q)) for k, p, q in row] for row in ratios], scale


def _integer_map(affine: dict[str, Any]) -> Map:
    if "identity" in affine:
        n = affine["identity"]
        return Map(n, [[(i, 1)] for i in range(n)], 1)
    columns = zip(affine["weight"].columns(), affine["bias"].numbers, strict=True)
    rows, scale = _to_integers([(*column, constant) for column, constant in columns])
    return Map(affine["weight"].shape[0], rows, scale)


def _integer_layer(stored: dict[str, Any]) -> Layer:
    query, output = _integer_map(stored["query"]), _integer_map(stored["output"])
    starts, slots = stored["starts"].numbers, stored["slots"].numbers
    slopes, offsets, values = stored["slopes"], stored["offsets"].numbers, stored["values"]
    groups = [range(start, end) for start, end in pairwise(starts)]
    if starts[0] != 0 or starts[-1] != len(offsets) or not all(groups):
        raise UnreadableError("`starts` must increase strictly from 0 to the number of forms")
    if not all(0 <= slot <= output.n_in - values.shape[1] for slot in slots):
        raise UnreadableError("`slots` must leave space for the values in the output")
    n_queries, n_read = len(query.rows), slopes.shape[1]
    reads = [range(n_queries)] * len(groups) if stored["reads"] is None else stored["reads"].rows()
    if any(len(read) != n_read for read in reads):
        raise UnreadableError("`slopes` must have a column for each entry that is read")
    scores, scores_scale = _to_integers(
        [(*a, c) for a, c in zip(slopes.rows(), offsets, strict=True)]
    )
    for read, group in zip(reads, groups, strict=True):
        used = [entry for entry in read if entry != -1]
        is_right = len(set(used)) == len(used) and all(0 <= k < n_queries for k in used)
        places = [*read, n_queries]
        for form in group:
            # Convert a form of the entries that the group reads to a form of the whole query.
            scores[form] = [(places[k], x) for k, x in scores[form]]
            is_right = is_right and all(k >= 0 for k, _ in scores[form])
        if not is_right:
            raise UnreadableError("`reads` must list distinct entries of the query")
    (gains,), gains_scale = _to_integers([stored["gains"].numbers])
    known_gains = dict(gains)
    integer_values, values_scale = _to_integers(values.rows())
    return Layer(
        query=query,
        scores=scores,
        scores_scale=scores_scale,
        groups=groups,
        slots=list(slots),
        gains=[known_gains.get(form, 0) for form in range(len(offsets))],
        gains_scale=gains_scale,
        values=integer_values,
        values_scale=values_scale,
        output=output,
        residual=stored["residual"],
    )


# Composing layers. Forms are integer rows; the last row of a list is the constant 1.


def _multiply_rows(rows: list[Terms], forms: list[Row]) -> list[Row]:
    """Multiply a matrix, given as rows without zeros, by forms."""
    columns = list(zip(*forms, strict=True))
    return [[sum([x * column[k] for k, x in terms]) for column in columns] for terms in rows]


def _apply_map(affine: Map, forms: list[Row]) -> list[Row]:
    return [*_multiply_rows(affine.rows, forms), [affine.scale * x for x in forms[-1]]]


def _compose_scores(layer: Layer, forms: list[Row]) -> list[Row]:
    """Return the scores of a layer, followed by the constant 1."""
    queries = _apply_map(layer.query, forms)
    unit = [layer.scores_scale * x for x in queries[-1]]
    return [*_multiply_rows(layer.scores, queries), unit]


def _find_coinciding(layer: Layer, scores: list[Row], winners: Sequence[int]) -> list[list[int]]:
    """Return, for each group, the forms that coincide with its winner."""
    return [
        [form for form in group if scores[form] == scores[group[winner]]]
        for group, winner in zip(layer.groups, winners, strict=True)
    ]


def _compose_after(
    layer: Layer, forms: list[Row], scores: list[Row], tied: list[list[int]]
) -> list[Row]:
    """Return the forms after a layer; several winners of a group contribute equal shares."""
    one = scores[-1][-1]
    shares = lcm(*(len(winners) for winners in tied))
    zero = [0] * len(scores[-1])
    blocks = [zero] * layer.output.n_in
    for slot, winners in zip(layer.slots, tied, strict=True):
        share = shares // len(winners)
        for form in winners:
            factor = share * layer.gains[form] * layer.values_scale
            blocks[slot] = [x + factor * y for x, y in zip(blocks[slot], scores[form], strict=True)]
            for k, value in layer.values[form]:
                constant = share * value * layer.gains_scale * one
                *slopes, last = blocks[slot + k]
                blocks[slot + k] = [*slopes, last + constant]
    unit = [*zero[:-1], shares * layer.gains_scale * layer.values_scale * one]
    result = _apply_map(layer.output, [*blocks, unit])
    if layer.residual:
        scale = lcm(result[-1][-1], forms[-1][-1])
        a, b = scale // result[-1][-1], scale // forms[-1][-1]
        result = [
            [a * x + b * y for x, y in zip(row, before, strict=True)]
            for row, before in zip(result, forms, strict=True)
        ]
        result[-1] = [*zero[:-1], scale]
    divisor = gcd(*(x for row in result for x in row))
    return [[x // divisor for x in row] for row in result]


# The checks that apply to every certificate.


def _check_shapes(network: Network, claim: Claim) -> None:
    """Refuse a claim whose shapes do not match the model."""
    dim_in, dim = network.embedding.n_in, claim.dim
    if len(claim.chart) != dim_in:
        raise RefusedError(f"the domain does not lie in R^{dim_in}")
    if _rank([row[:-1] for row in claim.chart]) < dim:
        raise RefusedError("the chart is not injective")
    if claim.proofs is None and dim > 2:
        raise RefusedError(f"a tiling proves nothing in dimension {dim}")
    places = [
        (len(forms), words, group)
        for layer, words in zip(network.layers, network.words, strict=True)
        for group, forms in enumerate(layer.groups)
    ]
    if not claim.signatures:
        raise RefusedError("the certificate lists no cells")
    for one, other in pairwise(claim.signatures):
        if one == other:
            raise RefusedError(f"the cell {one!s:.60} is listed twice")
    for signature in claim.signatures:
        if len(signature) != len(places):
            raise RefusedError(f"signatures have {len(signature)} entries, not {len(places)}")
        for winner, (n, words, group) in zip(signature, places, strict=True):
            if winner >= n:
                raise RefusedError(
                    f"cell {signature!s:.60}: {words[0]}, {words[1]} {group} has {n} {words[2]}"
                    f"{'s' * (n != 1)}, so {words[2]} {winner} does not exist"
                )
    for witness in claim.witnesses:
        if witness[-1] < 1:
            raise RefusedError("the denominator of a witness is not positive")
        if any(any(row) and _dot(row, witness) <= 0 for row in claim.rows):
            raise RefusedError("a witness is not inside the domain")


def _rank(matrix: list[Row]) -> int:
    """Return the rank of an integer matrix by fraction-free elimination."""
    rows, rank = [list(row) for row in matrix if any(row)], 0
    while rows:
        pivot = rows.pop()
        k = next(i for i, x in enumerate(pivot) if x)
        rank += 1
        rest = (
            [pivot[k] * x - row[k] * y for x, y in zip(row, pivot, strict=True)] for row in rows
        )
        rows = [_primitive(row) for row in rest if any(row)]
    return rank


def _dot(row: Sequence[int], point: Sequence[int]) -> int:
    return sum(map(mul, row, point))


def _primitive(row: Sequence[int]) -> Row:
    divisor = gcd(*row)
    return [x // divisor for x in row]


def _compose_input(network: Network, claim: Claim) -> list[Row]:
    """Return the input of the first layer as forms of t."""
    unit = [0] * claim.dim + [claim.denominator]
    return _apply_map(network.embedding, [*claim.chart, unit])


def _check_winners(
    layer: Layer, words: Words, column: int, scores: list[Row], claim: Claim, cells: range
) -> None:
    """Check that the listed winners of a layer win in some cells, and are recorded correctly.

    The signature must record the first of several coinciding forms.

    Args:
        layer: The layer.
        words: The names of the layer, its groups and forms.
        column: The first column of the layer in a signature.
        scores: The scores of the layer on these cells.
        claim: The claim.
        cells: The cells.
    """
    for cell in cells:
        values = [_dot(score, claim.witnesses[cell]) for score in scores[:-1]]
        winners = claim.signatures[cell][column:]
        for k, (group, winner) in enumerate(zip(layer.groups, winners, strict=False)):
            best = group[winner]
            for form in group:
                coincide = scores[form] == scores[best]
                if coincide and form < best:
                    raise RefusedError(
                        f"cell {claim.signatures[cell]!s:.60}: {name_form(words, k, winner)} "
                        f"coincides there with {words[2]} {form - group[0]}, which comes first and "
                        "must be recorded instead"
                    )
                if not coincide and values[form] >= values[best]:
                    raise RefusedError(
                        f"cell {claim.signatures[cell]!s:.60}: the witness is not inside its cell"
                    )


# Completeness by tiling.

QUADRANTS = ((1, 1), (-1, 1), (-1, -1), (1, -1))


def _as_strip(claim: Claim) -> Claim:
    """Turn an interval into a strip of height 1; no form depends on the second coordinate."""
    return claim._replace(
        dim=2,
        chart=[[slope, 0, constant] for slope, constant in claim.chart],
        rows=[*([slope, 0, bound] for slope, bound in claim.rows), [0, -1, 1], [0, 1, 0]],
        witnesses=[[2 * p, r, 2 * r] for p, r in claim.witnesses],
    )


def _check_tiling(network: Network, claim: Claim) -> None:
    """Check that the listed cells are cells, and that they cover a planar domain."""
    corners: list[list[Point]] = [[(0, 0, 1), (x, 0, 0), (0, y, 0)] for x, y in QUADRANTS]
    sides = [row for row in claim.rows if any(row)]
    polygons = [polygon for quadrant in corners if (polygon := _clip(quadrant, sides))]
    # Cells whose signatures begin alike are processed together: they share the composition of their
    # first layers, and the polygons on which these layers have the given winners.
    begin = partial(_compose_input, network, claim)
    todo = [(0, 0, begin, range(len(claim.signatures)), polygons)]
    while todo:
        index, column, compose, cells, polygons = todo.pop()
        if index == len(network.layers):
            continue
        layer, words, forms = network.layers[index], network.words[index], compose()
        scores = _compose_scores(layer, forms)
        _check_winners(layer, words, column, scores, claim, cells)
        nodes = [(cells, polygons)]
        for k, group in enumerate(layer.groups):
            cut = partial(
                _split_polygons, claim, scores, column + k, group, partial(name_form, words, k)
            )
            nodes = [part for node in nodes for part in cut(*node)]
        end = column + len(layer.groups)
        for part, pieces in nodes:
            tied = _find_coinciding(layer, scores, claim.signatures[part[0]][column:end])
            compose = partial(_compose_after, layer, forms, scores, tied)
            todo.append((index + 1, end, compose, part, pieces))


def _split_polygons(
    claim: Claim,
    scores: list[Row],
    column: int,
    group: range,
    name: Callable[[int], str],
    cells: range,
    polygons: list[list[Point]],
) -> Iterator[tuple[range, list[list[Point]]]]:
    """Cut polygons into the parts where the listed winners of a group win; refuse if others win.

    Args:
        claim: The claim.
        scores: The scores of the layer.
        column: The column of the group in a signature.
        group: The forms of the group.
        name: Returns the name of a form of the group, given its number in the group.
        cells: The cells that the polygons belong to.
        polygons: The polygons, whose union is the closure of an open set.

    Yields:
        For each winner, the cells that list it, and its part of the polygons.
    """
    parts = _split_range(claim.signatures, cells, column, column + 1)
    winners = [group[claim.signatures[part[0]][column]] for part in parts]
    for winner, part in zip(winners, parts, strict=True):
        above = {
            form: [x - y for x, y in zip(scores[winner], scores[form], strict=True)]
            for form in group
        }
        rivals = [above[form] for form in winners if form != winner]
        pieces = [piece for polygon in polygons if (piece := _clip(polygon, rivals))]
        for form in group:
            if form not in winners:
                begins = claim.signatures[part[0]][:column]
                _check_corners(above[form], pieces, begins, name(form - group[0]))
        yield part, pieces


def _check_corners(row: Row, polygons: list[list[Point]], begins: Row, rival: str) -> None:
    """Check at the corners of polygons that a winner is at least as large as a rival."""
    for polygon in polygons:
        for corner in polygon:
            if _dot(row, corner) < 0:
                raise RefusedError(
                    f"the cells do not cover the domain: {_describe_position(corner)}, {rival} "
                    f"wins in an unlisted cell whose signature begins with {begins!s:.200}"
                )


def _describe_position(corner: Point) -> str:
    """Describe the position of a corner. This is the only quotient here, and only for messages."""
    *coordinates, w = corner
    try:
        return f"near ({', '.join(f'{x / w:.6g}' for x in coordinates)})"
    except (OverflowError, ZeroDivisionError):
        return "far away"


def _split_range(signatures: list[Row], cells: range, column: int, end: int) -> list[range]:
    """Cut a sorted range of cells where some of their columns change."""
    keys = [signatures[cell][column:end] for cell in cells]
    cuts = [i for i, (one, other) in enumerate(pairwise(keys), 1) if one != other]
    return [cells[begin:stop] for begin, stop in pairwise([0, *cuts, len(cells)])]


def _clip(polygon: list[Point], rows: list[Row]) -> list[Point] | None:
    """Return the part of a polygon where all rows are at least 0; None if it has no interior.

    A polygon is the list of its corners in order, (x, y, w) with w >= 0 and no common factors.
    """
    for row in rows:
        values = [_dot(row, corner) for corner in polygon]
        if max(values) <= 0:
            return None
        if min(values) >= 0:
            continue
        part: list[Point] = []
        for i, value in enumerate(values):
            before = values[i - 1]
            if before * value < 0:
                # The point where the edge meets the line lies between the two corners.
                pairs = zip(polygon[i - 1], polygon[i], strict=True)
                part.append(tuple(_primitive([abs(value) * x + abs(before) * y for x, y in pairs])))
            if value >= 0:
                part.append(polygon[i])
        polygon = part
    return polygon


# Completeness by refusals.


class _Node(NamedTuple):
    """A range of cells that agree in some groups, and the layer that splits them.

    Attributes:
        depth: The index of the layer.
        forms: The input of the layer.
        scores: The scores of the layer.
        cells: The cells.
        present: For each group of the layer, the forms that win in some of the cells.
        refused: The pairs (group, form) to refuse here.
        decided: The scores of the layer and the winner, for every column in which the cells agree
            and which was used for a split or belongs to an earlier layer.
    """

    depth: int
    forms: list[Row]
    scores: list[Row]
    cells: range
    present: list[list[int]]
    refused: list[tuple[int, int]]
    decided: dict[int, tuple[list[Row], int]]


class _Tree(NamedTuple):
    """The data that all nodes share.

    Attributes:
        network: The network.
        claim: The claim.
        columns: The first column of each layer.
        owners: The column of every form of every layer, and its number within its layer.
    """

    network: Network
    claim: Claim
    columns: list[int]
    owners: list[tuple[int, int]]


def _check_refusals(network: Network, claim: Claim, proofs: list[list[Terms]]) -> None:
    """Check that the listed cells are cells, and that a proof refuses every unlisted branch."""
    columns, owners = [0], []
    for layer in network.layers:
        for k, forms in enumerate(layer.groups):
            owners += [(columns[-1] + k, form) for form in forms]
        columns.append(columns[-1] + len(layer.groups))
    tree = _Tree(network, claim, columns, owners)
    supplies = [iter(part) for part in proofs]
    todo = _enter_layer(tree, 0, _compose_input(network, claim), range(len(claim.signatures)), {})
    while todo:
        node = todo.pop()
        # The proofs of a node are in the part that has its first cell.
        supply = supplies[bisect_right(claim.ends, node.cells[0])]
        for group, form in node.refused:
            proof = next(supply, None)
            column = columns[node.depth] + group
            decided = {**node.decided, column: (node.scores, form)}
            if why := _find_flaw(tree, proof, decided):
                number = form - network.layers[node.depth].groups[group][0]
                raise RefusedError(
                    f"{name_form(network.words[node.depth], group, number)} wins in no listed cell "
                    f"next to {claim.signatures[node.cells[0]]!s:.200}, and {why}"
                )
        split = next((k for k, present in enumerate(node.present) if len(present) > 1), None)
        if split is not None:
            todo += reversed(_split_node(tree, node, split))
            continue
        layer = network.layers[node.depth]
        first, end = columns[node.depth], columns[node.depth + 1]
        decided = {first + k: (node.scores, winner) for k, (winner,) in enumerate(node.present)}
        tied = _find_coinciding(layer, node.scores, claim.signatures[node.cells[0]][first:end])
        if node.depth + 1 < len(network.layers):
            after = _compose_after(layer, node.forms, node.scores, tied)
            todo += _enter_layer(
                tree, node.depth + 1, after, node.cells, {**node.decided, **decided}
            )
    if any(next(supply, None) is not None for supply in supplies):
        raise RefusedError("the certificate has more proofs than branches to refuse")


def _enter_layer(
    tree: _Tree,
    index: int,
    forms: list[Row],
    cells: range,
    decided: dict[int, tuple[list[Row], int]],
) -> list[_Node]:
    """Return the node that starts a layer, for cells that agree in all earlier layers."""
    if not tree.network.layers:
        return []
    layer, column = tree.network.layers[index], tree.columns[index]
    scores = _compose_scores(layer, forms)
    _check_winners(layer, tree.network.words[index], column, scores, tree.claim, cells)
    present = [_list_winners(tree, index, k, cells) for k in range(len(layer.groups))]
    refused = []
    for k, group in enumerate(layer.groups):
        seen: list[Row] = []
        for form in group:
            if scores[form] not in seen:
                seen.append(scores[form])
                if form not in present[k]:
                    refused.append((k, form))
    return [_Node(index, forms, scores, cells, present, refused, decided)]


def _list_winners(tree: _Tree, index: int, group: int, cells: range) -> list[int]:
    """Return the forms of a group that win in some of the cells."""
    column, forms = tree.columns[index] + group, tree.network.layers[index].groups[group]
    return sorted({forms[tree.claim.signatures[cell][column]] for cell in cells})


def _split_node(tree: _Tree, node: _Node, split: int) -> list[_Node]:
    """Split the cells of a node by the winner of a group."""
    column = tree.columns[node.depth] + split
    ranges = _split_range(tree.claim.signatures, node.cells, column, column + 1)
    children = []
    for winner, cells in zip(node.present[split], ranges, strict=True):
        groups = range(len(node.present))
        present = [_list_winners(tree, node.depth, group, cells) for group in groups]
        refused = [
            (group, form)
            for group in groups
            if group != split
            for form in node.present[group]
            if form not in present[group]
        ]
        decided = {**node.decided, column: (node.scores, winner)}
        children.append(
            node._replace(cells=cells, present=present, refused=refused, decided=decided)
        )
    return children


def _find_flaw(tree: _Tree, proof: Terms | None, decided: dict[int, tuple[list[Row], int]]) -> str:
    """Return what is wrong with a proof; empty if it is valid.

    A proof is valid if positive multiples of inequalities that hold strictly add up to zero.
    """
    if proof is None:
        return "no proof excludes it: a cell may be missing"
    rows = [[0] * tree.claim.dim + [1], *tree.claim.rows]
    total = [0] * (tree.claim.dim + 1)
    for number, multiplier in proof:
        row = [0]
        if 0 <= number < len(rows):
            row = rows[number]
        elif len(rows) <= number < len(rows) + len(tree.owners):
            column, form = tree.owners[number - len(rows)]
            if column in decided:
                scores, winner = decided[column]
                row = [x - y for x, y in zip(scores[winner], scores[form], strict=True)]
        if multiplier < 1 or not any(row):
            return "the proof uses an inequality that does not hold there"
        total = [x + multiplier * y for x, y in zip(total, _primitive(row), strict=True)]
    if not proof or any(total):
        return "the proof does not add up to zero"
    return ""


def main(arguments: list[str]) -> int:
    """Check the certificate of a model, given the paths of their files."""
    if len(arguments) < 2:
        print("usage: python verify.py MODEL CERTIFICATE [PART ...]", file=sys.stderr)
        return 2
    try:
        n_cells = check(*(Path(path).read_bytes() for path in arguments))
    except (OSError, UnreadableError) as error:
        print(f"cannot be checked: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("cannot be checked: there is not enough memory", file=sys.stderr)
        return 2
    except RefusedError as error:
        print(f"not ok: {error}")
        return 1
    print(f"ok: all cells are listed: {n_cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
