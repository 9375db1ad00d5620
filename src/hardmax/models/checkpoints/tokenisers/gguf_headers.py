"""Tokenisers described by the header of a GGUF file: byte pairs, or pieces with scores."""

from collections.abc import Mapping
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models.checkpoints.tokenisers.described import Token, tokenise_text
from hardmax.models.checkpoints.tokenisers.patterns import GPT2, LLAMA3, QWEN2
from hardmax.models.checkpoints.tokenisers.vocabularies import (
    decode_piece,
    merge_pairs,
    replace_unknown,
)

_ALONE = ("smollm", "starcoder", "refact")
_PATTERNS: dict[str | None, str] = {None: GPT2}
_PATTERNS |= dict.fromkeys(("gpt-2", "mpt", "olmo", "jais", *_ALONE), GPT2)
_PATTERNS |= dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), LLAMA3)
_PATTERNS |= dict.fromkeys(("qwen2", "deepseek-r1-qwen"), QWEN2)
_CONTROL = 3


def tokenise_with_gguf(fields: Mapping[str, Any], text: str) -> list[Token]:
    """Return the tokens of a text for the tokeniser in the header of a GGUF file.

    Raises:
        ArgumentError: If the tokeniser is not supported.

    Examples:
        >>> header = {"model": "gpt2", "tokens": ["a", "b", "ab"], "merges": ["a b"]}
        >>> tokenise_with_gguf({f"tokenizer.ggml.{k}": v for k, v in header.items()}, "abb")
        [('ab', 2), ('b', 1)]
    """
    said = {name.removeprefix("tokenizer.ggml."): value for name, value in fields.items()}
    words, kind, first = said.get("tokens"), said.get("model"), said.get("bos_token_id")
    if not isinstance(words, list) or kind not in ("gpt2", "llama"):
        raise ArgumentError(
            "`text` requires a GGUF file with a tokeniser of type 'gpt2' or 'llama'; this file has "
            f"{kind!r:.40}. Pass token ids instead."
        )
    pre = said.get("pre")
    begins = said.get("add_bos_token", kind == "llama" or _PATTERNS.get(pre) is LLAMA3)
    found = (
        _tokenise_with_scores(words, said, text)
        if kind == "llama"
        else _tokenise_byte_pairs(words, said, pre, text)
    )
    if not begins or first is None:
        return found
    if type(first) is not int or not 0 <= first < len(words):
        raise RecordFormatError(
            f"`bos_token_id` must be the id of a token of the vocabulary; got {first!r:.40}."
        )
    return [(words[first], first), *found]


def _tokenise_byte_pairs(
    words: list[str], said: Mapping[str, Any], pre: Any, text: str
) -> list[Token]:
    if not isinstance(pre, str | None) or pre not in _PATTERNS:
        known = ", ".join(str(name) for name in _PATTERNS if name)
        raise ArgumentError(
            f"`text` requires a GGUF file whose pre-tokeniser is one of {known}; this file has "
            f"{pre!r:.40}. Pass token ids instead."
        )
    numbers = {word: i for i, word in enumerate(words)}
    kinds = said.get("token_type", ())
    added = [
        {"content": word, "id": numbers[word]}
        for word, kind in zip(words, kinds, strict=False)
        if kind == _CONTROL
    ]
    cuts: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": _PATTERNS[pre]}, "behavior": "Isolated"},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
    ]
    if pre in _ALONE:
        cuts.insert(0, {"type": "Digits", "individual_digits": True})
    is_llama = _PATTERNS[pre] is LLAMA3
    merges = said.get("merges")
    model = {"type": "BPE", "vocab": numbers, "merges": merges, "ignore_merges": is_llama}
    described = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts}, "model": model}
    return tokenise_text({**described, "added_tokens": added}, text)


def _tokenise_with_scores(words: list[str], said: Mapping[str, Any], text: str) -> list[Token]:
    """Merge the neighbours whose union has the highest score first, as SentencePiece does."""
    scores = said.get("scores")
    if scores is None or len(scores) != len(words):
        raise RecordFormatError("`source` must have one score for each token of its vocabulary.")
    numbers = {word: i for i, word in enumerate(words)}
    losses = {word: -float(score) for word, score in zip(words, scores, strict=True)}
    text = text.replace(" ", "▁")
    if said.get("add_space_prefix", True) and text:
        text = f"▁{text}"
    found = replace_unknown(
        merge_pairs(text, lambda pair: losses.get(pair[0] + pair[1])),
        numbers,
        unknown="<unk>" if "<unk>" in numbers else None,
        falls_back=True,
    )
    unknown = next((piece for piece in found if piece not in numbers), None)
    if unknown is not None:
        raise ArgumentError(
            f"`text` must only contain pieces of the vocabulary; {unknown!r:.40} is unknown."
        )
    return [(decode_piece(piece, None), numbers[piece]) for piece in found]
