"""Exported modules are modules like any other: saved whole, scripted, given any batch."""

import warnings

import pytest

from hardmax.constructions.compilers import torch_export as torch_token_modules
from hardmax.constructions.compilers.maxout_compiler import compile_relu
from hardmax.constructions.compilers.torch_export import token_module
from hardmax.geometry.domains import Box
from tests.compiled_models import masked_transformer, random_relu

torch = pytest.importorskip("torch")


def torch_exports():
    box = Box([-1, -1], [1, 1])
    yield token_module(masked_transformer())
    yield compile_relu(random_relu(0, [2, 3, 1]), box, 1e-2).to_torch(dtype="float32")
    yield compile_relu(random_relu(0, [2, 1]), box).to_torch()


def test_torch_modules_can_be_saved_whole_and_scripted(tmp_path):
    for module in torch_exports():
        x = torch.rand(5, 2, dtype=module.positions.dtype)
        torch.save(module, tmp_path / "module.pt")
        again = torch.load(tmp_path / "module.pt", weights_only=False)
        assert type(again) is type(module)
        assert torch.equal(again(x), module(x))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            scripted = torch.jit.script(module)
        torch.testing.assert_close(scripted(x), module(x))
        torch.testing.assert_close(scripted(x[0]), module(x)[0])


def test_torch_modules_take_batches_of_any_shape():
    for module in torch_exports():
        x = torch.rand(6, 2, dtype=module.positions.dtype)
        y = module(x)
        torch.testing.assert_close(module(x.reshape(2, 3, 2)), y.reshape(2, 3, -1))
        for shape in ((0,), (3, 0)):
            assert module(x.new_zeros(*shape, 2)).shape == (*shape, y.shape[1])


def test_the_weights_of_exported_attention_load_into_one_that_torch_made():
    net = random_relu(0, [2, 3, 1])
    module = compile_relu(net, Box([-1, -1], [1, 1]), 1e-2).to_torch()
    theirs = module.blocks[-1].attention
    mine = torch.nn.MultiheadAttention(
        theirs.embed_dim, theirs.num_heads, batch_first=True, dtype=torch.float64
    )
    mine.load_state_dict(theirs.state_dict())
    z = torch.rand(2, 4, theirs.embed_dim, dtype=torch.float64)
    torch.testing.assert_close(mine(z, z, z)[0], theirs(z, z, z)[0])


def test_the_classes_of_exported_modules_are_found_by_name_only():
    for name in ("ExportedBlock", "ExportedTransformer"):
        made = getattr(torch_token_modules, name)
        assert (made.__module__, made.__qualname__) == (torch_token_modules.__name__, name)
    with pytest.raises(AttributeError, match="no attribute 'Exported'"):
        _ = torch_token_modules.Exported
