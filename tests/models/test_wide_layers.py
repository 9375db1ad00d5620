"""Layers whose memory is that of their weights: what is never written down as one large matrix."""

import json
import tracemalloc
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load_file, save_file

from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, RecordFormatError, ShapeMismatchError
from hardmax.geometry.domains import Box, Line, Segment
from hardmax.geometry.polytopes import Polytope
from hardmax.models import argmax as affine_maps
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models._arithmetic.form_scores import enclosed_scores, plain_scores
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.evaluation import affine_map, forward, signature, soft
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork, relu_layer
from hardmax.models.storage import load_model, save_model
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions._lines import line_search, lines
from hardmax.regions._lines.line_signatures import WalkRecorder
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.reference.networks import argmax_network, form_rows
from tests.region_models import gaussian_relu
from tests.sweeps import examples


def random_network(seed, *, is_integer=True):
    """Groups of several sizes that read different entries of the query, in any order."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.integers(-2, 3, shape).astype(float) if is_integer else rng.normal(size=shape)

    p, n_read = 4, 3
    sizes = [2, 3, 1, 2]
    reads = np.stack([rng.permutation(p)[:n_read] for _ in sizes])
    reads[1, 2] = reads[2, 0] = -1
    starts = np.cumsum([0, *sizes])
    slopes = draw(starts[-1], n_read)
    slopes[starts[1] : starts[2], 2] = slopes[starts[2] : starts[3], 0] = 0.0
    gains = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 0.0, 0.0])
    layer = ArgmaxLayer(
        AffineMap(draw(2, p), draw(p)),
        slopes,
        draw(starts[-1]),
        starts,
        np.array([0, 2, 3, 0]),
        gains,
        draw(starts[-1], 2),
        AffineMap(draw(5, 2), draw(2)),
        bool(seed % 2),
        reads,
    )
    units = relu_layer(AffineMap(draw(2, 3), draw(3)), AffineMap.identity(3))
    return ArgmaxNetwork((layer, units), AffineMap.identity(2), AffineMap(draw(3, 1), draw(1)))


def written_out(network):
    """The same network with every slope in one matrix, as a file of earlier days has it."""
    layers = [
        ArgmaxLayer(
            AffineMap(np.array(layer.query.weight), layer.query.bias),
            form_rows(layer),
            layer.offsets,
            layer.starts,
            layer.slots,
            layer.gains,
            layer.values,
            AffineMap(np.array(layer.output.weight), layer.output.bias),
            layer.residual,
        )
        for layer in network.layers
    ]
    return ArgmaxNetwork(tuple(layers), AffineMap(np.eye(2), np.zeros(2)), network.readout)


@pytest.mark.parametrize("seed", range(8))
def test_a_layer_that_reads_some_entries_is_the_one_with_all_slopes_written_out(seed):
    network = random_network(seed)
    dense = written_out(network)
    points = np.random.default_rng(seed).integers(-3, 4, (40, 2)) / 2.0
    for x, out, name in zip(
        points, forward(network, points), signature(network, points).tolist(), strict=True
    ):
        wanted, winners = argmax_network(x, network)
        assert (out.tolist(), name) == ([float(y) for y in wanted], winners)
    for function in (forward, signature, lambda net, x: soft(net, x, 0.7)):
        np.testing.assert_array_equal(function(network, points), function(dense, points))
    name = signature(network, points[0])
    for one, other in zip(affine_map(network, name), affine_map(dense, name), strict=True):
        np.testing.assert_array_equal(one, other)
    for layer, other in zip(network.layers, dense.layers, strict=True):
        assert layer.exact_scores == other.exact_scores
        np.testing.assert_array_equal(layer.dense_slopes(), other.slopes)
        query = np.random.default_rng(1).normal(size=(3, layer.query.dim_out))
        wanted = query @ np.array(form_rows(layer)).T + layer.offsets
        np.testing.assert_allclose(plain_scores(layer, query), wanted, rtol=1e-12, atol=1e-12)
        enclosed = enclosed_scores(layer, Enclosed.exactly(query))
        np.testing.assert_allclose(enclosed.values, wanted, rtol=1e-12, atol=1e-12)
        assert (enclosed.radii < 1e-12).all()
        linear = enclosed_scores(layer, Enclosed.exactly(query), n_linear=2).values
        np.testing.assert_allclose(
            wanted - linear, [layer.offsets] * 2 + [0 * layer.offsets], atol=1e-12
        )


@pytest.mark.parametrize("seed", range(4))
def test_every_engine_and_the_verifier_read_such_a_layer(seed):
    network = random_network(seed)
    for domain in (Line([0.5, 0.25], [1.0, -2.0]), Box([-2, -2], [2, 2])):
        found = enumerate_regions(network, domain)
        other = enumerate_regions(written_out(network), domain)
        names = {tuple(row) for row in found.signatures.tolist()}
        assert names == {tuple(row) for row in other.signatures.tolist()}
        assert verify_certificate(network, found.certificate())


def test_the_identity_is_one_without_its_matrix():
    identity = AffineMap.identity(5)
    np.testing.assert_array_equal(identity.weight, np.eye(5))
    assert AffineMap(np.eye(5), np.zeros(5)).is_identity
    assert not AffineMap(np.eye(5), np.ones(5)).is_identity
    assert not AffineMap(np.eye(5)[::-1], np.zeros(5)).is_identity
    assert not AffineMap(np.eye(5) + np.eye(5, k=1), np.zeros(5)).is_identity
    assert fingerprint(identity) == fingerprint(AffineMap(np.eye(5), np.zeros(5)))
    assert fingerprint(identity) != fingerprint(AffineMap.identity(6))
    with pytest.raises(ValueError, match="read-only"):
        identity.weight[0, 0] = 2.0


@given(arrays(np.float64, (3, 5), elements=st.sampled_from([0.0, 0.5, -3.0, 1e-30, 2.0**60])))
@examples(30)
def test_integers_go_through_a_large_map_in_parts(weight):
    affine = AffineMap(weight, weight[0])
    rows = fmpz_mat(4, 2, [3, -1, 0, 5, 7, 2, 1, 1])
    whole, exponent = affine.on_integers(rows)
    products = [(whole, exponent)]
    for most_kept in (4, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(affine_maps, "_MOST_AT_ONCE", 4)
            patch.setattr(affine_maps, "_MOST_KEPT", most_kept)
            # The second time parts that were kept are read.
            products += [affine.on_integers(rows) for _ in range(2)]
    exact = [
        [Fraction(int(x)) * Fraction(2) ** scale for x in m.entries()] for m, scale in products
    ]
    assert all(one == exact[0] for one in exact)


BAD_READS = [
    ([[0], [2]], ArgumentError, "`reads` must hold indices into a query of width 2"),
    ([[-2], [0]], ArgumentError, "`reads` must hold indices"),
    ([[0], [-1]], ArgumentError, "`slopes` must be 0 wherever `reads` is -1"),
    ([[0]], ShapeMismatchError, "reads"),
    ([[0, 1], [0, 1]], ShapeMismatchError, "reads"),
]


@pytest.mark.parametrize(("reads", "error", "message"), BAD_READS)
def test_entries_that_are_not_there_are_refused(reads, error, message):
    identity = AffineMap.identity(2)
    fields = [identity, [[1.0], [1.0]], [0, 0], [0, 1, 2], [0, 1], [1, 1], [[0], [0]], identity]
    ArgmaxLayer(*fields, False, np.array([[1], [0]]))
    with pytest.raises(error, match=message):
        ArgmaxLayer(*fields, False, np.array(reads))


def test_an_entry_is_read_once():
    identity = AffineMap.identity(2)
    with pytest.raises(ArgumentError, match="`reads` must not repeat an entry"):
        ArgmaxLayer(identity, [[1, 1]], [0], [0, 1], [0], [1], [[0]], identity, False, [[1, 1]])


def test_a_file_keeps_entries_and_identities_and_an_old_one_can_be_read(tmp_path):
    network = random_network(3)
    path = tmp_path / "network.safetensors"
    save_model(network, path)
    again = load_model(path)
    assert fingerprint(again) == fingerprint(network)
    tensors = load_file(path)
    assert "layers.0.reads" in tensors
    assert "layers.1.output.weight" not in tensors
    # Before there were identities and entries, all was written out.
    dense = written_out(network)
    old = {f"embedding.{k}": np.array(getattr(dense.embedding, k)) for k in ("weight", "bias")}
    old |= {f"readout.{k}": np.array(getattr(dense.readout, k)) for k in ("weight", "bias")}
    for i, layer in enumerate(dense.layers):
        names = ("slopes", "offsets", "starts", "slots", "gains", "values")
        old |= {f"layers.{i}.{name}": np.array(getattr(layer, name)) for name in names}
        for part in ("query", "output"):
            affine = getattr(layer, part)
            old |= {
                f"layers.{i}.{part}.{k}": np.array(getattr(affine, k)) for k in ("weight", "bias")
            }
    header = {"format": "hardmax.model/1", "kind": "ArgmaxNetwork", "residuals": [True, False]}
    save_file(old, path, {"hardmax": json.dumps(header)})
    points = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_array_equal(forward(load_model(path), points), forward(network, points))


@pytest.mark.parametrize(
    ("identities", "reason"),
    [
        ("embedding.", "`identities` must be a list"),
        (["embedding.", "layers.1.output.", "layers.7.output."], "layers.7.output"),
        (["embedding.", "layers.1.output.", "readout."], "readout.bias"),
        (["embedding."], "layers.1.output.weight"),
    ],
)
def test_identities_that_are_none_are_refused(identities, reason, tmp_path):
    network = random_network(3)
    path = tmp_path / "network.safetensors"
    save_model(network, path)
    header = {"format": "hardmax.model/1", "kind": "ArgmaxNetwork", "residuals": [True, False]}
    # Format 1 has no hash that would notice.
    save_file(load_file(path), path, {"hardmax": json.dumps(header | {"identities": identities})})
    with pytest.raises(RecordFormatError, match=reason):
        load_model(path)


def measured(function):
    """The result of a call, and the most memory it held at once, in megabytes."""
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_a_wide_layer_takes_the_memory_of_its_weights(tmp_path):
    # A matrix of all slopes would have 2 * 40 000**2 entries: 24 GB.
    n = 40_000
    rng = np.random.default_rng(0)
    model = ReluNetwork(
        [rng.normal(size=(3, n)), rng.normal(size=(n, 1))], [rng.normal(size=n), None]
    )
    x = rng.normal(size=(2, 3))
    plain = np.maximum(x @ model.weights[0] + model.biases[0], 0.0) @ model.weights[1]
    out, memory = measured(lambda: model(x))
    np.testing.assert_allclose(out, plain, rtol=1e-9)
    assert memory < 100
    names, memory = measured(lambda: model.signature(x))
    np.testing.assert_array_equal(names, x @ model.weights[0] + model.biases[0] > 0.0)
    assert memory < 100
    segment = Segment(x[0], x[1])
    counted, memory = measured(lambda: enumerate_regions(model, segment, count_only=True))
    assert memory < 100
    (stored, memory) = measured(lambda: lines.explore(model.network, segment, max_cells=3000))
    assert memory < 200
    start, step = x[0] @ model.weights[0] + model.biases[0], (x[1] - x[0]) @ model.weights[0]
    roots = np.sort(-start / step)
    inside = roots[(roots > 0.0) & (roots < 1.0)]
    assert counted.n_cells == len(inside) + 1
    found = [float(t) for t in stored.breakpoints[:50]]
    np.testing.assert_allclose(found, inside[:50], rtol=1e-9)
    _, memory = measured(lambda: save_model(model.network, tmp_path / "wide.safetensors"))
    assert memory < 100
    _, memory = measured(lambda: fingerprint(load_model(tmp_path / "wide.safetensors")))
    assert memory < 100


def test_many_heads_take_the_memory_of_their_keys():
    rng = np.random.default_rng(1)
    heads = [
        AttentionHead(
            rng.normal(size=(4, 8)),
            rng.normal(size=(128, 8)),
            rng.normal(size=(128, 2)),
            rng.normal(size=(2, 4)),
        )
        for _ in range(96)
    ]
    model = HardTransformer([Block(heads)])
    x = rng.normal(size=(3, 4))
    # All keys on all queries are 75 MB: a search writes them out, points do not.
    _, memory = measured(lambda: (model(x), model.signature(x)))
    assert memory < 40
    part, memory = measured(lambda: enumerate_regions(model, Segment(x[0], x[1]), max_cells=20))
    assert memory < 100
    points = x[0] + part.witnesses * (x[1] - x[0])
    np.testing.assert_array_equal(part.signatures, model.signature(points))


def layer_roots(slopes, offsets, low, high):
    """Where forms m t + c change sign in an interval, in plain floats, sorted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = -offsets / slopes
    return np.sort(roots[(roots > low) & (roots < high)])


def reference_breakpoints(model, start, end):
    """Breakpoints on a segment, layer by layer in plain floats, each unit on its own."""
    cuts = np.array([0.0, 1.0])
    for depth in range(len(model.weights) - 1):
        new = [cuts]
        for low, high in pairwise(cuts):
            slope, offset = end - start, start
            middle = (low + high) / 2
            for weight, bias in zip(model.weights[: depth + 1], model.biases, strict=False):
                on = slope * middle + offset > 0 if weight is not model.weights[0] else 1.0
                slope, offset = (slope * on) @ weight, (offset * on) @ weight + bias
            new.append(layer_roots(slope, offset, low, high))
        cuts = np.sort(np.concatenate(new))
    return cuts[1:-1]


@pytest.mark.parametrize(
    "sizes", [[6, 700, 2], [6, 3, 300, 2], [6, 200, 150, 2], [3, 60, 60, 60, 1]]
)
def test_lines_agree_with_plain_floats_at_moderate_width(sizes):
    model = gaussian_relu(7, sizes)
    rng = np.random.default_rng(5)
    start, end = rng.normal(size=(2, sizes[0])) * 2.0
    part = enumerate_regions(model, Segment(start, end))
    wanted = reference_breakpoints(model, start, end)
    assert part.n_cells == len(wanted) + 1
    ends = part.cells.vertices.reshape(-1, 2)
    np.testing.assert_allclose(ends[1:, 0], wanted, rtol=1e-7, atol=1e-9)
    # The maps of a wide last layer are running sums, with radii that hold.
    for i in {0, 1, part.n_cells // 2, part.n_cells - 1}:
        true = part.exact_map(i).rounded().T
        error = np.abs(part.affine_maps[i] - true)
        assert (error <= part.cells.map_radii[i]).all()
        assert part.cells.map_radii[i].max() < 1e-9
    np.testing.assert_array_equal(part.signatures[3], part.found.walk.row(3))


@pytest.mark.parametrize("size", [64, 999])
def test_batches_of_any_size_give_the_same_cells(size, monkeypatch):
    model = gaussian_relu(3, [2, 40, 9, 1])
    domain = Line([0.1, 0.2], [1.0, -0.5])
    wanted = lines.explore(model.network, domain)
    monkeypatch.setattr(line_search, "_ENTRIES_AT_ONCE", size)
    found = lines.explore(model.network, domain)
    assert found.signatures.tolist() == wanted.signatures.tolist()
    assert found.breakpoints.tolist() == wanted.breakpoints.tolist()
    np.testing.assert_allclose(found.arrays.maps, wanted.arrays.maps, rtol=1e-9, atol=1e-12)
    counted = lines.explore(model.network, domain, count_only=True)
    assert counted.arrays.n_counted == len(wanted)


def test_a_wide_degenerate_layer_is_cut_in_integers():
    # All units meet in one point, some lie on the line, and some breakpoints coincide.
    rng = np.random.default_rng(4)
    model = ReluNetwork([rng.integers(-3, 4, (2, 3000)), rng.integers(-3, 4, (3000, 1))])
    found = lines.explore(model.network, Segment([-1.0, 1.0], [2.0, 1.0]))
    ratios = {Fraction(-int(b), int(a)) for a, b in model.weights[0].T.tolist() if a}
    assert found.breakpoints.tolist() == sorted((t + 1) / 3 for t in ratios if -1 < t < 2)
    assert found.search.decisions.expanded == 3000
    for i, map_ in enumerate(found.arrays.maps):
        middle = found.interior_points(np.array([i]))[0, 0]
        x = [float(3 * middle - 1), 1.0]
        assert map_[0, 0] * float(middle) + map_[1, 0] == pytest.approx(model(x)[0], rel=1e-9)


def test_a_maxout_layer_of_many_units_on_a_line():
    rng = np.random.default_rng(9)
    weights = rng.normal(size=(400, 4, 3))
    model = MaxoutNetwork([weights, rng.normal(size=(400, 1))], [rng.normal(size=(400, 4)), None])
    part = enumerate_regions(model, Line(np.zeros(3), np.ones(3)))
    t = part.found.interior_points(np.arange(part.n_found)).astype(np.float64)
    np.testing.assert_array_equal(part.signatures, model.signature(t * np.ones(3)))
    values = part.affine_maps[:, 0] * t + part.affine_maps[:, 1]
    np.testing.assert_allclose(values, model(t * np.ones(3)), rtol=1e-7, atol=1e-7)


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 7), st.integers(0, 4)), elements=st.integers(0, 2)),
    st.integers(1, 6),
)
def test_a_walk_gives_back_what_was_taken_down(rows, cut):
    recorder = WalkRecorder(rows.shape[1], np.uint8)
    for batch in (rows[:cut], rows[cut:]):
        if len(batch):
            recorder.add(batch)
    walk = recorder.walk()
    np.testing.assert_array_equal(walk.table(), rows)
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(walk.row(i), row)
    assert len(walk.groups) == (rows[1:] != rows[:-1]).sum()


@pytest.mark.parametrize("rows", [[[1.0], [-1.0]], [[2.0], [-3.0]]])
def test_a_point_on_a_line_has_no_interior(rows):
    with pytest.raises(ArgumentError, match="`domain` must have nonempty interior"):
        charted(Polytope(np.array(rows), np.zeros(2)), 1)
    assert charted(Polytope(np.array(rows), np.array([1.0, 0.0])), 1).dim == 1
