"""Damaged and hostile checkpoints, drawn at random: each is read or refused with an error of ours.

`python -m tests.models.checkpoints.fuzzing 5000` tries so many files of every kind; the memory of
the process is limited, so that a file that makes its reader ask for much more shows.
"""

import json
import resource
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.errors import HardmaxError
from tests.models.checkpoints.refresh import ENCODERS, FOLDER, MODELS, TOKENS
from tests.models.checkpoints.test_loading import state_of, write_llama_gguf
from tests.models.checkpoints.tokenisers import TOKENISERS
from tests.torch_saves import write_legacy_state_dict, write_state_dict

KINDS = ("safetensors", "bin", "legacy", "gguf", "onnx", "config", "index", "tokenizer", "tensors")
WORDS = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x01" + b"\0" * 6 + b"\x80",
    b"NaN",
    b"..",
)
VALUES = (
    *(0, -1, 1, 3, 2**31, 2**63, 10**30, 0.5, -1e-5, 1e308, 1e-320, True, False, None),
    *("", "x", "..", "../../etc/passwd", "relu", "\ud7ff", [], [1, [2]], {}, {"type": "x"}),
)


def write_folder(folder, kind):
    """Write a sound checkpoint; return the file that is to be damaged."""
    if kind == "gguf":
        write_llama_gguf(folder / "m.gguf")
        return folder / "m.gguf"
    if kind == "index":
        shutil.copytree(FOLDER / "gpt2", folder, dirs_exist_ok=True)
        return folder / "model.safetensors.index.json"
    name = "llama" if kind == "config" else "bert"
    tensors, config = state_of(name)
    (folder / "config.json").write_text(json.dumps(config))
    if kind in ("bin", "legacy"):
        write = write_state_dict if kind == "bin" else write_legacy_state_dict
        write(folder / "m.bin", tensors)
        return folder / "m.bin"
    if kind == "onnx":
        import onnx

        stored = [onnx.numpy_helper.from_array(a, name) for name, a in tensors.items()]
        graph = onnx.helper.make_graph([], "bert", [], [], stored)
        onnx.save(onnx.helper.make_model(graph), folder / "m.onnx")
        return folder / "m.onnx"
    shutil.copy(FOLDER / name / "model.safetensors", folder)
    if kind == "tokenizer":
        return folder / "tokenizer.json"
    return folder / ("config.json" if kind == "config" else "model.safetensors")


def damaged_bytes(content, rng):
    """Cut a file off, or change bits, bytes or words of it, mostly near its beginning or end."""
    if rng.random() < 0.2:
        return content[: rng.integers(len(content))]
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        near = int(rng.choice([64, 1024, len(content)]))
        at = int(rng.integers(min(near, len(content))))
        at = len(content) - 1 - at if rng.random() < 0.3 else at
        choice = rng.random()
        if choice < 0.5:
            changed[at] ^= 1 << rng.integers(8)
        elif choice < 0.7:
            changed[at] = rng.integers(256)
        else:
            word = WORDS[rng.integers(len(WORDS))]
            changed[at : at + len(word)] = word
    return bytes(changed)


def damaged_json(value, rng):
    """Put another value somewhere in a tree, or take something away."""
    value = json.loads(json.dumps(value))
    inside = value
    while isinstance(inside, dict | list) and inside:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        key = keys[rng.integers(len(keys))]
        if not isinstance(inside[key], dict | list) or not inside[key] or rng.random() < 0.3:
            if rng.random() < 0.2:
                del inside[key]
            else:
                inside[key] = VALUES[rng.integers(len(VALUES))]
            break
        inside = inside[key]
    return value


CHANGES = (
    *(np.ravel, np.transpose, lambda a: a[0], lambda a: a[:0], lambda a: a[..., :-1]),
    *(
        lambda a: a[None],
        lambda a: 1e37 * a,
        lambda a: 1e300 * a.astype(np.float64),
        lambda a: 0 * a,
    ),
    *(lambda a: np.full_like(a, np.nan), lambda a: np.full_like(a, -np.inf)),
    *(lambda _: np.float32(1.0), lambda _: np.array("x"), lambda a: a.astype(">f4")),
    *(lambda a: a.astype(np.int8), lambda a: a.astype(object), lambda a: a.astype(complex)),
)


def changed_tensors(rng):
    """A state dict and its configuration, of which one array or one entry is another."""
    names = [*MODELS, *ENCODERS]
    tensors, config = state_of(names[rng.integers(len(names))])
    if rng.random() < 0.5:
        return tensors, damaged_json(config, rng)
    name = list(tensors)[rng.integers(len(tensors))]
    return {**tensors, name: CHANGES[rng.integers(len(CHANGES))](tensors[name])}, config


def attempts(kind, n, seed, most_seconds=np.inf):
    """Read `n` damaged checkpoints; return how many loaded, and what should not have happened."""
    rng = np.random.default_rng(seed)
    n_read, wrong = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = None if kind == "tensors" else write_folder(folder, kind)
        whole = path.read_bytes() if path and path.is_file() else None
        for number in range(n):
            source, config = folder, None
            if kind == "tensors":
                source, config = changed_tensors(rng)
            elif kind == "tokenizer":
                sound = TOKENISERS[list(TOKENISERS)[number % len(TOKENISERS)]]
                path.write_text(json.dumps(damaged_json(sound, rng)))
            elif kind in ("config", "index") and rng.random() < 0.8:
                path.write_text(json.dumps(damaged_json(json.loads(whole), rng)))
            else:
                path.write_bytes(damaged_bytes(whole, rng))
            start = time.process_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    _read(kind, source, config)
                n_read += 1
            except HardmaxError:
                pass
            except BaseException as error:  # All of them are what is looked for.
                wrong.append((kind, number, f"{type(error).__name__}: {error!s:.200}"))
            if time.process_time() - start > most_seconds:
                wrong.append((kind, number, f"takes more than {most_seconds} s"))
    return n_read, wrong


def _read(kind, source, config):
    if kind == "tokenizer":
        hm.models.tokenise(source, "ab 12 \u00e9\u4e2d ab")
        return
    model = hm.load_checkpoint(source, config=config)
    if model.embedding is None:
        hm.analyze_heads(model, vectors=np.eye(3, model.dim))
    else:
        hm.analyze_heads(model, TOKENS[:3])


def main():
    limit = 4 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    n = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for kind in sys.argv[3:] or KINDS:
        n_read, wrong = attempts(kind, n, seed, most_seconds=2.0)
        print(f"{kind}: {n_read} of {n} read, {len(wrong)} wrong", flush=True)
        for what in sorted({text for _, _, text in wrong})[:10]:
            print("   ", what, flush=True)


if __name__ == "__main__":
    main()
