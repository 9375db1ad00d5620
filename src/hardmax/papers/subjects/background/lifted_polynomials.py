"""Definition III.10 of [SL26], last sentence: the numerator and denominator of lifted attention."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, equal_trial
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import FloatArray

Distinct = Callable[[FloatArray, FloatArray], bool]


def _has_effect(keys: FloatArray, values: FloatArray) -> bool:
    """Return whether a value is positive, or the value of a vertex of the keys' hull is not 0."""
    return bool((values > 0).any() or (values[PowerDiagram.from_keys(keys).active] != 0).any())


def _check_distinct(claimed: Distinct) -> Finding:
    corners = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
    inside = np.vstack([corners, [[0.0, 0.5]]])
    trials = []
    for name, keys, values in (
        ("values 1, 2, 0", corners, [1.0, 2.0, 0.0]),
        ("values 0, 0, -1", corners, [0.0, 0.0, -1.0]),
        ("values 0, 0, 0, 1, the last key inside the hull of the others", inside, [0, 0, 0, 1.0]),
        ("values 0, 0, 0", corners, [0.0, 0.0, 0.0]),
        ("values 0, 0, 0, -1, the last key inside the hull of the others", inside, [0, 0, 0, -1.0]),
    ):
        lifted = np.array(values, np.float64)
        numerator = TropicalPolynomial(keys, lifted)
        differ = not numerator.equals(TropicalPolynomial(keys, np.zeros(len(keys))))
        effect = _has_effect(keys, lifted)
        trials.append(equal_trial(name, differ, claimed(keys, lifted), condition=effect))
    same = [t.instance for t in trials if not t.numbers["true"]]
    return Finding(
        tuple(trials),
        "Compared exactly as functions, numerator and denominator are equal for "
        f"{' and for '.join(same)}, and different in the other instances.",
        "Numerator and denominator are distinct exactly if some lifted value is positive, or the "
        "value of a key that is a vertex of the hull is not 0. If all values equal a constant "
        "other than 0, the quotient is that constant.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.10b",
        source="SL26",
        where="Definition III.10, last display, section III-D",
        kind="definition",
        statement=(
            "The numerator and denominator of lifted attention are distinct tropical polynomials."
        ),
        content=lambda keys, values: True,
        check=_check_distinct,
        corrupted=lambda keys, values: bool((values != 0).all()),
        repaired=_has_effect,
    ),
)
