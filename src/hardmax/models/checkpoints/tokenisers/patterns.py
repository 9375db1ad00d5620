r"""Regular expressions of tokenisers, which use character classes that `re` does not have.

A class such as `\p{L}` is replaced by the characters of that class that occur in the text, so only
Python's own Unicode tables are used. A pattern may come from an untrusted file, so patterns that
can take exponential time are refused.
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
"""The white space of Unicode, which has fewer characters than `str.isspace` accepts."""
_WORD = ("L", "M", "Nd", "Nl", "Pc")
_MOST_REPEATS = 3
_LONGEST_PATTERN = 2000
_PARTS = re.compile(
    r"\\[pP]\{\^?(?P<kind>\w+)\}|\\(?P<letter>.)|(?P<open>\[\^?\]?)|(?P<close>\])|(?P<other>.)",
    re.DOTALL,
)


def compile_pattern(pattern: str, text: str) -> re.Pattern[str]:
    r"""Compile a pattern with Unicode classes for use on one text.

    Args:
        pattern: The pattern; it may use `\p{..}` with one or two letters, `\s`, `\d` and `\w`.
        text: The text. The compiled classes contain only its characters.

    Raises:
        RecordFormatError: If the pattern is invalid or uses other classes, if it repeats a group,
            or if an alternative has more than three parts with unbounded repetition.

    Examples:
        >>> compile_pattern(GPT2, "I've 3½ apples").findall("I've 3½ apples")
        ['I', "'ve", ' 3½', ' apples']
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise RecordFormatError(
            f"a pattern must have at most {_LONGEST_PATTERN} characters; got {len(pattern)}"
        )
    _refuse_slow(pattern)
    found, inside = [], False
    for part in _PARTS.finditer(pattern):
        letter = part["letter"]
        if part["kind"] is not None or (letter is not None and letter in "sSdDwW"):
            found.append(_expand_class(part[0], part["kind"] or letter, text, inside))
            continue
        inside = (inside or part["open"] is not None) and part["close"] is None
        found.append(part[0])
    try:
        return re.compile("".join(found))
    except (re.error, OverflowError, RecursionError) as error:
        raise RecordFormatError(
            f"the pattern {pattern!r:.100} is not valid: {error!s:.100}"
        ) from None


def _expand_class(written: str, kind: str, text: str, inside: bool) -> str:
    """Replace a class by the characters of a text that belong to it."""
    is_negated = kind in "SDW" or written.startswith(("\\P", "\\p{^"))
    members = {c for c in set(text) if _is_in_class(c, kind) != is_negated}
    # A class must not be empty, so add a character that does not occur in the text.
    members.add(next(c for c in map(chr, range(0x10FFFF, 0, -1)) if c not in text))
    listed = "".join(f"\\U{ord(c):08x}" for c in sorted(members))
    return listed if inside else f"[{listed}]"


def _is_in_class(c: str, kind: str) -> bool:
    category = unicodedata.category(c)
    if kind in "sS":
        return c in SPACES
    if kind in "dD":
        return category == "Nd"
    if kind in "wW":
        return category.startswith(_WORD) or c in "\u200c\u200d"
    if not re.fullmatch("[A-Z][a-z]?", kind):
        raise RecordFormatError(f"the character class {kind!r:.40} is not supported")
    return category.startswith(kind)


def _refuse_slow(pattern: str) -> None:
    plain = re.sub(r"\\p\{\^?\w+\}|\\.", "x", pattern, flags=re.DOTALL | re.IGNORECASE)
    plain = re.sub(r"\[\^?\]?[^\]]*\]", "x", plain)
    if re.search(r"\)[*+{]", plain):
        raise RecordFormatError(f"the pattern {pattern!r:.100} must not repeat a group")
    repeats = max(len(re.findall(r"[*+]\+?|,\}|\d{3,}\}", part)) for part in plain.split("|"))
    if repeats > _MOST_REPEATS:
        raise RecordFormatError(
            f"the pattern {pattern!r:.100} must have at most {_MOST_REPEATS} repetitions in an "
            f"alternative; got {repeats}"
        )


def split_by_pattern(
    text: str, pattern: re.Pattern[str], behaviour: str, *, inverted: bool = False
) -> list[str]:
    """Split a text at the matches of a pattern.

    Args:
        text: The text.
        pattern: The pattern.
        behaviour: The treatment of matches: `"Removed"`, `"Isolated"`, `"Contiguous"` (adjacent
            matches are joined), `"MergedWithPrevious"` or `"MergedWithNext"`.
        inverted: Whether to treat the texts between matches as the matches.

    Examples:
        >>> split_by_pattern("a, b", re.compile(","), "MergedWithPrevious")
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
        raise RecordFormatError(f"the split behaviour {behaviour!r:.40} is not supported")
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
