"""ONNX files of any shape: what is computed, what is refused, and damaged and hostile files."""

import numpy as np
import pytest

import hardmax as hm

onnx = pytest.importorskip("onnx", reason="needs onnx to write files")
helper, numpy_helper, DOUBLE = onnx.helper, onnx.numpy_helper, onnx.TensorProto.DOUBLE


def saved(folder, nodes, constants=None, shape=(1, 2, 4, 4), outputs=("y",)):
    """Write a graph from `x` to `y`."""
    x = helper.make_tensor_value_info("x", DOUBLE, shape)
    y = [helper.make_tensor_value_info(name, DOUBLE, None) for name in outputs]
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "net", [x], y, stored)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph), path)
    return path


def node(kind, inputs, output="y", **attributes):
    return helper.make_node(kind, inputs, [output], name=f"the {kind}", **attributes)


def read(folder, *given, **named):
    return hm.load_onnx(saved(folder, *given, **named))


X = np.random.default_rng(0).normal(size=(3, 2, 4, 4))


def test_a_residual_network_is_what_it_is(tmp_path):
    rng = np.random.default_rng(1)
    constants = {
        "k": rng.normal(size=(3, 2, 3, 3)),
        "b": rng.normal(size=3),
        "skip": rng.normal(size=(3, 2, 1, 1)),
        "shape": np.array([0, -1]),
        "w": rng.normal(size=(12, 5)),
        "c": rng.normal(size=5),
    }
    nodes = [
        node("Conv", ["x", "k", "b"], "h", pads=[1, 1, 1, 1]),
        node("Relu", ["h"], "r"),
        node("Conv", ["x", "skip"], "s"),
        node("Add", ["r", "s"], "a"),
        node("MaxPool", ["a"], "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", ["m", "shape"], "f"),
        node("Gemm", ["f", "w", "c"], "g"),
        node("Softmax", ["g"], "y"),
    ]
    net = read(tmp_path, nodes, constants)
    assert net.notes == ("the final Softmax is omitted",)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )
    conv = np.einsum("ncijab,kcab->nkij", windows, constants["k"]) + constants["b"][:, None, None]
    total = np.maximum(conv, 0) + np.einsum("ncij,kc->nkij", X, constants["skip"][:, :, 0, 0])
    pooled = total.reshape(3, 3, 2, 2, 2, 2).max(axis=(3, 5))
    expected = pooled.reshape(3, -1) @ constants["w"] + constants["c"]
    assert np.allclose(net(X), expected)


CASES = {
    "BatchNormalization": (
        ["x", "s", "b", "m", "v"],
        {"s": [1.0, 2.0], "b": [0.0, 1.0], "m": [0.5, 0.0], "v": [4.0, 1.0]},
        {"epsilon": 0.0},
        lambda x: np.stack([(x[0] - 0.5) / 2.0, 2.0 * x[1] + 1.0]),
    ),
    "LeakyRelu": (["x"], {}, {"alpha": 0.25}, lambda x: np.where(x > 0, x, 0.25 * x)),
    "PRelu": (
        ["x", "s"],
        {"s": np.array([[[0.5]], [[2.0]]])},
        {},
        lambda x: np.where(x > 0, x, x * [[[0.5]], [[2.0]]]),
    ),
    "Clip": (["x", "l", "h"], {"l": -0.5, "h": 0.75}, {}, lambda x: np.clip(x, -0.5, 0.75)),
    "Abs": (["x"], {}, {}, np.abs),
    "Max": (["x", "c"], {"c": np.array([0.25])}, {}, lambda x: np.maximum(x, 0.25)),
    "Min": (["x", "x"], {}, {}, lambda x: x),
    "Mul": (["c", "x"], {"c": np.array([-3.0])}, {}, lambda x: -3.0 * x),
    "Div": (["x", "c"], {"c": np.array([3.0])}, {}, lambda x: x / 3.0),
    "Sub": (["c", "x"], {"c": np.array([1.0])}, {}, lambda x: 1.0 - x),
    "MaxPool": (["x"], {}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, None),
    "AveragePool": (
        ["x"],
        {},
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        lambda x: x.reshape(2, 2, 2, 2, 2).mean(axis=(2, 4)),
    ),
    "GlobalAveragePool": (["x"], {}, {}, lambda x: x.mean(axis=(1, 2), keepdims=True)),
    "Transpose": (["x"], {}, {"perm": [0, 2, 3, 1]}, lambda x: x.transpose(1, 2, 0)),
    "Slice": (
        ["x", "a", "b", "c", "d"],
        {"a": [3], "b": [-9], "c": [3], "d": [-2]},
        {},
        lambda x: x[:, :, ::-2],
    ),
    "Pad": (
        ["x", "p", "v"],
        {"p": [0, 0, 1, 0, 0, 0, 0, 2], "v": np.array(0.5)},
        {},
        lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=0.5),
    ),
    "Concat": (["x", "x"], {}, {"axis": 1}, lambda x: np.concatenate([x, x])),
    "Squeeze": (["x", "a"], {"a": [0]}, {}, lambda x: x),
    "Dropout": (["x"], {}, {}, lambda x: x),
    "MatMul": (
        ["x", "w"],
        {"w": np.arange(8.0).reshape(4, 2)},
        {},
        lambda x: x @ np.arange(8.0).reshape(4, 2),
    ),
    "ReduceSum": (["x", "a"], {"a": [1, 3]}, {"keepdims": 0}, lambda x: x.sum(axis=(0, 2))),
}


@pytest.mark.parametrize("kind", CASES)
def test_operators_do_what_they_do(kind, tmp_path):
    inputs, constants, attributes, function = CASES[kind]
    net = read(tmp_path, [node(kind, inputs, **attributes)], constants)
    got = net(X[0]).reshape(net.output_shape)
    if function is None:
        padded = np.pad(X[0], ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
        expected = windows.max(axis=(3, 4))
    else:
        expected = function(X[0])
    assert got.shape == expected.shape
    assert np.allclose(got, expected)


@pytest.mark.parametrize(
    ("kind", "attributes", "because"),
    [
        ("Gelu", {}, "not piecewise linear"),
        ("Sigmoid", {}, "not piecewise linear"),
        ("LayerNormalization", {}, "not piecewise linear"),
        ("Cast", {"to": 1}, "type conversion"),
    ],
)
def test_what_is_not_piecewise_linear_is_named_and_can_be_cut_off(
    kind, attributes, because, tmp_path
):
    path = saved(tmp_path, [node("Relu", ["x"], "h"), node(kind, ["h"], **attributes)])
    with pytest.raises(hm.errors.RecordFormatError, match=because) as refused:
        hm.load_onnx(path)
    assert f"the node `the {kind}` ({kind})" in str(refused.value)
    assert "output='h'" in str(refused.value)
    assert hm.load_onnx(path, output="h").n_groups == 32
    assert hm.load_onnx(path, output="the Relu").n_groups == 32


def test_a_softmax_inside_is_refused(tmp_path):
    path = saved(tmp_path, [node("Softmax", ["x"], "h"), node("Relu", ["h"])])
    with pytest.raises(hm.errors.RecordFormatError, match="only be omitted at the end"):
        hm.load_onnx(path)


def test_products_of_signals_cycles_and_missing_tensors_are_refused(tmp_path):
    for nodes, because in (
        ([node("Mul", ["x", "x"])], "multiplies two"),
        ([node("Add", ["x", "z"]), node("Relu", ["y"], "z")], "`z` is not computed"),
        ([node("Conv", ["x", "nowhere"])], "`nowhere` is not computed"),
        ([node("Relu", ["x"], "z")], "must be computed from the input"),
        ([node("Reshape", ["x", "s"])], "reshape"),
    ):
        with pytest.raises(hm.errors.RecordFormatError, match=because):
            read(tmp_path, nodes, {"s": np.array([7, 7])})


def test_an_open_shape_can_be_given(tmp_path):
    path = saved(tmp_path, [node("Relu", ["x"])], shape=("n", 2, "h", "w"))
    with pytest.raises(hm.errors.RecordFormatError, match="input_shape"):
        hm.load_onnx(path)
    assert hm.load_onnx(path, input_shape=(2, 3, 3)).dim_in == 18


def test_load_model_reads_onnx(tmp_path):
    assert hm.load_model(saved(tmp_path, [node("Relu", ["x"])])).n_groups == 32


def test_damaged_files_are_refused_and_nothing_else_happens(tmp_path):
    rng = np.random.default_rng(3)
    nodes = [node("Conv", ["x", "k"], "h"), node("Flatten", ["h"], "f"), node("MatMul", ["f", "w"])]
    constants = {"k": rng.normal(size=(2, 2, 3, 3)), "w": rng.normal(size=(8, 3))}
    path = saved(tmp_path, nodes, constants)
    good = path.read_bytes()
    n_refused = 0
    for trial in range(200):
        data = bytearray(good)
        if trial % 2:
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(len(data))] = rng.integers(256)
        else:
            data = data[: rng.integers(len(data))]
        path.write_bytes(data)
        try:
            hm.load_onnx(path)
        except hm.errors.RecordFormatError:
            n_refused += 1
    assert 100 <= n_refused < 200


@pytest.mark.parametrize("kind", ["Pad", "MaxPool", "Expand"])
def test_a_tensor_that_would_be_huge_is_refused_before_it_is_made(kind, tmp_path):
    huge, big = 1 << 40, {"p": np.array([0, 0, 0, 0, 0, 0, 1 << 40, 1 << 40])}
    big["s"] = np.array([1 << 20, 2, 1 << 20, 4])
    given = {
        "Pad": node("Pad", ["x", "p"]),
        "MaxPool": node("MaxPool", ["x"], kernel_shape=[1, 1], pads=[0, 0, huge, 0]),
        "Expand": node("Expand", ["x", "s"]),
    }
    with pytest.raises(hm.errors.RecordFormatError, match=r"of memory|at most|broadcast"):
        read(tmp_path, [given[kind]], big)


def test_a_tensor_that_says_it_is_huge_is_refused_without_room_for_it(tmp_path):
    tensor = onnx.TensorProto(
        name="w", data_type=DOUBLE, dims=[1 << 40, 1 << 20], raw_data=b"1" * 8
    )
    x, y = (helper.make_tensor_value_info(n, DOUBLE, [1, 2]) for n in "xy")
    graph = helper.make_graph([node("MatMul", ["x", "w"])], "net", [x], [y], [tensor])
    (tmp_path / "net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(hm.errors.RecordFormatError, match="has data for 1 entries"):
        hm.load_onnx(tmp_path / "net.onnx")


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "", "weights"])
def test_weights_in_other_files_are_read_only_beside_the_model(location, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(np.eye(2).tobytes())
    tensor = onnx.TensorProto(name="w", data_type=DOUBLE, dims=[2, 2], data_location=1)
    tensor.external_data.add(key="location", value=location)
    x, y = (helper.make_tensor_value_info(n, DOUBLE, [1, 2]) for n in "xy")
    graph = helper.make_graph([node("MatMul", ["x", "w"])], "net", [x], [y], [tensor])
    (folder / "net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(hm.errors.RecordFormatError, match=r"not a file in the folder|missing"):
        hm.load_onnx(folder / "net.onnx")
    if location == "weights":
        (folder / "weights").write_bytes(np.diag([2.0, 3.0]).tobytes())
        assert hm.load_onnx(folder / "net.onnx")([1.0, 1.0]).tolist() == [2.0, 3.0]
        (folder / "weights").unlink()
        (folder / "weights").symlink_to(tmp_path / "secret")
        with pytest.raises(hm.errors.RecordFormatError, match="missing"):
            hm.load_onnx(folder / "net.onnx")


GRAPHS = {
    "no outputs": ([node("Relu", ["x"])], {}, {"outputs": ()}, "got 1 and 0"),
    "no nodes": ([], {}, {}, "`y` must be computed from the input"),
    "an undefined name": ([node("Relu", ["z"])], {}, {}, "`z` is not computed"),
    "a cycle": (
        [node("Add", ["x", "b"], "a"), node("Relu", ["a"], "b"), node("Relu", ["b"])],
        {},
        {},
        "`b` is not computed by an earlier node",
    ),
    "a name twice": ([node("Relu", ["x"]), node("Abs", ["x"])], {}, {}, "`y` is computed twice"),
    "no attribute": ([node("Concat", ["x", "x"])], {}, {}, "its attribute 'axis' is missing"),
    "a list for a number": (
        [node("Flatten", ["x"], axis=[1, 2])],
        {},
        {},
        "its arguments are invalid",
    ),
    "too few arguments": ([node("Conv", ["x"])], {}, {}, "the Conv"),
    "shapes that do not fit": (
        [node("Add", ["x", "c"])],
        {"c": np.ones((3, 5))},
        {},
        "its arguments are invalid: shape mismatch",
    ),
    "strides of zero": (
        [node("Conv", ["x", "k"], strides=[0, 0], auto_pad="SAME_UPPER")],
        {"k": np.ones((1, 2, 1, 1))},
        {},
        "its arguments are invalid",
    ),
    "no entries": (
        [node("Slice", ["x", "a", "a"])],
        {"a": np.array([0])},
        {},
        "its result has no entries",
    ),
    "parts that do not add up": (
        [node("Split", ["x", "s"], axis=1)],
        {"s": np.array([1, 2])},
        {},
        "do not add up to an axis of size 2",
    ),
    "words for numbers": (
        [helper.make_node("Constant", [], ["c"], value=["a", "b"]), node("Add", ["x", "c"])],
        {},
        {},
        "its constants must be real numbers",
    ),
    "indices with a point": (
        [node("Gather", ["x", "i"])],
        {"i": np.array([0.5])},
        {},
        "its indices must be integers",
    ),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_that_make_no_sense_are_refused_with_the_reason(kind, tmp_path):
    nodes, constants, named, match = GRAPHS[kind]
    path = saved(tmp_path, nodes, constants, **named)
    for read_file in (hm.load_onnx, hm.from_onnx):
        with pytest.raises(hm.errors.RecordFormatError, match=match):
            read_file(path)


def test_tensors_in_another_file_do_not_overlap(tmp_path):
    path = saved(tmp_path, [node("Add", ["x", "a"], "h"), node("Add", ["h", "b"])], {})
    model = onnx.load(path)
    for name in "ab":
        stored = model.graph.initializer.add(name=name, data_type=DOUBLE, dims=[4], data_location=1)
        for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "32")):
            stored.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(32))
    with pytest.raises(hm.errors.RecordFormatError, match="overlap"):
        hm.load_onnx(path)
