"""Models and certificates that somebody has changed, with every hash made right again.

A case is what verifiers read: the bytes of a model file, and those of a certificate, or of its
parts. Forgeries change numbers, fields, types, the layout of the files, cells, witnesses, proofs
and the domain, and put parts together that do not belong together.
"""

import json
import re
import struct
from contextlib import suppress
from copy import deepcopy
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from hardmax._ground.records import fingerprint
from hardmax.errors import RecordFormatError
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_network
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.storage import model_bytes, model_from_bytes
from hardmax.models.tensor_files import content_hash
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.certificate_format import Certificate, domain_fingerprint, integer_table
from hardmax.regions.certificate_parts import part_contexts, part_ends
from hardmax.regions.certificates import make_certificate, make_part
from tests.certificate_models import random_relu, true_signatures


class Case(NamedTuple):
    """What a verifier reads: a model file, and a certificate or its parts."""

    model: bytes
    certificate: tuple[bytes, ...]


def network_with_reads():
    """Groups of different sizes that read some entries of an identity, into shared slots."""
    layer = ArgmaxLayer(
        AffineMap.identity(2),
        [[1.0, 0.0], [-1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, -1.0]],
        [0.0, 0.5, 0.0, -0.0, 0.25],
        np.array([0, 2, 5]),
        np.array([0, 0]),
        [1.0, 1.0, 0.0, 2.0, 0.0],
        [[0.0], [0.0], [1.0], [0.0], [-1.0]],
        AffineMap([[1.0, 2.0]], [0.0, 1.0]),
        True,
        np.array([[0, -1], [1, 0]]),
    )
    return ArgmaxNetwork((layer,), AffineMap.identity(2), AffineMap.identity(2))


def transformer(dim):
    head = AttentionHead(
        np.eye(dim),
        np.vstack([np.eye(dim), -np.ones((1, dim)), np.ones((1, dim))]),
        np.vstack([np.eye(dim), np.ones((2, dim))]),
        np.eye(dim),
        np.arange(dim) / 2,
        [*[0.0] * dim, 0.5, -np.inf],
    )
    other = AttentionHead(np.ones((dim, 1)), [[1.0], [-1.0]], [[1.0], [2.0]], np.ones((1, dim)))
    ffn = FeedForward(np.ones((dim, 1)), [-1.0], np.ones((1, dim)), None)
    return HardTransformer([Block([head, other], ffn)])


def one_head():
    keys = [[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]
    return AttentionHead(np.eye(2), keys, np.eye(3)[:, :2], np.eye(2), [0.5, 0.25], [0, -1, 0.5])


def maxout(dim):
    rng = np.random.default_rng(dim)
    units = [rng.integers(-3, 4, (rank, dim)).astype(float) for rank in (3, 2)]
    return MaxoutNetwork([units, np.ones((2, 1))])


SQUARE = Box([-2, -2], [2, 2])
SUBJECTS = {
    "plane": [
        (random_relu(0, 2, 3, 2, 1), SQUARE),
        (random_relu(1, 2, 3, 1, integers=True), WholeSpace(2)),
        (maxout(2), WholeSpace(2)),
        (transformer(2), SQUARE),
        (one_head(), WholeSpace(2)),
        (network_with_reads(), SQUARE),
        (ArgmaxNetwork((), AffineMap.identity(2), AffineMap.identity(2)), WholeSpace(2)),
    ],
    "line": [
        (random_relu(2, 1, 4, 2, 1), Box([-3], [3])),
        (random_relu(3, 3, 3, 2, 1), Segment([0.0, 1.0, 2.0], [4.0, -3.0, 0.5])),
        (maxout(1), WholeSpace(1)),
    ],
    "space": [
        (random_relu(4, 3, 3, 2, 1), Box([-2] * 3, [2] * 3)),
        (maxout(3), WholeSpace(3)),
        (transformer(3), WholeSpace(3)),
    ],
    "deep": [
        (random_relu(6, 2, *[2] * 5, 1), SQUARE),
        (random_relu(6, 1, *[2] * 9, 1), Box([-3], [3])),
    ],
}
"""Kind: models and domains."""


def network_of(model):
    return read_network(model)


@cache
def cases(kind):
    """The certificates of a kind, true ones, of every way to show completeness."""
    if kind.endswith(" in parts"):
        subjects = SUBJECTS[kind.removesuffix(" in parts")]
        return [case for subject in subjects for case in cases_in_parts(*subject)]
    found = []
    for model, domain in SUBJECTS[kind]:
        network = network_of(model)
        cells = true_signatures(network, domain)
        for way in ["refusals"] if kind == "space" else ["tiling", "refusals"]:
            text = make_certificate(network, domain, cells, kind=way).to_json()
            found += [Case(content, (text.encode(),)) for content in contents(model)]
    return found


def contents(model):
    """The files a model can be written to; the old format has no hash."""
    new = [model_bytes(model)]
    file = taken_apart(new[0])
    fields = {**file.fields, "format": "hardmax.model/1"}
    del fields["content"]
    return [*new, put_together(file._replace(fields=fields))]


def cases_in_parts(model, domain):
    network = network_of(model)
    signatures = np.array(true_signatures(network, domain))
    if len(signatures) < 3:
        return []
    cuts = [len(signatures) // 3, len(signatures) // 2 + 1]
    cells = np.split(signatures, cuts)
    found = []
    whole = make_certificate(network, domain, signatures)
    for way in {whole.kind, "refusals"}:
        ends = [part_ends(network, own, way) for own in cells]
        contexts = part_contexts(network, ends, way)
        parts = [
            make_part(network, domain, own, kind=way, context=context)
            for own, context in zip(cells, contexts, strict=True)
        ]
        texts = tuple(part.to_json().encode() for part in parts)
        found.append(Case(model_bytes(model), texts))
    return found


# Files taken apart and put together.


class ModelFile(NamedTuple):
    """A model file: fields of the metadata; name, type, shape and bytes of the tensors."""

    fields: dict
    tensors: list


def taken_apart(content):
    n = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + n]), content[8 + n :]
    fields = json.loads(header.pop("__metadata__")["hardmax"])
    tensors = [
        [name, entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]]
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    ]
    return ModelFile(fields, tensors)


def put_together(file, rehash=True, change_text=lambda text: text):
    """Return the bytes of a model file, with its hash made right if that is possible."""
    fields = dict(file.fields)
    if rehash and "content" in fields:
        arrays = {
            name: np.frombuffer(data, "<i8" if dtype == "I64" else "<f8").reshape(shape)
            for name, dtype, shape, data in file.tensors
            if is_shape(shape) and 8 * prod(shape) == len(data)
        }
        with suppress(UnicodeEncodeError):
            fields["content"] = content_hash(fields, arrays)
    header, end = {"__metadata__": {"hardmax": json.dumps(fields)}}, 0
    for name, dtype, shape, data in file.tensors:
        offsets = [end, end := end + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    text = change_text(json.dumps(header))
    text = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in file.tensors)


def is_shape(shape):
    return isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)


def read_model(content):
    """Return the network of a model file, or None."""
    try:
        return network_of(model_from_bytes(content, "model"))
    except RecordFormatError:
        return None


def read_certificate(content):
    """Read a certificate as `Certificate.load` does."""
    try:
        return Certificate.from_json(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RecordFormatError(str(error)) from None


# Forgeries.

STRANGE = [
    None, True, False, 0, 1, -1, 2, 3, 1.0, 0.5, -0.0, float("nan"), float("inf"), "", "x", "1",
    "0x1", "-0x0", "0X1", "0x", "0x_1", "0x1f", " 0x1", "１", [], {}, [[]], [0], [True], [None],
    {"x": 1}, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, 2**64, 10**12, 10**40, hex(2**53),
    hex(2**16384), hex(-(2**16384) + 1), hex(10**5000), "\ud800", "é", [["x"]], 1e400, "0" * 50,
]  # fmt: skip
WORDS = [
    "-0", "1.0", "1e0", "01", "+1", "NaN", "Infinity", "-Infinity", "9" * 5000, str(2**53),
    str(2**53 - 1), str(2**64), '"0x1"', "true", "null", "[]", '"-0x0"', "0.5", "", "1_0", "１",
    "[" * 300 + "]" * 300, "[" * 3000, '{"a":1,"a":1}', '"\\ud800"', "1E400", " 1 ", "\t1", "\f1",
]  # fmt: skip
NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 5e-324, -5e-324, 2.0**-1074 * 3, 1.7976931348623157e308,
    float("inf"), float("-inf"), float("nan"), 1e-300, 1e300, 3.0,
]  # fmt: skip
BROKEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What changing a file raises that an earlier change has broken."""
INDICES = [0, 1, -1, 2, 3, 5, -2, 2**31, 2**63 - 1, -(2**63), 2**62]


def forged(rng, case):
    """Change a case in one way, sometimes in two."""
    for _ in range(rng.choice([1, 1, 1, 2])):
        what = rng.random()
        if len(case.certificate) > 1 and what < 0.4:
            case = with_other_parts(rng, case)
        elif what < 0.3:
            case = with_other_model(rng, case)
        else:
            i = rng.randrange(len(case.certificate))
            text = changed_certificate(rng, case.certificate[i])
            texts = [*case.certificate]
            texts[i] = text
            case = case._replace(certificate=tuple(texts))
    return case


def falsified(rng, case):
    """Change the claim or its proof; every file is still readable, and every hash is right."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        if len(case.certificate) > 1 and rng.random() < 0.3:
            case = with_other_parts(rng, case)
            continue
        i = rng.randrange(len(case.certificate))
        content = json.loads(case.certificate[i])
        rng.choice(CLAIM_CHANGES)(rng, content)
        texts = [*case.certificate]
        texts[i] = dumped(content)
        case = case._replace(certificate=tuple(texts))
    return case


def with_other_model(rng, case):
    """Change the model file, and name the new model in the certificate if it is still one."""
    try:
        file = taken_apart(case.model)
    except BROKEN:
        return case._replace(model=changed_bytes(rng, case.model))
    what = rng.random()
    if what < 0.45:
        change_tensor(rng, file)
    elif what < 0.6:
        change_layout(rng, file)
    elif what < 0.8:
        change_somewhere(rng, file.fields)
    if what < 0.85:
        content = put_together(file, rehash=rng.random() < 0.95)
    elif what < 0.97:
        content = put_together(file, change_text=lambda text: changed_text(rng, text))
    else:
        content = changed_bytes(rng, case.model)
    network, texts = read_model(content), case.certificate
    if network is not None:
        name = fingerprint(network).encode()
        texts = [re.sub(rb'("model": ?")[0-9a-f]{64}"', rb"\g<1>" + name + b'"', t) for t in texts]
    return Case(content, tuple(texts))


def change_tensor(rng, file):
    """Change numbers of a tensor."""
    filled = [tensor for tensor in file.tensors if tensor[3]]
    if not filled:
        return
    tensor = rng.choice(filled)
    numbers = np.frombuffer(tensor[3], "<i8" if tensor[1] == "I64" else "<f8").copy()
    for _ in range(rng.choice([1, 1, 1, 3, len(numbers)])):
        i = rng.randrange(len(numbers))
        if tensor[1] == "I64":
            numbers[i] = rng.choice([*INDICES, *numbers.tolist()])
        else:
            x = numbers[i]
            near = [-x, x / 2, np.nextafter(x, 3.0)] if np.isfinite(x) else []
            numbers[i] = rng.choice([*NUMBERS, *near])
    tensor[3] = numbers.tobytes()


def change_layout(rng, file):
    """Change the shape, type, name or length of a tensor; drop, double or swap tensors."""
    if not file.tensors:
        file.tensors.append(["x", "F64", [1], bytes(8)])
        return
    tensor, what = rng.choice(file.tensors), rng.randrange(9)
    name, dtype, shape, data = tensor
    if what == 0:
        tensor[2] = rng.choice([[*shape, 1], shape[:-1], shape[::-1], [prod(shape)], [1, *shape]])
    elif what == 1:
        tensor[2] = rng.choice([[0, *shape], [True], [-1, -1], [2**40], [1.0], None, "x", [[1]]])
    elif what == 2:
        tensor[1] = rng.choice(["F32", "I64", "F64", "BF16", "U64", "BOOL", "F8_E4M3", "x", None])
    elif what == 3:
        tensor[0] = rng.choice(["", "x", "é", "\ud800", name + ".starts", name[:-1], "a" * 100])
    elif what == 4:
        file.tensors.remove(tensor)
    elif what == 5:
        file.tensors.append([name + "x", *tensor[1:]])
    elif what == 6:
        other = rng.choice(file.tensors)
        tensor[1:], other[1:] = other[1:], tensor[1:]
    else:
        # One row or column more or less, of a shape that fits the data again.
        axis = rng.randrange(len(shape))
        size = shape[axis] + rng.choice([-1, 1, 2])
        if size >= 0:
            form = np.frombuffer(data, "<i8" if dtype == "I64" else "<f8").reshape(shape)
            new = np.resize(np.moveaxis(form, axis, 0), (size, *np.delete(shape, axis)))
            new = np.moveaxis(new, 0, axis) if size else np.zeros(new.shape)
            tensor[2], tensor[3] = [*new.shape], np.ascontiguousarray(new).tobytes()


def places(value, path=()):
    """Yield the paths of all values in JSON."""
    yield path
    pairs = value.items() if isinstance(value, dict) else []
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, entry in pairs:
        yield from places(entry, (*path, key))


def change_somewhere(rng, content):
    """Change, drop or add a value anywhere in JSON, at every depth equally often."""
    by_depth = {}
    for path in places(content):
        by_depth.setdefault((len(path), path[:1] if len(path) < 3 else ()), []).append(path)
    path = rng.choice(by_depth[rng.choice([key for key in by_depth if key[0]] or [*by_depth])])
    if not path:
        content["x"] = 1
        return
    place = content
    for key in path[:-1]:
        place = place[key]
    what, key = rng.random(), path[-1]
    if what < 0.7:
        place[key] = deepcopy(rng.choice(STRANGE))
    elif what < 0.8:
        del place[key]
    elif isinstance(place, dict):
        place[rng.choice(["x", "", "é", "kind", "format", "identities", "proofs"])] = place[key]
    else:
        place.insert(key, deepcopy(place[key]))


def changed_text(rng, text):
    """Change how JSON is spelled."""
    what = rng.randrange(8)
    if what <= 2:
        numbers = [*re.finditer(r"(?<=[\[:, ])-?\d+(?=[\],} ])", text)]
        if not numbers:
            return text
        found = rng.choice(numbers)
        return text[: found.start()] + rng.choice(WORDS) + text[found.end() :]
    if what == 3:
        found = rng.choice([*re.finditer(r"[{,] ?", text)])
        names = re.findall(r'"(\w+)":', text)
        entry = f'"{rng.choice(names)}": {rng.choice(["1", "[]", chr(34) * 2, "{}", "null"])}, '
        return text[: found.end()] + entry + text[found.end() :]
    if what == 4:
        ends = ["\ufeff", " ", "\n", "\x00", "x", "[", "\u2028", "\f", "\r\n"]
        return rng.choice([rng.choice(ends) + text, text + rng.choice(ends)])
    if what == 5:
        i = text.find('":', rng.randrange(len(text)))
        return text[:i] + rng.choice(["\\ud800", "\\u0041", "é", "\\x", "\n", "\x7f"]) + text[i:]
    if what == 6:
        return text.encode(rng.choice(["utf-16", "utf-8-sig", "latin-1", "utf-32"]), "replace")
    return changed_bytes(rng, text.encode())


def changed_bytes(rng, content):
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 2, 3])):
        damaged[rng.randrange(len(damaged))] = rng.choice([rng.randrange(256), *b'0123,[]{}"-x. '])
    return bytes(damaged[: rng.randrange(len(damaged))] if rng.random() < 0.1 else damaged)


# Changes of a claim, given as JSON.


def integer_of(entry):
    return int(entry, 16) if isinstance(entry, str) else entry


def written(integer):
    return integer if abs(integer) < 2**53 else hex(integer)


def change_integer(rng, row, k):
    x = integer_of(row[k])
    row[k] = written(rng.choice([0, 1, -x, x + 1, x - 1, 2 * x, x + 10**30, -1, x * 3, 10**40]))


def change_cells(rng, content):
    """Drop, double, change or move cells."""
    signatures, witnesses = content["signatures"], content["witnesses"]
    if not signatures or len(witnesses) < len(signatures):
        return
    i, j, what = rng.randrange(len(signatures)), rng.randrange(len(signatures)), rng.randrange(8)
    if what <= 1:
        del signatures[i], witnesses[i]
    elif what == 2:
        signatures.insert(j, list(signatures[i]))
        witnesses.insert(j, list(witnesses[i]))
    elif what == 3:
        signatures[i], signatures[j] = signatures[j], signatures[i]
        if rng.random() < 0.5:
            witnesses[i], witnesses[j] = witnesses[j], witnesses[i]
    elif what == 4 and signatures[i]:
        k = rng.randrange(len(signatures[i]))
        signatures[i][k] = rng.choice([0, 1, 2, signatures[i][k] + 1])
    elif what == 5 and signatures[i]:
        new = list(signatures[i])
        k = rng.randrange(len(new))
        new[k] = 1 - min(new[k], 1)
        signatures.append(new)
        witnesses.append(list(witnesses[j]))
    elif what == 6:
        witnesses[i] = list(witnesses[j])
    else:
        keep = {i for i in range(len(signatures)) if rng.random() < 0.7}
        signatures[:] = [row for k, row in enumerate(signatures) if k in keep]
        witnesses[:] = [row for k, row in enumerate(witnesses) if k in keep]


def change_witness(rng, content):
    row = rng.choice(content["witnesses"] or [[0]])
    change_integer(rng, row, rng.randrange(len(row)))
    if rng.random() < 0.2:
        factor = rng.choice([2, 3, 10**20])
        row[:] = [written(factor * integer_of(entry)) for entry in row]


def change_domain(rng, content):
    """Change the chart or the inequalities."""
    domain = content["domain"]
    table = domain[rng.choice(["chart", "rows", "rows"])]
    what = rng.randrange(7)
    if what == 0:
        entry = {"rows": [domain["chart_denominator"]]}
        change_integer(rng, entry["rows"], 0)
        domain["chart_denominator"] = entry["rows"][0]
    elif what == 1:
        domain["rows"].append([rng.randrange(-2, 3) for _ in range(domain["dim"] + 1)])
    elif table and what == 2:
        table.remove(rng.choice(table))
    elif table and what == 3:
        table.append(list(rng.choice(table)))
    elif table:
        row = rng.choice(table)
        change_integer(rng, row, rng.randrange(len(row)))
    renamed(content)


def renamed(content):
    """Make the hash of the domain right, if it is one."""
    domain = content["domain"]
    try:
        width = min(domain["dim"], 99) + 1
        tables = [
            integer_table([[integer_of(x) for x in row] for row in domain[name]], width)
            for name in ("chart", "rows")
        ]
        denominator = integer_of(domain["chart_denominator"])
        content["domain_fingerprint"] = domain_fingerprint(tables[0], denominator, tables[1])
    except BROKEN:
        pass


def change_proofs(rng, content):
    """Drop, double, change or add proofs; or claim completeness in the other way."""
    completeness = content["completeness"]
    if rng.random() < 0.1:
        is_tiling = completeness["kind"] == "tiling"
        content["completeness"] = (
            {"kind": "refusals", "proofs": []} if is_tiling else {"kind": "tiling"}
        )
        return
    proofs = completeness.get("proofs")
    if not proofs:
        return
    i, what = rng.randrange(len(proofs)), rng.randrange(7)
    if what == 0:
        del proofs[i]
    elif what == 1:
        proofs.insert(i, deepcopy(rng.choice(proofs)))
    elif what == 2:
        proofs[i] = [[row, written(2 * integer_of(times))] for row, times in proofs[i]]
    elif what == 3 and proofs[i]:
        proofs[i].remove(rng.choice(proofs[i]))
    elif what == 4 and proofs[i]:
        pair = rng.choice(proofs[i])
        pair[0] = rng.choice([pair[0] + 1, pair[0] - 1, -1, 0, 10**9, rng.randrange(20)])
    elif what == 5 and proofs[i]:
        change_integer(rng, rng.choice(proofs[i]), 1)
    else:
        rng.shuffle(proofs)


CLAIM_CHANGES = [change_cells, change_cells, change_witness, change_domain, change_proofs]


def changed_certificate(rng, text):
    try:
        content = json.loads(text)
        what = rng.random()
        if what < 0.5:
            rng.choice(CLAIM_CHANGES)(rng, content)
        elif what < 0.8:
            change_somewhere(rng, content)
            renamed(content)
        text = dumped(content)
    except BROKEN:
        # What was changed before is no certificate any more.
        return text
    if what < 0.8:
        return text
    spelled = changed_text(rng, text.decode("utf-8", "surrogatepass"))
    return spelled if isinstance(spelled, bytes) else spelled.encode("utf-8", "surrogatepass")


def dumped(content):
    text = json.dumps(content, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def with_other_parts(rng, case):
    """Drop, double, join, mix or exchange parts, or move cells or proofs from one to another."""
    texts, what = [*case.certificate], rng.randrange(8)
    i, j = rng.sample(range(len(texts)), 2)
    if what == 0:
        del texts[i]
    elif what == 1:
        texts.append(texts[i])
    elif what == 2:
        rng.shuffle(texts)
    elif what == 3:
        kind = rng.choice([kind for kind in SUBJECTS if kind != "deep"]) + " in parts"
        texts[i] = rng.choice(rng.choice(cases(kind)).certificate)
    else:
        try:
            one, other = json.loads(texts[i]), json.loads(texts[j])
            if what <= 5:
                for name in ("signatures", "witnesses"):
                    k = rng.choice([0, len(one[name])]) if what == 4 else 0
                    moved = one[name][k:][:1] or one[name][-1:]
                    one[name] = [row for row in one[name] if row not in moved]
                    other[name] += moved
                    if what == 4:
                        other[name].sort(key=lambda row: [*map(integer_of, row)])
            elif what == 6:
                # The last proof of a part becomes the first of another.
                given, taken = (part["completeness"].get("proofs") for part in (one, other))
                if given and taken is not None:
                    taken.insert(0, given.pop())
            else:
                other["domain"] = one["domain"]
            texts[i], texts[j] = dumped(one), dumped(other)
        except BROKEN:
            return case
    return case._replace(certificate=tuple(texts))
