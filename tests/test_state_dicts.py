"""Networks from safetensors files: state dicts of torch, in the right order or not at all."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from hardmax.constructions.maxout_compiler import compile_relu
from hardmax.constructions.state_dicts import load_network
from hardmax.errors import RecordFormatError
from hardmax.geometry.domains import Box
from tests.compiled_models import random_relu, state_dict


def test_state_dicts_are_read_in_the_order_of_their_numbers(tmp_path):
    net = random_relu(0, [2, 3, 3, 3, 3, 3, 1])
    save_file(state_dict(net, [f"net.{2 * i}" for i in range(6)]), tmp_path / "s.safetensors")
    again = load_network(tmp_path / "s.safetensors")
    x = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_array_equal(again(x), net(x))


@pytest.mark.parametrize("names", [["²"], ["0.0", "0.2", "1"], ["fc1", "fc" + "9" * 5000]])
def test_names_of_layers_may_be_nested_odd_and_long(tmp_path, names):
    net = random_relu(3, [2] * (len(names) + 1))
    save_file(state_dict(net, names), tmp_path / "s.safetensors")
    x = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_array_equal(load_network(tmp_path / "s.safetensors")(x), net(x))


def test_state_dicts_of_torch_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    safetensors_torch = pytest.importorskip("safetensors.torch")
    torch.manual_seed(1)
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1, bias=False)
    )
    safetensors_torch.save_file(module.state_dict(), tmp_path / "s.safetensors")
    x = np.random.default_rng(0).normal(size=(10, 2))
    wanted = module.double()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(load_network(tmp_path / "s.safetensors")(x), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({}, "no tensors"),
        ({"0.weight": np.zeros((2, 3)), "0.scale": np.zeros(2)}, "0.scale"),
        ({"0.bias": np.zeros(2)}, "0.weight"),
        ({"0.weight": np.zeros((2, 3, 3))}, "0.weight"),
        ({"0.weight": np.zeros((2, 3)), "2.weight": np.zeros((1, 4))}, "2.weight"),
        ({"0.weight": np.full((2, 3), np.nan)}, "NaN"),
        ({"0.weight": np.zeros((2, 3)), "0.bias": np.zeros(3)}, "bias"),
        # The order of these is not in the file, and the alphabet would get it wrong.
        ({"first.weight": np.eye(2), "last.weight": np.eye(2)}, "`first` and `last`"),
        ({"fc1.weight": np.eye(2), "exit.weight": np.eye(2)}, "`exit` and `fc1`"),
        ({"a.weight": np.eye(2), "a.0.weight": np.eye(2)}, "`a` and `a.0`"),
        ({"²5.weight": np.eye(2), "a.weight": np.eye(2)}, "must be numbered"),
    ],
)
def test_state_dicts_that_are_no_network_are_refused(tmp_path, tensors, match):
    save_file(tensors, tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match=match):
        load_network(tmp_path / "s.safetensors")


def test_a_compiled_transformer_is_not_mistaken_for_a_network(tmp_path):
    compile_relu(random_relu(0, [1, 2, 1]), Box([0.0], [1.0])).save(tmp_path / "t.safetensors")
    with pytest.raises(RecordFormatError, match=r"hardmax\.model/1'; got 'hardmax\.compiled/1'"):
        load_network(tmp_path / "t.safetensors")
