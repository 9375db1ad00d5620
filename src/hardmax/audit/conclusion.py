"""Section VIII of [SL26]: the conclusion."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, Trial
from hardmax.audit.key_exponents import (
    check_with_bias,
    check_without_bias,
    claimed_exponent,
    true_exponent,
)
from hardmax.models.heads import AttentionHead
from hardmax.typing import FloatArray


def _warmest(head: AttentionHead, x: FloatArray, tau: float) -> Any:
    return head.attention_weights(x, tau).argmax(axis=1)


def _check_persistence(route: Callable[[AttentionHead, FloatArray, float], Any]) -> Finding:
    rng = np.random.default_rng(8)
    first, second = (
        AttentionHead(*(rng.normal(size=s) for s in ((8, 8), (16, 8), (16, 8), (8, 8))))
        for _ in range(2)
    )
    x, tau = rng.normal(size=(400, 8)), first.standard_temperature
    one = int((route(first, x, tau) == first.winners(x)).sum())
    hard, soft = x + first(x), x + first.soft(x, tau)
    two = int((route(second, soft, tau) == second.winners(hard)).sum())
    trials = (
        Trial("one layer at tau = sqrt(d_k)", one == 400, numbers={"same_route": one, "of": 400}),
        Trial(
            "the second of two layers at tau = sqrt(d_k)",
            two == 400,
            condition=False,
            numbers={"same_route": two, "of": 400},
        ),
    )
    return Finding(
        trials,
        f"N = 16, d = d_k = 8, Gaussian weights: at the standard temperature {one} of 400 inputs "
        f"have the route of the hard model in layer 1 and {two} in layer 2.",
        "One layer's argmax partition is the same at every temperature; through depth the routes "
        "change unless margins exceed the soft error of the layers before.",
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
        statement="The same with a query bias.",
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
        content=_warmest,
        check=_check_persistence,
        corrupted=lambda head, x, tau: head.attention_weights(x, tau).argmin(axis=1),
    ),
)
