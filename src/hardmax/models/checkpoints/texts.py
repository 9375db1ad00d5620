"""Tokenisation of texts, with the files next to a checkpoint's weights.

`tokenizer.json` is a complete description (`tokenisers.described`). Without it, an equivalent
description is built from other files: a `vocab.txt` of word pieces; `vocab.json` with `merges.txt`,
as for GPT-2; or the header of a GGUF file. A `vocab.txt` of single characters, or without word
pieces, as for chemical formulas, is a list of *symbols*: the text is split from left to right, each
time at the longest symbol that fits. *Amino acids* are the six loops of a T-cell receptor, for
models with the embedder of SCEPTR.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax._ground.files import read_text
from hardmax._ground.json_text import parse_json
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.families import compiled
from hardmax.models.checkpoints.finding import find_weights_file
from hardmax.models.checkpoints.reading import read_config, read_weights
from hardmax.models.checkpoints.tokenisers.described import Token, tokenise_text
from hardmax.models.checkpoints.tokenisers.gguf_headers import tokenise_with_gguf
from hardmax.models.checkpoints.tokenisers.vocabularies import split_longest_symbols
from hardmax.models.formats.gguf_files import read_gguf_fields
from hardmax.typing import AnyArray, FloatArray, IntArray

_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_LETTERS = "_token_embedder._token_embedding._token_embeddings"
_LOOPS = "_token_embedder._compartment_embedding._token_embeddings"
_PROJECTOR = "_self_attention_stack._initial_projector.weight"


@dataclass(frozen=True, eq=False, repr=False)
class TokenisedText:
    """A text as the input of a checkpoint.

    Attributes:
        words: The piece of text that each token stands for, for display.
        tokens: The token ids, shape `(n,)`; None if there are vectors.
        vectors: The input of the first layer, shape `(n, d)`; None if there are token ids.

    Examples:
        >>> tokenise("hardmax", "cab|").words
        ('c', 'a', 'b', '|')
    """

    words: tuple[str, ...]
    tokens: IntArray | None = None
    vectors: FloatArray | None = None

    __repr__ = short_repr
    _repr_html_ = html_card


def tokenise(source: str | os.PathLike[str], text: str, select: str | None = None) -> TokenisedText:
    """Tokenise a text for a checkpoint.

    Args:
        source: The checkpoint, as for `load_checkpoint`.
        text: The text. For a T-cell receptor: its six loops, CDR1, CDR2 and CDR3 of the alpha chain
            and then of the beta chain, separated by spaces, with `-` for an unknown loop. For a
            transformer compiled by this library: the numbers of its input, separated by spaces.
        select: The checkpoint to use if there are several, as for `load_checkpoint`.

    Raises:
        ArgumentError: If no file next to the weights describes the tokenisation, or the text has a
            character that the model does not know.

    Examples:
        >>> found = tokenise("hardmax", "cab|")
        >>> found.words, found.tokens.tolist()
        (('c', 'a', 'b', '|'), [2, 0, 1, 26])
    """
    path = find_weights_file(source, select)
    folder = path.parent
    if (
        path != Path(source)
        and not _has_tokeniser_files(folder)
        and _has_tokeniser_files(folder.parent)
    ):
        folder = folder.parent  # Some packages keep one vocabulary for several models.
    settings = read_config(folder / "tokenizer_config.json")
    described = read_config(folder / "tokenizer.json")
    if described:
        return _to_tokenised_text(tokenise_text(_set_lowercase(described, settings), text))
    if (folder / "vocab.txt").is_file():
        is_framed = read_config(path.parent / "config.json").get("model_type") != "gpt2"
        listed = read_text(folder / "vocab.txt").splitlines()
        return _to_tokenised_text(_tokenise_with_list(listed, settings, text, is_framed=is_framed))
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        listed = read_text(folder / "merges.txt").splitlines()
        merges = [line for line in listed if line and not line.startswith("#version")]
        vocabulary = parse_json(read_text(folder / "vocab.json"))
        return _to_tokenised_text(tokenise_text(_describe_gpt2(vocabulary, merges), text))
    if path.suffix == ".gguf":
        return _to_tokenised_text(tokenise_with_gguf(read_gguf_fields(path), text))
    tensors = read_weights(path)[0]
    if compiled.EMBEDDING in tensors:
        return _embed_input(text, tensors)
    if all(name in tensors for name in (_LETTERS, _LOOPS, _PROJECTOR)):
        arrays = (tensors[name].astype(np.float64) for name in (_LETTERS, _LOOPS, _PROJECTOR))
        return _embed_receptor(text, *arrays)
    raise ArgumentError(
        "`text` requires a model with a tokeniser (vocab.txt, tokenizer.json, vocab.json with "
        f"merges.txt, or a GGUF file); {folder} has none. Pass token ids instead."
    )


def _has_tokeniser_files(folder: Path) -> bool:
    """Whether a folder contains the files of a tokeniser."""
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json"))


def _to_tokenised_text(tokens: list[Token]) -> TokenisedText:
    words, numbers = [word for word, _ in tokens], [number for _, number in tokens]
    return TokenisedText(tuple(words), np.array(numbers, dtype=np.int64))


def _set_lowercase(described: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Override the lowercase flag of a BERT normaliser if the settings specify it."""
    step, lowers = described.get("normalizer"), settings.get("do_lower_case")
    if lowers is None or not isinstance(step, dict) or step.get("type") != "BertNormalizer":
        return described
    return {**described, "normalizer": {**step, "lowercase": lowers is True}}


def _tokenise_with_list(
    vocabulary: list[str], settings: Mapping[str, Any], text: str, *, is_framed: bool
) -> list[Token]:
    numbers = {word: i for i, word in enumerate(vocabulary)}
    if any(word.startswith("##") for word in vocabulary):
        return tokenise_text(_describe_bert(numbers, settings), text)
    symbols = split_longest_symbols(text, numbers)
    if is_framed and "[CLS]" in numbers and "[SEP]" in numbers:
        symbols = ["[CLS]", *symbols, "[SEP]"]
    unknown = next((symbol for symbol in symbols if symbol not in numbers), None)
    if unknown is not None:
        raise ArgumentError(
            f"`text` must only contain symbols of the vocabulary; {unknown!r:.40} is unknown."
        )
    return [(symbol, numbers[symbol]) for symbol in symbols]


def _describe_bert(numbers: dict[str, int], settings: Mapping[str, Any]) -> dict[str, Any]:
    if "[CLS]" not in numbers or "[SEP]" not in numbers:
        raise ArgumentError(
            "`text` requires a vocabulary with [CLS] and [SEP]; they are missing here. Pass token "
            "ids instead."
        )
    marks = ("[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]")
    lowers = settings.get("do_lower_case", True) is True
    first, last = ([mark, numbers[mark]] for mark in marks[:2])
    return {
        "added_tokens": [{"content": m, "id": numbers[m]} for m in marks if m in numbers],
        "normalizer": {"type": "BertNormalizer", "lowercase": lowers},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "vocab": numbers},
        "post_processor": {"type": "BertProcessing", "cls": first, "sep": last},
    }


def _describe_gpt2(vocabulary: Any, merges: list[str]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    if isinstance(vocabulary, dict) and "<s>" in vocabulary and "</s>" in vocabulary:
        first, last = ([word, vocabulary[word]] for word in ("<s>", "</s>"))  # As RoBERTa does.
        described["post_processor"] = {"type": "RobertaProcessing", "cls": first, "sep": last}
    return described


def _embed_input(text: str, tensors: Mapping[str, AnyArray]) -> TokenisedText:
    """Return the tokens of a compiled transformer for an input."""
    n = tensors[compiled.EMBEDDING].shape[0]
    try:
        x = np.array([float(word) for word in text.replace(",", " ").split()])
    except ValueError:
        raise ArgumentError(
            f"`text` must be the {n} numbers of the input; got {text!r:.60}."
        ) from None
    if len(x) != n or not np.isfinite(x).all():
        raise ArgumentError(
            f"`text` must be the {n} finite numbers of the input; got {text!r:.60}."
        )
    vectors = compiled.compute_input_vectors(tensors, x)
    return TokenisedText(tuple(f"token {i}" for i in range(len(vectors))), vectors=vectors)


def _embed_receptor(
    text: str, letters: FloatArray, loops: FloatArray, projector: FloatArray
) -> TokenisedText:
    """Embed a first token and six loops; each letter has its relative position in its loop."""
    parts = text.upper().split()
    if len(parts) != len(loops) - 1 or not any(part.strip("-") for part in parts):
        raise ArgumentError(
            f"`text` must have {len(loops) - 1} loops of amino acids, not all unknown, with `-` "
            f"for an unknown loop; got {len(parts)} loops."
        )
    rows = [np.concatenate([letters[2], [0.0], loops[0]])]
    words = ["CLS"]
    for loop, part in enumerate(parts, start=1):
        chain = "" if part == "-" else part
        for place, letter in enumerate(chain):
            if letter not in _AMINO_ACIDS:
                raise ArgumentError(f"`text` must consist of amino acid letters; got {letter!r}.")
            along = place / (len(chain) - 1) if len(chain) > 1 else 0.5
            number = 3 + _AMINO_ACIDS.index(letter)
            rows.append(np.concatenate([letters[number], [along], loops[loop]]))
            words.append(letter)
    return TokenisedText(tuple(words), vectors=np.array(rows) @ projector.T)
