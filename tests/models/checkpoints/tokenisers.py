"""Small descriptions of tokenisers, one for each kind that published models have."""

from hardmax.models.checkpoints.tokenisers.patterns import LLAMA3
from hardmax.models.checkpoints.tokenisers.vocabularies import byte_letters

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Pairs merged in this order; the letter for a space is that of GPT-2.
PAIRS = ["a b", "Ġ ab", "Ġ b", "1 2", "ab ab", "Ã ©", "ab ing"]


def numbers(words):
    return {word: i for i, word in enumerate(words)}


def paired(letters, pairs, first=(), **options):
    """Pairs of bytes or letters, with what merges make of them."""
    merged = ["".join(pair.split()) for pair in pairs]
    words = dict.fromkeys([*first, *letters, *merged, "ing"])
    kept = [pair for pair in pairs if all(part in words for part in pair.split())]
    return {"type": "BPE", "vocab": numbers(words), "merges": kept, **options}


def special(word, number):
    return {"id": number, "content": word, "special": True, "normalized": False} | dict.fromkeys(
        ("single_word", "lstrip", "rstrip"), False
    )


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, **options}


def metaspace(scheme="always"):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def template(word, number):
    entry = {"id": word, "ids": [number], "tokens": [word]}
    parts = [{"SpecialToken": {"id": word, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    pair = [*parts, {"Sequence": {"id": "B", "type_id": 1}}]
    return {
        "type": "TemplateProcessing",
        "single": parts,
        "pair": pair,
        "special_tokens": {word: entry},
    }


_LETTERS = byte_letters()
_SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
_MARKS = ["[UNK]", "[CLS]", "[SEP]"]
_BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
_SPACED = ["▁ a", "a b", "▁ ab"]
_SCORED = {"<unk>": 0.0, "▁": -2.0, "a": -2.1, "b": -2.2, "ab": -3.0, "▁ab": -3.5, "▁a": -2.5}
_PARTS = {
    "gpt2": {"model": paired(_LETTERS, PAIRS), "pre_tokenizer": byte_level(use_regex=True)},
    "roberta": {
        "model": paired(_LETTERS, PAIRS, ["<s>", "</s>"]),
        "pre_tokenizer": byte_level(use_regex=True, add_prefix_space=True),
        "post_processor": {
            **{"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
            **{"trim_offsets": True, "add_prefix_space": True},
        },
        "added_tokens": [special("<s>", 0), special("</s>", 1)],
    },
    "llama3": {
        "model": paired(_LETTERS, PAIRS, ["<|begin|>"], ignore_merges=True),
        "pre_tokenizer": sequence("pretokenizers", _SPLIT, byte_level(use_regex=False)),
        "post_processor": sequence("processors", byte_level(), template("<|begin|>", 0)),
        "added_tokens": [special("<|begin|>", 0)],
    },
    "smollm": {
        "model": paired(_LETTERS, PAIRS),
        "pre_tokenizer": sequence(
            "pretokenizers",
            {"type": "Digits", "individual_digits": True},
            byte_level(use_regex=True),
        ),
    },
    "llama2": {
        "model": paired(
            "▁ab12",
            _SPACED,
            ["<unk>", "<s>", *BYTES],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        ),
        "normalizer": sequence(
            "normalizers",
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ),
        "post_processor": template("<s>", 1),
        "added_tokens": [special("<unk>", 0), special("<s>", 1)],
    },
    "spaced": {
        "model": paired("▁ab1", _SPACED, ["<unk>"], unk_token="<unk>", fuse_unk=True),
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": metaspace("first"),
    },
    "unigram": {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[*item] for item in _SCORED.items()]},
        "normalizer": sequence(
            "normalizers",
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ),
        "pre_tokenizer": metaspace(),
    },
    "wordpiece": {
        "model": {
            **{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"},
            **{"max_input_chars_per_word": 12},
            "vocab": numbers([*_MARKS, *"ab1.'e", "##a", "##b", "##1", "ab", "##ab", "中"]),
        },
        "normalizer": {"type": "BertNormalizer", "lowercase": True, **_BERT},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "added_tokens": [special(mark, i) for i, mark in enumerate(_MARKS)],
    },
    "words": {
        "model": {"type": "WordLevel", "vocab": numbers(["?", "ab", "a", "."]), "unk_token": "?"},
        "normalizer": sequence(
            "normalizers",
            {"type": "Lowercase"},
            {"type": "Strip", "strip_left": True, "strip_right": True},
        ),
        "pre_tokenizer": sequence(
            "pretokenizers",
            {"type": "Whitespace"},
            {"type": "Punctuation", "behavior": "Isolated"},
        ),
    },
}
_EMPTY = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor"))
TOKENISERS = {
    name: {"version": "1.0", **_EMPTY, "added_tokens": [], "decoder": None, **parts}
    for name, parts in _PARTS.items()
}
