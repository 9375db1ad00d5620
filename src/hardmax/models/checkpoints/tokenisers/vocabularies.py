"""Splitting of words into pieces of a vocabulary: longest pieces, merged pairs, or most likely.

Citation:
    Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units",
    ACL 2016 (pairs); Kudo, "Subword regularization", ACL 2018 (most likely pieces).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

_LONGEST_WORD = 100


def byte_letters() -> list[str]:
    """Return the printable letter that represents each byte in GPT-2.

    A printable byte represents itself; the others are mapped to letters from 256 on.

    Examples:
        >>> byte_letters()[ord("a")], byte_letters()[ord(" ")]
        ('a', 'Ġ')
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    code = {byte: byte for byte in printable} | {byte: 256 + i for i, byte in enumerate(others)}
    return [chr(code[byte]) for byte in range(256)]


def split_wordpiece(
    word: str,
    vocabulary: Mapping[str, int],
    *,
    mark: str = "##",
    unknown: str = "[UNK]",
    longest: int = _LONGEST_WORD,
) -> list[str]:
    """Split a word from left to right into the longest pieces of a vocabulary (WordPiece).

    Examples:
        >>> split_wordpiece("unhappy", {"un": 0, "unhap": 1, "##py": 2})
        ['unhap', '##py']
    """
    found: list[str] = []
    start = 0
    while start < len(word):
        before = mark if start else ""
        ends = range(len(word), start, -1) if len(word) <= longest else ()
        end = next((end for end in ends if before + word[start:end] in vocabulary), None)
        if end is None:
            return [unknown]
        found.append(before + word[start:end])
        start = end
    return found


def merge_pairs(parts: Iterable[str], rank: Callable[[tuple[str, str]], float | None]) -> list[str]:
    """Merge neighbouring parts until no pair has a rank, lowest rank first and then leftmost.

    Examples:
        >>> merge_pairs("aab", {("a", "b"): 0, ("a", "ab"): 1}.get)
        ['aab']
    """
    found = list(parts)
    ranks = [rank(pair) for pair in pairwise(found)]
    while True:
        known = [(r, i) for i, r in enumerate(ranks) if r is not None]
        if not known:
            return found
        _, i = min(known)
        found[i : i + 2] = [found[i] + found[i + 1]]
        del ranks[i]
        for j in (i - 1, i):
            if 0 <= j < len(ranks):
                ranks[j] = rank((found[j], found[j + 1]))


def replace_unknown(
    symbols: Iterable[str],
    vocabulary: Mapping[str, int],
    *,
    unknown: str | None = None,
    falls_back: bool = False,
    fuses: bool = False,
) -> list[str]:
    """Replace symbols that are not in a vocabulary.

    An unknown symbol becomes its bytes if `falls_back` is true and they are known. Otherwise it
    becomes the token `unknown`, or stays unchanged if there is none. If `fuses` is true, adjacent
    unknown symbols share one token.

    Examples:
        >>> replace_unknown("aé", {"a": 0, "<0xC3>": 1, "<0xA9>": 2}, falls_back=True)
        ['a', '<0xC3>', '<0xA9>']
    """
    found: list[str] = []
    for symbol in symbols:
        if symbol in vocabulary:
            found.append(symbol)
            continue
        as_bytes = [f"<0x{byte:02X}>" for byte in symbol.encode()]
        if falls_back and all(byte in vocabulary for byte in as_bytes):
            found += as_bytes
        elif not (fuses and unknown is not None and found[-1:] == [unknown]):
            found.append(symbol if unknown is None else unknown)
    return found


def split_unigram(word: str, scores: Mapping[str, float], unknown_score: float) -> list[str]:
    """Split a word so that the sum of scores is largest (Unigram).

    Adjacent characters that are not in the vocabulary are joined.

    Args:
        word: The word.
        scores: The logarithms of the probabilities of the pieces.
        unknown_score: The score of a character that is not a piece.

    Examples:
        >>> split_unigram("aabx", {"a": -1.0, "ab": -1.5, "b": -1.0}, -11.0)
        ['a', 'ab', 'x']
    """
    longest = max(map(len, scores), default=1)
    # The best score up to each position, and the start of the piece that ends there.
    best: list[tuple[float, int] | None] = [(0.0, 0), *[None] * len(word)]
    for start in range(len(word)):
        here = best[start]
        assert here is not None  # Every position is reachable by single characters.
        for end in range(start + 1, min(len(word), start + longest) + 1):
            score = scores.get(word[start:end])
            if score is None:
                if end > start + 1:
                    continue
                score = unknown_score
            there = best[end]
            if there is None or here[0] + score > there[0]:
                best[end] = here[0] + score, start
    found: list[str] = []
    end = len(word)
    while end:
        entry = best[end]
        assert entry is not None
        piece = word[entry[1] : end]
        if piece not in scores and found and found[-1] not in scores:
            found[-1] = piece + found[-1]
        else:
            found.append(piece)
        end = entry[1]
    return found[::-1]


def split_longest_symbols(text: str, vocabulary: Mapping[str, int]) -> list[str]:
    """Split a text from left to right into the longest symbols; unknown characters are kept.

    Examples:
        >>> split_longest_symbols("CClN", {"C": 0, "Cl": 1})
        ['C', 'Cl', 'N']
    """
    longest = max(map(len, vocabulary), default=1)
    symbols, start = [], 0
    while start < len(text):
        ends = range(min(len(text), start + longest), start, -1)
        end = next((end for end in ends if text[start:end] in vocabulary), start + 1)
        symbols.append(text[start:end])
        start = end
    return symbols


def decode_piece(piece: str, back: Mapping[str, int] | None) -> str:
    """Return the text that a piece represents, with bytes decoded and space marks replaced.

    Args:
        piece: The piece.
        back: The byte that each letter represents, or None if pieces do not consist of such
            letters.

    Examples:
        >>> decode_piece("▁cat", None), decode_piece("<0x41>", None)
        (' cat', 'A')
    """
    if back is not None and all(c in back for c in piece):
        return bytes(back[c] for c in piece).decode(errors="replace")
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)]).decode(errors="replace")
        except ValueError:
            return piece
    return piece.replace("▁", " ")
