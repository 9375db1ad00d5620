"""Networks of any shape on segments and planes through images, compared with SyReNN.

SyReNN is called with dense layers (`drive_syrenn.cc`). It therefore takes part only if a network
consists of strided convolutions and ReLUs, which are written as matrices. The environment variable
`HARDMAX_SYRENN` names its program. With `--full`, a larger triangle is searched as well.
"""

import os
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds, cpu_seconds_and_megabytes
from benchmarks.peer_programs import run_syrenn
from benchmarks.random_networks import Weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Segment, Slice
from hardmax.geometry.polytopes import Polytope
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.local_cells import cell_at
from hardmax.typing import FloatArray

_PADDED = [(1, 1), (1, 1)]
_WIDE = [(2, 2), (2, 2)]


class Draw:
    """Weights N(0, 2 / fan-in) and biases N(0, 0.1^2), as float32 numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def weights(self, *shape: int) -> FloatArray:
        """Draw weights, with the outputs as the first axis."""
        fan = np.prod(shape[1:])
        return self.rng.normal(0, np.sqrt(2 / fan), shape).astype(np.float32).astype(np.float64)

    def biases(self, n: int) -> FloatArray:
        """Draw the biases of `n` outputs."""
        return self.rng.normal(0, 0.1, n).astype(np.float32).astype(np.float64)


def lenet(seed: int = 0) -> GraphNetwork:
    """LeNet-5 with ReLUs and max pools, for 28 x 28."""
    draw, build = Draw(seed), GraphBuilder()
    h = build.input((1, 28, 28))
    h = build.convolve(h, draw.weights(6, 1, 5, 5), draw.biases(6), pads=_WIDE)
    h = build.max_pool(build.relu(h), (2, 2))
    h = build.convolve(h, draw.weights(16, 6, 5, 5), draw.biases(16))
    h = build.flatten(build.max_pool(build.relu(h), (2, 2)))
    for n, m in ((400, 120), (120, 84)):
        h = build.relu(build.multiply(h, draw.weights(m, n).T, draw.biases(m)))
    return build.finish(build.multiply(h, draw.weights(10, 84).T))


def resnet(seed: int = 0) -> GraphNetwork:
    """ResNet-8 for 3 x 32 x 32: three blocks of 16, 32 and 64 channels, an average pool."""
    draw, build = Draw(seed), GraphBuilder()

    def convolve(h: FloatArray, n: int, side: int, stride: int) -> FloatArray:
        kernel = draw.weights(n, h.shape[0], side, side)
        pads = _PADDED if side == 3 else ()
        return build.convolve(h, kernel, draw.biases(n), strides=(stride, stride), pads=pads)

    h = build.relu(convolve(build.input((3, 32, 32)), 16, 3, 1))
    for n, stride in ((16, 1), (32, 2), (64, 2)):
        inner = convolve(build.relu(convolve(h, n, 3, stride)), n, 3, 1)
        shortcut = h if stride == 1 else convolve(h, n, 1, stride)
        h = build.relu(build.add(inner, shortcut))
    h = build.flatten(build.average_pool(h, (8, 8)))
    return build.finish(build.multiply(h, draw.weights(10, 64).T))


def strided_network(seed: int = 0) -> GraphNetwork:
    """Return strided convolutions and matrices with ReLUs between them, which SyReNN supports."""
    draw, build = Draw(seed), GraphBuilder()
    h = build.input((1, 28, 28))
    for n, c in ((6, 1), (16, 6)):
        kernel, bias = draw.weights(n, c, 5, 5), draw.biases(n)
        h = build.relu(build.convolve(h, kernel, bias, strides=(2, 2), pads=_WIDE))
    h = build.relu(build.multiply(build.flatten(h), draw.weights(84, 784).T, draw.biases(84)))
    return build.finish(build.multiply(h, draw.weights(10, 84).T))


def dense_weights(net: GraphNetwork) -> Weights:
    """Return the matrices of a network whose nodes alternate between linear maps and ReLUs."""
    weights, biases = [], []
    columns = np.arange(net.dim_in)
    for node in (node for node in net.nodes if hasattr(node, "taps") or hasattr(node, "bias")):
        slots = node.slots.ravel()
        values = np.zeros((net.n_slots, len(columns) + 1))
        values[columns, np.arange(len(columns))] = 1.0
        node.apply(values)
        matrix = values[slots].T
        weights.append(matrix[:-1] - matrix[-1])
        biases.append(matrix[-1])
        follower = next(
            (m for m in net.maxima if set(m.columns[m.columns >= 0]) == set(slots)), None
        )
        if follower is not None:
            order = np.argsort(np.argsort(follower.columns[follower.columns >= 0]))
            weights[-1] = weights[-1][:, np.argsort(slots)][:, order]
            biases[-1] = biases[-1][np.argsort(slots)][order]
            columns = follower.slots
    return Weights(weights, biases)


def draw_images(net: GraphNetwork) -> FloatArray:
    """Draw three images of random pixels, as float32 numbers."""
    drawn = np.random.default_rng(5).random((3, net.dim_in))
    return drawn.astype(np.float32).astype(np.float64)


def triangle_through_images(pictures: FloatArray, size: float) -> Slice:
    """Return a part of the plane through three images, at the corner of the first."""
    origin, directions = pictures[0], pictures[1:] - pictures[0]
    sides = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    return Slice(origin, directions, Polytope(sides, np.array([0.0, 0.0, size])))


def measure_search(net: GraphNetwork, domain: Segment | Slice) -> tuple[int, int, int, float, str]:
    """Return cells, pieces, decisions left to integers, CPU seconds and memory of a search."""
    part, seconds, megabytes = cpu_seconds_and_megabytes(lambda: enumerate_regions(net, domain))
    memory = "" if megabytes is None else f"{megabytes:.0f}"
    return part.n_cells, part.n_pieces, part.found.n_exact, seconds, memory


COLUMNS = "network", "domain", "cells", "pieces", "decided in integers", "CPU s", "MB"


def tables() -> Iterator[Table]:
    """Yield the cost of segments and planes through images, and of the cell of one image."""
    small, plain, large = lenet(), strided_network(), resnet()
    sizes = (0.01, 0.03) if "--full" in sys.argv else (0.01,)
    rows: list[tuple[object, ...]] = []
    for name, net, parts in (
        ("LeNet, 1 x 28 x 28", small, (0.15,)),
        ("ResNet-8, 3 x 32 x 32", large, sizes),
        ("strided convolutions, 1 x 28 x 28", plain, (0.25,)),
    ):
        pictures = draw_images(net)
        rows.append((name, "segment", *measure_search(net, Segment(pictures[0], pictures[1]))))
        rows += [
            ("", f"{p:g} of a triangle", *measure_search(net, triangle_through_images(pictures, p)))
            for p in parts
        ]
    corners = pictures[:1] + 0.25 * np.array([[0, 0], [1, 0], [0, 1]]) @ (
        pictures[1:] - pictures[0]
    )
    program = os.environ.get("HARDMAX_SYRENN")
    theirs = run_syrenn(program, dense_weights(plain), [pictures[:2], corners])
    for words, domain, found in zip(
        ("the same, SyReNN", ""), ("segment", "0.25 of a triangle"), theirs, strict=True
    ):
        said = (found.cells, None, None, found.seconds) if found.cells else (found.remark,)
        rows.append((words, domain, *said, *[None] * (5 - len(said))))
    yield Table(
        "Networks of any shape",
        COLUMNS,
        rows,
        """Networks with random weights and images of random pixels. The domains are segments
        between two images, and parts of the plane through three images, at the corner of the first.
        SyReNN (float32, without certificates) requires dense layers with ReLUs between them. It
        therefore runs only on the network with strided convolutions, which are converted to dense
        matrices.""",
    )
    rows = []
    for name, net in (("LeNet", small), ("ResNet-8", large)):
        _, seconds = cpu_seconds(lambda net=net: cell_at(net, draw_images(net)[0]))
        n_units = sum(len(maximum.slots) for maximum in net.maxima)
        rows.append((name, net.dim_in, n_units, seconds))
    yield Table(
        "The cell of one image",
        ("network", "inputs", "maxima", "CPU s"),
        rows,
        """Most of the time is spent on the norms of the gradients of all units with respect to all
        inputs.""",
    )
