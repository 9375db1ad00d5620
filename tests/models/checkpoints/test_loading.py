"""Checkpoints from every kind of file; what is damaged, hostile or unknown is refused."""

import json
import shutil
import struct
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hardmax as hm
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.models.tensor_files import read_tensors
from tests.gguf_archives import field, text, write_gguf
from tests.models.checkpoints.refresh import ENCODERS, FOLDER, MODELS, TOKENS
from tests.torch_saves import write_legacy_state_dict, write_state_dict

EXPECTED = read_tensors(FOLDER / "expected.safetensors")[1]


def state_of(name):
    """The tensors and the configuration of a small model."""
    tensors = {}
    for path in sorted((FOLDER / name).glob("*.safetensors")):
        tensors.update(load_file(path))
    return tensors, json.loads((FOLDER / name / "config.json").read_text())


def hidden(model):
    return hm.models.run_transformer(model, TOKENS).hidden


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("write", [write_state_dict, write_legacy_state_dict])
def test_state_dicts_of_torch_save_load(tmp_path, name, write):
    tensors, config = state_of(name)
    write(tmp_path / "pytorch_model.bin", tensors)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "training_args.bin").write_bytes(b"not weights")
    model = hm.load_checkpoint(tmp_path)
    assert np.array_equal(hidden(model), hidden(hm.load_checkpoint(FOLDER / name)))


@pytest.mark.parametrize("name", MODELS)
def test_state_dicts_in_memory_load_with_a_prefix_or_without(name):
    tensors, config = state_of(name)
    plain = hidden(hm.load_checkpoint(tensors, config=config))
    first = {key if key == "lm_head.weight" else f"net.{key}": v for key, v in tensors.items()}
    assert np.array_equal(hidden(hm.load_checkpoint(first, config=config)), plain)


def test_modules_of_torch_load_in_any_precision():
    torch = pytest.importorskip("torch")
    layer = torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    vectors = np.random.default_rng(0).standard_normal((3, 4))
    with torch.no_grad():
        expected = module.double()(torch.tensor(vectors)[None])[0].numpy()
    model = hm.load_checkpoint(module, config={"nhead": 2})
    found = hm.models.run_transformer(model, vectors=vectors).hidden
    assert np.abs(found - expected).max() < 1e-12
    assert model.assumed == ("norm_first = False", "activation = relu", "layer_norm_eps = 1e-05")
    stated = {"nhead": 2, "norm_first": False, "activation": "relu", "layer_norm_eps": 1e-5}
    assert hm.load_checkpoint(module, config=stated).assumed == ()
    model = hm.load_checkpoint(module.bfloat16(), config={"nhead": 2})
    assert model.layers[0].attention.query.dtype == np.float32
    with pytest.raises(DtypeError, match="`source` must be"):
        hm.load_checkpoint(3)


def test_the_configuration_given_goes_before_the_one_of_the_file():
    model = hm.load_checkpoint(FOLDER / "bert", config={"num_attention_heads": 4})
    assert model.layers[0].attention.n_heads == 4
    assert model.config["num_attention_heads"] == 4


def test_old_names_of_norms_are_understood():
    tensors, config = state_of("bert")
    old = {
        k.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for k in tensors
    }
    assert len(old) == len(tensors)
    renamed = {
        k.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): v
        for k, v in tensors.items()
    }
    model = hm.load_checkpoint(renamed, config=config)
    assert np.abs(hidden(model) - EXPECTED["bert.hidden"]).max() < 1e-12


def test_weights_keep_their_type_and_narrow_ones_are_widened():
    tensors, config = state_of("bert")
    for kind, kept in (("f8", "f8"), ("f4", "f4"), ("f2", "f4")):
        stored = {name: array.astype(kind) for name, array in tensors.items()}
        model = hm.load_checkpoint(stored, config=config)
        assert model.layers[0].attention.query.dtype == np.dtype(kept)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{c}_proj": f"attn_{c}" for c in "qkv"},
    **{f"self_attn.{c}_norm": f"attn_{c}_norm" for c in "qk"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}


def write_llama_gguf(path, kind="llama", *, extra=()):
    """Write the small Llama (or Qwen2) as llama.cpp does, queries and keys reordered."""
    tensors, config = state_of(kind)
    stored = {}
    for name, array in tensors.items():
        layer, parameter = name.rpartition(".")[::2]
        number = layer.split(".")[2] if layer.startswith("model.layers") else None
        layer = layer.removeprefix(f"model.layers.{number}.")
        at = "" if number is None else f"blk.{number}."
        if kind == "llama" and layer in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = config["num_attention_heads" if "q_" in layer else "num_key_value_heads"]
            halves = array.reshape(heads, 2, -1, array.shape[1])
            array = halves.transpose(0, 2, 1, 3).reshape(array.shape)
        stored[f"{at}{GGUF_NAMES[layer]}.{parameter}"] = array
    if kind == "llama":
        # What llama.cpp divides the frequencies by, for the stretched periods of Llama 3.
        head_dim = config["head_dim"]
        plain = 500.0 ** (-np.arange(0, head_dim, 2) / head_dim)
        stretched = hm.load_checkpoint(FOLDER / "llama").layers[0].attention.rotary.frequencies
        stored["rope_freqs.weight"] = (plain / stretched).astype("f4")
    numbers = {
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
    }
    floats = {
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_parameters"]["rope_theta"],
    }
    fields = [field("general.architecture", 8, text(kind))]
    fields += [field(f"{kind}.{k}", 4, struct.pack("<I", v)) for k, v in numbers.items()]
    fields += [field(f"{kind}.{k}", 6, struct.pack("<f", v)) for k, v in floats.items()]
    if "head_dim" in config:
        fields.append(
            field(f"{kind}.attention.key_length", 4, struct.pack("<I", config["head_dim"]))
        )
    stored = {k: (v.shape, 0, v.tobytes()) for k, v in stored.items()}
    write_gguf(path, stored, [*fields, *extra])


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_gguf_files_load(tmp_path, kind):
    write_llama_gguf(tmp_path / "m.gguf", kind)
    model = hm.load_checkpoint(tmp_path / "m.gguf")
    found = hm.models.run_transformer(model, TOKENS)
    assert np.abs(found.hidden - EXPECTED[f"{kind}.hidden"]).max() < 1e-5
    assert np.abs(found.logits - EXPECTED[f"{kind}.logits"]).max() < 1e-5


def test_other_architectures_of_gguf_files_are_refused(tmp_path):
    write_gguf(tmp_path / "m.gguf", {}, [field("general.architecture", 8, text("mamba"))])
    with pytest.raises(RecordFormatError, match=r"llama, qwen2, qwen3; .* has 'mamba'"):
        hm.load_checkpoint(tmp_path / "m.gguf")


@pytest.mark.parametrize("is_noted", [False, True])
def test_onnx_files_load_also_where_matrices_lost_their_names(tmp_path, is_noted):
    onnx = pytest.importorskip("onnx")
    tensors, config = state_of("bert")
    nodes, stored = [], []
    for i, (name, array) in enumerate(tensors.items()):
        if name.endswith(("query.weight", "dense.weight")) and "encoder" in name:
            layer, name, array = name.removesuffix(".weight"), f"onnx::MatMul_{i}", array.T
            path = layer.replace(".", "/").replace("layer/", "layer.")
            said = f"node_{i}" if is_noted else f"/{path}/MatMul"
            nodes.append(onnx.helper.make_node("MatMul", ["x", name], [f"y{i}"], name=said))
            if is_noted:
                scopes = str(["", layer, "linear"])
                nodes[-1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
        stored.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
    graph = onnx.helper.make_graph(nodes, "bert", [], [], stored)
    beside = {"save_as_external_data": is_noted, "location": "w.data", "size_threshold": 0}
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx", **beside)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.abs(hidden(hm.load_checkpoint(tmp_path)) - EXPECTED["bert.hidden"]).max() < 1e-12


def test_onnx_files_may_not_name_other_files(tmp_path):
    onnx = pytest.importorskip("onnx")
    one = onnx.numpy_helper.from_array(np.ones(2), "a")
    onnx.external_data_helper.set_external_data(one, "../secret")
    one.data_location = onnx.TensorProto.EXTERNAL
    graph = onnx.helper.make_graph([], "g", [], [], [one])
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with pytest.raises(RecordFormatError, match=r"`a` is stored in .*not a file in the folder"):
        hm.load_checkpoint(tmp_path / "m.onnx")


def test_packages_are_found_and_not_imported(tmp_path, monkeypatch):
    package = tmp_path / "carries_weights"
    for name in ("bert", "gpt2"):
        shutil.copytree(FOLDER / name, package / "models" / name)
    (package / "__init__.py").write_text("raise SystemError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArgumentError, match=r"holds 2: models/bert/model.safetensors, models/gpt2"):
        hm.load_checkpoint("carries-weights")
    assert hm.load_checkpoint("carries-weights", "gpt2").family == "gpt2"
    assert "carries_weights" not in sys.modules
    with pytest.raises(ArgumentError, match=r"'carries-weights', which holds .*; got 'llama'"):
        hm.load_checkpoint("carries-weights", "llama")


@pytest.mark.parametrize(
    "source", ["__main__", "no-such-package", "no/such/file.bin", "", "hardmax.models."]
)
def test_what_is_not_there_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="`source` must"):
        hm.load_checkpoint(source)


def test_an_index_may_only_name_files_beside_it(tmp_path):
    shutil.copytree(FOLDER / "gpt2", tmp_path / "gpt2")
    index = tmp_path / "gpt2" / "model.safetensors.index.json"
    whole = json.loads(index.read_text())
    assert np.array_equal(
        hidden(hm.load_checkpoint(index)), hidden(hm.load_checkpoint(FOLDER / "gpt2"))
    )
    for change, message in (
        ({"a": "../bert/model.safetensors"}, "lists '../bert/model.safetensors'"),
        ({"a": "model.safetensors.index.json"}, "must list weight files in its own folder"),
        ({"a": 7}, "no `weight_map`"),
        ({"a": "model-00001-of-00003.safetensors"}, "`a` is missing"),
    ):
        index.write_text(json.dumps({"weight_map": {**whole["weight_map"], **change}}))
        with pytest.raises(RecordFormatError, match=message):
            hm.load_checkpoint(tmp_path / "gpt2")


CHANGES = [
    ("bert", {"num_attention_heads": None}, {}, "do not contain `num_attention_heads`; pass it as"),
    ("bert", {"num_attention_heads": 3}, {}, "8 columns cannot be split into 3 heads"),
    ("bert", {"num_attention_heads": 0}, {}, "must be at least 1"),
    ("bert", {"num_attention_heads": "2"}, {}, "must be a whole number; got '2'"),
    ("bert", {"num_hidden_layers": 3}, {}, r"3, but the number of layers is 2: `encoder.layer.2"),
    ("bert", {"num_hidden_layers": 1}, {}, "1, but the number of layers is 2"),
    ("bert", {"hidden_act": "mish"}, {}, "`hidden_act` must be one of relu.*; got 'mish'"),
    ("bert", {"model_type": "ernie"}, {}, "type 'ernie' is not supported.*types are bert"),
    ("bert", {"position_embedding_type": "relative_key"}, {}, "'absolute'; got 'relative_key'"),
    ("albert", {"num_hidden_layers": 10**12}, {}, "`num_hidden_layers` must .*; got 1000000000000"),
    ("llama", {"model_type": "gemma2"}, {}, "type 'gemma2'"),
    ("llama", {"rope_parameters": {"rope_type": "yarn"}}, {}, "must be default.*; got 'yarn'"),
    ("llama", {"num_key_value_heads": 3}, {}, r"shape \(18, 8\); got \(12, 8\)"),
    ("gpt2", {"n_head": 5}, {}, "5 heads"),
    ("gpt2", {"scale_attn_weights": False}, {}, "unscaled scores"),
    ("torch_last", {"nhead": None}, {}, "pass it as config={'nhead'"),
    ("bert", {}, {"embeddings.LayerNorm.bias": np.zeros(7)}, r"shape \(8\); got \(7,\)"),
    ("bert", {}, {"embeddings.word_embeddings.weight": None}, "is missing"),
    ("bert", {}, {"encoder.layer.0.extra.weight": np.zeros(1)}, "does not belong"),
    ("bert", {}, {"encoder.layer.0.output.dense.weight": np.full((8, 12), np.nan)}, "not finite"),
    ("bert", {}, {"encoder.layer.0.output.dense.bias": np.zeros(8, int)}, "must contain floats"),
    ("llama", {}, {"model.layers.0.self_attn.q_norm.weight": np.ones(6)}, "q_norm.* not belong"),
    ("torch_last", {}, {"layers.0.multihead_attn.in_proj_weight": np.ones(1)}, "not belong"),
    ("bert", {}, {"decoder.encoder.layer.0.attention.self.query.weight": 1.0}, "several stacks"),
]


@pytest.mark.parametrize(("name", "config", "tensors", "message"), CHANGES)
def test_models_that_do_not_fit_are_refused_with_what_was_found(name, config, tensors, message):
    state, known = state_of(name)
    state = {k: v for k, v in {**state, **tensors}.items() if v is not None}
    with pytest.raises(RecordFormatError, match=message):
        hm.load_checkpoint(state, config={**known, **config})


@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 100, b"<html>not found</html>"])
@pytest.mark.parametrize("suffix", ["safetensors", "bin", "pt", "gguf", "onnx"])
def test_files_of_something_else_are_refused(tmp_path, content, suffix):
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(content)
    with pytest.raises(RecordFormatError, match=f"must .*model.{suffix}"):
        hm.load_checkpoint(path)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 1000, '{"a": NaN}'])
def test_a_damaged_configuration_is_refused(tmp_path, content):
    shutil.copy(FOLDER / "bert" / "model.safetensors", tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RecordFormatError, match=r"config\.json"):
        hm.load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", [*MODELS, *ENCODERS])
def test_every_tensor_of_a_layer_is_needed_in_its_shape(name):
    tensors, config = state_of(name)
    whole = hm.load_checkpoint(tensors, config=config)
    optional = ("lm_head.weight", "embed_out.weight", "token_type_embeddings.weight")
    for key, array in tensors.items():
        if key in whole.unused or key.endswith("bias"):
            continue  # Biases may be missing.
        without = {k: v for k, v in tensors.items() if k != key}
        if not key.endswith(optional) and key != "norm.weight":
            with pytest.raises(HardmaxError):
                hm.load_checkpoint(without, config=config)
        with pytest.raises(HardmaxError):
            hm.load_checkpoint({**tensors, key: array[None]}, config=config)


def test_damaged_safetensors_are_refused_or_read(tmp_path):
    whole = (FOLDER / "bert" / "model.safetensors").read_bytes()
    config = state_of("bert")[1]
    path = tmp_path / "model.safetensors"
    rng = np.random.default_rng(1)
    for n in rng.integers(0, len(whole), 30):
        path.write_bytes(whole[:n])
        with pytest.raises(RecordFormatError, match="`path`"):
            hm.load_checkpoint(path, config=config)
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.integers(3000)] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            hm.load_checkpoint(path, config=config)
        except HardmaxError:
            continue


def test_several_files_are_not_guessed_between(tmp_path):
    tensors, _ = state_of("bert")
    for name in ("a", "b"):
        save_file(tensors, tmp_path / f"{name}.safetensors")
    with pytest.raises(ArgumentError, match=r"holds 2: a\.safetensors, b\.safetensors\. Choose"):
        hm.load_checkpoint(tmp_path)
    config = state_of("bert")[1]
    assert hm.load_checkpoint(tmp_path, "b.safetensors", config=config).family == "bert"
    above = tmp_path.parent
    named = f"{tmp_path.name}/a.safetensors"
    assert hm.load_checkpoint(above, named, config=config).family == "bert"
    with pytest.raises(ArgumentError, match="`select` must be None if `source` is a file"):
        hm.load_checkpoint(tmp_path / "a.safetensors", "b")
