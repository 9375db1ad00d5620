"""The table of SentencePiece that says which characters stand for which.

It is a trie in one array, as of the library Darts, and texts one after the other that end with a
zero byte. A unit of the trie has 32 bits: a label in the lowest 8, whether a key ends there in bit
8, and the distance to the children from bit 10 on, in steps of 256 if bit 9 is set; where a key
ends, the first child holds the place of its text.
"""

import unicodedata
from base64 import b64decode
from functools import lru_cache

import numpy as np

from hardmax.errors import RecordFormatError

_LONGEST_KEY = 64


def mapped_characters(text: str, table: str | None, longest: int = 1_000_000) -> str:
    """Replace the characters of a text, or groups that make one sign, as a table says.

    Args:
        text: The text.
        table: The table, in base 64; None changes nothing.
        longest: How many characters may come out.

    Raises:
        RecordFormatError: If the table is damaged, or makes too long a text.

    Examples:
        >>> mapped_characters("a", None)
        'a'
    """
    if not table:
        return text
    units, texts = _parsed(table)
    found: list[str] = []
    left = longest

    def add(piece: str) -> None:
        nonlocal left
        left -= len(piece)
        if left < 0:
            raise RecordFormatError(f"its table makes more than {longest} characters of a text")
        found.append(piece)

    for group in _signs(text):
        whole = _looked_up(units, texts, group) if len(group.encode()) < 6 else None
        if whole is not None:
            add(whole)
            continue
        for c in group:
            alone = _looked_up(units, texts, c)
            add(c if alone is None else alone)
    return "".join(found)


def _signs(text: str) -> list[str]:
    """Characters with the marks that follow them."""
    groups: list[str] = []
    for c in text:
        if groups and unicodedata.category(c)[0] == "M":
            groups[-1] += c
        else:
            groups.append(c)
    return groups


@lru_cache(maxsize=4)
def _parsed(table: str) -> tuple[list[int], bytes]:
    try:
        content = b64decode(table, validate=True)
    except ValueError as error:
        raise RecordFormatError(f"its table of characters is damaged: {error!s:.60}") from None
    n_bytes = int.from_bytes(content[:4], "little")
    if n_bytes % 4 or not 4 <= n_bytes <= len(content) - 4:
        raise RecordFormatError("its table of characters is damaged: the trie does not fit")
    return np.frombuffer(content, "<u4", n_bytes // 4, 4).tolist(), content[4 + n_bytes :]


def _looked_up(units: list[int], texts: bytes, key: str) -> str | None:
    """The text of the shortest beginning of a key that has one."""
    at = _children(units[0])
    for byte in key.encode()[:_LONGEST_KEY]:
        at ^= byte
        if at >= len(units) or units[at] & 0x800000FF != byte:
            return None
        unit = units[at]
        at ^= _children(unit)
        if unit >> 8 & 1:
            if at >= len(units):
                break
            start = units[at] & 0x7FFFFFFF
            return texts[start : texts.find(b"\0", start)].decode("utf-8", "replace")
    return None


def _children(unit: int) -> int:
    return (unit >> 10) << ((unit & 512) >> 6)
