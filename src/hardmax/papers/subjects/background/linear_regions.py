"""Section III-A of [SL26]: the definition of linear regions, and their number in ReLU networks."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.bounds.relu import montufar_2017
from hardmax.bounds.two_layers import two_relu_layers
from hardmax.constructions.families.two_layer_networks import extremal_relu_network
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.refinement import common_refinement
from hardmax.models.networks import ReluNetwork
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.instances import (
    absolute_value,
    attention_only,
    largest_jump,
    positive_minimum,
    sign_head,
)
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RegionDefinition:
    """The conditions of a definition of "maximal linear region" on the map and the region."""

    map_is_continuous: bool
    region_is_convex: bool = False


def _check_definition(content: RegionDefinition) -> Finding:
    trials = []
    for name, model in (
        ("a ReLU network on a line", absolute_value()),
        ("a hard attention head with keys and values -1, 1", attention_only([sign_head()])),
    ):
        jump = largest_jump(model)
        covered = jump == 0 or not content.map_is_continuous
        trials.append(Trial(name, covered, condition=jump == 0, numbers={"largest_jump": jump}))
    part = enumerate_regions(positive_minimum(), WholeSpace(2))
    ends_and_middle = part.region_labels[part.locate([[-1.0, 3.0], [3.0, -1.0], [1.0, 1.0]])]
    convex = not (ends_and_middle[0] == ends_and_middle[1] != ends_and_middle[2])
    trials.append(
        Trial(
            "max(0, min(x, y)), whose zero region contains (-1, 3) and (3, -1) but not (1, 1)",
            convex or not content.region_is_convex,
            numbers={"labels": ends_and_middle, "n_regions": part.n_regions},
        )
    )
    return Finding(
        tuple(trials),
        "The definition is stated for continuous maps, but the zero-temperature head to which it "
        f"is applied jumps by {trials[1].numbers['largest_jump']} at its wall. Regions need not "
        f"be convex: max(0, min(x, y)) has {part.n_regions} regions, one of them not convex.",
        "A maximal connected open set on which the map is affine. Two such sets that meet are "
        "equal, even if the map is not continuous, so continuity is not needed.",
    )


def _zaslavsky(n: int, d: int) -> int:
    return sum(comb(n, j) for j in range(d + 1))


def _check_zaslavsky(claimed: Callable[[int, int], int]) -> Finding:
    trials = []
    for n, d in ((1, 3), (2, 2), (4, 1), (5, 2), (6, 3), (5, 4), (3, 5)):
        rng = np.random.default_rng(n + 10 * d)
        planes = [
            AffineForms(np.stack([row[:d], np.zeros(d)]), np.array([row[d], 0.0]))
            for row in rng.normal(size=(n, d + 1))
        ]
        trials.append(
            equal_trial(f"n = {n}, d = {d}", common_refinement(planes).count, claimed(n, d))
        )
    listed = ", ".join(f"{t.numbers['true']} ({t.instance})" for t in trials[3:6])
    return Finding(
        tuple(trials),
        f"The cells of random hyperplanes, counted exactly: {listed}. The formula agrees in "
        f"{sum(bool(t.holds) for t in trials)} of {len(trials)} settings. It is the maximum; "
        "hyperplanes in special position have fewer cells.",
    )


def _leading_term(n: int, d: int) -> Fraction:
    return Fraction(n**d, factorial(d))


def _check_leading_term(claimed: Callable[[int, int], Fraction]) -> Finding:
    trials = []
    for d in (1, 2, 3, 8):
        errors = [
            abs(Fraction(_zaslavsky(n, d)) / Fraction(claimed(n, d)) - 1) for n in (10**4, 10**8)
        ]
        # n_d/d! + O(n^(d-1)): with 10^4 times as many planes, the relative error is 10^4 times
        # smaller.
        shrinks = errors[1] * 10**3 < errors[0]
        numbers = {"errors": [float(e) for e in errors]}
        trials.append(Trial(f"d = {d}, n = 10^4 and 10^8", shrinks, numbers=numbers))
    return Finding(
        tuple(trials),
        f"For d = 8 the relative error is {trials[-1].numbers['errors'][0]:.2g} at n = 10^4 and "
        f"{trials[-1].numbers['errors'][1]:.2g} at n = 10^8; it decreases like 1/n.",
    )


def _check_most_regions(claimed: int) -> Finding:
    """Try a number as the maximum for shape (2; 3, 3), between a proven bound and a network."""
    bound = two_relu_layers(2, 3, 3)
    network = extremal_relu_network(2, 3, 3)
    part = enumerate_regions(network, WholeSpace(2))
    certified = verify_certificate(network, part.certificate()).ok
    trials = (
        Trial(
            f"no network has more than {bound} regions",
            claimed <= bound,
            numbers={"bound": bound, "claimed": claimed, "product": montufar_2017(2, [3, 3])},
        ),
        Trial(
            f"a network with {part.n_regions} regions",
            claimed >= part.n_regions,
            numbers={
                "regions": part.n_regions,
                "cells": part.n_cells,
                "certified": certified,
                "claimed": claimed,
                "weights": [weight.tolist() for weight in network.weights[:-1]],
                "biases": [bias.tolist() for bias in (network.biases or ())[:-1]],
            },
        ),
    )
    return Finding(
        trials,
        f"{trials[0].numbers['product']} is the product bound of [Mon17]. A unit of the second "
        "layer crosses at most 6 of the 7 cells of the first, and two such units cross each other "
        f"at most 3 times, so no network has more than 7 + 3 * 6 + 3 * 3 = {bound} cells (proof: "
        "`hardmax.bounds.two_relu_layers`). One network with integer weights has "
        f"{part.n_regions} regions, "
        f"{'with a verified certificate' if certified else 'not certified'}.",
        f"The maximum is {bound}.",
        figure=_draw_best_network,
    )


def _draw_best_network() -> "Figure":
    from hardmax.plotting.drawing import plot
    from hardmax.plotting.style import create_row

    figure: Figure
    figure, axes = create_row(1)
    part = enumerate_regions(extremal_relu_network(2, 3, 3), WholeSpace(2))
    plot(part, axes[0])
    axes[0].set_title(f"shape (2; 3, 3): {part.n_regions} regions")
    return figure


@dataclass(frozen=True)
class FirstLayer:
    """A number of regions, and whether it is claimed for all lines or only in general position."""

    value: int
    always: bool = True


def _check_first_layer(content: FirstLayer) -> Finding:
    def lines(rows: list[list[float]]) -> int:
        table = np.array(rows)
        network = ReluNetwork([table[:, :2].T, np.eye(3)], [table[:, 2], np.zeros(3)])
        return int(enumerate_regions(network, WholeSpace(2)).n_regions)

    general = lines([[1, 0, 0], [0, 1, 0], [1, 1, -1]])
    parallel = lines([[1, 0, 0], [1, 0, 1], [1, 1, -1]])
    concurrent = lines([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    trials = [equal_trial("three lines in general position", general, content.value)]
    for name, found in (("two of them parallel", parallel), ("all through a point", concurrent)):
        right = found == content.value if content.always else found < content.value
        numbers = {"true": found, "claimed": content.value}
        trials.append(Trial(name, right, condition=False, numbers=numbers))
    return Finding(
        tuple(trials),
        f"Three lines make {general} regions in general position, {parallel} if two of them are "
        f"parallel, and {concurrent} if all pass through one point, so `exactly` requires general "
        "position.",
        "Exactly 7 regions in general position, fewer otherwise.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.1",
        source="SL26",
        where="Definition III.1, section III-A",
        kind="definition",
        statement=(
            "A maximal linear region of a CPWL map is a connected open set on which the map is "
            "affine, and which no larger such set contains. The regions counted later, for "
            "zero-temperature transformers, are of this kind."
        ),
        content=RegionDefinition(map_is_continuous=True),
        check=_check_definition,
        corrupted=RegionDefinition(map_is_continuous=False, region_is_convex=True),
        repaired=RegionDefinition(map_is_continuous=False),
    ),
    Claim(
        id="III.2a",
        source="SL26",
        where="Definition III.2, section III-A",
        kind="theorem",
        statement=(
            "n hyperplanes in general position in dimension d induce R(n, d) = sum of binomials "
            "C(n, j), j <= d, regions."
        ),
        content=_zaslavsky,
        check=_check_zaslavsky,
        corrupted=lambda n, d: _zaslavsky(n, d - 1),
    ),
    Claim(
        id="III.2b",
        source="SL26",
        where="Definition III.2, last sentence, section III-A",
        kind="asymptotics",
        statement="For n much larger than d, R(n, d) is approximately n^d / d!.",
        content=_leading_term,
        check=_check_leading_term,
        corrupted=lambda n, d: Fraction(n**d),
    ),
    Claim(
        id="III.3a",
        source="SL26",
        where="Example III.3, section III-A",
        kind="example",
        statement="With d = 2 and three units, the first hidden layer induces exactly 7 regions.",
        content=FirstLayer(7),
        check=_check_first_layer,
        corrupted=FirstLayer(8),
        repaired=FirstLayer(7, always=False),
    ),
    Claim(
        id="III.3b",
        source="SL26",
        where="Example III.3, section III-A",
        kind="example",
        statement=(
            "Two layers of three units on the plane induce at most 7 * 7 = 49 regions, and this "
            "is the maximum."
        ),
        content=49,
        check=_check_most_regions,
        repaired=34,
    ),
    Claim(
        id="Fig2",
        source="SL26",
        where="Caption of Figure 2, section III-A",
        kind="figure",
        statement="The second layer multiplies the 7 regions of the first to a maximum of 49.",
        content=49,
        check=_check_most_regions,
        repaired=34,
    ),
)
