"""Changes of bytes, arrays and JSON, for forged files of every kind."""

import struct
from copy import deepcopy

import numpy as np

from tests.forged_certificates import INDICES, NUMBERS, change_somewhere, changed_bytes

LARGE = [*INDICES, 2**31 - 1, -(2**31), 2**32 + 1, 2**62 + 1, 2**63 - 1000, 127, 255, 65_535]


def damaged(rng, content):
    """Change bytes or words; cut off, repeat, remove or swap parts."""
    if not content:
        return bytes(rng.randrange(9))
    what = rng.randrange(8)
    if what <= 2:
        return changed_bytes(rng, content)
    if what <= 4:
        return with_other_word(rng, content)
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    if what == 5:
        return content[:start]
    if what == 6:
        return content[:start] + content[end:]
    part, place = content[start:end][:4096], rng.randrange(len(content) + 1)
    return content[:place] + part + content[place:]


def with_other_word(rng, content):
    """Put an integer or a number of 4 or 8 bytes in a place of a file, often near an end."""
    form = rng.choice(["<i", "<q", "<q", ">q", "<d", "<f"])
    word = bytearray(struct.calcsize(form))
    if form[1] in "df":
        struct.pack_into(form, word, 0, rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e-30]))
    else:
        n_bits = 8 * len(word)
        value = rng.choice(LARGE) & ((1 << n_bits) - 1)
        word[:] = value.to_bytes(len(word), "little" if form[0] == "<" else "big")
    most = min(len(content), rng.choice([64, 1024, len(content)]))
    place = rng.randrange(most)
    place = len(content) - 1 - place if rng.random() < 0.2 else place
    return content[:place] + bytes(word) + content[place + len(word) :]


def changed_array(rng, array):
    """Change numbers of an array, rarely its length, order or shape."""
    array = np.array(array)
    what = rng.random()
    if what < 0.7 or not array.ndim or not array.size:
        return with_other_numbers(rng, array)
    axis = rng.randrange(array.ndim)
    n = array.shape[axis]
    if what < 0.78:
        order = [*range(n)]
        i, j = rng.randrange(n), rng.randrange(n)
        order[i], order[j] = order[j], order[i]
        return np.take(array, order, axis)
    if what < 0.84:
        return np.flip(array, axis).copy()
    if what < 0.94:
        # Entries are dropped from an end, or repeated.
        return np.take(array, np.arange(max(n + rng.choice([-1, 1, 1 - n, n]), 0)) % n, axis)
    if what < 0.97:
        return array.reshape(rng.choice([(-1,), (1, *array.shape), array.shape[::-1]]))
    return array.astype(rng.choice([np.float64, np.float32, np.int64, np.int32, np.int8, np.uint8]))


def with_other_numbers(rng, array):
    """Change a number, or several."""
    if not array.size:
        return array
    array = array.copy()
    flat = array.reshape(-1)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        place = rng.randrange(len(flat))
        known = flat[place]
        with np.errstate(all="ignore"):
            if array.dtype.kind == "f":
                finite = np.nextafter(known, array.dtype.type(3.0))
                others = [
                    *NUMBERS,
                    -known,
                    known * 2,
                    known / 2,
                    finite,
                    flat[rng.randrange(len(flat))],
                ]
                flat[place] = np.array(rng.choice(others)).astype(array.dtype)
            elif array.dtype.kind in "iu":
                others = [
                    *LARGE,
                    int(known) + 1,
                    int(known) - 1,
                    int(flat[rng.randrange(len(flat))]),
                ]
                # What does not fit wraps: the file has to hold something.
                n_bits = 8 * array.itemsize
                word = rng.choice(others) & ((1 << n_bits) - 1)
                flat[place] = np.frombuffer(word.to_bytes(array.itemsize, "little"), array.dtype)[0]
    return array


def changed_json(rng, value):
    """Return JSON with another value, or one more or less, anywhere in it."""
    value = deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2])):
        if isinstance(value, dict | list) and value:
            change_somewhere(rng, value)
    return value
