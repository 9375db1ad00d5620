"""The character map of SentencePiece, which replaces characters before tokenisation.

The map is a trie in one array, in the format of the library Darts, followed by zero-terminated
replacement texts. A unit of the trie has 32 bits: the lowest 8 are a label, bit 8 is set if a key
ends there, and the bits from 10 on are the offset of the children, in steps of 256 if bit 9 is set.
Where a key ends, the first child contains the offset of its text.
"""

import unicodedata
from base64 import b64decode
from functools import lru_cache

import numpy as np

from hardmax.errors import RecordFormatError

_LONGEST_KEY = 64


def apply_charsmap(text: str, table: str | None, longest: int = 1_000_000) -> str:
    """Replace characters of a text, or groups of a character and its marks, by a table.

    Args:
        text: The text.
        table: The table, in base 64; None changes nothing.
        longest: The maximum number of characters of the result.

    Raises:
        RecordFormatError: If the table is damaged, or the result is too long.

    Examples:
        >>> apply_charsmap("a", None)
        'a'
    """
    if not table:
        return text
    units, texts = _parse_table(table)
    found: list[str] = []
    left = longest

    def add(piece: str) -> None:
        nonlocal left
        left -= len(piece)
        if left < 0:
            raise RecordFormatError(
                f"its character map expands a text to over {longest} characters"
            )
        found.append(piece)

    for group in _group_marks(text):
        whole = _look_up(units, texts, group) if len(group.encode()) < 6 else None
        if whole is not None:
            add(whole)
            continue
        for c in group:
            alone = _look_up(units, texts, c)
            add(c if alone is None else alone)
    return "".join(found)


def _group_marks(text: str) -> list[str]:
    """Group each character with the combining marks that follow it."""
    groups: list[str] = []
    for c in text:
        if groups and unicodedata.category(c)[0] == "M":
            groups[-1] += c
        else:
            groups.append(c)
    return groups


@lru_cache(maxsize=4)
def _parse_table(table: str) -> tuple[list[int], bytes]:
    try:
        content = b64decode(table, validate=True)
    except ValueError as error:
        raise RecordFormatError(f"its character map is damaged: {error!s:.60}") from None
    n_bytes = int.from_bytes(content[:4], "little")
    if n_bytes % 4 or not 4 <= n_bytes <= len(content) - 4:
        raise RecordFormatError("its character map is damaged: the length of the trie is wrong")
    return np.frombuffer(content, "<u4", n_bytes // 4, 4).tolist(), content[4 + n_bytes :]


def _look_up(units: list[int], texts: bytes, key: str) -> str | None:
    """Return the text of the shortest prefix of a key that has one."""
    at = _child_offset(units[0])
    for byte in key.encode()[:_LONGEST_KEY]:
        at ^= byte
        if at >= len(units) or units[at] & 0x800000FF != byte:
            return None
        unit = units[at]
        at ^= _child_offset(unit)
        if unit >> 8 & 1:
            if at >= len(units):
                break
            start = units[at] & 0x7FFFFFFF
            return texts[start : texts.find(b"\0", start)].decode("utf-8", "replace")
    return None


def _child_offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 512) >> 6)
