"""The saturated regime of [SL26]: the numbers of heads that the term refers to."""

from collections.abc import Callable
from itertools import product
from typing import Any

from hardmax.bounds.attention import cells_with_bias
from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.counting.growth import polynomial_degree

Regimes = tuple[tuple[str, Callable[[int, int], bool]], ...]
"""For each statement, whether it calls H heads in dimension d saturated."""

AS_PRINTED: Regimes = (
    ("Theorem V.2", lambda n_heads, dim: n_heads > dim),
    ("Theorem V.5", lambda n_heads, dim: n_heads >= dim),
    ("Corollary V.9", lambda n_heads, dim: n_heads >= dim),
)
FROM_D_ON: Regimes = tuple((name, lambda n_heads, dim: n_heads >= dim) for name, _ in AS_PRINTED)


def _largest_degree(n_heads: int, dim: int) -> int:
    """Return the degree in N of the largest number of cells of one layer with query bias."""
    return polynomial_degree([cells_with_bias(n, n_heads, dim) for n in range(2, 9)])


def _check_one_meaning(regimes: Regimes) -> Finding:
    trials = []
    for dim, n_heads in product((1, 2, 3), (1, 2, 3, 4)):
        called = {name: is_saturated(n_heads, dim) for name, is_saturated in regimes}
        # The heads are saturated if one more head does not increase the exponent of N.
        degrees = [_largest_degree(h, dim) for h in (n_heads, n_heads + 1)]
        same = set(called.values()) == {degrees[0] == degrees[1]}
        trials.append(
            Trial(f"H = {n_heads}, d = {dim}", same, numbers={**called, "degrees": degrees})
        )
    wrong = [t.instance for t in trials if not t.holds]
    return Finding(
        tuple(trials),
        "With one more head, the exponent of N stays the same exactly if H >= d (degrees of the "
        f"largest number of cells, for d <= 3 and H <= 4). In {len(wrong)} of {len(trials)} "
        "settings, the statements disagree with each other or with this "
        f"condition{': ' * bool(wrong)}{'; '.join(wrong)}.",
        "Saturated should mean H >= d throughout, as in Theorem V.5 and Corollary V.9; Theorem "
        "V.2 counts H = d as standard.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="V.5d",
        source="SL26",
        where="Theorem V.2 against Theorem V.5 and Corollary V.9, section V",
        kind="definition",
        statement=(
            "The saturated regime is the same range of the number of heads throughout: H > d in "
            "Theorem V.2, H >= d in Theorem V.5 and Corollary V.9."
        ),
        content=AS_PRINTED,
        check=_check_one_meaning,
        repaired=FROM_D_ON,
    ),
)
