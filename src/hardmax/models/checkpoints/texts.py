"""Texts as the tokens of a checkpoint, with what lies beside its weights.

Four kinds are read. *WordPiece*: words in lower case or not, cut into the longest pieces of
`vocab.txt` or `tokenizer.json`. *Pairs of bytes*: bytes merged in the order of the merges of
`tokenizer.json`, `merges.txt` or a GGUF file; words are those of GPT-2, except that a
tokeniser may want every digit alone. *Symbols*: a `vocab.txt` of single characters, or one without
pieces of words, as of chemical formulas: the longest that fit, from the left. *Amino acids*: the
six loops of a T-cell receptor, for models with the embedder of SCEPTR.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax._ground.files import read_text
from hardmax._ground.json_text import parse_json
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models.checkpoints.loading import weights_file
from hardmax.models.checkpoints.reading import read_config, read_weights
from hardmax.models.formats.gguf_files import read_gguf
from hardmax.typing import FloatArray, IntArray

_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_LETTERS = "_token_embedder._token_embedding._token_embeddings"
_LOOPS = "_token_embedder._compartment_embedding._token_embeddings"
_PROJECTOR = "_self_attention_stack._initial_projector.weight"
_LONGEST_WORD = 100
# What GPT-2 calls a word: letters, digits or signs with a space before them, or spaces.
_GPT2_WORD = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


@dataclass(frozen=True, eq=False, repr=False)
class TokenisedText:
    """A text as a checkpoint reads it.

    Attributes:
        words: What each token stands for, to be shown.
        tokens: The numbers of the tokens, shape `(n,)`; None where there are vectors.
        vectors: What enters the first layer, shape `(n, d)`; None where there are tokens.
    """

    words: tuple[str, ...]
    tokens: IntArray | None = None
    vectors: FloatArray | None = None

    __repr__ = short_repr
    _repr_html_ = html_card


def tokenise(source: str | os.PathLike[str], text: str, select: str | None = None) -> TokenisedText:
    """Return a text as the tokens of a checkpoint.

    Args:
        source: The checkpoint, as `load_checkpoint` takes it.
        text: The text. For a T-cell receptor its six loops, CDR1, CDR2 and CDR3 of the alpha and
            then of the beta chain, with spaces between them and `-` for one that is not known.
        select: Which one, as in `load_checkpoint`.

    Raises:
        ArgumentError: If nothing beside the weights says how to read a text, or it has a character
            that the model does not know.

    Examples:
        >>> found = tokenise("hardmax", "cab|")
        >>> found.words, found.tokens.tolist()
        (('c', 'a', 'b', '|'), [2, 0, 1, 26])
    """
    path = weights_file(source, select)
    folder = path.parent
    settings = read_config(folder / "tokenizer_config.json")
    described = read_config(folder / "tokenizer.json")
    model = described.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if (folder / "vocab.txt").is_file():
        return _from_list(read_text(folder / "vocab.txt").splitlines(), settings, text)
    if isinstance(model, dict) and kind == "WordPiece":
        normalizer = described.get("normalizer")
        if isinstance(normalizer, dict) and "lowercase" in normalizer:
            settings = {"do_lower_case": normalizer["lowercase"], **settings}
        return _word_pieces(_vocabulary(model), settings, text)
    if isinstance(model, dict) and kind == "BPE":
        steps = _word_steps(described)
        if not steps <= {"ByteLevel", "Digits"}:
            named = ", ".join(sorted(steps)) or "none"
            raise ArgumentError(
                f"`text` must be for a tokeniser that cuts words as GPT-2 does; {folder} has other "
                f"steps: {named:.100}. State the tokens as numbers."
            )
        alone = "Digits" in steps
        return _byte_pairs(_vocabulary(model), _merges(model.get("merges")), alone, text)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        listed = read_text(folder / "merges.txt").splitlines()
        merges = [line for line in listed if line and not line.startswith("#version")]
        vocabulary = _vocabulary({"vocab": parse_json(read_text(folder / "vocab.json"))})
        return _byte_pairs(vocabulary, _merges(merges), False, text)
    if path.suffix == ".gguf":
        return _from_gguf(read_gguf(path).fields, text)
    if path.suffix in (".pt", ".pth", ".bin"):
        tensors = read_weights(path)[0]
        if all(name in tensors for name in (_LETTERS, _LOOPS, _PROJECTOR)):
            arrays = (tensors[name].astype(np.float64) for name in (_LETTERS, _LOOPS, _PROJECTOR))
            return _receptor(text, *arrays)
    raise ArgumentError(
        f"`text` must be for a model whose folder says how to read it (vocab.txt, tokenizer.json, "
        f"vocab.json with merges.txt, a GGUF file); {folder} does not. State the tokens as numbers."
    )


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    found = model.get("vocab")
    if not isinstance(found, dict) or not all(type(n) is int for n in found.values()):
        raise RecordFormatError("`source` must have a vocabulary of words with numbers.")
    return found


def _merges(listed: Any) -> list[tuple[str, str]]:
    """Pairs that are merged, first ones first; written with a space or as a list of two."""
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in listed or ()]
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise RecordFormatError("`source` must have merges of two parts each.")
    return [(str(first), str(second)) for first, second in pairs]


def _word_steps(described: Mapping[str, Any]) -> set[str]:
    """The kinds of steps that cut a text into words."""
    first = described.get("pre_tokenizer")
    if not isinstance(first, dict):
        return {"none"}
    return {
        str(part.get("type"))
        for part in first.get("pretokenizers", [first])
        if isinstance(part, dict)
    }


def _from_list(vocabulary: list[str], settings: Mapping[str, Any], text: str) -> TokenisedText:
    numbers = {word: i for i, word in enumerate(vocabulary)}
    if any(word.startswith("##") for word in vocabulary):
        return _word_pieces(numbers, settings, text)
    symbols = _symbols(text, numbers)
    framed = "[CLS]" in numbers and "[SEP]" in numbers
    return _numbered(["[CLS]", *symbols, "[SEP]"] if framed else symbols, numbers)


def _symbols(text: str, numbers: Mapping[str, int]) -> list[str]:
    """Cut a text into the longest symbols there are, from the left; one that is not known stays."""
    longest = max(map(len, numbers), default=1)
    symbols, start = [], 0
    while start < len(text):
        ends = range(min(len(text), start + longest), start, -1)
        end = next((end for end in ends if text[start:end] in numbers), start + 1)
        symbols.append(text[start:end])
        start = end
    return symbols


def _numbered(words: Sequence[str], numbers: Mapping[str, int]) -> TokenisedText:
    unknown = next((word for word in words if word not in numbers), None)
    if unknown is not None:
        raise ArgumentError(f"`text` must be made of what the model knows; {unknown!r:.40} is not.")
    return TokenisedText(tuple(words), np.array([numbers[word] for word in words], dtype=np.int64))


def _word_pieces(
    numbers: Mapping[str, int], settings: Mapping[str, Any], text: str
) -> TokenisedText:
    if "[CLS]" not in numbers or "[SEP]" not in numbers:
        raise ArgumentError("`text` must be for a vocabulary with [CLS] and [SEP]; this has none.")
    pieces = ["[CLS]"]
    for word in _bert_words(text, lower=settings.get("do_lower_case", True) is True):
        pieces += _longest_pieces(word, numbers)
    return _numbered([*pieces, "[SEP]"], numbers)


def _bert_words(text: str, *, lower: bool) -> list[str]:
    """Cut at spaces, and at signs, each of which is a word; so are the signs of Chinese."""
    if lower:
        parts = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in parts if unicodedata.category(c) != "Mn")
    spaced = []
    for c in text:
        kind = unicodedata.category(c)
        if kind == "Cc" and not c.isspace():
            continue
        alone = kind[0] == "P" or c in "$+<=>^`|~" or "\u4e00" <= c <= "\u9fff"
        spaced.append(f" {c} " if alone else c)
    return "".join(spaced).split()


def _longest_pieces(word: str, numbers: Mapping[str, int]) -> list[str]:
    """Cut a word into the longest pieces there are, from the left."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1) if len(word) <= _LONGEST_WORD else ()
        end = next((end for end in ends if mark + word[start:end] in numbers), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


def _byte_pairs(
    numbers: Mapping[str, int], merges: Sequence[tuple[str, str]], alone: bool, text: str
) -> TokenisedText:
    letters = _byte_letters()
    ranks = {pair: i for i, pair in enumerate(merges)}
    runs = re.split(r"(\d)", text) if alone else [text]
    pieces = [
        piece
        for run in runs
        for word in _GPT2_WORD.findall(run)
        for piece in _merged([letters[byte] for byte in word.encode()], ranks.get)
    ]
    found = _numbered(pieces, numbers)
    assert found.tokens is not None
    back = {letter: byte for byte, letter in enumerate(letters)}
    shown = (bytes(back[c] for c in piece).decode(errors="replace") for piece in found.words)
    words, tokens = [*shown], [*found.tokens.tolist()]
    if "<s>" in numbers and "</s>" in numbers:  # As RoBERTa frames a text.
        words, tokens = ["<s>", *words, "</s>"], [numbers["<s>"], *tokens, numbers["</s>"]]
    return TokenisedText(tuple(words), np.array(tokens, dtype=np.int64))


def _merged(parts: list[str], rank: Callable[[tuple[str, str]], int | None]) -> list[str]:
    """Merge neighbours, the pair of the lowest rank first, until there is none."""
    while len(parts) > 1:
        ranked = [(rank(pair), i) for i, pair in enumerate(pairwise(parts))]
        known = [(r, i) for r, i in ranked if r is not None]
        if not known:
            break
        _, i = min(known)
        parts = [*parts[:i], parts[i] + parts[i + 1], *parts[i + 2 :]]
    return parts


def _byte_letters() -> list[str]:
    """A printable letter for each byte, as GPT-2 has them: itself, or one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    code = {byte: byte for byte in printable} | {byte: 256 + i for i, byte in enumerate(others)}
    return [chr(code[byte]) for byte in range(256)]


def _from_gguf(fields: Mapping[str, Any], text: str) -> TokenisedText:
    words, merges = fields.get("tokenizer.ggml.tokens"), fields.get("tokenizer.ggml.merges")
    if fields.get("tokenizer.ggml.model") != "gpt2" or words is None or merges is None:
        raise ArgumentError("`text` must be for a GGUF file with pairs of bytes; this has none.")
    alone = fields.get("tokenizer.ggml.pre") in ("smollm", "refact", "starcoder")
    numbers = {word: i for i, word in enumerate(words)}
    return _byte_pairs(numbers, _merges(merges), alone, text)


def _receptor(
    text: str, letters: FloatArray, loops: FloatArray, projector: FloatArray
) -> TokenisedText:
    """The six loops behind a first token; each letter knows its place along its loop."""
    parts = text.upper().split()
    if len(parts) != len(loops) - 1 or not any(part.strip("-") for part in parts):
        raise ArgumentError(
            f"`text` must be {len(loops) - 1} loops of amino acids, `-` for one that is not known; "
            f"got {len(parts)}."
        )
    rows = [np.concatenate([letters[2], [0.0], loops[0]])]
    words = ["CLS"]
    for loop, part in enumerate(parts, start=1):
        chain = "" if part == "-" else part
        for place, letter in enumerate(chain):
            if letter not in _AMINO_ACIDS:
                raise ArgumentError(f"`text` must be letters of amino acids; got {letter!r}.")
            along = place / (len(chain) - 1) if len(chain) > 1 else 0.5
            number = 3 + _AMINO_ACIDS.index(letter)
            rows.append(np.concatenate([letters[number], [along], loops[loop]]))
            words.append(letter)
    return TokenisedText(tuple(words), vectors=np.array(rows) @ projector.T)
