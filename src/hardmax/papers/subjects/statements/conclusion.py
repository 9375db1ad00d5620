"""Section VIII of [SL26]: the conclusion."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.models.heads import AttentionHead
from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.counting.key_exponents import (
    check_with_bias,
    check_without_bias,
    claimed_exponent,
    true_exponent,
)
from hardmax.typing import FloatArray, IntArray

UNCLAIMED = -1
"""Marks a route about which a content makes no claim."""


@dataclass(frozen=True, eq=False)
class SoftLayers:
    """A soft model of two heads, evaluated alongside the hard one.

    Attributes:
        heads: The two heads.
        hard: The input of each head in the hard model, shape `(n_points, d)`.
        soft: The input of each head in the soft model.
        tau: The temperature.
    """

    heads: tuple[AttentionHead, AttentionHead]
    hard: tuple[FloatArray, FloatArray]
    soft: tuple[FloatArray, FloatArray]
    tau: float


Route = Callable[[SoftLayers, int], IntArray]
"""For a model and the number of a head: the route the head is claimed to take in the soft model."""


def _claim_hard_routes(layers: SoftLayers, head: int) -> IntArray:
    return layers.heads[head].winners(layers.hard[head])


def _claim_safe_hard_routes(layers: SoftLayers, head: int) -> IntArray:
    """Claim the hard route where its gap exceeds the largest change that the soft error can cause.

    The score of key j moves by <a_j, error>, so the gap over key i changes by at most
    |a_j - a_i|_1 times the largest entry of the error.
    """
    forms, points = layers.heads[head].forms, layers.hard[head]
    error = np.abs(layers.soft[head] - points).max(axis=1)
    routes = layers.heads[head].winners(points).copy()
    for row, (x, best) in enumerate(zip(points, routes.tolist(), strict=True)):
        gaps = np.delete(forms.slopes[best] - forms.slopes, best, axis=0)
        offsets = np.delete(forms.offsets[best] - forms.offsets, best)
        safe = gaps @ x + offsets > 1.001 * np.abs(gaps).sum(axis=1) * error[row]
        if not safe.all():
            routes[row] = UNCLAIMED
    return np.asarray(routes)


def _check_persistence(route: Route) -> Finding:
    rng = np.random.default_rng(8)
    first, second = (
        AttentionHead(*(rng.normal(size=s) for s in ((8, 8), (16, 8), (16, 8), (8, 8))))
        for _ in range(2)
    )
    trials, notes = [], []
    for name, tau in (("sqrt(d_k)", first.standard_temperature), ("1/100", 0.01)):
        x = rng.normal(size=(400, 8))
        layers = SoftLayers(
            (first, second), (x, x + first(x)), (x, x + first.soft(x, tau)), float(tau)
        )
        for number, head in enumerate(layers.heads):
            claimed, true = route(layers, number), head.winners(layers.soft[number])
            stated = claimed != UNCLAIMED
            same, kept = int((claimed == true)[stated].sum()), int(stated.sum())
            where = f"layer {number} at tau = {name}"
            numbers = {"same_route": same, "claimed_for": kept, "of": len(x)}
            # Some routes must be claimed, because an empty claim would always hold.
            right = same == kept and kept >= (len(x) if number == 0 else len(x) // 8 * (tau < 1))
            trials.append(Trial(where, right, condition=number == 0, numbers=numbers))
            notes.append(f"{same} of {kept} ({where})")
    return Finding(
        tuple(trials),
        "N = 16, d = d_k = 8, Gaussian weights, 400 inputs. Routes of the soft model that are as "
        f"claimed: {', '.join(notes)}.",
        "The argmax partition of one layer is the same at every temperature. In later layers, the "
        "route of the hard model is kept where its gap exceeds the soft error of the earlier "
        "layers.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="VIII.1a",
        source="SL26",
        where="Section VIII",
        kind="conclusion",
        statement="The tight maximal number of linear regions of transformers is Theta(N^(dL)). As "
        "stated, without biases.",
        content=claimed_exponent,
        check=lambda exponent: check_without_bias(exponent, saturated=False),
        repaired=true_exponent,
    ),
    Claim(
        id="VIII.1b",
        source="SL26",
        where="Section VIII",
        kind="conclusion",
        statement="The claim of VIII.1a for heads with a query bias.",
        content=claimed_exponent,
        check=lambda exponent: check_with_bias(exponent, saturated=False),
        corrupted=lambda setting: setting.dim * setting.depth + 1,
        repaired=true_exponent,
    ),
    Claim(
        id="VIII.2",
        source="SL26",
        where="Section VIII; abstract, last sentence",
        kind="conclusion",
        statement="The partition of the zero-temperature model persists at finite temperature.",
        content=_claim_hard_routes,
        check=_check_persistence,
        corrupted=lambda layers, head: layers.heads[head].winners(-layers.hard[head]),
        repaired=_claim_safe_hard_routes,
    ),
)
