"""Which file a source means: paths, the bundled model, packages, the Hugging Face cache."""

import json
import os
import re
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.explorer import heads_at_work
from hardmax.models.checkpoints.finding import SUFFIXES
from tests.models.checkpoints.refresh import FOLDER, MODELS, TOKENS

MAIN, OTHER = "0123456789abcdef" * 2 + "01234567", "fedcba98" * 5


def hidden(model):
    return hm.models.run_transformer(model, TOKENS).hidden


def cache_model(cache, name, folder, revision=MAIN, *, is_main=True):
    """Lay a folder out as the libraries of Hugging Face do; return the folder of the model."""
    model = cache / f"models--{name.replace('/', '--')}"
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        blob = model / "blobs" / sha256(file.read_bytes()).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(file.read_bytes())
        link = model / "snapshots" / revision / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if is_main:
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text(revision)
    return model


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache, and nothing of the developer's own; the working directory is empty."""
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "hub"


@pytest.fixture
def forget_heads():
    """Have the explorer read its checkpoints anew."""
    heads_at_work.bundled_heads.cache_clear()
    heads_at_work._load_checkpoint.cache_clear()
    yield
    heads_at_work.bundled_heads.cache_clear()
    heads_at_work._load_checkpoint.cache_clear()


def copy_clone(folder):
    """Make a folder like a clone of the sources: several checkpoints, and an environment."""
    shutil.copytree(FOLDER / "bert", folder / "tests" / "bert")
    shutil.copytree(FOLDER / "gpt2", folder / "tests" / "gpt2")
    shutil.copytree(FOLDER / "llama", folder / ".venv" / "lib" / "carries_weights")


def test_the_bundled_model_has_its_own_entry_point(cache):
    model, again = hm.models.load_bundled(), hm.load_checkpoint("hardmax")
    assert repr(model) == "TransformerWeights(gpt2, 2 layers x 16 heads, d = 32, d_k = 2)"
    assert np.array_equal(model.embedding.tokens, again.embedding.tokens)


@pytest.mark.usefixtures("forget_heads")
def test_a_folder_called_hardmax_does_not_hide_the_bundled_model(cache):
    copy_clone(Path("hardmax"))
    assert hm.load_checkpoint("hardmax").layers[0].attention.head_dim == 2
    assert hm.models.tokenise("hardmax", "cab|").words == ("c", "a", "b", "|")
    assert heads_at_work.checkpoint_to_data("hardmax", text="cab|")["labels"] == [
        "c",
        "a",
        "b",
        "|",
    ]
    assert '"name":"hardmax"' in hm.explore().page()


def test_a_file_called_hardmax_does_not_hide_the_bundled_model(cache):
    Path("hardmax").write_text("a program")
    assert hm.load_checkpoint("hardmax").layers[0].attention.head_dim == 2
    assert hm.models.tokenise("hardmax", "cab|").tokens.tolist() == [2, 0, 1, 26]


@pytest.mark.parametrize("source", ["./hardmax", "hardmax/", Path("hardmax")])
def test_a_folder_called_hardmax_is_written_as_a_path(cache, source):
    with pytest.raises(ArgumentError, match="must be a file, a folder"):
        hm.load_checkpoint(source)
    copy_clone(Path("hardmax"))
    typed = re.escape(repr(os.fspath(source)))
    with pytest.raises(
        ArgumentError, match=rf"; {typed} holds 2: tests/bert/model.safetensors, tests/gpt2/[^,]*$"
    ):
        hm.load_checkpoint(source)
    assert hm.load_checkpoint(source, "bert").family == "bert"
    with pytest.raises(ArgumentError, match=rf"checkpoint in {typed}, which .*; got 'llama'"):
        hm.load_checkpoint(source, "llama")


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta", None])
def test_hidden_folders_and_environments_are_not_searched(cache, mark):
    shutil.copytree(FOLDER / "bert", "project/model")
    inside = Path("project/env" if mark else "project/.git")
    shutil.copytree(FOLDER / "gpt2", inside / "lib" / "gpt2")
    if mark:
        (inside / mark).touch()
    Path("project/model/._model.safetensors").write_text("of another system")
    assert hm.load_checkpoint("project").family == "bert"
    with pytest.raises(ArgumentError, match="got 'gpt2'"):
        hm.load_checkpoint("project", "gpt2")
    assert hm.load_checkpoint(f"./{inside}").family == "gpt2"  # Where it is named, it is meant.


def test_a_folder_without_weights_does_not_hide_a_package_or_a_cached_model(
    cache, tmp_path, monkeypatch
):
    shutil.copytree(FOLDER / "bert", tmp_path / "site" / "carries_weights")
    monkeypatch.syspath_prepend(tmp_path / "site")
    cache_model(cache, "org/name", FOLDER / "gpt2")
    for name, family in (("carries_weights", "bert"), ("org/name", "gpt2")):
        Path(name).mkdir(parents=True)
        Path(name, "heads.html").write_text("what `--out` wrote")
        assert hm.load_checkpoint(name).family == family
        with pytest.raises(
            ArgumentError, match=f"got './{name}'. This folder contains no weights."
        ):
            hm.load_checkpoint(f"./{name}")
        with pytest.raises(ArgumentError, match="contains no weights"):
            hm.load_checkpoint(Path(name))
    shutil.copytree(FOLDER / "llama", "org/name", dirs_exist_ok=True)
    assert hm.load_checkpoint("org/name").family == "llama"


@pytest.mark.parametrize("name", MODELS)
def test_cached_models_are_the_folders_they_were_made_of(cache, name):
    cache_model(cache, f"org/{name}", FOLDER / name)
    found = hm.load_checkpoint(f"org/{name}")
    assert np.array_equal(hidden(found), hidden(hm.load_checkpoint(FOLDER / name)))


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HF_HUB_CACHE": "{}/a"}, "a"),
        ({"HUGGINGFACE_HUB_CACHE": "{}/a"}, "a"),
        ({"HF_HOME": "{}/a"}, "a/hub"),
        ({"HF_HOME": "~/a"}, "home/a/hub"),
        ({"HF_HOME": "$HOME/a"}, "home/a/hub"),
        ({"XDG_CACHE_HOME": "{}/a"}, "a/huggingface/hub"),
        ({"HF_HOME": "", "HF_HUB_CACHE": ""}, "home/.cache/huggingface/hub"),
        ({"HF_HUB_CACHE": "{}/a", "HF_HOME": "{}/b", "XDG_CACHE_HOME": "{}/c"}, "a"),
    ],
)
def test_the_cache_is_where_the_environment_says(cache, tmp_path, monkeypatch, variables, place):
    monkeypatch.delenv("HF_HUB_CACHE")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    with pytest.raises(ArgumentError, match=re.escape(f"{tmp_path / place}, does not have it")):
        hm.load_checkpoint("org/name")
    cache_model(tmp_path / place, "org/name", FOLDER / "bert")
    assert hm.load_checkpoint("org/name").family == "bert"


def test_a_cached_model_is_found_by_its_name_alone_if_it_has_no_owner(cache):
    cache_model(cache, "gpt2", FOLDER / "gpt2")
    assert hm.load_checkpoint("gpt2").family == "gpt2"


def test_a_model_that_is_not_cached_is_explained(cache):
    cache_model(cache, "owner/GPT2", FOLDER / "gpt2")
    with pytest.raises(ArgumentError) as refusal:
        hm.load_checkpoint("gpt2")
    said = str(refusal.value)
    assert f"got 'gpt2'. The cache, {cache}, does not have it, but has owner/GPT2." in said
    assert "hardmax does not download" in said
    assert "'hf download gpt2'" in said
    assert "HF_HUB_CACHE or HF_HOME" in said


@pytest.mark.parametrize(
    "source",
    [
        "../gpt2",
        "a/b/c",
        "..gpt2",
        "org/..",
        "org/",
        "/gpt2",
        "org--gpt2",
        "gpt2.safetensors",
        "o/ö",
    ],
)
def test_what_cannot_be_the_name_of_a_model_is_not_looked_up(cache, source):
    for name in ("gpt2", "org/gpt2", "../gpt2", "gpt2.bin", "o/ö"):
        cache_model(cache, name, FOLDER / "gpt2")
    with pytest.raises(ArgumentError) as refusal:
        hm.load_checkpoint(source)
    assert f"got {source!r}." in str(refusal.value)
    assert "download" not in str(refusal.value)


def test_texts_and_selections_of_cached_models_are_read(cache, tmp_path):
    folder = tmp_path / "made"
    shutil.copytree(FOLDER / "bert", folder / "one")
    shutil.copytree(FOLDER / "bert", folder / "two")
    (folder / "vocab.txt").write_text("a\nb")
    cache_model(cache, "org/name", folder)
    with pytest.raises(ArgumentError, match="'org/name' holds 2: one/"):
        hm.load_checkpoint("org/name")
    assert hm.load_checkpoint("org/name", "two").family == "bert"
    assert hm.models.tokenise("org/name", "ba", "two").tokens.tolist() == [1, 0]
    data = heads_at_work.checkpoint_to_data("org/name@two", [1, 2, 3])
    assert data["name"] == "org/name@two"


def test_the_main_revision_is_read_or_the_only_one(cache):
    model = cache_model(cache, "org/name", FOLDER / "bert", OTHER, is_main=False)
    assert hm.load_checkpoint("org/name").family == "bert"
    cache_model(cache, "org/name", FOLDER / "gpt2", is_main=False)
    place = model.resolve() / "snapshots" / MAIN
    with pytest.raises(ArgumentError, match=f"'org/name' has 2. Pass the folder .* {place}.$"):
        hm.load_checkpoint("org/name")
    assert hm.load_checkpoint(place).family == "gpt2"
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(f"{MAIN}\n")
    assert hm.load_checkpoint("org/name").family == "gpt2"


def test_models_that_are_cached_in_part_are_refused(cache):
    model = cache_model(cache, "org/name", FOLDER / "gpt2")
    snapshot = model / "snapshots" / MAIN
    shard = snapshot / "model-00002-of-00003.safetensors"
    shard.resolve().unlink()
    with pytest.raises(RecordFormatError, match=f"'{shard.name}' is missing .* Complete"):
        hm.load_checkpoint("org/name")
    for path in snapshot.iterdir():
        if path.name.endswith((*SUFFIXES, "index.json")):
            path.unlink()
    with pytest.raises(ArgumentError, match=rf"'org/name' has none in {snapshot}. .*'hf download"):
        hm.load_checkpoint("org/name")
    shutil.rmtree(model / "snapshots")
    with pytest.raises(ArgumentError, match=f"'org/name' has none in {snapshot}"):
        hm.load_checkpoint("org/name")
    shutil.rmtree(model / "refs")
    with pytest.raises(ArgumentError, match=f"'org/name' has none in {model}"):
        hm.load_checkpoint("org/name")


@pytest.mark.parametrize("revision", ["..", "../../../secret", "/", "", "a" * 99, "\0", "é"])
def test_a_main_revision_may_only_name_a_snapshot(cache, tmp_path, revision):
    shutil.copytree(FOLDER / "bert", tmp_path / "secret")
    model = cache_model(cache, "org/name", FOLDER / "gpt2")
    (model / "refs" / "main").write_text(revision)
    with pytest.raises(RecordFormatError, match="refs/main does not name a revision"):
        hm.load_checkpoint("org/name")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "vocab.txt", "new/vocab.txt", "README.md"]
)
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_link_out_of_the_blobs_is_refused(cache, tmp_path, name, is_relative):
    secret = tmp_path / "secret"
    secret.write_bytes((FOLDER / "bert" / "model.safetensors").read_bytes())
    link = cache_model(cache, "org/name", FOLDER / "bert") / "snapshots" / MAIN / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(secret, link.parent) if is_relative else secret)
    for read in (hm.load_checkpoint, lambda source: hm.models.tokenise(source, "a")):
        with pytest.raises(RecordFormatError, match=f"{re.escape(name)} points to {secret}"):
            read("org/name")


def test_links_of_folders_blobs_and_other_models_are_refused(cache, tmp_path):
    for i, make in enumerate(
        (
            lambda snapshot, blobs: (snapshot / "more").symlink_to(tmp_path),
            lambda snapshot, blobs: (snapshot / "more").symlink_to("more"),
            lambda snapshot, blobs: _move(snapshot, tmp_path / "snapshot"),
            lambda snapshot, blobs: _move(blobs, tmp_path / "blobs"),
            lambda snapshot, blobs: _move(next(blobs.iterdir()), tmp_path / "blob"),
            lambda snapshot, blobs: _move(blobs, cache / "models--org--0" / "blobs" / "more"),
        )
    ):
        model = cache_model(cache, f"org/{i}", FOLDER / "bert")
        assert hm.load_checkpoint(f"org/{i}").family == "bert"
        make(model / "snapshots" / MAIN, model / "blobs")
        with pytest.raises(RecordFormatError, match="links to the blobs of its model"):
            hm.load_checkpoint(f"org/{i}")


def _move(path, place):
    """Move a file or folder, and leave a link to it."""
    shutil.move(path, place)
    path.symlink_to(place)


def test_files_in_place_of_links_and_a_cache_behind_a_link_are_read(cache, tmp_path):
    model = cache_model(tmp_path / "disk", "org/name", FOLDER / "gpt2")
    cache.symlink_to(tmp_path / "disk")
    assert hm.load_checkpoint("org/name").family == "gpt2"
    snapshot = model / "snapshots" / MAIN
    for link in list(snapshot.iterdir()):  # As on systems without links.
        content = link.read_bytes()
        link.unlink()
        link.write_bytes(content)
    shutil.rmtree(model / "blobs")
    assert hm.load_checkpoint("org/name").family == "gpt2"


def test_an_index_in_the_cache_may_only_name_files_beside_it(cache, tmp_path):
    folder = tmp_path / "made"
    shutil.copytree(FOLDER / "gpt2", folder)
    shutil.copy(FOLDER / "bert" / "model.safetensors", cache.parent / "outside.safetensors")
    index = folder / "model.safetensors.index.json"
    whole = json.loads(index.read_text())["weight_map"]
    shards = ("../../../../../outside.safetensors", str(cache.parent / "outside.safetensors"))
    for i, shard in enumerate(shards):
        index.write_text(json.dumps({"weight_map": {**whole, "a": shard}}))
        cache_model(cache, f"org/{i}", folder)
        with pytest.raises(RecordFormatError, match="must list weight files in its own folder"):
            hm.load_checkpoint(f"org/{i}")
