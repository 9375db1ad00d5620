"""Modules of torch of any shape, against what torch itself computes."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import DtypeError

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


class Residual(nn.Module):
    """Convolutions, batch normalisation in place, a shortcut, pools, a last LogSoftmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.shortcut = nn.Conv2d(3, 4, 1)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.last = nn.Linear(4, 5)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x):
        h = self.second(self.relu(self.norm(self.first(x))))
        h += self.shortcut(x)
        h = functional.adaptive_avg_pool2d(self.pool(self.relu(h)), 1)
        h = functional.dropout(h.view(h.size(0), -1), training=self.training)
        return functional.log_softmax(self.last(h), 1)


class Odd(nn.Module):
    """Groups, strides, dilation, PReLU, padding, chunks, maxima, slices, permutations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2)
        self.slopes = nn.PReLU(4)
        self.deep = nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4)
        self.last = nn.Linear(36, 3)

    def forward(self, x):
        h = self.slopes(self.first(functional.pad(x, (1, 0, 1, 0))))
        a, b = torch.cat([h, functional.hardtanh(self.deep(h))], 1).chunk(2, 1)
        h = torch.maximum(a, b) - b.abs() / 3
        h = functional.avg_pool2d(h, 3, stride=1, padding=1)[:, :, :3, :3]
        h = h.permute(0, 2, 3, 1).reshape(h.shape[0], -1)
        return self.last(torch.clamp(functional.leaky_relu(h, 0.2), -0.5, 2.0)) * 2.0 + 1.0


@pytest.mark.parametrize(("kind", "shape"), [(Residual, (3, 8, 8)), (Odd, (2, 6, 6))])
def test_a_module_is_what_it_computes(kind, shape):
    torch.manual_seed(0)
    module = kind().train()
    net = hm.from_torch(module, input_shape=shape)
    assert module.training
    x = torch.rand(4, *shape, dtype=torch.float64)
    expected = module.eval().double()(x).detach().numpy()
    got = net(x.numpy())
    if kind is Residual:
        assert net.notes[-1] == "the final LogSoftmax is omitted"
        got = got - np.log(np.exp(got).sum(axis=1, keepdims=True))
    assert np.allclose(got, expected, rtol=0, atol=1e-14)


def test_a_state_dict_is_read_with_its_architecture():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))
    weights = {name: 2.0 * value for name, value in module.state_dict().items()}
    net = hm.from_torch(module, input_shape=(2, 4), state=weights)
    module.load_state_dict(weights)
    x = torch.rand(3, 2, 4, dtype=torch.float64)
    assert np.allclose(net(x.numpy()), module.double()(x).detach().numpy(), atol=1e-14)
    with pytest.raises(DtypeError, match="state"):
        hm.from_torch(module, input_shape=(2, 4), state={"0.weight": weights["0.weight"]})


def test_what_is_not_piecewise_linear_is_named_and_can_be_cut_off():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.GELU(), nn.Linear(4, 2))
    with pytest.raises(DtypeError, match=r"`gelu` at `gelu` \(layer 2, GELU\).*output='relu'"):
        hm.from_torch(module, input_shape=(4,))
    assert hm.from_torch(module, input_shape=(4,), output="relu").n_groups == 4
    assert hm.from_torch(module, output="relu").n_groups == 4
