"""Tokenisers described by `tokenizer.json`: they normalise, split, look up and frame a text."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models.checkpoints.tokenisers.steps import Step, normalise, split_words
from hardmax.models.checkpoints.tokenisers.vocabularies import (
    byte_letters,
    decode_piece,
    merge_pairs,
    replace_unknown,
    split_unigram,
    split_wordpiece,
)

Token = tuple[str, int]
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


def tokenise_text(described: Mapping[str, Any], text: str) -> list[Token]:
    """Return the tokens of a text, each as the text that it represents and its id.

    Args:
        described: The content of `tokenizer.json`: `model` and, optionally, `normalizer`,
            `pre_tokenizer`, `post_processor` and `added_tokens`.
        text: The text.

    Raises:
        ArgumentError: If a part of the text is not in the vocabulary, and the vocabulary has no
            token for unknown parts.
        RecordFormatError: If the description is damaged, or has an unsupported step.

    Examples:
        >>> model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"}
        >>> tokenise_text({"model": model, "pre_tokenizer": {"type": "Whitespace"}}, "b a c")
        [('b', 1), ('a', 0), ('?', 2)]
    """
    try:
        return _tokenise(described, text)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`source` must have a supported tokenizer.json: {str(error).rstrip('.')}."
        ) from None
    except ArgumentError:
        raise
    except _DAMAGED as error:
        raise RecordFormatError(
            "`source` must have a valid tokenizer.json; reading it failed: "
            f"{type(error).__name__}: {error!s:.100}."
        ) from None


def _tokenise(described: Mapping[str, Any], text: str) -> list[Token]:
    look_up, vocabulary = _build_model(described["model"])
    added = {entry["content"]: entry for entry in described.get("added_tokens") or ()}
    back = None
    cuts = described.get("pre_tokenizer")
    if _has_step(cuts, "ByteLevel") or _has_step(described.get("normalizer"), "ByteLevel"):
        back = {letter: byte for byte, letter in enumerate(byte_letters())}
    found: list[Token] = []
    at_start = True
    for part in _split_added_tokens(text, added):
        if part in added:
            found.append((part, _find_number(part, vocabulary, added)))
        else:
            clean = normalise(part, described.get("normalizer"))
            cut = split_words([clean], cuts, at_start=at_start) if clean else []
            for piece in (piece for word in cut if word for piece in look_up(word)):
                found.append((decode_piece(piece, back), _find_number(piece, vocabulary, added)))
        at_start = False
    before, behind = _read_frame(described.get("post_processor"))
    for word, number in (tokens := [*before, *found, *behind]):
        if not isinstance(word, str) or type(number) is not int or not 0 <= number < 2**31:
            raise RecordFormatError(f"the token {word!r:.40} has the invalid id {number!r:.40}")
    return tokens


def _has_step(step: Step, kind: str) -> bool:
    if step is None:
        return False
    inner = [*step.get("pretokenizers", ()), *step.get("normalizers", ())]
    return step["type"] == kind or any(_has_step(part, kind) for part in inner)


def _find_number(piece: str, vocabulary: Mapping[str, int], added: Mapping[str, Any]) -> int:
    number = added[piece]["id"] if piece in added else vocabulary.get(piece)
    if number is None:
        raise ArgumentError(
            f"`text` must only contain pieces of the vocabulary; {piece!r:.40} is unknown."
        )
    return int(number)


def _split_added_tokens(text: str, added: Mapping[str, Any]) -> Iterator[str]:
    """Split a text at added tokens; yield these tokens and the texts between them."""
    choices = []
    for content in sorted(filter(None, added), key=len, reverse=True):
        left = r"\s*" if added[content].get("lstrip") else ""
        right = r"\s*" if added[content].get("rstrip") else ""
        edge = r"\b" if added[content].get("single_word") else ""
        choices.append(f"{left}{edge}({re.escape(content)}){edge}{right}")
    end = 0
    for match in re.finditer("|".join(choices), text) if choices else ():
        yield from filter(None, [text[end : match.start()]])
        yield next(group for group in match.groups() if group is not None)
        end = match.end()
    yield from filter(None, [text[end:]])


def _build_model(model: Mapping[str, Any]) -> tuple[Callable[[str], list[str]], Mapping[str, int]]:
    """Return a function that splits a word into pieces, and the ids of the pieces."""
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind == "Unigram":
        return _build_unigrams(model)
    vocabulary = check_vocabulary(model["vocab"])
    unknown = model.get("unk_token")
    if kind == "BPE":
        return _build_byte_pairs(model, vocabulary), vocabulary
    if kind == "WordLevel":
        return lambda word: replace_unknown([word], vocabulary, unknown=unknown), vocabulary
    if kind != "WordPiece":
        raise RecordFormatError(f"the vocabulary type {kind!r:.40} is not supported")
    unknown, mark = model.get("unk_token", "[UNK]"), model.get("continuing_subword_prefix", "##")
    longest = model.get("max_input_chars_per_word", 100)
    return lambda word: split_wordpiece(
        word, vocabulary, mark=mark, unknown=unknown, longest=longest
    ), vocabulary


def check_vocabulary(vocabulary: Any) -> dict[str, int]:
    """Return a vocabulary after checking that it maps words to integers."""
    if not isinstance(vocabulary, dict) or not all(type(n) is int for n in vocabulary.values()):
        raise RecordFormatError("its vocabulary must map words to integers")
    return vocabulary


def read_merges(listed: Any) -> dict[tuple[str, str], int]:
    """Return the pairs to merge with their ranks; a pair is a string with a space or a list."""
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in listed or ()]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise RecordFormatError("each of its merges must have two parts")
    return {(str(first), str(second)): i for i, (first, second) in enumerate(pairs)}


def _build_byte_pairs(
    model: Mapping[str, Any], vocabulary: Mapping[str, int]
) -> Callable[[str], list[str]]:
    ranks = read_merges(model["merges"])
    prefix, suffix = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")

    def look_up(word: str) -> list[str]:
        if model.get("ignore_merges") and word in vocabulary:
            return [word]
        symbols = [word[0], *((prefix or "") + c for c in word[1:])]
        symbols[-1] += suffix or ""
        known = replace_unknown(
            symbols,
            vocabulary,
            unknown=model.get("unk_token"),
            falls_back=model.get("byte_fallback") is True,
            fuses=model.get("fuse_unk") is True,
        )
        return merge_pairs(known, ranks.get)

    if prefix:
        raise RecordFormatError("merges with a `continuing_subword_prefix` are not supported")
    return look_up


def _build_unigrams(
    model: Mapping[str, Any],
) -> tuple[Callable[[str], list[str]], Mapping[str, int]]:
    listed = [(str(piece), float(score)) for piece, score in model["vocab"]]
    scores, unknown_id = dict(listed), model.get("unk_id")
    vocabulary = {piece: i for i, (piece, _) in enumerate(listed)}
    unknown = None if unknown_id is None else listed[unknown_id][0]
    lowest = min(scores.values(), default=0.0) - 10.0
    falls_back = model.get("byte_fallback") is True

    def look_up(word: str) -> list[str]:
        found = split_unigram(word, scores, lowest)
        return replace_unknown(found, vocabulary, unknown=unknown, falls_back=falls_back)

    return look_up, vocabulary


def _read_frame(step: Step) -> tuple[list[Token], list[Token]]:
    """Return the tokens that a `post_processor` adds before and after a text."""
    if step is None or step["type"] == "ByteLevel":
        return [], []
    kind = step["type"]
    if kind == "Sequence":
        before: list[Token] = []
        behind: list[Token] = []
        for part in step["processors"]:
            first, last = _read_frame(part)
            before, behind = first + before, behind + last
        return before, behind
    if kind in ("BertProcessing", "RobertaProcessing"):
        (first_word, first_id), (last_word, last_id) = step["cls"], step["sep"]
        return [(first_word, first_id)], [(last_word, last_id)]
    if kind != "TemplateProcessing":
        raise RecordFormatError(f"the post-processor {kind!r:.40} is not supported")
    sides: tuple[list[Token], list[Token]] = ([], [])
    side = 0
    for entry in step["single"]:
        if "Sequence" in entry:
            side = 1
            continue
        special = step["special_tokens"][entry["SpecialToken"]["id"]]
        sides[side].extend(zip(special["tokens"], special["ids"], strict=True))
    return sides
