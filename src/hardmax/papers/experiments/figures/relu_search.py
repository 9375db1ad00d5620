"""Figure 2 and Example III.3 of [SL26]: the number of regions of two layers of three ReLU units."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from hardmax._ground.progress import track
from hardmax.bounds import montufar_2017, two_relu_layers, zaslavsky
from hardmax.constructions.families.two_layer_networks import extremal_relu_network
from hardmax.geometry.domains import Box, WholeSpace, box_around
from hardmax.models.networks import ReluNetwork
from hardmax.papers.registry import Outcome
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import create_row, series_colours, theme_colour
from hardmax.plotting.windows import finite_vertices
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray
from hardmax.verify.checking import verify_certificate


@dataclass(frozen=True)
class Parameters:
    """The length of the search, and its starting point: the result of a longer search.

    Three lines in general position are one arrangement up to an affine change of the input, so
    the first layer is fixed up to the signs of its units. The search is over the second layer,
    whose weights are the first three rows of `start` and whose biases are the last row.
    """

    n_steps: int = 1000
    signs: tuple[float, float, float] = (-1.0, 1.0, 1.0)
    start: tuple[tuple[float, float, float], ...] = (
        (-64.0, 64.0, -64.0),
        (4.0, -22.0, 60.0),
        (12.0, -14.0, 16.0),
        (-7.0, 14.0, -17.0),
    )
    seed: int = 2


QUICK = Parameters(n_steps=300)
FULL = Parameters(n_steps=200_000)


class SecondLayer(NamedTuple):
    """The weights `(3, 3)` and biases `(3,)` of the second layer."""

    weight: FloatArray
    bias: FloatArray


def run(parameters: Parameters) -> Outcome:
    """Anneal the second layer for the most cells in the plane, and certify the result."""
    rng = np.random.default_rng(parameters.seed)
    start = np.array(parameters.start)
    best = SecondLayer(start[:3], start[3])
    n_start = n_best = _count_cells(best, parameters)
    layer, count = best, n_best
    for step in track(range(parameters.n_steps), "searching networks"):
        heat = 1.05 - step / parameters.n_steps
        proposal = _perturb(layer, rng)
        proposed = _count_cells(proposal, parameters)
        if proposed >= count or rng.random() < np.exp((proposed - count) / heat):
            layer, count = proposal, proposed
        if count > n_best:
            best, n_best = layer, count
    network = _build_network(best, parameters)
    part = enumerate_regions(network, WholeSpace(2))
    verdict = verify_certificate(network, part.certificate())
    product, maximum = montufar_2017(2, [3, 3]), two_relu_layers(2, 3, 3)
    written_down = enumerate_regions(extremal_relu_network(2, 3, 3), WholeSpace(2))
    alone = _build_network(SecondLayer(np.zeros((3, 3)), np.zeros(3)), parameters)
    one_layer = enumerate_regions(alone, WholeSpace(2))
    window = Box(np.full(2, -0.75), np.full(2, 1.75))
    whole = box_around(finite_vertices(part), with_origin=False)
    figure, axes = create_row(3)
    for ax, drawn, title, box in (
        (axes[0], one_layer, f"(a) layer 0: {one_layer.n_cells} cells", window),
        (axes[1], part, f"(b) both layers: {part.n_cells} cells, the maximum", whole),
        (axes[2], part, "(c) the middle of (b): lines that bend", window),
    ):
        plot(drawn, ax, color="cell", box=box, walls=True if drawn is one_layer else "units")
        ax.set_title(title)
    (x, y), (width, height) = window.low, window.high - window.low
    axes[1].add_patch(
        Rectangle((x, y), width, height, fill=False, ec=theme_colour("ink"), lw=1.6, zorder=4)
    )
    axes[1].annotate("(c)", window.high, xytext=(3, 1), textcoords="offset points")
    strong = series_colours()
    handles = [Line2D([], [], color=theme_colour("ink"), label="layer 0")]
    second = network.network.words[1]
    handles += [Line2D([], [], color=strong[u], label=second.name(u)) for u in range(3)]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return Outcome(
        {
            "one_layer": one_layer.n_cells,
            "known_before": n_start,
            "cells_regions_maps": [part.n_cells, part.n_regions, part.n_affine_maps],
            "certified": verdict.ok,
            "product_bound": product,
            "maximum": maximum,
            "maximum_attained": [written_down.n_cells, written_down.n_regions],
        },
        f"The first layer has {one_layer.n_cells} cells, the maximum for three lines, R(3, 2) = "
        f"{zaslavsky(3, 2)}. Each unit of the second layer has one line, which bends where it "
        "meets a line of the first layer; it cuts some of these cells and misses others. The "
        f"product {product} is therefore a bound that no network attains. The maximum is "
        f"{maximum}, and `extremal_relu_network(2, 3, 3)` has {written_down.n_cells} cells and "
        f"{written_down.n_regions} regions. A search with {parameters.n_steps} steps found "
        f"{part.n_cells} cells, with a certificate "
        f"({'verified' if verdict.ok else verdict.reason}), and {part.n_regions} regions.",
        figure,
        claimed=f"A theoretical maximum of {product} regions.",
        claims=("III.3", "Fig2"),
        tables={
            "bounds": [
                {"what": "claimed maximum", "value": product},
                {"what": "maximum, proved and attained", "value": maximum},
                {"what": "best network found by search", "value": part.n_cells},
            ]
        },
    )


def _build_network(layer: SecondLayer, parameters: Parameters) -> ReluNetwork:
    """Place the layer on the triangle $x > 0$, $y > 0$, $x + y < 1$."""
    signs = np.array(parameters.signs)
    triangle = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    offsets = np.array([0.0, 0.0, 1.0])
    return ReluNetwork(
        [triangle * signs, layer.weight, np.eye(3)], [offsets * signs, layer.bias, np.zeros(3)]
    )


def _count_cells(layer: SecondLayer, parameters: Parameters) -> int:
    network = _build_network(layer, parameters)
    return int(enumerate_regions(network, WholeSpace(2), count_only=True).n_cells)


def _perturb(layer: SecondLayer, rng: np.random.Generator) -> SecondLayer:
    """Perturb some weights of one unit, with steps of several sizes."""
    unit = rng.integers(3)
    step = rng.choice([1.0, 0.3, 0.1, 0.03]) * rng.normal(size=4) * (rng.random(4) < 0.6)
    weight, bias = layer.weight.copy(), layer.bias.copy()
    weight[:, unit] += step[:3]
    bias[unit] += step[3]
    return SecondLayer(weight, bias)
