"""Files as `torch.save` writes them, made without torch: for readers that must not trust them."""

import pickle
import zipfile

import numpy as np

from tests.script_archives import name, tensor, text

MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
KINDS = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage"}


def dictionary(entries):
    """A dictionary whose values are pickled already, as torch makes them: with metadata."""
    items = b"".join(text(key) + value for key, value in entries.items())
    return name("collections", "OrderedDict") + b")R(" + items + b"u}" + text("_metadata") + b"}sb"


def pickled_tensors(arrays):
    return {
        key: tensor(str(i), array, storage=KINDS[array.dtype.str[1:]])
        for i, (key, array) in enumerate(arrays.items())
    }


def write_state_dict(path, arrays, *, content=None, storages=None, compression=0):
    """Write an archive; `content` and `storages` take the place of what belongs there."""
    content = dictionary(pickled_tensors(arrays)) if content is None else content
    storages = [a.tobytes() for a in arrays.values()] if storages is None else storages
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("net/data.pkl", b"\x80\x02" + content + b".")
        for i, stored in enumerate(storages):
            archive.writestr(f"net/data/{i}", stored)


def write_legacy_state_dict(path, arrays, *, content=None):
    """Write the kind of file that came before archives."""
    content = dictionary(pickled_tensors(arrays)) if content is None else content
    # Behind the number of entries torch names what a storage is a view of: nothing.
    content = content.replace(b"tQ", b"NtQ")
    parts = [MAGIC, pickle.dumps(1001, 2), pickle.dumps({"little_endian": True}, 2)]
    parts += [b"\x80\x02" + content + b".", pickle.dumps([str(i) for i in range(len(arrays))], 2)]
    for array in arrays.values():
        parts += [array.size.to_bytes(8, "little"), array.tobytes()]
    path.write_bytes(b"".join(parts))


def small_state_dict(seed=0):
    rng = np.random.default_rng(seed)
    kinds = {"a.weight": "<f4", "a.bias": "<f8", "b.weight": "<f2"}
    arrays = {key: rng.standard_normal((3, 4)).astype(kind) for key, kind in kinds.items()}
    return {**arrays, "steps": np.arange(5, dtype="<i8")}
