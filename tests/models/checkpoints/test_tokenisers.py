"""What descriptions of tokenisers say is done as the package `tokenizers` does it."""

import json
import random
import re

import pytest

from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.checkpoints.tokenisers.charsmaps import apply_charsmap
from hardmax.models.checkpoints.tokenisers.described import tokenise_text
from hardmax.models.checkpoints.tokenisers.gguf_headers import tokenise_with_gguf
from hardmax.models.checkpoints.tokenisers.patterns import compile_pattern, split_by_pattern
from tests.models.checkpoints.tokenisers import BYTES, TOKENISERS

TEXT = "Abab ab's 1212\u00e9"
# What `tokenizers` 0.23 makes of that text.
EXPECTED = {
    "gpt2": "65 98 256 257 39 115 32 259 259 261",
    "roberta": "0 34 67 100 258 259 41 117 34 261 261 263 1",
    "llama3": "0 66 99 257 258 40 116 33 260 50 51 262",
    "smollm": "65 98 256 257 39 115 32 49 50 49 50 261",
    "llama2": "1 258 67 260 264 263 260 41 117 258 261 262 261 262 197 171",
    "spaced": "1 0 3 6 5 3 0 1 4 0 4 0",
    "unigram": "1 0 3 4 5 0 1 0",
    "wordpiece": "1 12 13 12 7 0 0 2",
    "words": "0 1 0 0 0",
}
ODD = " \t\n\r\xa0\u3000\u00bd\u00b2\u0661\u00e9\u0301\ufb01\u00c7\u4e2d\ud55c\u044e\x1c\u200d"
ODD += "\U0001f642_-'.!12ABab"
PARTS = [*ODD, "ab", "abab", "ing", "ab ", "<s>", "[SEP]", "<|begin|>", "12"]


def numbers_of(name, text):
    return [number for _, number in tokenise_text(TOKENISERS[name], text)]


@pytest.mark.parametrize("name", TOKENISERS)
def test_a_text_has_the_tokens_of_the_reference(name):
    assert numbers_of(name, TEXT) == [int(number) for number in EXPECTED[name].split()]


@pytest.mark.parametrize("name", TOKENISERS)
def test_the_reference_agrees(name):
    reference = pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(TOKENISERS[name]))
    rng = random.Random(0)
    for _ in range(100):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randrange(12)))
        assert numbers_of(name, text) == reference.encode(text).ids, repr(text)


def test_words_are_shown_as_they_are_written():
    decode_piece = [word for word, _ in tokenise_text(TOKENISERS["llama3"], "ab ab\u00e9")]
    assert decode_piece == ["<|begin|>", "ab", " ab", "\u00e9"]
    decode_piece = [word for word, _ in tokenise_text(TOKENISERS["llama2"], "ab A")]
    assert decode_piece == ["<s>", " a", "b", " ", "A"]


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a|b)*", "a*a*a*a*", r"\p{Han}", "(", "[a"])
def test_patterns_that_are_slow_or_unknown_are_refused(pattern):
    with pytest.raises(RecordFormatError, match=r"pattern|class"):
        compile_pattern(pattern, "aaaa")


@pytest.mark.parametrize(
    ("behaviour", "inverted", "expected"),
    [
        ("Removed", False, "a b"),
        ("Removed", True, ", ,"),
        ("Isolated", False, "a , b ,"),
        ("MergedWithPrevious", False, "a, b,"),
        ("MergedWithNext", False, "a ,b ,"),
        ("Contiguous", False, "a , b ,"),
    ],
)
def test_pieces_at_matches(behaviour, inverted, expected):
    found = split_by_pattern("a,b,", re.compile(","), behaviour, inverted=inverted)
    assert found == expected.split(" ")


def test_a_normaliser_cannot_fill_the_memory():
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    steps = {"type": "Sequence", "normalizers": [double] * 60}
    with pytest.raises(RecordFormatError, match="over 1000000"):
        tokenise_text({**TOKENISERS["words"], "normalizer": steps}, "a")


@pytest.mark.parametrize("table", ["!", "AAAA", "/////w=="])
def test_damaged_tables_of_characters_are_refused(table):
    with pytest.raises(RecordFormatError, match="character map is damaged"):
        apply_charsmap("ab", table)


def gguf(model, words, **fields):
    return {
        f"tokenizer.ggml.{k}": v for k, v in {"model": model, "tokens": words, **fields}.items()
    }


def test_headers_of_gguf_files_say_the_same():
    model = TOKENISERS["llama3"]["model"]
    words = list(model["vocab"])
    header = gguf("gpt2", words, merges=model["merges"], pre="llama-bpe", bos_token_id=0)
    assert [number for _, number in tokenise_with_gguf(header, TEXT)] == numbers_of("llama3", TEXT)
    model = TOKENISERS["smollm"]["model"]
    header = gguf("gpt2", list(model["vocab"]), merges=model["merges"], pre="smollm")
    assert [number for _, number in tokenise_with_gguf(header, TEXT)] == numbers_of("smollm", TEXT)


def test_pieces_with_scores_of_gguf_files_merge_the_highest_first():
    words = ["<unk>", "<s>", *BYTES, "▁", "a", "b", "ab", "ba", "▁ab"]
    scores = [0.0] * 258 + [-5.0, -5.0, -5.0, -2.0, -1.0, -3.0]
    header = gguf("llama", words, scores=scores, bos_token_id=1)
    assert [word for word, _ in tokenise_with_gguf(header, "abab\u00e9")][:5] == [
        "<s>",
        " ",
        "a",
        "ba",
        "b",
    ]
    with pytest.raises(HardmaxError, match="score for each"):
        tokenise_with_gguf(gguf("llama", words, scores=[1.0]), "a")
    with pytest.raises(HardmaxError, match="Pass token ids"):
        tokenise_with_gguf(gguf("bert", words), "a")
    with pytest.raises(HardmaxError, match="'tekken'"):
        tokenise_with_gguf(gguf("gpt2", words, merges=[], pre="tekken"), "a")
