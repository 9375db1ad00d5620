r"""Regular expressions of tokenisers, which speak of classes of characters that `re` lacks.

`\p{L}` and its like become the characters of that class that the text has, so that nothing is
taken from tables of another version of Unicode than Python's. A pattern may come from a file that
nobody vouches for, so those that can take exponentially long are refused.
"""

import re
import unicodedata

from hardmax.errors import RecordFormatError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What Unicode calls white space, which is less than what `str.isspace` does."""
_WORD = ("L", "M", "Nd", "Nl", "Pc")
_MOST_REPEATS = 3
_LONGEST_PATTERN = 2000
_PARTS = re.compile(
    r"\\[pP]\{\^?(?P<kind>\w+)\}|\\(?P<letter>.)|(?P<open>\[\^?\]?)|(?P<close>\])|(?P<other>.)",
    re.DOTALL,
)


def compiled(pattern: str, text: str) -> re.Pattern[str]:
    r"""Return a pattern that matches in a text what its author meant.

    Args:
        pattern: The pattern; `\p{..}` of one or two letters, `\s`, `\d`, `\w` are known.
        text: The text. Only its characters are in the classes of the pattern.

    Raises:
        RecordFormatError: If it is something else, or a group is repeated, or an alternative
            has more than three parts that may be repeated without end.

    Examples:
        >>> compiled(GPT2, "I've 3½ apples").findall("I've 3½ apples")
        ['I', "'ve", ' 3½', ' apples']
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise RecordFormatError(f"a pattern of {len(pattern)} characters is too long to be read")
    _refuse_slow(pattern)
    found, inside = [], False
    for part in _PARTS.finditer(pattern):
        letter = part["letter"]
        if part["kind"] is not None or (letter is not None and letter in "sSdDwW"):
            found.append(_class(part[0], part["kind"] or letter, text, inside))
            continue
        inside = (inside or part["open"] is not None) and part["close"] is None
        found.append(part[0])
    try:
        return re.compile("".join(found))
    except (re.error, OverflowError, RecursionError) as error:
        raise RecordFormatError(
            f"the pattern {pattern!r:.100} is not read: {error!s:.100}"
        ) from None


def _class(written: str, kind: str, text: str, inside: bool) -> str:
    """A class as the characters of a text that belong to it."""
    is_negated = kind in "SDW" or written.startswith(("\\P", "\\p{^"))
    members = {c for c in set(text) if _belongs(c, kind) != is_negated}
    # No class may be empty: a character that the text does not have changes nothing.
    members.add(next(c for c in map(chr, range(0x10FFFF, 0, -1)) if c not in text))
    listed = "".join(f"\\U{ord(c):08x}" for c in sorted(members))
    return listed if inside else f"[{listed}]"


def _belongs(c: str, kind: str) -> bool:
    category = unicodedata.category(c)
    if kind in "sS":
        return c in SPACES
    if kind in "dD":
        return category == "Nd"
    if kind in "wW":
        return category.startswith(_WORD) or c in "\u200c\u200d"
    if not re.fullmatch("[A-Z][a-z]?", kind):
        raise RecordFormatError(f"characters of the class {kind!r:.40} are not known here")
    return category.startswith(kind)


def _refuse_slow(pattern: str) -> None:
    plain = re.sub(r"\\p\{\^?\w+\}|\\.", "x", pattern, flags=re.DOTALL | re.IGNORECASE)
    plain = re.sub(r"\[\^?\]?[^\]]*\]", "x", plain)
    if re.search(r"\)[*+{]", plain):
        raise RecordFormatError(f"the pattern {pattern!r:.100} repeats a group, which is not read")
    repeats = max(len(re.findall(r"[*+]\+?|,\}|\d{3,}\}", part)) for part in plain.split("|"))
    if repeats > _MOST_REPEATS:
        raise RecordFormatError(f"the pattern {pattern!r:.100} repeats {repeats} parts at a time")


def pieces(
    text: str, pattern: re.Pattern[str], behaviour: str, *, inverted: bool = False
) -> list[str]:
    """Cut a text at the matches of a pattern.

    Args:
        text: The text.
        pattern: What is looked for.
        behaviour: What becomes of a match: `"Removed"`, `"Isolated"`, `"Contiguous"` (neighbours
            are one), `"MergedWithPrevious"` or `"MergedWithNext"`.
        inverted: Whether what is between matches is taken for the matches.

    Examples:
        >>> pieces("a, b", re.compile(","), "MergedWithPrevious")
        ['a,', ' b']
    """
    runs: list[tuple[str, bool]] = []
    end = 0
    for match in pattern.finditer(text):
        if match.end() > match.start():
            runs += [(text[end : match.start()], inverted), (match[0], not inverted)]
            end = match.end()
    runs = [run for run in [*runs, (text[end:], inverted)] if run[0]]
    if behaviour == "Removed":
        return [piece for piece, is_match in runs if not is_match]
    if behaviour == "Isolated":
        return [piece for piece, _ in runs]
    if behaviour not in ("Contiguous", "MergedWithPrevious", "MergedWithNext"):
        raise RecordFormatError(f"matches that are {behaviour!r:.40} are not read")
    found: list[str] = []
    before: bool | None = None
    for piece, is_match in runs:
        joins = {
            "Contiguous": is_match == before,
            "MergedWithPrevious": is_match and before is False,
            "MergedWithNext": not is_match and before is True,
        }[behaviour]
        if joins:
            found[-1] += piece
        else:
            found.append(piece)
        before = is_match
    return found
