"""The steps of `tokenizer.json` that come before the vocabulary: normalisation and splitting.

A step is an object with a `type`; several steps form a `Sequence`. The steps of published
tokenisers are supported; any other step raises an error that names it.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.tokenisers.charsmaps import apply_charsmap
from hardmax.models.checkpoints.tokenisers.patterns import (
    GPT2,
    SPACES,
    compile_pattern,
    split_by_pattern,
)
from hardmax.models.checkpoints.tokenisers.vocabularies import byte_letters

_LONGEST = 1_000_000
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_CHINESE = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F)),
)
Step = Mapping[str, Any] | None


def normalise(text: str, step: Step) -> str:
    """Apply the `normalizer` of a tokeniser to a text.

    Examples:
        >>> normalise("Ça va", {"type": "BertNormalizer", "lowercase": True})
        'ca va'
    """
    if step is None:
        return text
    _refuse_growth(len(text))
    kind = step["type"]
    if kind == "Sequence":
        for part in step["normalizers"]:
            text = normalise(text, part)
        return text
    if kind in _FORMS:
        return unicodedata.normalize(kind, text)
    if kind == "Lowercase":
        return text.lower()
    if kind == "Strip":
        text = text.lstrip(SPACES) if step.get("strip_left", True) else text
        return text.rstrip(SPACES) if step.get("strip_right", True) else text
    if kind == "StripAccents":
        return "".join(c for c in text if unicodedata.category(c)[0] != "M")
    if kind == "Prepend":
        return str(step["prepend"]) + text if text else text
    if kind == "Replace":
        content, pattern = str(step["content"]), _read_pattern(step["pattern"], text)
        n_matches = sum(1 for _ in pattern.finditer(text))
        _refuse_growth(len(text) + n_matches * len(content))
        return pattern.sub(lambda _: content, text)
    if kind == "BertNormalizer":
        return _normalise_bert(text, step)
    if kind == "ByteLevel":
        return _bytes_to_letters(text)
    if kind == "Precompiled":
        return apply_charsmap(text, step["precompiled_charsmap"], _LONGEST)
    raise RecordFormatError(f"the normaliser {kind!r:.40} is not supported")


def _refuse_growth(length: int) -> None:
    if length > _LONGEST:
        raise RecordFormatError(f"its normaliser expands a text to over {_LONGEST} characters")


def _read_pattern(described: Mapping[str, str], text: str) -> re.Pattern[str]:
    if "String" in described:
        return re.compile(re.escape(described["String"]))
    return compile_pattern(described["Regex"], text)


def _normalise_bert(text: str, step: Mapping[str, Any]) -> str:
    lowers = step.get("lowercase", True) is True
    if step.get("clean_text", True):
        kept = (c for c in text if not _is_control(c) and c not in "\0\ufffd")
        text = "".join(" " if c in SPACES else c for c in kept)
    if step.get("handle_chinese_chars", True):
        text = "".join(f" {c} " if _is_chinese(c) else c for c in text)
    strips = step.get("strip_accents")
    if lowers if strips is None else strips:
        parts = unicodedata.normalize("NFD", text)
        text = "".join(c for c in parts if unicodedata.category(c) != "Mn")
    return text.lower() if lowers else text


def _is_control(c: str) -> bool:
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co")


def _is_chinese(c: str) -> bool:
    return any(low <= ord(c) <= high for low, high in _CHINESE)


def split_words(parts: list[str], step: Step, *, at_start: bool = True) -> list[str]:
    """Split parts of a text into words with the `pre_tokenizer` of a tokeniser.

    Args:
        parts: The parts.
        step: The step.
        at_start: Whether the first part is the beginning of the text.

    Examples:
        >>> split_words(["two words"], {"type": "Metaspace", "prepend_scheme": "always"})
        ['▁two', '▁words']
    """
    if step is None:
        return parts
    kind = step["type"]
    if kind == "Sequence":
        for part in step["pretokenizers"]:
            parts = split_words(parts, part, at_start=at_start)
        return parts
    if kind not in _CUTS:
        raise RecordFormatError(f"the pre-tokeniser {kind!r:.40} is not supported")
    return [
        word
        for i, part in enumerate(parts)
        for word in _CUTS[kind](part, step, at_start and i == 0)
    ]


def _split_pattern(text: str, step: Mapping[str, Any], _: bool) -> list[str]:
    inverted = step.get("invert", False) is True
    pattern = _read_pattern(step["pattern"], text)
    return split_by_pattern(text, pattern, step["behavior"], inverted=inverted)


def _split_bytes(text: str, step: Mapping[str, Any], _: bool) -> list[str]:
    if step.get("add_prefix_space", True) and not text.startswith(" "):
        text = f" {text}"
    cut = [text]
    if step.get("use_regex", True):
        cut = split_by_pattern(text, compile_pattern(GPT2, text), "Isolated")
    return [_bytes_to_letters(word) for word in cut]


def _bytes_to_letters(text: str) -> str:
    letters = byte_letters()
    return "".join(letters[byte] for byte in text.encode())


def _split_metaspace(text: str, step: Mapping[str, Any], at_start: bool) -> list[str]:
    mark = str(step.get("replacement", "▁"))
    older = "always" if step.get("add_prefix_space", True) else "never"
    scheme = step.get("prepend_scheme", older)
    _refuse_growth(len(text) + text.count(" ") * len(mark))
    text = text.replace(" ", mark)
    wanted = scheme == "always" or (scheme == "first" and at_start)
    if wanted and not text.startswith(mark):
        text = mark + text
    if not step.get("split", True):
        return [text]
    return split_by_pattern(text, re.compile(re.escape(mark)), "MergedWithNext")


def _split_digits(text: str, step: Mapping[str, Any], _: bool) -> list[str]:
    behaviour = "Isolated" if step.get("individual_digits", False) else "Contiguous"
    return split_by_pattern(text, compile_pattern(r"\p{N}", text), behaviour)


def _split_punctuation(text: str, step: Mapping[str, Any], _: bool) -> list[str]:
    pattern = compile_pattern(r"[!-/:-@\[-`{-~\p{P}]", text)
    return split_by_pattern(text, pattern, step.get("behavior", "Isolated"))


def _split_bert(text: str, step: Mapping[str, Any], at_start: bool) -> list[str]:
    parts = split_by_pattern(text, compile_pattern(r"\s+", text), "Removed")
    return [word for part in parts for word in _split_punctuation(part, {}, at_start)]


_CUTS = {
    "Split": _split_pattern,
    "ByteLevel": _split_bytes,
    "Metaspace": _split_metaspace,
    "Digits": _split_digits,
    "Punctuation": _split_punctuation,
    "BertPreTokenizer": _split_bert,
    "WhitespaceSplit": lambda text, *_: split_by_pattern(
        text, compile_pattern(r"\s+", text), "Removed"
    ),
    "Whitespace": lambda text, *_: compile_pattern(r"\w+|[^\w\s]+", text).findall(text),
}
