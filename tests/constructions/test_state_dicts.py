"""Networks from safetensors files: state dicts of torch, in the right order or not at all."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from hardmax.constructions.compilers.maxout_compiler import compile_relu
from hardmax.constructions.compilers.state_dicts import load_network
from hardmax.errors import RecordFormatError
from hardmax.geometry.domains import Box
from tests.compiled_models import random_relu, state_dict
from tests.torch_saves import write_state_dict


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
    ("widths", "names"),
    [
        ([3, 8, 1], ["encoder", "head"]),
        ([2, 4, 4, 4, 1], ["layers.0", "layers.1", "layers.10", "exit"]),
        ([2, 3, 5, 3, 1], ["zeta", "eta", "b.1", "b.2"]),
    ],
)
def test_names_without_numbers_will_do_if_the_shapes_leave_one_order(tmp_path, widths, names):
    net = random_relu(5, widths)
    save_file(state_dict(net, names), tmp_path / "s.safetensors")
    x = np.random.default_rng(0).normal(size=(10, widths[0]))
    np.testing.assert_array_equal(load_network(tmp_path / "s.safetensors")(x), net(x))


def test_many_layers_without_numbers_are_refused_and_not_searched_for_ever(tmp_path):
    names = [chr(ord("a") + i // 26) + chr(ord("a") + i % 26) for i in range(60)]
    tensors = {f"{name}.weight": np.eye(2) for name in names}
    save_file({**tensors, "out.weight": np.ones((1, 3))}, tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match="no order of the layers fits"):
        load_network(tmp_path / "s.safetensors")


@pytest.mark.parametrize("extension", [None, "ml_dtypes"])
def test_bfloat16_is_read_as_the_numbers_it_means(tmp_path, extension):
    if extension is not None:  # Once loaded, for instance by onnx, NumPy has a type of this name.
        pytest.importorskip(extension)
    # 1, -2.5, 3.25, 2^-120, written by hand: sign, 8 bits of exponent, 7 of mantissa.
    bits = np.array([[0x3F80, 0xC020], [0x4050, 0x0380]], dtype="<u2")
    half = np.array([0.5, -1.0], dtype="<f2")
    header = {
        "0.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "0.bias": {"dtype": "F16", "shape": [2], "data_offsets": [8, 12]},
    }
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bits.tobytes() + half.tobytes()
    (tmp_path / "s.safetensors").write_bytes(content)
    net = load_network(tmp_path / "s.safetensors")
    assert net.weights[0].T.tolist() == [[1.0, -2.5], [3.25, 2.0**-120]]
    assert net.biases[0].tolist() == [0.5, -1.0]


def test_other_types_that_numpy_does_not_have_are_refused(tmp_path):
    header = {"0.weight": {"dtype": "F8_E4M3", "shape": [1, 1], "data_offsets": [0, 1]}}
    text = json.dumps(header).encode()
    (tmp_path / "s.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"8")
    with pytest.raises(RecordFormatError, match="types that NumPy has"):
        load_network(tmp_path / "s.safetensors")


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
        ({"up.weight": np.ones((3, 2)), "down.weight": np.ones((2, 3))}, "more than one order"),
        ({"up.weight": np.ones((3, 2)), "down.weight": np.ones((5, 4))}, "no order"),
    ],
)
def test_state_dicts_that_are_no_network_are_refused(tmp_path, tensors, match):
    save_file(tensors, tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match=match):
        load_network(tmp_path / "s.safetensors")


def test_a_state_dict_of_torch_save_is_read(tmp_path):
    weights = {"0.weight": np.array([[1.0], [-1.0]]), "2.weight": np.ones((1, 2))}
    write_state_dict(tmp_path / "net.pt", weights)
    assert load_network(tmp_path / "net.pt")([-2.0]).tolist() == [2.0]


def test_a_damaged_pickle_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04 and a pickle")
    with pytest.raises(RecordFormatError, match=r"save_file\(module\.state_dict"):
        load_network(tmp_path / "net.pt")


def test_a_compiled_transformer_is_not_mistaken_for_a_network(tmp_path):
    compile_relu(random_relu(0, [1, 2, 1]), Box([0.0], [1.0])).save(tmp_path / "t.safetensors")
    with pytest.raises(RecordFormatError, match=r"hardmax\.model/2'; got 'hardmax\.compiled/2'"):
        load_network(tmp_path / "t.safetensors")
