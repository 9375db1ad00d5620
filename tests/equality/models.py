"""The models of the safety net: each name stands for one model and one domain.

A name is a family and a seed, such as `relu-17`. Nothing else enters: drawing a name twice, on any
machine, returns the same weights bit for bit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import hardmax as hm
from benchmarks import random_networks
from hardmax.models import GraphNetwork
from tests import extreme_models, graph_models, region_models
from tests.core import degenerate_models
from tests.equality.raw_networks import random_network as raw_network
from tests.equality.steady_numbers import steady_generators
from tests.graphs import sweep
from tests.regions import degenerate_lines


class Case(NamedTuple):
    """A model and the domain to search."""

    model: Any
    domain: Any


def draw(name: str) -> Case:
    """Return the model and the domain of a name."""
    family, seed = name.rsplit("-", 1)
    with steady_generators(), np.errstate(all="ignore"):
        return Case(*FAMILIES[family].draw(int(seed)))


def _degenerate(dim: int) -> Callable[[int], tuple[Any, Any]]:
    def draw_one(seed: int) -> tuple[Any, Any]:
        return degenerate_models.model_and_domain(seed, dim)[2:]

    return draw_one


def _sliced(seed: int) -> tuple[Any, Any]:
    """Cut a model of 3 to 5 inputs by a line, a plane or a space."""
    rng = np.random.default_rng([1, seed])
    width = 3 + seed % 3
    model = degenerate_models.model_and_domain(seed, width)[2]
    return model, _slice(rng, width, int(rng.choice([1, 2, 3], p=[0.25, 0.5, 0.25])))


def _slice(rng: np.random.Generator, width: int, dim: int) -> Any:
    """Draw a bounded or unbounded part of a plane, a line or a space, with few integers."""
    origin = rng.integers(-2, 3, size=width) / 2.0
    directions = rng.integers(-1, 2, size=(dim, width)) + np.eye(dim, width) * 3.0
    if dim == 1:
        kinds = hm.Segment(origin, origin + directions[0]), hm.Line, hm.Ray
        kind = kinds[int(rng.integers(3))]
        return kind if isinstance(kind, hm.Segment) else kind(origin, directions[0])
    part = rng.integers(3)
    if part == 0:
        return hm.Slice(origin, directions)
    if part == 1 or dim > 2:
        return hm.Slice(origin, directions, hm.Box([-1.0] * dim, [2.0] * dim))
    return hm.Slice(origin, directions, _polygon(rng))


def _polygon(rng: np.random.Generator) -> hm.Polytope:
    """Draw a polygon of up to eight edges around the origin, with integer edges."""
    signs = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    rows = np.concatenate([rng.integers(1, 4, size=(4, 2)) * signs for _ in range(2)])
    return hm.Polytope(rows, rng.integers(1, 7, size=len(rows)).astype(float))


def _line(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = degenerate_lines.KINDS[seed % len(degenerate_lines.KINDS)]
    model = degenerate_lines.random_network(rng, kind)
    return model, degenerate_lines.random_line(rng, kind, model.dim_in)


def _some_domain(seed: int, dim: int) -> Any:
    """Return a box, the whole space or a simplex."""
    low, high = [-2.0] * dim, [3.0] * dim
    simplex = hm.Polytope(np.vstack([-np.eye(dim), np.ones(dim)]), [1.0] * dim + [2.0])
    return (hm.Box(low, high), hm.WholeSpace(dim), simplex)[seed % 3]


def _integers(seed: int) -> tuple[Any, Any]:
    """Return a ReLU or maxout network with small integers, with or without biases."""
    dim = 1 + seed % 5
    widths = [[7], [6, 4], [4, 4, 4]][seed % 7 % 3]
    if seed % 11 == 5:
        return region_models.repeated_units(dim), _some_domain(seed // 11, dim)
    if seed % 4 == 3:
        ranks = [[[3, 2]], [[4], [2, 2]], [[2, 3, 2], [3]]][seed % 3]
        return region_models.integer_maxout(seed, dim, ranks), _some_domain(seed // 4, dim)
    widths = widths if dim < 4 else widths[:2]
    model = region_models.integer_relu(seed, [dim, *widths], zero_bias=seed % 2 == 0)
    return model, _some_domain(seed // 2, dim)


def _attention(seed: int) -> tuple[Any, Any]:
    """Return a transformer of one to three blocks, a block or a head, with repeated keys or not."""
    dim, n_blocks, repeat = 1 + seed % 4, 1 + seed % 3, seed % 5 == 0
    n_keys, n_heads = 3 + seed % 4, 1 + seed // 2 % 2
    model = region_models.integer_transformer(
        seed, dim, n_keys, n_heads, n_blocks, seed // 3 % 3, repeat=repeat
    )
    domain = _some_domain(seed // 4, dim)
    if seed % 7 == 1:
        return model.blocks[0], domain
    return (model.blocks[0].heads[0] if seed % 7 == 2 else model), domain


def _gaussian(seed: int) -> tuple[Any, Any]:
    """Return a network of the comparison with other programs."""
    dim = 1 + seed % 4
    sizes = [[12, 8], [8, 6], [6, 4], [5, 3]][seed % 4]
    weights = random_networks.gaussian_weights(seed, dim, *sizes)
    if seed % 9 == 4:
        weights = random_networks.folding_network(2 + seed % 2, 1 + seed % 3, shear=seed % 5 / 32.0)
        return weights.model, hm.Box([0, 0], [1, 1])
    if seed % 9 == 6:
        weights = random_networks.integer_weights(seed, dim, *sizes)
    return weights.model, _some_domain(seed // 4, dim)


def _raw(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([2, seed])
    dim = int(rng.choice([1, 2, 3, 4], p=[0.2, 0.4, 0.3, 0.1]))
    style = str(rng.choice(degenerate_models.STYLES))
    return raw_network(rng, style, dim), _some_domain(seed, dim)


def _graph_polygon(seed: int) -> tuple[GraphNetwork, Any]:
    """Return a graph of one to five inputs on a polygon, a strip of a plane or a segment."""
    rng = np.random.default_rng([3, seed])
    dim = 1 + seed % 5
    numbers = graph_models.Numbers(seed, are_integers=seed % 4 != 3)
    net = sweep.random_network(numbers, dim)
    origin, directions = numbers(dim), rng.integers(-1, 2, size=(2, dim)) + np.eye(2, dim) * 3.0
    if dim == 1 or seed % 7 == 0:
        return net, hm.Segment(origin, origin + directions[0])
    return net, hm.Slice(origin, directions, _polygon(rng))


def _graph_space(seed: int) -> tuple[GraphNetwork, Any]:
    """Return a graph of three or four inputs on a box or all of space."""
    dim = 3 + seed % 2
    numbers = graph_models.Numbers(seed, are_integers=seed % 4 != 3)
    net = sweep.random_network(numbers, dim)
    box = hm.Box([-2.0] * dim, [3.0] * dim)
    return net, hm.WholeSpace(dim) if seed % 3 == 0 else box


class Wild(graph_models.Numbers):
    """Numbers of a few magnitudes between 5e-324 and 1e300, three in ten of them 0."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, are_integers=False)
        drawn = self.rng.choice(extreme_models.MAGNITUDES, 2)
        self.palette = np.array([1.0, *drawn])

    def __call__(self, *shape: int) -> np.ndarray:
        return extreme_models.numbers(self.rng, self.palette, *shape)


def _graph_wild(seed: int) -> tuple[GraphNetwork, Any]:
    """Return a graph with numbers of extreme magnitudes on a segment or a polygon."""
    rng, numbers = np.random.default_rng([4, seed]), Wild(seed)
    net = sweep.random_network(numbers, 3)
    origin, directions = np.zeros(3), np.eye(2, 3) + numbers(2, 3) * [0.0, 0.0, 1.0]
    if seed % 3 == 0:
        return net, hm.Segment(origin - directions[0], directions[1])
    return net, hm.Slice(origin, directions, _polygon(rng))


def _graph_images(seed: int) -> tuple[GraphNetwork, Any]:
    """Return a small convolutional network, with or without a residual block."""
    numbers = graph_models.Numbers(seed, are_integers=seed % 3 != 2)
    is_residual = seed % 2 == 0
    net = (
        graph_models.residual_network(numbers, has_bias=seed % 4 == 0)
        if is_residual
        else graph_models.mixed_network(numbers)
    )
    if seed % 3 == 0:
        return net, graph_models.segment_of(numbers, net.dim_in)
    shrink = graph_models.Numbers(seed + 1, are_integers=seed % 3 != 2, scale=0.25)
    return net, graph_models.plane_of(shrink, net.dim_in, is_triangle=seed % 4 < 2)


class Family(NamedTuple):
    """A way to draw models, and how many seeds are tried when the answers are written."""

    draw: Callable[[int], tuple[Any, Any]]
    n_seeds: int


FAMILIES = {
    **{f"degenerate{dim}d": Family(_degenerate(dim), n) for dim, n in
       ((1, 250), (2, 750), (3, 550), (4, 300), (5, 250))},
    "extreme": Family(extreme_models.model_and_domain, 600),
    "sliced": Family(_sliced, 450),
    "line": Family(_line, 400),
    "integers": Family(_integers, 400),
    "attention": Family(_attention, 400),
    "gaussian": Family(_gaussian, 120),
    "raw": Family(_raw, 400),
    "graph": Family(sweep.network_and_domain, 800),
    "graphpolygon": Family(_graph_polygon, 280),
    "graphwild": Family(_graph_wild, 160),
    "graphimages": Family(_graph_images, 48),
    "graphspace": Family(_graph_space, 60),
}  # fmt: skip
"""All families, by the first part of a name."""


def all_names() -> list[str]:
    """Return every name that is tried when the answers are written."""
    return [f"{family}-{seed}" for family, one in FAMILIES.items() for seed in range(one.n_seeds)]
