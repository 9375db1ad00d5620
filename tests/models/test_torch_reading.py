"""Modules and files of torch as newcomers write them: read, or refused with the line to write."""

import re
import warnings

import numpy as np
import pytest
from safetensors.numpy import save_file

import hardmax as hm
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.models.formats.torch.input_shapes import solve_shape

torch = pytest.importorskip("torch")
prune = pytest.importorskip("torch.nn.utils.prune")
nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


class Skip(nn.Module):
    """A skip connection, functional activations, Dropout."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        h = functional.relu(self.first(x))
        h = h + functional.leaky_relu(self.second(self.dropout(h)), 0.25)
        return self.last(h)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 5), nn.Conv2d(3, 4, 5)
        self.fc1, self.fc2 = nn.Linear(64, 12), nn.Linear(12, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), (2, 2))
        x = x.view(-1, 64)
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(x))), dim=1)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.down = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += self.down(x)
        return self.relu(out)


def resnet():
    net = nn.Sequential(
        nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3), nn.ReLU(inplace=True), Block(3, 3),
        Block(3, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2)
    return net


class Shapes(nn.Module):
    """What a `forward` does with shapes, and operations in place."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 6)

    def forward(self, x):
        h = self.fc(x.reshape(x.shape[0], -1))
        h = h.relu_()
        a, b = h.chunk(2, 1)
        c = torch.cat([torch.maximum(a, b), a - b.mean(1, keepdim=True)], dim=1)
        return c.view(x.size(0), 2, 3).permute(0, 2, 1).flatten(1)[:, 1:] * 0.5 + 1.0


def vector_modules():
    class Branching(Skip):
        def forward(self, x):
            if x.shape[0] > 100:
                raise ValueError
            return super().forward(x)

    class Normalised(Skip):
        def __init__(self):
            super().__init__()
            self.mean = torch.randn(4)  # No buffer: a plain attribute.

        def forward(self, x):
            print(x.shape)
            return super().forward((x - self.mean.to(x.dtype)) / 0.3)

    class Matrices(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(6, 2))

        def forward(self, x):
            return torch.relu(x @ self.w) @ self.v + (x @ self.w).amax(1, keepdim=True)

    batch_norm = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.uniform_(batch_norm[1].running_mean)
    pruned = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    prune.l1_unstructured(pruned[0], "weight", 0.5)
    return {
        "skip": Skip(),
        "branching": Branching(),
        "normalised": Normalised(),
        "matrices": Matrices(),
        "batch norm": batch_norm,
        "pruned": pruned,
        "traced by fx": torch.fx.symbolic_trace(Skip()),
        "data parallel": nn.DataParallel(Skip()),
    }


NAMES = ["skip", "branching", "normalised", "matrices", "batch norm", "pruned", "traced by fx",
         "data parallel"]  # fmt: skip


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_module_that_determines_its_input_is_read_as_it_is(name, is_training):
    module = vector_modules()[name].train(is_training)
    net = hm.from_torch(module)
    assert module.training == is_training
    assert net.input_shape == (4,)
    assert_agrees(net, module)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("build", [Skip, lambda: unique_image()], ids=["skip", "image"])
def test_modules_of_every_precision_are_read_unrounded(build, dtype):
    module = build().to(getattr(torch, dtype))
    assert_agrees(hm.from_torch(module), module)


def unique_image():
    return nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5))


def test_square_images_of_one_size_are_found():
    net = hm.from_torch(unique_image())
    assert net.input_shape == (3, 6, 6)
    assert net.notes == ("input shape (3, 6, 6): the only square image that fits",)
    signals = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2))
    assert hm.from_torch(signals).input_shape == (2, 8)
    assert_agrees(hm.from_torch(signals), signals)


@pytest.mark.parametrize(
    ("build", "fitting", "shape"),
    [
        (LeNet, "square images with 28, 29, 30 or 31 pixels a side fit", (1, 28, 28)),
        (resnet, "images of many sizes fit", (3, 32, 32)),
        (lambda: nn.Conv2d(2, 1, 3), "images of many sizes fit", (2, 32, 32)),
    ],
)
def test_what_is_not_determined_is_not_guessed_and_the_line_works(build, fitting, shape):
    module = build()
    with pytest.raises(ArgumentError, match=fitting) as refused:
        hm.from_torch(module)
    line = str(refused.value).rpartition("write ")[2]
    assert line == f"hm.from_torch(module, input_shape={shape})"
    assert_agrees(eval(line, {"hm": hm, "module": module}), module)


def test_the_line_that_reads_what_comes_before_works():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.GELU(), nn.AdaptiveAvgPool2d(1))
    with pytest.raises(DtypeError, match=r"layer 2, GELU\): it is not piecewise") as refused:
        hm.from_torch(module)
    line = re.search(r"hm\.from_torch\(.*\)", str(refused.value))[0]
    net = eval(line, {"hm": hm, "module": module})
    assert_agrees(net, module[:2])


def test_only_the_branch_of_evaluation_is_read():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.first(x) if self.training else self.last(torch.relu(self.first(x)))

    module = Two().train()
    net = hm.from_torch(module)
    assert isinstance(net, hm.ReluNetwork)
    assert_agrees(net, module)


def test_a_hook_of_a_module_is_part_of_it():
    module = Skip()
    module.register_forward_hook(lambda part, given, result: 2 * result)
    assert_agrees(hm.from_torch(module), module)
    plain = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    plain[0].register_forward_hook(lambda part, given, result: result - 1.0)
    assert_agrees(hm.from_torch(plain), plain)

    class Func(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return torch.relu(self.fc(x))

    func = Func()
    func.register_forward_hook(lambda part, given, result: -result)
    assert_agrees(hm.from_torch(func), func)


def test_pools_of_unequal_windows_are_those_of_torch():
    for kind in (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d):
        module = nn.Sequential(nn.Conv2d(1, 2, 2), kind((4, 3)), nn.Flatten())
        assert_agrees(hm.from_torch(module, input_shape=(1, 8, 3)), module)


def test_modules_with_another_way_in_are_refused_with_it():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for module in (layer, stack):
        with pytest.raises(DtypeError, match="TransformerEncoderLayer multiplies") as refused:
            hm.from_torch(module)
        line = re.search(r"hm\.load_checkpoint\(.*\}\)", str(refused.value))[0]
        assert eval(line, {"hm": hm, "torch": torch, "module": module}).layers
    with pytest.raises(ArgumentError, match=r"memory=tokens.*\(n_tokens, 4\)"):
        hm.from_torch(nn.MultiheadAttention(4, 2))

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    with pytest.raises(DtypeError, match="`attention`, MultiheadAttention multiplies"):
        hm.from_torch(Attending())
    with pytest.raises(DtypeError, match=r"LSTM multiplies its state by gates"):
        hm.from_torch(nn.LSTM(3, 4))
    with pytest.raises(DtypeError, match="`0`, LazyLinear has no weights yet"):
        hm.from_torch(nn.Sequential(nn.LazyLinear(4), nn.ReLU()))
    with pytest.raises(DtypeError, match="on the device meta"):
        hm.from_torch(Skip().to("meta"))
    with pytest.raises(DtypeError, match="ExportedProgram"):
        hm.from_torch(torch.export.export(Skip(), (torch.zeros(1, 4),)))


def test_quantised_modules_are_refused():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(module, {nn.Linear})
    with pytest.raises(DtypeError, match=r"`0`, Linear is quantised: .* before the quantisation"):
        hm.from_torch(quantised)


def test_a_state_dict_is_read_into_its_module_from_memory_and_from_files(tmp_path):
    module, other = resnet(), resnet()
    torch.save(other.state_dict(), tmp_path / "w.pt")
    save_file({k: v.numpy() for k, v in other.state_dict().items()}, tmp_path / "w.safetensors")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for state in (other.state_dict(), tmp_path / "w.pt", str(tmp_path / "w.safetensors")):
        assert_agrees(hm.from_torch(module, input_shape=(3, 6, 6), state=state), other)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    source = Skip()
    assert_agrees(hm.from_torch(Skip(), state=source.state_dict()), source)
    with pytest.raises(DtypeError, match="`state` must fit the module"):
        hm.from_torch(Skip(), state=other.state_dict())
    for name in ("w.pt", "w.safetensors"):
        with pytest.raises(RecordFormatError, match="as in a convolution") as refused:
            hm.load_model(tmp_path / name)
        line = str(refused.value).rpartition("write ")[2].rstrip(".")
        line = line.replace("height, width", "6, 6")
        assert_agrees(eval(line, {"hm": hm, "net": module}), other)


def test_a_state_dict_of_linear_layers_needs_its_activations(tmp_path):
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    path = tmp_path / "w.pt"
    torch.save(module.state_dict(), path)
    for read in (hm.load_model, hm.from_torch):
        with pytest.raises(
            ArgumentError, match="does not contain the activations between"
        ) as refused:
            read(path)
        line = str(refused.value).rpartition("write ")[2].rstrip(".")
        net = eval(line, {"hm": hm})
        assert isinstance(net, hm.ReluNetwork)
        assert_agrees(net, module)
    leaky = nn.Sequential(module[0], nn.LeakyReLU(0.5), module[2])
    assert_agrees(hm.load_model(path, activations="leaky_relu(0.5)"), leaky)
    attention = nn.MultiheadAttention(4, 2)
    torch.save(attention.state_dict(), path)
    with pytest.raises(
        RecordFormatError, match=r"belongs to an attention layer; use hm\.load_checkpoint"
    ):
        hm.load_model(path)


def test_a_whole_module_in_a_file_is_not_run(tmp_path):
    path = tmp_path / "net.pt"
    torch.save(nn.Sequential(nn.Linear(3, 2)), path)
    for read in (hm.load_model, hm.from_torch):
        with pytest.raises(RecordFormatError, match=r"hm\.from_torch\(torch\.load\(path"):
            read(path)


@pytest.mark.parametrize("way", ["script", "trace"])
@pytest.mark.parametrize(
    ("build", "shape"),
    [(Skip, (4,)), (LeNet, (1, 28, 28)), (resnet, (3, 32, 32)), (Shapes, (12,))],
    ids=["skip", "lenet", "resnet", "shapes"],
)
def test_scripted_modules_are_read_from_memory_and_from_files(tmp_path, way, build, shape):
    module = build().eval()
    scripted = as_script(module, torch.zeros(1, *shape) if way == "trace" else None)
    path = tmp_path / "net.pt"
    save_script(scripted, path)
    if len(shape) == 1:
        nets = [hm.from_torch(scripted), hm.from_torch(path), hm.load_model(path)]
        nets.append(hm.load_model(scripted))
    else:
        nets = []
        for read, given in ((hm.from_torch, scripted), (hm.load_model, path)):
            with pytest.raises(ArgumentError, match=r" fit\)") as refused:
                read(given)
            line = str(refused.value).rpartition("write ")[2]
            nets.append(eval(line, {"hm": hm, "module": scripted}))
    direct = hm.from_torch(module, input_shape=shape)
    x = np.random.default_rng(0).normal(size=(3, *shape))
    for net in nets:
        assert net.input_shape == shape
        np.testing.assert_array_equal(net(x), direct(x))
    assert_agrees(nets[0], module)


def test_a_module_scripted_in_training_is_evaluated():
    module = resnet().train()
    net = hm.from_torch(as_script(module), input_shape=(3, 6, 6))
    assert_agrees(net, module)
    traced = as_script(module.train(), torch.randn(2, 3, 6, 6, dtype=torch.float64))
    with pytest.raises(RecordFormatError, match=r"as in training.*module\.eval\(\)"):
        hm.from_torch(traced, input_shape=(3, 6, 6))


def test_a_script_that_reads_what_was_overwritten_is_refused():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            h = self.fc(x)
            view = h[:, 1:]
            a = torch.relu_(h)
            return torch.cat([a, view], 1)

    module = Overwriting()
    with pytest.raises(HardmaxError, match="after an in-place operation has changed it"):
        hm.from_torch(as_script(module), input_shape=(3,))
    assert_agrees(hm.from_torch(module), module)


def test_scripts_that_are_not_piecewise_linear_are_refused_by_line(tmp_path):
    class Gelu(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(1, 2, 3), nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(functional.gelu(self.conv(x)).mean((2, 3)))

    save_script(as_script(Gelu()), tmp_path / "net.pt")
    with pytest.raises(HardmaxError, match=r"line \d+ of its program: it is not piecewise linear"):
        hm.load_model(tmp_path / "net.pt")
    mlp = as_script(nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)))
    with pytest.raises(RecordFormatError, match="`gelu` is not piecewise linear"):
        hm.from_torch(mlp)


def test_models_and_modules_are_taken_by_both_readers(tmp_path):
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert isinstance(hm.load_model(module), hm.ReluNetwork)
    assert hm.load_model(module, input_shape=(3,)).input_shape == (3,)
    with pytest.raises(DtypeError, match=r"must be a file name or a torch\.nn module; got int"):
        hm.load_model(3)
    with pytest.raises(ArgumentError, match="`activations` must be None for a torch module"):
        hm.load_model(module, activations="relu")
    hm.save_model(hm.from_torch(module), tmp_path / "net.safetensors")
    with pytest.raises(ArgumentError, match="`input_shape` must be None for a file that describes"):
        hm.load_model(tmp_path / "net.safetensors", input_shape=(3,))
    with pytest.raises(ArgumentError, match="`memory` must be None if `module` is a path"):
        hm.from_torch(tmp_path / "net.safetensors", [[1.0]])
    with pytest.raises(RecordFormatError, match=r"Use hm\.load_model.* to read it"):
        hm.from_torch(tmp_path / "net.safetensors")


def test_commands_read_scripted_networks_of_any_shape(tmp_path):
    from typer.testing import CliRunner

    from hardmax.cli.main import app

    module = Skip()
    save_script(as_script(module), tmp_path / "net.pt")
    segment = hm.parse_domain("segment:-1,-1,-1,-1;1,1,1,1")
    n_cells = hm.enumerate_regions(hm.from_torch(module), segment).n_cells
    words = ["regions", str(tmp_path / "net.pt"), "--domain", "segment:-1,-1,-1,-1;1,1,1,1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert re.search(rf"^cells +{n_cells}$", result.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("fits", "convolutions", "linear", "expected"),
    [
        (lambda s: s in [(4,), (8,)], [], [4, 8], None),
        (lambda s: len(s) == 1, [], [4], None),
        (lambda s: s == (8,), [], [4, 8, 8], (8,)),
        (lambda s: s == (2, 5, 5), [(2, 2)], [4], (2, 5, 5)),
        (lambda s: s == (4,), [(2, 2)], [4], (4,)),
        (lambda s: len(s) == 4 and s[1] > 3, [(3, 2)], [], None),
        (lambda s: False, [], [4], None),
    ],
)
def test_only_the_one_shape_that_fits_counts(fits, convolutions, linear, expected):
    found = solve_shape(fits, convolutions, linear)
    assert found.shape == expected
    assert found.example is None or fits(found.example)


def as_script(module, example=None):
    """Script a module, or trace it; torch warns that both are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module) if example is None else torch.jit.trace(module, example)


def save_script(scripted, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted.save(path)


def assert_agrees(net, module):
    """Compare with torch in float64, up to the rounding of both and a LogSoftmax left off."""
    module = module.eval().double()
    shape = getattr(net, "input_shape", None) or (net.dim_in,)
    x = torch.randn(4, *shape, dtype=torch.float64)
    with torch.no_grad():
        expected = module(x).numpy().reshape(4, -1)
    got = np.asarray(net(x.numpy())).reshape(4, -1)
    if any("LogSoftmax" in note for note in getattr(net, "notes", ())):
        got = got - np.log(np.exp(got).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


class Convolved(nn.Module):
    """A convolution, a pool and a Linear layer; `n_rows` is what the pool leaves of a side."""

    def __init__(self, n_rows, is_viewed, padding=0):
        super().__init__()
        self.convolution = nn.Conv2d(1, 2, 3, padding=padding)
        self.pool = nn.MaxPool2d(2) if not is_viewed else nn.Identity()
        self.last = nn.Linear(2 * n_rows**2, 3)
        self.is_viewed, self.length = is_viewed, 2 * n_rows**2

    def forward(self, x):
        y = self.pool(torch.relu(self.convolution(x)))
        return self.last(y.view(-1, self.length) if self.is_viewed else torch.flatten(y, 1))


@pytest.mark.parametrize("how", ["scripted", "traced"])
def test_a_scripted_convolution_finds_the_image_that_its_last_layer_takes(how):
    def written(module, side):
        return as_script(module.eval(), torch.zeros(1, 1, side, side) if how == "traced" else None)

    # A `view` of nine pixels a side; larger images would count as several inputs.
    module = Convolved(9, is_viewed=True, padding=1)
    assert_agrees(hm.from_torch(written(module, 9)), module)
    # After a pool, images of two sizes have the same number of pixels.
    module = Convolved(3, is_viewed=False)
    with pytest.raises(ArgumentError, match="with 8 or 9 pixels a side fit") as refused:
        hm.from_torch(written(module, 8))
    line = str(refused.value).rpartition("write ")[2].rstrip(".")
    assert_agrees(eval(line, {"hm": hm, "module": written(module, 8)}), module)
