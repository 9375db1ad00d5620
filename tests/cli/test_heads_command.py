"""`hardmax heads`: the small transformer by default, other inputs, error messages."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hardmax.cli.main import app
from hardmax.errors import HardmaxError
from tests.models.checkpoints.refresh import FOLDER


def heads(*words, command="heads"):
    done = CliRunner().invoke(app, [command, *words])
    if isinstance(done.exception, HardmaxError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_without_a_model_the_small_one_is_looked_at(tmp_path):
    said = heads("--out", str(tmp_path), "--text", "cab|abc")
    assert "gpt2, 2 layers x 16 heads, d = 32, d_k = 2" in said
    assert "Gaussian queries" in said
    assert {path.name for path in tmp_path.iterdir()} >= {"heads.html", "heads.csv"}


def test_tokens_and_vectors_are_read(tmp_path):
    assert "tokens        3" in heads(str(FOLDER / "bert"), "--tokens", "3 1,2", "--no-effects")
    np.save(tmp_path / "x.npy", np.eye(8)[:4])
    said = heads(str(FOLDER / "torch_last"), "--vectors", str(tmp_path / "x.npy"))
    assert "tokens        4" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((str(FOLDER / "bert"),), "Give exactly one of `--text`, `--tokens`, `--vectors`; got 0"),
        (("--text", "a|a", "--tokens", "1"), "exactly one of .* got 2"),
        (("--tokens", "x"), "`--tokens` must be integers"),
        (("--tokens", "1"), "at least two"),
        (("--tokens", "1 99"), "`--tokens` must be numbers from 0 to 26"),
        (("--vectors", "no.npy"), "`--vectors` must be a file"),
        (("--text", "a|A"), "`--text` must only contain symbols of the vocabulary"),
        (("no-such-model", "--text", "a"), "`MODEL` must be a file, a folder"),
        (("--config", "[]"), "`--config` must be a JSON object"),
        ((str(FOLDER / "gpt2"), "--text", "a"), "Pass token ids"),
    ],
)
def test_refusals_name_the_flag(words, message):
    with pytest.raises(HardmaxError, match=message):
        heads(*words)


def test_a_folder_called_hardmax_does_not_change_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bert", "gpt2"):
        shutil.copytree(FOLDER / name, tmp_path / "hardmax" / name)
    for words in ((), ("hardmax",)):
        said = heads(*words, "--text", "cab|abc", "--no-effects", "--out", "out")
        assert "gpt2, 2 layers x 16 heads, d = 32, d_k = 2" in said
        assert "Heads of the small transformer" in Path("out/heads.html").read_text()
    heads("--export", "page", "--checkpoint", "hardmax", "--text", "cab|", command="explore")
    with pytest.raises(HardmaxError, match=r"`MODEL` .*; './hardmax' holds 2: .* with `--select`"):
        heads("./hardmax", "--tokens", "1 2")
    with pytest.raises(HardmaxError, match=r"`--checkpoint` .*; './hardmax' holds 2: .* `@NAME`"):
        heads("--export", "page", "--checkpoint", "./hardmax", command="explore")
    assert "bert, 2 layers" in heads("./hardmax", "--select", "bert", "--tokens", "1 2")
    more = ("--tokens", "1,2,3", "--checkpoint", "./hardmax@bert")
    assert "bert, 2 layers" in heads("--export", "page", *more, command="explore")


def test_the_commands_read_cached_models_and_name_them_as_typed(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    out = str(tmp_path / "out")

    def explore(name):
        more = ("--tokens", "1,2", "--export", out)
        return heads("--checkpoint", name, *more, command="explore")

    missing = r"got 'org/name'\. The cache, .* 'hf download org/name'"
    with pytest.raises(HardmaxError, match=f"`MODEL` must .* {missing}"):
        heads("org/name", "--tokens", "1 2")
    with pytest.raises(HardmaxError, match=f"`--checkpoint` must .* {missing}"):
        explore("org/name")
    for name in ("name", "hostile"):
        snapshot = tmp_path / "hub" / f"models--org--{name}" / "snapshots" / "1a2b"
        shutil.copytree(FOLDER / "gpt2", snapshot)
    assert "gpt2, 2 layers" in heads("org/name", "--tokens", "1 2", "--no-effects", "--out", out)
    assert "Heads of org/name" in (tmp_path / "out" / "heads.html").read_text()
    assert "gpt2, 2 layers" in explore("org/name")
    (snapshot / "more").symlink_to(FOLDER / "bert" / "model.safetensors")
    with pytest.raises(HardmaxError, match="`MODEL` must have a snapshot that"):
        heads("org/hostile", "--tokens", "1 2")
    with pytest.raises(HardmaxError, match="`--checkpoint` must have a snapshot that"):
        explore("org/hostile")
