"""Short hashes of nested lists of integers, fractions and texts."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

N_BYTES = 8


def digest(*parts: Any) -> str:
    """Return the first bytes of the SHA-256 of a canonical text, in 11 letters.

    Examples:
        >>> digest(1, Fraction(1, 2), ["a"]), digest(1, Fraction(2, 4), ["a"])
        ('W76Oe1M8TRM', 'W76Oe1M8TRM')
    """
    found = hashlib.sha256()
    for word in _words(parts):
        found.update(word)
    return urlsafe_b64encode(found.digest()[:N_BYTES]).decode().rstrip("=")


def _words(value: Any) -> Iterator[bytes]:
    if isinstance(value, list | tuple):
        yield b"["
        for part in value:
            yield from _words(part)
        yield b"]"
    elif isinstance(value, bytes):
        yield b"b%d:" % len(value)
        yield value
    elif isinstance(value, Fraction):
        # Hexadecimal digits, because Python limits the number of decimal ones.
        yield f"{value.numerator:x}/{value.denominator:x};".encode()
    elif isinstance(value, int):
        yield f"{int(value):x};".encode()
    elif isinstance(value, str | float) or value is None:
        yield f"{value!r};".encode()
    else:
        raise TypeError(f"A {type(value).__name__} has no canonical text.")
