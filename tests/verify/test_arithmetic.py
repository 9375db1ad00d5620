"""The verifier's arithmetic, exact and rounded, against fractions on data made to hurt it."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.verify._fast import layers
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.enclosures import (
    Enclosure,
    Scores,
    enclose,
    prepare_multiplier,
    round_layer,
)
from hardmax.verify._fast.packing import Forms, Packing
from hardmax.verify._fast.polygons import ROUNDED, Lines, meet, round_corners
from tests.certificate_models import random_transformer
from tests.reference.compositions import layer_output, layer_scores
from tests.sweeps import examples

CHART = np.array([[3, 0, 1], [0, 1, -1]], dtype=object)
ULP = 2.0**-52


def plain(rng, *shape):
    return rng.standard_normal(shape)


def integers(rng, *shape):
    return rng.integers(-3, 4, shape).astype(float)


def long_integers(rng, *shape):
    """Of 53 bits: every product is rounded."""
    return rng.integers(2**52, 2**53, shape) * rng.choice([-1.0, 1.0], shape)


def cancelling(rng, *shape):
    """Neighbours that cancel but for a few units in the last place."""
    table = rng.standard_normal(shape).reshape(-1)
    table[1::2] = -table[: len(table) // 2 * 2 : 2] * (1.0 + ULP * rng.integers(-2, 3))
    return table.reshape(shape)


def wild(rng, *shape):
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-80, 80, shape)


def huge(rng, *shape):
    return rng.standard_normal(shape) * 1e120


def tiny(rng, *shape):
    return rng.standard_normal(shape) * 1e-200


DATA = [plain, integers, long_integers, cancelling, wild, huge, tiny]


def random_network(seed, draw, depth):
    """Gains and values in one layer, blocks that overlap, dead forms, groups of all sizes."""
    rng = np.random.default_rng(seed)
    starts, slots = np.array([0, 2, 5, 6, 9]), np.array([0, 1, 1, 0])
    layers = []
    for _ in range(depth):
        kind = rng.integers(4)
        slopes, offsets = draw(rng, 9, 3), draw(rng, 9)
        slopes[0], offsets[0] = 0.0, 0.0
        gains = draw(rng, 9) * (kind > 0)
        values = draw(rng, 9, 2) * (kind < 3)
        query, output = (AffineMap(draw(rng, *s), draw(rng, s[1])) for s in ((2, 3), (3, 2)))
        layers.append(
            ArgmaxLayer(
                *(query, slopes, offsets, starts, slots, gains, values, output),
                bool(rng.integers(2)),
            )
        )
    embedding = AffineMap(draw(rng, 2, 2), draw(rng, 2))
    return ArgmaxNetwork(tuple(layers), embedding, AffineMap.identity(2))


def deep_relu(seed, draw, width, depth):
    rng = np.random.default_rng(seed)
    sizes = [2, *[width] * depth, 1]
    weights = [draw(rng, *pair) for pair in itertools.pairwise(sizes)]
    return ReluNetwork(weights, [draw(rng, n) for n in sizes[1:]]).network


def deep_maxout(seed, draw, width, depth):
    rng = np.random.default_rng(seed)
    weights = [[draw(rng, 3, 2 if i == 0 else width) for _ in range(width)] for i in range(depth)]
    biases = [[draw(rng, 3) for _ in range(width)] for _ in range(depth)]
    return MaxoutNetwork([*weights, np.ones((width, 1))], [*biases, None]).network


def random_winners(rng, layer):
    return [int(rng.integers(a, b)) for a, b in itertools.pairwise(layer.starts)]


def random_ties(rng, layer, winners):
    """Any forms will do: the exact composition does not ask whether they coincide."""
    ties = {}
    for group, winner in enumerate(winners):
        others = [f for f in range(layer.starts[group], layer.starts[group + 1]) if f != winner]
        if others and rng.integers(2):
            ties[group] = sorted([winner, *others[: rng.integers(1, 3)]])
    return ties


def fractions_of(forms):
    return [[Fraction(x, forms.scale) for x in row] for row in forms.rows]


@given(st.integers(2, 90), st.integers(1, 6), st.data())
def test_packed_coefficients_are_read_off_again(width, n_columns, data):
    most = 2 ** (width - 1) - 1
    entries = st.integers(-most, most) | st.sampled_from([-most, most, 0])
    row = data.draw(st.lists(entries, min_size=n_columns, max_size=n_columns))
    packing = Packing(n_columns, width, 0)
    assert packing.unpack(packing.pack(row)) == tuple(row)


def test_forms_are_packed_with_room_and_repacked_with_more():
    forms = Forms.of([[5, -7, 1], [0, 0, 4]], 0, 10)
    assert (forms.scale, forms.bits, forms.packing.width) == (4, 3, 13)
    wider = forms.widen(50)
    assert wider.packing.width >= 60
    assert wider.rows == forms.rows == [(5, -7, 1), (0, 0, 4)]


@examples(30)
@given(st.integers(0, 10**6), st.sampled_from(DATA), st.booleans())
def test_exact_composition_is_the_definition_and_within_its_bound(seed, draw, with_ties):
    """Also when winners come again: from then on the layer is one matrix."""
    rng = np.random.default_rng(seed)
    network = random_network(seed, draw, 4)
    exact = exact_network(network, CHART, 7)
    forms = exact.stream
    truth = fractions_of(forms)[:-1]
    for layer, stored in zip(exact.layers, network.layers, strict=True):
        scores = layer_scores(stored, truth)
        scale = forms.scale * layer.scores_scale
        rows = layer.score_rows(forms)
        unpacked = [forms.packing.unpack(int(row)) for row in rows]
        assert [[Fraction(x, scale) for x in row] for row in unpacked] == scores
        for a, b in itertools.combinations(range(len(rows)), 2):
            pairs = zip(unpacked[a], unpacked[b], strict=True)
            difference = forms.packing.unpack(int(rows[a] - rows[b]))
            assert difference == tuple(x - y for x, y in pairs)
        winners = random_winners(rng, layer)
        ties = random_ties(rng, layer, winners) if with_ties else {}
        after = [layer.after(forms, winners, ties) for _ in range(5)]
        truth = layer_output(stored, truth, winners, ties)
        one = [Fraction(0), Fraction(0), Fraction(1)]
        for found in after:
            assert fractions_of(found) == [*truth, one]
            assert max(abs(x) for row in found.rows for x in row) < 2**found.bits
            assert found.packing.width >= found.bits + found.packing.reserve
        forms = after[-1]


def test_many_shares_need_wider_forms():
    """Each layer takes a mean over three forms: scales and coefficients grow past the plan."""
    network = deep_maxout(0, integers, 3, 12)
    exact = exact_network(network, CHART, 7)
    forms, truth = exact.stream, fractions_of(exact.stream)[:-1]
    for layer, stored in zip(exact.layers, network.layers, strict=True):
        ties = {g: list(range(3 * g, 3 * g + 3)) for g in range(3)}
        forms = layer.after(forms, [0, 3, 6], ties)
        truth = layer_output(stored, truth, [0, 3, 6], ties)
        assert fractions_of(forms)[:-1] == truth
    assert forms.packing.width > exact.stream.packing.width


def test_maps_of_layers_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(layers, "_KEPT", 2 * 9 * 9)
    monkeypatch.setattr(layers, "_COUNTED", 4)
    network = deep_relu(1, plain, 8, 2)
    exact = exact_network(network, CHART, 7)
    first, layer = exact.layers
    stream = first.after(exact.stream, [1, 3, 5, 7, 9, 11, 13, 15], {})
    rng = np.random.default_rng(0)
    patterns = [random_winners(rng, layer) for _ in range(3)]
    truths = [layer_output(network.layers[1], fractions_of(stream)[:-1], w, {}) for w in patterns]
    for _ in range(8):
        for winners, truth in zip(patterns, truths, strict=True):
            assert fractions_of(layer.after(stream, winners, {}))[:-1] == truth
    assert 0 < len(layer._maps) <= 2


@pytest.mark.parametrize("draw", DATA)
@pytest.mark.parametrize("build", ["layers", "relu", "maxout", "transformer"])
@np.errstate(over="ignore", invalid="ignore")
def test_enclosures_of_a_batch_hold_through_many_layers(draw, build):
    """Every table of a batch has winners of its own, and only some go on to the next layer."""
    seed = DATA.index(draw)
    network = {
        "layers": lambda: random_network(seed, draw, 6),
        "relu": lambda: deep_relu(seed, draw, 6, 8),
        "maxout": lambda: deep_maxout(seed, draw, 4, 6),
        "transformer": lambda: random_transformer(seed, 2, 4).network,
    }[build]()
    exact = exact_network(network, CHART, 7)
    rng = np.random.default_rng(seed)
    batch, rounded = [exact.stream], enclose(exact.stream)
    decided = 0
    for layer in exact.layers:
        enclosure = round_layer(layer)
        scores = enclosure.scores.times(rounded)
        for i, forms in enumerate(batch):
            scale = forms.scale * layer.scores_scale
            rows = layer.score_rows(forms)
            truth = [
                [Fraction(x, scale) for x in forms.packing.unpack(int(rows[form]))]
                for form in layer.live
            ]
            decided += check(scores, i, truth)
        tables = rng.integers(0, len(batch), 4)
        winners = np.array([random_winners(rng, layer) for _ in tables]).T
        rounded = enclosure.after(rounded, scores, tables, winners)
        batch = [
            layer.after(batch[table], winners[:, i].tolist(), {})
            for i, table in enumerate(tables.tolist())
        ]
        for i, forms in enumerate(batch):
            decided += check(rounded, i, fractions_of(forms))
    assert decided or draw in (wild, huge)


def check(enclosure, table, truth):
    """Assert that a table is enclosed; return how many entries have a certain sign."""
    certain = 0
    centre, radius = (part[:, :, table].tolist() for part in enclosure)
    for c_row, r_row, row in zip(centre, radius, truth, strict=True):
        for c, r, x in zip(c_row, r_row, row, strict=True):
            if np.isfinite(c) and np.isfinite(r):
                assert abs(Fraction(c) - x) <= Fraction(r)
                certain += abs(c) > r
    return certain


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_a_product_whose_errors_all_point_one_way_is_enclosed(n):
    """Each term is a little more than half a unit in the last place of the sum."""
    matrix = np.full((3, n + 1), 1.0)
    matrix[1] = -1.0
    matrix[2] = 1.0 + ULP
    column = np.full((n + 1, 1, 2), 2.0**-53 * (1.0 + 2.0**-20))
    column[0] = 1.0
    column[:, :, 1] *= 1.0 - 2.0**-53
    radius = np.zeros(column.shape)
    found = prepare_multiplier(matrix).times(Enclosure(column, radius))
    for i in range(2):
        vector = [Fraction(x) for x in column[:, 0, i].tolist()]
        truth = [
            [sum(Fraction(a) * b for a, b in zip(row, vector, strict=True))]
            for row in matrix.tolist()
        ]
        check(found, i, truth)


def test_errors_of_the_input_are_passed_on_by_a_product():
    matrix = np.array([[3.0, -5.0]])
    forms = Enclosure(np.array([[[1.0]], [[2.0]]]), np.array([[[0.25]], [[0.5]]]))
    assert prepare_multiplier(matrix).times(forms).radius.item() >= 3 * 0.25 + 5 * 0.5


@pytest.mark.parametrize("draw", DATA)
@np.errstate(over="ignore", invalid="ignore")
def test_scores_at_vertices_are_enclosed(draw):
    """At vertices that are not floats, and at some where a score is zero or nearly so."""
    rng = np.random.default_rng(5)
    network = random_network(5, draw, 1)
    exact = exact_network(network, CHART, 7)
    layer, stream = exact.layers[0], exact.stream
    enclosure = round_layer(layer)
    scores = Scores(enclosure.scores.times(enclose(stream)))
    rows = [stream.packing.unpack(int(row)) for row in layer.score_rows(stream)]
    points = [[int(x) for x in rng.integers(-(10**6), 10**6, 3)] for _ in range(20)]
    points += [[int(x) << 900 for x in rng.integers(-(10**6), 10**6, 2)] + [1] for _ in range(5)]
    for a, b in itertools.combinations([row for row in rows if any(row)], 2):
        x, y, w = meet(a, b)
        points += [[x, y, w], [3 * x + 1, 3 * y, 3 * w]]
    points = [point for point in points if any(point)]
    owners, radii = np.zeros(len(points), np.int64), np.full(len(points), ROUNDED)
    value, error = scores.at(owners, round_corners(points), radii)
    assert value.shape == (len(layer.live), len(points))
    last = np.array([len(layer.live) - 1])
    alone = scores.of(last, owners[:1], np.array([len(points)]), round_corners(points), radii)
    np.testing.assert_array_equal(alone, (value[-1], error[-1]))
    low, high = value - error, value + error
    for i, (x, y, w) in enumerate(points):
        scale = stream.scale * layer.scores_scale * max(abs(x), abs(y), abs(w))
        for k, form in enumerate(layer.live):
            a, b, c = rows[form]
            value = Fraction(a * x + b * y + c * w, scale)
            below, above = low[k, i], high[k, i]
            assert not np.isfinite(below) or Fraction(below) <= value
            assert not np.isfinite(above) or value <= Fraction(above)


def test_how_vague_a_point_is_widens_what_is_known_of_a_score():
    scores = Scores(Enclosure(np.array([[[3.0], [-2.0]]]), np.array([[[0.25], [0.0]]])))
    none, points, vague = np.zeros(2, dtype=np.int64), np.ones((2, 2)), np.array([0.5, 2.0**-50])
    value, error = scores.at(none, points, vague)
    # From 2.75 * 0.5 - 2 * 1.5 to 3.25 * 1.5 - 2 * 0.5.
    assert (value - error)[0, 0] <= -1.625
    assert (value + error)[0, 0] >= 3.875
    assert 0.25 < error[0, 1] < 0.2500001
    alone = scores.of(none[:1], none[:1], np.array([2]), points, vague)
    np.testing.assert_array_equal(alone, (value[0], error[0]))


@pytest.mark.parametrize("bits", [4, 60, 200, 1000])
@np.errstate(all="ignore")
def test_lines_meet_within_the_radius(bits):
    """Also where they are nearly parallel; what comes out is a positive multiple of the truth."""
    rng = random.Random(bits)
    useful = 0
    for _ in range(200):
        one, other = ([rng.getrandbits(bits) - (1 << (bits - 1)) for _ in range(3)] for _ in "ab")
        if rng.random() < 0.3:
            other = [x + (y >> (3 * bits // 4)) for x, y in zip(one, other, strict=True)]
        truth = meet(one, other)
        if not any(truth) or not any(one) or not any(other):
            continue
        lines = Lines([tuple(one)])
        size = max(abs(x) for x in other)
        number = lines.add(round_corners([other]), np.full((3, 1), ROUNDED))
        near = round_corners([truth])
        point, radius = lines.meet(np.array([0]), number, near)
        if not radius.item() <= 2.0**-20:
            continue
        useful += 1
        # Some positive multiple is near: the one that agrees in the largest entry will do.
        largest = max(range(3), key=lambda k: abs(truth[k]))
        scale = Fraction(point[largest].item()) / truth[largest]
        assert scale > 0
        assert size > 0
        for k in range(3):
            assert abs(Fraction(point[k].item()) - scale * truth[k]) <= 2 * Fraction(radius.item())
    assert useful > 50


def one_layer(gains, values, output=None, *, slots=None, residual=False, scores=None):
    """A layer with one form for each group, by default the only input."""
    n = len(gains)
    output = AffineMap.identity(1) if output is None else output
    slopes, offsets = (np.ones((n, 1)), np.zeros(n)) if scores is None else scores
    slots = np.zeros(n, np.int64) if slots is None else np.array(slots)
    table = np.reshape(np.array(values, dtype=float), (n, -1))
    layer = ArgmaxLayer(
        *(AffineMap.identity(1), slopes, offsets, np.arange(n + 1), slots),
        *(np.array(gains, dtype=float), table, output, residual),
    )
    return ArgmaxNetwork((layer,), AffineMap.identity(1), AffineMap.identity(output.dim_out))


def constants_after(network, score, stream=0.0, wrong=0.0):
    """Enclose the constants after a layer whose scores are constants, known but for `wrong`."""
    layer = round_layer(exact_network(network, np.array([[1, 0]], dtype=object), 1).layers[0])
    n = layer.n_forms
    scores = Enclosure(np.zeros((n, 2, 1)), np.zeros((n, 2, 1)))
    scores.centre[:, 1, 0], scores.radius[:, 1, 0] = score, wrong
    streams = Enclosure(np.array([[[0.0], [stream]], [[0.0], [1.0]]]), np.zeros((2, 2, 1)))
    winners = np.arange(n)[:, np.newaxis]
    after = layer.after(streams, scores, np.zeros(1, np.int64), winners)
    return [(c, r) for c, r in zip(*(part[:-1, 1, 0].tolist() for part in after), strict=True)]


def within(found, truth):
    centre, radius = found
    assert Fraction(centre) != truth, "nothing is rounded here"
    return abs(Fraction(centre) - truth) <= Fraction(radius)


def test_the_rounding_of_a_gain_is_enclosed():
    (found,) = constants_after(one_layer([0.1], [0.0]), 3.0)
    assert within(found, 3 * Fraction(0.1))


def test_the_rounding_of_a_sum_of_gains_is_enclosed():
    (found,) = constants_after(one_layer([1.0] * 40, [0.0] * 40), 0.1)
    assert within(found, 40 * Fraction(0.1))


def test_errors_of_scores_add_up_in_a_column():
    ((_, radius),) = constants_after(one_layer([1.0, -2.0, 4.0], [0.0] * 3), 1.0, wrong=0.25)
    assert Fraction(radius) >= Fraction(7, 4)


def test_the_rounding_of_a_gain_plus_a_value_is_enclosed():
    value = 1.5 * 2.0**-53
    (found,) = constants_after(one_layer([1.0], [value]), 1.0)
    assert within(found, 1 + Fraction(value))


def test_the_rounding_of_a_sum_of_values_is_enclosed():
    small = 2.0**-53 * (1.0 + 2.0**-20)
    (found,) = constants_after(one_layer([0.0] * 60, [1.0, *[small] * 59]), 0.0)
    assert within(found, 1 + 59 * Fraction(small))


def test_the_rounding_of_a_residual_is_enclosed():
    value = 1.5 * 2.0**-53
    for gains in ([0.0], [1.0]):
        (found,) = constants_after(one_layer(gains, [value], residual=True), 0.0, stream=1.0)
        assert within(found, 1 + Fraction(value))


def test_the_rounding_of_an_output_map_is_enclosed():
    """Also where the layer adds constants only."""
    n = 60
    small = 2.0**-53 * (1.0 + 2.0**-20)
    output = AffineMap(np.array([[1.0]] + [[small]] * (n - 1)), np.zeros(1))
    for gains, values, score in (([0.0] * n, [1.0] * n, 0.0), ([1.0] * n, [0.0] * n, 1.0)):
        network = one_layer(gains, values, output, slots=range(n))
        (found,) = constants_after(network, score)
        assert within(found, 1 + (n - 1) * Fraction(small))


def test_weights_that_underflow_are_enclosed():
    """The product of two stored weights is below all floats, and the input is very large."""
    query, slopes = AffineMap(np.array([[1e-200]]), np.zeros(1)), np.array([[1e-200]])
    identity = AffineMap.identity(1)
    layer = ArgmaxLayer(
        *(query, slopes, np.zeros(1), np.array([0, 1]), np.array([0]), np.ones(1)),
        *(np.zeros((1, 1)), identity, False),
    )
    network = ArgmaxNetwork((layer,), identity, identity)
    exact = exact_network(network, np.array([[10**300, 0]], dtype=object), 1)
    scores = round_layer(exact.layers[0]).scores.times(enclose(exact.stream))
    assert check(scores, 0, [[Fraction(1e-200) ** 2 * 10**300, Fraction(0)]]) == 0


def test_a_column_that_many_groups_write_to_is_within_its_bound():
    for gains, values in (([7.0] * 50, [0.0] * 50), ([0.0] * 50, [7.0] * 50)):
        network = one_layer(gains, values, scores=(np.full((50, 1), 7.0), np.full(50, 7.0)))
        exact = exact_network(network, np.array([[1, 1]], dtype=object), 1)
        found = exact.layers[0].after(exact.stream, list(range(50)), {})
        assert max(abs(x) for row in found.rows for x in row) < 2**found.bits


def test_a_finer_scale_is_within_its_bound():
    """Values of 40 bits below 1 multiply what is kept of the input."""
    network = one_layer([0.0], [2.0**-40], residual=True)
    exact = exact_network(network, np.array([[5, 6]], dtype=object), 7)
    for _ in range(5):
        found = exact.layers[0].after(exact.stream, [0], {})
        assert fractions_of(found)[0] == [Fraction(5, 7), Fraction(6, 7) + Fraction(2.0**-40)]
        assert max(abs(x) for row in found.rows for x in row) < 2**found.bits
