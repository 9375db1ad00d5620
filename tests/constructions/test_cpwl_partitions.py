"""Models from their partitions: many layers in, one layer out."""

from itertools import pairwise

import numpy as np
import pytest

from hardmax.constructions.compilers.functions import partition_pieces as subject
from hardmax.constructions.compilers.functions.partition_pieces import maxout_from_partition
from hardmax.errors import ArgumentError, DiscontinuityError, HardmaxError, SizeLimitError
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from tests.reference.networks import maxout_network, relu_network
from tests.reference.piecewise_linear import within


def random_relu(rng, dims):
    pairs = pairwise(dims)
    return ReluNetwork(
        [rng.normal(size=pair) for pair in pairs], [rng.normal(size=n) * 0.5 for n in dims[1:]]
    )


def exact_relu(net, x):
    return relu_network(x, [w.tolist() for w in net.weights], [b.tolist() for b in net.biases])[0]


def adversarial_points(rng, partition, box, n=15):
    """Corners of cells, points on their edges, witnesses and random points."""
    found = list(rng.uniform(box.low, box.high, (n, box.dim)))
    for i in rng.choice(partition.n_cells, min(n, partition.n_cells), replace=False).tolist():
        vertices = partition.polytope(i).vertices
        a, b = vertices[rng.integers(len(vertices), size=2)]
        found += [a, a / 2 + b / 2, vertices.mean(axis=0)]
    return [x for x in found if box.contains(x[None])[0]]


@pytest.mark.parametrize(
    "dims",
    [[1, 3, 1], [1, 5, 5, 2], [2, 4, 1], [2, 5, 5, 1], [2, 4, 3, 3, 2], [3, 4, 1], [3, 4, 3, 1]],
    ids=str,
)
def test_a_relu_network_comes_back_from_its_partition(dims):
    rng = np.random.default_rng(sum(dims))
    net = random_relu(rng, dims)
    box = Box([-1.0] * dims[0], [1.0] * dims[0])
    partition = enumerate_regions(net, box)
    form = maxout_from_partition(partition, box)
    assert len(form.network.ranks) == 1
    assert max(form.network.ranks[0]) <= partition.n_cells
    assert form.rounding.max() < 1e-13
    for x in adversarial_points(rng, partition, box):
        assert within(form.network, form.rounding, x.tolist(), exact_relu(net, x.tolist()))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_maxout_network_comes_back_from_its_partition(dim):
    rng = np.random.default_rng(dim)
    net = MaxoutNetwork(
        [rng.normal(size=(3, 3, dim)), rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 1))],
        [rng.normal(size=(3, 3)), rng.normal(size=(2, 2)), None],
    )
    box = Box([-1.0] * dim, [1.0] * dim)
    partition = enumerate_regions(net, box)
    form = maxout_from_partition(partition, box)
    weights = [*([u.tolist() for u in layer] for layer in net.weights[:-1]), net.weights[-1]]
    biases = [*([u.tolist() for u in layer] for layer in net.biases[:-1]), net.biases[-1]]
    for x in adversarial_points(rng, partition, box):
        wanted = maxout_network(x.tolist(), weights, biases)[0]
        assert within(form.network, form.rounding, x.tolist(), wanted)


def test_residual_blocks_carry_their_difference_too():
    rng = np.random.default_rng(8)
    blocks = [
        Block([], FeedForward(rng.normal(size=(2, 3)), None, rng.normal(size=(3, 2)), None))
        for _ in range(2)
    ]
    model = HardTransformer(blocks)
    box = Box([-1, -1], [1, 1])
    partition = enumerate_regions(model, box)
    form = maxout_from_partition(partition, box)
    assert form.method == "layers"
    points = np.array(adversarial_points(rng, partition, box))
    np.testing.assert_allclose(form.network(points), model(points), atol=1e-12)


@pytest.mark.parametrize("dims", [[2, 3, 1], [2, 3, 3, 1], [3, 3, 1]], ids=str)
def test_carrying_a_difference_and_filling_kinks_agree(dims, monkeypatch):
    rng = np.random.default_rng(11)
    net = random_relu(rng, dims)
    box = Box([-1.0] * dims[0], [1.0] * dims[0])
    partition = enumerate_regions(net, box)
    assert maxout_from_partition(partition, box).method == "layers"
    monkeypatch.setattr(subject, "returns_maxima", lambda network: False)
    form = maxout_from_partition(partition, box)
    assert form.method == "facet kinks"
    for x in adversarial_points(rng, partition, box):
        assert within(form.network, form.rounding, x.tolist(), exact_relu(net, x.tolist()))


def test_filling_kinks_is_refused_before_the_work_with_the_count(monkeypatch):
    net = random_relu(np.random.default_rng(12), [2, 6, 6, 1])
    box = Box([-1, -1], [1, 1])
    partition = enumerate_regions(net, box)
    monkeypatch.setattr(subject, "returns_maxima", lambda network: False)
    with pytest.raises(SizeLimitError, match=r"into up to \d+ pieces, more than `max_pieces` = 20"):
        maxout_from_partition(partition, box, max_pieces=20)


def test_a_convex_network_is_one_maximum_and_a_concave_one_too():
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=(2, 4))
    box = Box([-1, -1], [1, 1])
    for sign, method in ((1.0, "convex"), (-1.0, "concave")):
        net = ReluNetwork([hidden, sign * np.ones((4, 1))])
        form = maxout_from_partition(enumerate_regions(net, box), box)
        assert form.method == method
        assert len(form.network.ranks[0]) == 1


def test_a_continuous_model_of_tables_is_filled():
    """A head that adds the slope of the winner: |x| + |y| - |x - y| by tables would jump; the
    gains make it continuous, and groups without a maximum leave only filling."""
    forms = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    layer = ArgmaxLayer(
        query=AffineMap.identity(2),
        slopes=forms,
        offsets=np.zeros(6),
        starts=np.array([0, 2, 4, 6]),
        slots=np.array([0, 0, 0]),
        gains=np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0]),
        values=np.zeros((6, 1)),
        output=AffineMap.identity(1),
        residual=False,
    )
    network = ArgmaxNetwork((layer,), AffineMap.identity(2), AffineMap.identity(1))
    box = Box([-1, -1], [1, 1])
    form = maxout_from_partition(enumerate_regions(network, box), box)
    assert form.method == "facet kinks"
    x = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    wanted = np.abs(x).sum(axis=1) - np.abs(x[:, 0] - x[:, 1])
    np.testing.assert_allclose(form.network(x).ravel(), wanted, atol=1e-14)


def test_a_smaller_box_and_a_polytope_are_domains_too():
    rng = np.random.default_rng(4)
    net = random_relu(rng, [2, 4, 1])
    triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [1, 1, 2])
    form = maxout_from_partition(enumerate_regions(net, triangle), Box([-1, -1], [0.5, 0.5]))
    for x in rng.uniform(-1, 0.5, (20, 2)).tolist():
        assert within(form.network, form.rounding, x, exact_relu(net, x))


def head_model(dim, values):
    keys = np.zeros((2, dim))
    keys[0, 0] = 1.0
    head = AttentionHead(np.eye(dim), keys, values, np.eye(1))
    return HardTransformer([Block([head], attention_residual=False)])


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_jump_is_refused_with_its_place_and_both_values(dim):
    """A head with two keys takes one value on either side of the plane x_1 = 0."""
    model = head_model(dim, np.array([[2.0], [5.0]]))
    box = Box([-1.0] * dim, [1.0] * dim)
    with pytest.raises(
        DiscontinuityError, match=r"at \(0.0.*\) the model jumps between (2.0 and 5.0|5.0 and 2.0)"
    ):
        maxout_from_partition(enumerate_regions(model, box), box)


def test_a_jump_of_one_output_somewhere_on_a_wall_is_found():
    """The two forms agree at the origin only: the place that is named is where they differ."""
    layer = ArgmaxLayer(
        query=AffineMap.identity(2),
        slopes=np.array([[1.0, 0.0], [0.0, 1.0]]),
        offsets=np.zeros(2),
        starts=np.array([0, 2]),
        slots=np.array([0]),
        gains=np.array([1.0, 2.0]),
        values=np.zeros((2, 1)),
        output=AffineMap.identity(1),
        residual=False,
    )
    network = ArgmaxNetwork((layer,), AffineMap.identity(2), AffineMap.identity(1))
    box = Box([0, 0], [1, 1])
    with pytest.raises(DiscontinuityError, match=r"at \(1.0, 1.0\) the model jumps between"):
        maxout_from_partition(enumerate_regions(network, box), box)


def test_bad_partitions_and_boxes_are_refused_by_name():
    net = random_relu(np.random.default_rng(5), [2, 3, 1])
    box = Box([-1, -1], [1, 1])
    whole = enumerate_regions(net, box)
    with pytest.raises(ArgumentError, match="`box` must lie in the domain of `partition`"):
        maxout_from_partition(whole, Box([-1, -1], [1, 1.5]))
    with pytest.raises(HardmaxError, match="`box`"):
        maxout_from_partition(whole, Box([-1], [1]))
    with pytest.raises(HardmaxError, match="`partition` must be a Partition"):
        maxout_from_partition(net, box)
    with pytest.raises(ArgumentError, match="`partition` needs all cells"):
        maxout_from_partition(enumerate_regions(net, box, max_cells=1, exact=True), box)
    with pytest.raises(ArgumentError, match="bounded"):
        maxout_from_partition(enumerate_regions(net, WholeSpace(2)), box)
    with pytest.raises(ArgumentError, match="slice"):
        maxout_from_partition(enumerate_regions(net, Segment([0, 0], [1, 1])), box)
    with pytest.raises(ArgumentError, match="count_only"):
        maxout_from_partition(enumerate_regions(net, box, count_only=True), box)
