"""Small networks with convolutions, residual connections and pools, degenerate ones too."""

import numpy as np

from hardmax import Box, Polytope, Segment, Slice
from hardmax.models import GraphBuilder, GraphNetwork, read_activation

PADDED = [(1, 1), (1, 1)]


class Numbers:
    """Weights and points: small integers (many ties), or normal numbers."""

    def __init__(self, seed: int, *, are_integers: bool, scale: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.are_integers, self.scale = are_integers, scale

    def __call__(self, *shape: int) -> np.ndarray:
        if self.are_integers:
            return self.rng.integers(-2, 3, shape) * self.scale
        return self.rng.normal(size=shape) * self.scale


def residual_network(numbers: Numbers, *, has_bias: bool = True) -> GraphNetwork:
    """A convolution, a residual block with another, a pool, and two matrices."""
    build = GraphBuilder()

    def bias(n: int) -> np.ndarray | None:
        return numbers(n) if has_bias else None

    x = build.input((1, 4, 4))
    h = build.relu(build.convolve(x, numbers(2, 1, 3, 3), bias(2), pads=PADDED))
    g = build.convolve(h, numbers(2, 2, 3, 3), bias(2), pads=PADDED)
    h = build.relu(build.add(g, h))
    h = build.relu(build.multiply(build.flatten(build.max_pool(h, (2, 2))), numbers(8, 3), bias(3)))
    return build.finish(build.multiply(h, numbers(3, 2), bias(2)))


def mixed_network(numbers: Numbers) -> GraphNetwork:
    """Overlapping pools, averages, a depthwise convolution, joined parts, other activations."""
    build = GraphBuilder()
    x = build.input((2, 4, 4))
    h = build.activate(
        build.convolve(x, numbers(2, 1, 2, 2), numbers(2), groups=2),
        read_activation("leaky_relu(0.25)"),
    )
    pooled = build.max_pool(h, (2, 2), strides=(1, 1))
    mean = build.average_pool(h, (2, 2), strides=(1, 1))
    both = np.concatenate([pooled, mean[:, ::-1]])
    h = build.activate(build.scale(both, 0.5, 0.25), read_activation("hardtanh(-1, 1)"))
    h = build.add(h, build.activate(h, read_activation("abs")), -1.0)
    return build.finish(build.multiply(build.flatten(h), numbers(16, 2), numbers(2)))


def segment_of(numbers: Numbers, dim: int) -> Segment:
    """A segment between two points."""
    start = numbers(dim)
    end = numbers(dim)
    end[0] = start[0] + numbers.scale
    return Segment(start, end)


def plane_of(numbers: Numbers, dim: int, *, is_triangle: bool) -> Slice:
    """A square or a triangle in a plane."""
    directions = numbers(2, dim)
    directions[:, :2] = numbers.scale * np.eye(2)
    triangle = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    return Slice(numbers(dim), directions, triangle if is_triangle else Box([-1, -1], [1, 1]))
