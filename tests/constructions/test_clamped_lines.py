"""Functions of one variable, segment by segment."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax.constructions.compilers.compiled_function_files import load_function
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.clamped_lines import maxout_from_segments
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.geometry.domains import Box
from tests.reference.piecewise_linear import knots_value, within

LINE = Box([-2], [2])


def random_knots(seed, n, **slopes):
    rng = np.random.default_rng(seed)
    return Knots(np.sort(rng.uniform(-1, 1, n)), rng.normal(size=n), **slopes)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
@pytest.mark.parametrize("slopes", [(None, None), (0.0, 0.0), (-3.5, 7.25)])
@pytest.mark.parametrize("box", [LINE, Box([-1], [1]), Box([0.25], [0.5]), Box([-2], [-1.5])])
def test_segments_are_the_function_up_to_the_stated_rounding(n, slopes, box):
    left, right = slopes
    knots = random_knots(n, n, left_slope=left, right_slope=right)
    form = maxout_from_segments(knots, box)
    assert form.rounding[0] < 1e-14 * float(1 + abs(knots.exact_forms[:, 0, 0]).max())
    ends = [Fraction(int(f[0].p), int(f[0].q)) for f in knots.exact_forms[[0, -1], 0]]
    x = np.r_[box.low, box.high, knots.positions, np.linspace(box.low[0], box.high[0], 9)]
    for point in x[(x >= box.low) & (x <= box.high)].tolist():
        positions, values = knots.positions.tolist(), knots.values[:, 0].tolist()
        wanted = knots_value(positions, values, *ends, point)
        assert within(form.network, form.rounding, [point], [wanted])


def test_several_outputs_share_the_segments():
    rng = np.random.default_rng(0)
    knots = Knots([0.0, 0.5, 1.0], rng.normal(size=(3, 2)))
    form = maxout_from_segments(knots, LINE)
    assert form.network.dim_out == 2
    for c in range(2):
        one = maxout_from_segments(Knots([0.0, 0.5, 1.0], knots.values[:, c]), LINE)
        x = rng.uniform(-2, 2, (20, 1))
        np.testing.assert_allclose(form.network(x)[:, c], one.network(x)[:, 0], atol=1e-13)


def test_they_are_used_where_they_are_asked_for(tmp_path):
    rng = np.random.default_rng(1)
    knots = Knots(np.linspace(-1, 1, 100), rng.normal(size=100))
    compiled = compile_cpwl(knots, Box([-1], [1]), method="segments")
    assert compiled.form.method == "segments"
    compiled.save(tmp_path / "f.safetensors")
    assert load_function(tmp_path / "f.safetensors").form.method == "segments"
    soft = compile_cpwl(knots, Box([-1], [1]), 0.01, method="segments")
    x = rng.uniform(-1, 1, (50, 1))
    wanted = np.interp(x, knots.positions, knots.values[:, 0])
    assert np.abs(soft(x) - wanted).max() <= soft.certified_error <= 0.01


def test_many_random_knots_stay_within_1e_minus_4_in_float32(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    knots = Knots(np.linspace(-1, 1, 100), rng.normal(size=100))
    compiled = compile_cpwl(knots, Box([-1], [1]), method="segments")
    compiled.to_onnx(tmp_path / "f.onnx", dtype="float32")
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"])
    x = np.r_[knots.positions, rng.uniform(-1, 1, 500)].astype(np.float32)[:, None]
    wanted = np.interp(x[:, 0].astype(np.float64), knots.positions, knots.values[:, 0])
    assert np.abs(session.run(None, {"x": x})[0][:, 0] - wanted).max() < 5e-5


def test_slopes_beyond_float64_and_bad_boxes_are_refused():
    with pytest.raises(ArgumentError, match="slope"):
        maxout_from_segments(Knots([0.0, 1e-300], [0.0, 1e300]), LINE)
    with pytest.raises(HardmaxError, match="`box`"):
        maxout_from_segments(random_knots(0, 3), Box([0, 0], [1, 1]))
