"""`hardmax heads`: the small transformer by default, other inputs, refusals."""

import numpy as np
import pytest
from typer.testing import CliRunner

from hardmax.cli.main import app
from hardmax.errors import HardmaxError
from tests.models.checkpoints.refresh import FOLDER


def heads(*words):
    done = CliRunner().invoke(app, ["heads", *words])
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
        ((str(FOLDER / "bert"),), "`--text`, `--tokens` or `--vectors`"),
        (("--text", "a|a", "--tokens", "1"), "one of them"),
        (("--tokens", "x"), "`--tokens` must be numbers"),
        (("--tokens", "1"), "at least two"),
        (("--tokens", "1 99"), "`--tokens` must be numbers from 0 to 26"),
        (("--vectors", "no.npy"), "`--vectors` must be a file"),
        (("--text", "a|A"), "`--text` must be made of what the model knows"),
        (("no-such-model", "--text", "a"), "`MODEL` must be a file, a folder"),
        (("--config", "[]"), "`--config` must be a JSON object"),
        ((str(FOLDER / "gpt2"), "--text", "a"), "State the tokens"),
    ],
)
def test_refusals_name_the_flag(words, message):
    with pytest.raises(HardmaxError, match=message):
        heads(*words)
