"""Models from and to torch, against what torch itself computes."""

import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, MissingExtraError, ShapeMismatchError
from hardmax.models.formats.torch.modules import from_torch, to_torch
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from tests.models.test_transformers import transformers


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[torch\]"):
        from_torch(object())
    with pytest.raises(MissingExtraError, match=r"pip install .*\[torch\]"):
        to_torch(ReluNetwork([[[1.0]]]))


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(20, 6))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_sequential_is_a_relu_network(torch, points, dtype):
    nn = torch.nn
    module = nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU()),
        nn.Dropout(0.5), nn.Identity(), nn.Linear(4, 2),
    ).to(getattr(torch, dtype))  # fmt: skip
    model = from_torch(module)
    assert repr(model) == "ReluNetwork(6 -> [5, 4] -> 2)"
    stored = module[0].weight.detach().double().numpy().T
    np.testing.assert_array_equal(model.weights[0], stored)
    expected = _run(torch, module.eval().double(), points)
    np.testing.assert_allclose(model(points), expected, rtol=1e-12, atol=1e-12)


def test_a_sequential_may_end_with_a_relu(torch, points):
    module = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.ReLU(), torch.nn.ReLU()).double()
    np.testing.assert_allclose(from_torch(module)(points), _run(torch, module, points), atol=1e-14)


def test_to_torch_and_back_changes_no_bit(torch, points):
    rng = np.random.default_rng(1)
    model = ReluNetwork([rng.normal(size=s) for s in ((6, 4), (4, 3), (3, 2))], None)
    module = to_torch(model)
    np.testing.assert_allclose(_run(torch, module, points), model(points), atol=1e-13)
    again = from_torch(module)
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert from_torch(to_torch(ReluNetwork([[[2.0]]], [[1.0]])))([3.0]).tolist() == [7.0]


ATTENTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 4, "vdim": 4},
    {"dropout": 0.3, "batch_first": True},
]


@pytest.mark.parametrize("options", ATTENTIONS, ids=str)
@pytest.mark.parametrize("residuals", [(True, True), (False, False), (True, False)])
def test_attention_and_feed_forward_agree_with_torch(torch, points, options, residuals):
    nn = torch.nn
    attention = nn.MultiheadAttention(6, 3, **options).double().eval()
    for parameter in attention.parameters():
        nn.init.normal_(parameter)  # The biases of a new module are zero.
    ffn = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)).double()
    tokens = np.random.default_rng(2).normal(size=(7, options.get("kdim", 6)))
    model = from_torch([attention, ffn], tokens, attention_residual=residuals[0],
                       ffn_residual=residuals[1])  # fmt: skip
    x, memory = torch.from_numpy(points), torch.from_numpy(tokens)
    with torch.no_grad():
        middle, _ = attention(x, memory, memory)
        middle = middle + x if residuals[0] else middle
        expected = ffn(middle)
        expected = expected + middle if residuals[1] else expected
    tau = model.blocks[0].heads[0].standard_temperature
    assert tau == np.sqrt(2.0)
    np.testing.assert_allclose(model.soft(points, tau), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_several_attentions_are_several_blocks(torch, points):
    nn = torch.nn
    parts = [nn.MultiheadAttention(6, 2), nn.MultiheadAttention(6, 1), nn.Linear(6, 2), nn.ReLU(),
             nn.Linear(2, 6)]  # fmt: skip
    model = from_torch(nn.ModuleList(parts), points)
    assert repr(model) == "HardTransformer(R^6 -> R^6, 2 blocks, 3 heads, 2 units)"


@given(transformers(), st.sampled_from([None, 0.5, 3.0]))
def test_a_transformer_in_torch_is_the_soft_model(case, tau):
    torch = pytest.importorskip("torch")
    model, points = case
    module = to_torch(model, tau)
    if tau is None:
        widths = {head.head_dim for block in model.blocks for head in block.heads}
        assume(len(widths) <= 1)
        tau = np.sqrt(max(widths, default=1))
    np.testing.assert_allclose(
        _run(torch, module, points), model.soft(points, tau), rtol=1e-11, atol=1e-10
    )


def test_temperatures_of_a_torch_transformer_may_differ_between_blocks(torch):
    model = HardTransformer(_small_transformer().blocks * 2)
    x = np.array([[0.3], [-1.0]])
    module = to_torch(model, [0.5, 2.0])
    np.testing.assert_allclose(_run(torch, module, x), model.soft(x, [0.5, 2.0]), atol=1e-14)
    assert sum(p.numel() for p in module.parameters()) > model.n_parameters
    loss = module(torch.from_numpy(x)).sum()
    loss.backward()
    assert all(p.grad is not None for p in module.parameters())


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda nn: from_torch(nn.Conv1d(1, 1, 1)), ArgumentError, "signals of many sizes fit"),
        (lambda nn: from_torch(nn.Sequential(nn.Linear(1, 1), nn.GELU())), DtypeError, "GELU"),
        (lambda nn: from_torch(3), DtypeError, "path of a file; got int"),
        (lambda nn: from_torch(nn.Linear), DtypeError, r"the class Linear.*from_torch\(Linear\("),
        (lambda nn: from_torch(nn.Linear(1, 1).state_dict()), DtypeError, "state=state_dict"),
        (lambda nn: from_torch(nn.Sequential()), ArgumentError, "at least one"),
        (lambda nn: from_torch(nn.ReLU()), ArgumentError, "at least one Linear"),
        (lambda nn: from_torch(nn.Linear(1, 1), [[1.0]]), ArgumentError, "`memory` must be None"),
        (lambda nn: from_torch(nn.MultiheadAttention(2, 1)), ArgumentError, "`memory`"),
        (lambda nn: from_torch(nn.MultiheadAttention(2, 1), [1.0]), ShapeMismatchError, "`memory`"),
        (lambda nn: from_torch(nn.MultiheadAttention(2, 1), [[1.0]]), ArgumentError, "`memory`"),
        (
            lambda nn: from_torch([nn.Linear(2, 2), nn.MultiheadAttention(2, 1)], [[1.0, 2.0]]),
            ArgumentError,
            "begin with",
        ),
        (
            lambda nn: from_torch([nn.MultiheadAttention(2, 1), nn.Linear(2, 2)], [[1.0, 2.0]]),
            ArgumentError,
            "Linear, ReLU, Linear",
        ),
        (lambda nn: to_torch(MaxoutNetwork([[[[1.0]]], [[1.0]]])), DtypeError, "`model`"),
        (lambda nn: to_torch(ReluNetwork([[[1.0]]]), 1.0), ArgumentError, "`tau`"),
        (lambda nn: to_torch(_small_transformer(), 0.0), ArgumentError, "`tau`"),
        (lambda nn: to_torch(_small_transformer(), [1.0, 1.0]), ShapeMismatchError, "`tau`"),
    ],
)
def test_other_modules_are_refused_by_name(torch, build, error, message):
    with pytest.raises(error, match=message):
        build(torch.nn)


def _small_transformer():
    head = AttentionHead(np.eye(1), [[1.0], [-1.0]], [[2.0], [0.5]], np.eye(1))
    return HardTransformer([Block([head])])


def _run(torch, module, points):
    with torch.no_grad():
        return module(torch.from_numpy(points)).numpy()
