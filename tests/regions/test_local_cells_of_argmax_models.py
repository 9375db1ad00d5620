"""The cell around one point of a model with heads, or of any argmax network, in integers."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError, SizeLimitError
from hardmax.models import ArgmaxNetwork
from hardmax.regions._location import point_cells
from tests.certificate_models import random_transformer
from tests.extreme_models import model_and_domain
from tests.reference import regions as reference
from tests.region_models import (
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.regions.test_time_limits import relu, transformer

KEYS = np.array([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0], [-1.0, 0.0], [0.1, 0.1]])
HEAD = hm.AttentionHead(np.eye(2), KEYS, -KEYS, np.eye(2), query_bias=[0.5, 0.25])
BLOCK = hm.Block([HEAD], hm.FeedForward(KEYS.T, np.zeros(5), KEYS, np.zeros(2)))


def gaussian_transformer(seed, dim, *, n_blocks=2):
    """Two heads of four keys in each block, with logit biases and three units; d outputs."""
    rng = np.random.default_rng([5, seed])
    blocks = []
    for _ in range(n_blocks):
        heads = [
            hm.AttentionHead(
                rng.normal(size=(dim, 3)),
                rng.normal(size=(4, 3)),
                rng.normal(size=(4, dim)),
                rng.normal(size=(dim, dim)),
                query_bias=rng.normal(size=3),
                logit_bias=rng.normal(size=4),
            )
            for _ in range(2)
        ]
        units = rng.normal(size=(dim, 3)), rng.normal(size=3), rng.normal(size=(3, dim)), None
        blocks.append(hm.Block(heads, hm.FeedForward(*units)))
    return hm.HardTransformer(blocks)


def value_at(form, x):
    return sum((a * Fraction(t) for a, t in zip(form, x, strict=False)), form[-1])


def reference_cell(network, x):
    """The first winners at a point, the gaps of layers and of outputs, and the map, by definition.

    Gaps are (squared distance, layer, group, rival).
    """
    dim = len(x)
    forms = [[Fraction(int(i == k)) for i in range(dim + 1)] for k in range(dim)]
    forms = reference.compose(
        forms, network.embedding.weight.tolist(), network.embedding.bias.tolist()
    )
    signature, gaps = [], []
    for index, layer in enumerate(network.layers):
        query = reference.compose(forms, layer.query.weight.tolist(), layer.query.bias.tolist())
        scores = reference.score_forms(layer, query)
        groups = [scores[a:b] for a, b in zip(layer.starts, layer.starts[1:], strict=False)]
        winners = [first_of_best(group, x) for group in groups]
        for g, (group, winner) in enumerate(zip(groups, winners, strict=True)):
            gaps += [(square, index, g, j) for square, j in squares_of(group, winner, x)]
        signature += winners
        forms = reference._advance(layer, forms, scores, winners)
    outputs = reference.compose(
        forms, network.readout.weight.tolist(), network.readout.bias.tolist()
    )
    best = first_of_best(outputs, x)
    return signature, gaps, outputs, best, squares_of(outputs, best, x)


def first_of_best(forms, x):
    values = [value_at(form, x) for form in forms]
    return values.index(max(values))


def squares_of(forms, winner, x):
    rows = [[a - b for a, b in zip(forms[winner], form, strict=True)] for form in forms]
    norms = [sum(a * a for a in row[:-1]) for row in rows]
    return [
        (value_at(row, x) ** 2 / norm, j)
        for j, (row, norm) in enumerate(zip(rows, norms, strict=True))
        if norm
    ]


def assert_encloses(wall, square):
    """Check that the bounds are the nearest floats on both sides."""
    assert 0.0 <= wall.low <= wall.distance <= wall.high
    assert Fraction(wall.low) ** 2 <= square
    assert wall.high in (wall.low, np.nextafter(wall.low, np.inf))
    if wall.high == np.inf:
        assert square > Fraction(np.finfo(float).max) ** 2
    else:
        assert square <= Fraction(wall.high) ** 2


def assert_follows_definition(model, x):
    cell = hm.cell_at(model, x)
    network = cell.network
    assert isinstance(network, ArgmaxNetwork)
    signature, gaps, outputs, best, rivals = reference_cell(network, np.asarray(x).tolist())
    assert cell.signature.tolist() == signature
    assert cell.class_index == best
    for wall, squares in (
        (cell.wall, [g[0] for g in gaps]),
        (cell.decision, [r[0] for r in rivals]),
    ):
        assert (wall is None) == (not squares)
        if wall is not None:
            assert_encloses(wall, min(squares))
    if cell.wall is not None:
        _, layer, group, rival = min(gaps)
        words = network.words[layer]
        assert (cell.wall.layer, cell.wall.group, cell.wall.rival) == (words.place, group, rival)
        n_forms = network.layers[layer].starts[group + 1] - network.layers[layer].starts[group]
        assert cell.wall.name == words.name(group, rival if n_forms > 2 else None)
    if rivals:
        assert cell.decision.rival == min(rivals)[1]
        assert cell.decision.name == f"decision, output {cell.decision.rival}"
    for k, form in enumerate(outputs):
        entries = [*cell.weight[:, k], cell.bias[k]]
        assert entries == [nearest(a) for a in form]
        if not np.isfinite(entries).all():
            assert np.isinf(cell.errors[k]) or np.isinf(cell.bias[k])
            continue
        off = sum((Fraction(a) - b) ** 2 for a, b in zip(entries[:-1], form[:-1], strict=True))
        assert off <= Fraction(cell.errors[k]) ** 2
    return cell


def nearest(value):
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


MODELS = {
    **{f"transformer {d}": (lambda d=d: gaussian_transformer(d, d)) for d in range(1, 7)},
    **{f"integers {d}": (lambda d=d: random_transformer(d, d, 2)) for d in range(1, 5)},
    "repeated keys": lambda: integer_transformer(0, 2, 4, 2, 2, repeat=True),
    "units doubled": lambda: repeated_units(2).network,
    "relu layers": lambda: integer_relu(1, [3, 4, 3]).network,
    "maxout layers": lambda: integer_maxout(2, 2, [[3, 2], [4]]).network,
    "head": lambda: HEAD,
    "block": lambda: BLOCK,
}


@pytest.mark.parametrize("name", MODELS)
def test_cells_are_those_of_the_definition(name):
    model = MODELS[name]()
    rng = np.random.default_rng(7)
    dim = model.dim if isinstance(model, hm.AttentionHead | hm.Block) else model.dim_in
    for x in [*rng.normal(size=(4, dim)), np.zeros(dim), *rng.integers(-2, 3, (4, dim)) / 2.0]:
        assert_follows_definition(model, x)


@pytest.mark.parametrize("seed", range(60))
def test_cells_are_those_of_the_definition_at_all_magnitudes(seed):
    model, _ = model_and_domain(seed)
    rng = np.random.default_rng(seed)
    palette = [5e-324, 2.0**-540, 1.0, 2.0**511, 2.0**1023]
    for x in (np.zeros(model.dim_in), rng.choice(palette, model.dim_in)):
        cell = assert_follows_definition(model.network, x)
        assert not np.isnan(cell._normal).any()


@pytest.mark.parametrize("scale", [2.0**-1074, 2.0**-540, 2.0**511, 2.0**1023])
def test_a_distance_is_right_at_every_magnitude(scale):
    head = hm.AttentionHead([[1.0]], [[0.0], [scale]], [[0.0], [1.0]], [[1.0]])
    with np.errstate(all="raise"):
        cell = hm.cell_at(head, [1.0])
    assert cell.signature.tolist() == [1]
    assert cell.wall.low == cell.wall.high == 1.0
    assert cell.along([-1.0], 4.0).distance == 1.0
    assert cell.beyond.signature.tolist() == [0]
    far = hm.AttentionHead([[1.0]], [[0.0], [-1.0]], [[0.0], [1.0]], [[1.0]])
    assert hm.cell_at(far, [scale]).wall.distance == scale


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e20, 1e300])
def test_the_cell_beyond_is_found_where_a_short_step_is_rounded_away(scale):
    model = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0]]])
    head = hm.AttentionHead([[1.0], [-1.0]], [[0.0], [1.0]], [[0.0], [1.0]], [[1.0, 0.0]])
    for net in (model, model.network, head):
        cell = hm.cell_at(net, [scale, scale])
        assert cell.wall.high == 0.0
        assert cell.beyond.signature.tolist() == [1]
        np.testing.assert_allclose(cell.beyond.point, [scale, scale], rtol=1e-9, atol=1e-9)
    for net in (model, model.network):
        cell = hm.cell_at(net, [np.finfo(float).max, 0.0])
        assert cell.beyond.signature.tolist() == [0]
    far = hm.ReluNetwork([[[1.0]], [[1.0]]], [[-np.finfo(float).max], None])
    for net in (far, far.network):
        with pytest.raises(ArgumentError, match="within the range of float64"):
            _ = hm.cell_at(net, [0.0]).beyond


@pytest.mark.parametrize("seed", range(8))
def test_the_cell_is_the_located_one_of_a_partition(seed):
    dim = 1 + seed % 3
    model = [gaussian_transformer(seed, dim, n_blocks=1), random_transformer(seed, dim)][seed % 2]
    part = hm.enumerate_regions(model, hm.WholeSpace(dim))
    for x in np.random.default_rng(seed).normal(size=(12, dim)):
        at = int(part.locate(x))
        assert at >= 0
        cell = hm.cell_at(model, x)
        assert cell.signature.tolist() == part.signatures[at].tolist()
        weight, bias = model.affine_map(part.signatures[at])
        np.testing.assert_array_equal(cell.weight, weight)
        np.testing.assert_array_equal(cell.bias, bias)
        squares = [
            value_at(row, x) ** 2 / Fraction(sum(a * a for a in row[:-1]))
            for row in part.rows(at).walls
        ]
        assert (cell.wall is None) == (not squares)
        if squares:
            assert_encloses(cell.wall, min(squares))
            beyond = int(part.locate(cell.beyond.point))
            assert part.signatures[beyond].tolist() == cell.beyond.signature.tolist()
            pairs = {frozenset(pair) for pair in part.neighbours.pairs.tolist()}
            assert frozenset((at, beyond)) in pairs


@pytest.mark.parametrize("dim", range(1, 7))
def test_no_winner_and_no_class_changes_within_the_certified_radius(dim):
    rng = np.random.default_rng(dim)
    for seed in range(6):
        model = gaussian_transformer(seed, dim)
        for x in rng.normal(size=(4, dim)):
            cell = hm.cell_at(model, x)
            ways = rng.normal(size=(50, dim))
            ways /= np.linalg.norm(ways, axis=1, keepdims=True)
            radius = min(cell.certified_radius, 1e6)
            probes = x + radius * (1.0 - 2.0**-30) * np.sqrt(rng.random((50, 1))) * ways
            assert (model.signature(probes) == cell.signature).all()
            if dim > 1:
                assert (model(probes).argmax(axis=1) == cell.class_index).all()
            assert np.allclose(probes @ cell.weight + cell.bias, model(probes))
            if cell.wall is not None and cell.wall.high < 1e6:
                assert (cell.beyond.signature != cell.signature).any()


RELU_AND_MAXOUT = [
    integer_relu(0, [2, 4, 3]),
    integer_relu(3, [3, 5, 4], zero_bias=True),
    repeated_units(3),
    integer_maxout(1, 2, [[3, 2, 4], [3]]),
    relu(4, 8, 8, 3),
    relu(6, 8, 1),
]


@pytest.mark.parametrize("model", RELU_AND_MAXOUT, ids=repr)
def test_integers_agree_with_the_path_of_graphs(model):
    rng = np.random.default_rng(1)
    dim = model.dim_in
    points = [*rng.normal(size=(8, dim)), *rng.integers(-2, 3, (8, dim)).astype(float)]
    for x in points:
        fast, exact = hm.cell_at(model, x), hm.cell_at(model.network, x)
        assert fast.network is exact.network
        assert fast.signature.tolist() == exact.signature.tolist()
        assert fast.class_index == exact.class_index
        np.testing.assert_allclose(fast.weight, exact.weight, atol=1e-12)
        np.testing.assert_allclose(fast.bias, exact.bias, atol=1e-12)
        for one, other in ((fast.wall, exact.wall), (fast.decision, exact.decision)):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.low <= other.high
                assert other.low <= one.high
                assert abs(one.distance - other.distance) <= 2.0**-16 * other.distance
        way = rng.normal(size=dim)
        hits = [(cell.along(way, 5.0)) for cell in (fast, exact)]
        if model.dim_out > 1:
            hits += [cell.decision_along(way, 5.0) for cell in (fast, exact)]
        for one, other in zip(hits[::2], hits[1::2], strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.low <= other.high
                assert other.low <= one.high
                assert one.layer == other.layer


def test_walls_have_equal_names_on_both_paths():
    model = integer_maxout(1, 2, [[3, 2, 4], [3]])
    names = set()
    for x in np.random.default_rng(4).normal(size=(30, 2)) * 3.0:
        fast, exact = hm.cell_at(model, x).wall, hm.cell_at(model.network, x).wall
        assert (fast.name, fast.layer) == (exact.name, exact.layer)
        names.add(fast.name.split(", ", 2)[-1])
    assert "unit 1" in names
    assert any(name.startswith("unit 0, form") for name in names) or len(names) > 1


def test_a_wall_is_named_in_the_words_of_pictures():
    model = hm.HardTransformer([BLOCK, BLOCK])
    names = {hm.cell_at(model, x).wall.name for x in np.random.default_rng(0).normal(size=(200, 2))}
    layers, groups = {name.split(", ")[0] for name in names}, {name.split(" ")[2] for name in names}
    assert layers == {"block 0", "block 1"}
    assert groups == {"head", "unit"}
    assert all(", key " in name for name in names if ", head" in name)
    assert all(", form" not in name for name in names if ", unit" in name)
    for name in names:
        model.network.find_wall(name)


# Points on walls


def test_a_point_on_a_wall_belongs_to_the_cell_of_the_first_winner():
    steps = hm.AttentionHead([[1.0]], [[-1.0], [1.0]], [[-5.0], [5.0]], [[1.0]])
    block = hm.Block([steps], hm.FeedForward([[1.0]], [-1.0], [[1.0]], None), False)
    cell = hm.cell_at(hm.HardTransformer([block]), [0.0])
    # The head returns 0 on the wall, where the unit is off; the unit is off for the first key too.
    assert cell.signature.tolist() == [0, 0]
    assert cell.wall.name == "block 0, head 0"
    assert cell.wall.low == cell.wall.high == 0.0
    assert cell.certified_radius == 0.0
    assert cell.beyond.signature.tolist() == [1, 1]
    assert cell.bias.tolist() == [-5.0]


def test_later_layers_receive_what_the_first_winner_contributes():
    steps = hm.AttentionHead([[1.0]], [[1.0], [-1.0]], [[5.0], [-5.0]], [[1.0]])
    block = hm.Block([steps], hm.FeedForward([[1.0]], [-1.0], [[1.0]], None), False)
    model = hm.HardTransformer([block])
    cell = hm.cell_at(model, [0.0])
    assert model.signature([0.0]).tolist() == [0, 0]
    assert cell.signature.tolist() == [0, 1]
    assert hm.cell_at(model, [1e-300]).signature.tolist() == [0, 1]


def test_a_cell_without_interior_is_described_like_that_of_a_relu_network():
    model = hm.ReluNetwork([[[1.0, -1.0]], [[1.0], [1.0]]])
    fast, exact = hm.cell_at(model, [0.0]), hm.cell_at(model.network, [0.0])
    for cell in (fast, exact):
        assert cell.signature.tolist() == [0, 0]
        assert cell.wall.distance == cell.wall.low == cell.wall.high == 0.0
        assert cell.weight.tolist() == [[0.0]]
        assert cell.beyond.signature.sum() == 1


def test_repeated_keys_make_no_wall_and_share_the_value():
    head = hm.AttentionHead([[1.0]], [[1.0], [1.0], [1.0]], [[2.0], [4.0], [6.0]], [[1.0]])
    cell = hm.cell_at(head, [0.5])
    assert cell.wall is None
    assert cell.decision is None
    assert cell.certified_radius == cell.radius_upper_bound == np.inf
    assert cell.bias.tolist() == [4.0]
    assert cell.along([1.0], 1e300) is None
    with pytest.raises(ArgumentError, match="no walls"):
        _ = cell.beyond
    with pytest.raises(ArgumentError, match="several outputs"):
        cell.decision_along([1.0])


# Rays


@pytest.mark.parametrize("seed", range(12))
def test_the_first_wall_on_a_ray_is_the_first_breakpoint_of_the_segment(seed):
    dim = 1 + seed % 4
    model = [gaussian_transformer(seed, dim), random_transformer(seed, dim, 2)][seed // 6]
    rng = np.random.default_rng(seed)
    for x, end in rng.integers(-8, 9, size=(6, 2, dim)) / 4.0:
        if (x == end).all():
            continue
        found = hm.enumerate_regions(model, hm.Segment(x, end))
        hit = hm.cell_at(model, x).along(end - x)
        points = found.breakpoints
        assert (hit is None) == (len(points) == 0)
        if hit is not None:
            first = Fraction(int(points[0].numerator), int(points[0].denominator))
            assert Fraction(hit.low) <= first <= Fraction(hit.high)
            assert hit.high <= np.nextafter(hit.low, np.inf)
            changed = np.flatnonzero(found.signatures[0] != found.signatures[1])
            network = model.network
            group = next(g for g in changed)
            place = next(p for p in network.places if p.groups.start <= group < p.groups.stop)
            assert hit.layer == network.words[place.depth].place
            assert hit.group == group - place.groups.start
            assert hit.rival == found.signatures[1][group]


def test_the_class_changes_first_where_the_ray_says():
    n_hits = 0
    for seed in range(60):
        dim = 2 + seed % 3
        model = gaussian_transformer(seed, dim)
        x, way = np.random.default_rng(seed).normal(size=(2, dim))
        cell = hm.cell_at(model, x)
        hit = cell.decision_along(way, 3.0)
        until = 3.0 if hit is None else hit.low
        times = np.linspace(0.0, until, 300, endpoint=False)
        classes = model(x + times[:, np.newaxis] * way).argmax(axis=1)
        assert set(classes.tolist()) == {cell.class_index}
        if hit is not None:
            n_hits += 1
            assert hit.name == f"decision, output {hit.rival}"
            after = x + (hit.high + 1e-9) * way
            assert hm.cell_at(model, after).class_index == hit.rival != cell.class_index
    assert 10 < n_hits < 50


def test_a_jump_of_a_head_is_a_change_of_class():
    keys, values = [[-1.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]]
    head = hm.AttentionHead([[1.0]], keys, values, np.eye(2))
    cell = hm.cell_at(head, [-0.25])
    assert cell.class_index == 0
    assert cell.decision is None
    assert cell.decision_along([1.0]).distance == 0.25
    assert cell.decision_along([1.0], 0.25) is None
    assert cell.decision_along([-1.0]) is None
    with pytest.raises(hm.errors.HardmaxError):
        cell.along([0.0])


# Arguments


def test_files_and_modules_are_read(tmp_path):
    x = [0.3, 0.2]
    for model in (HEAD, BLOCK, hm.HardTransformer([BLOCK, BLOCK])):
        hm.save_model(model, tmp_path / "model.safetensors")
        found = hm.cell_at(str(tmp_path / "model.safetensors"), x)
        wanted = hm.cell_at(model, x)
        assert found.wall == wanted.wall
        assert found.signature.tolist() == wanted.signature.tolist()
    for wrong in (3, None, hm.WholeSpace(2)):
        with pytest.raises(DtypeError, match="`model` must be a model"):
            hm.cell_at(wrong, x)


def test_batches_and_other_dimensions_are_refused():
    with pytest.raises(ShapeMismatchError, match=r"single point.*\(1, 2\)"):
        hm.cell_at(HEAD, [[0.0, 1.0]])
    with pytest.raises(ShapeMismatchError, match=r"got \(3,\)"):
        hm.cell_at(HEAD, [0.0, 1.0, 2.0])
    with pytest.raises(hm.errors.HardmaxError, match="`x`"):
        hm.cell_at(HEAD, [0.0, np.nan])


def test_a_model_that_is_too_large_is_refused_before_anything_is_composed(monkeypatch):
    model = transformer(6, 2, 16)
    n_products = point_cells.count_products(model.network)
    monkeypatch.setattr(point_cells, "MOST_PRODUCTS", n_products)
    hm.cell_at(model, np.zeros(6))
    monkeypatch.setattr(point_cells, "MOST_PRODUCTS", n_products - 1)
    with pytest.raises(SizeLimitError, match=r"`cell_at`.*6 inputs.*hm\.Segment") as error:
        hm.cell_at(model, np.zeros(6))
    assert f"{n_products:,}" in str(error.value)
    x, y = np.zeros(6), np.ones(6)
    for line in (
        "hm.enumerate_regions(model, hm.Segment(x, y))",
        "hm.stability.measure_margins(model, x)",
    ):
        assert line in str(error.value)
        eval(line, {"hm": hm, "model": model, "x": x, "y": y})


def test_the_box_of_a_compiled_transformer_is_respected():
    source = hm.ReluNetwork([[[1.0, -1.0]], [[1.0], [2.0]]], [[0.5, 0.25], None])
    compiled = hm.constructions.compile_relu(source, hm.Box([-1.0], [1.0]))
    cell, wanted = hm.cell_at(compiled, [0.125]), hm.cell_at(source, [0.125])
    assert cell.weight.tolist() == wanted.weight.tolist()
    assert cell.bias.tolist() == wanted.bias.tolist()
    with pytest.raises(ArgumentError, match="box"):
        hm.cell_at(compiled, [2.0])
