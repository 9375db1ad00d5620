"""Appendix G of [SL26]: the covariance of a softmax and its norm, for rational distributions."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.temperature.spectral_norms import Matrix, covariance, norm_is_at_most


def largest_variance(p: Sequence[Fraction]) -> Fraction:
    """Return max_k p_k (1 - p_k)."""
    return max(pk * (1 - pk) for pk in p)


def _distributions() -> dict[str, list[Fraction]]:
    cases = {"(1/2, 1/2)": [Fraction(1, 2)] * 2, "(1, 0)": [Fraction(1), Fraction(0)]}
    rng = np.random.default_rng(0)
    for size in (2, 3, 4, 6):
        for number in range(5):
            weights = [int(w) for w in rng.integers(1, 100, size=size)]
            weights[0] = max(weights[0], sum(weights[1:]))  # the winner has at least half
            cases[f"random {number}, N = {size}"] = [Fraction(w, sum(weights)) for w in weights]
    return cases


def _compare_norms(
    bound: Callable[[Sequence[Fraction]], Fraction],
) -> tuple[tuple[Trial, ...], str]:
    """Compare the norm with a bound; describe the number of violations and the first of them."""
    trials = []
    for name, p in _distributions().items():
        holds = norm_is_at_most(covariance(p), bound(p))
        # For two keys the matrix is p q (1, -1)^T (1, -1), of norm 2 p q.
        attained = bound(p) == 2 * p[0] * p[1] if len(p) == 2 else None
        numbers = {"p": p, "bound": bound(p)}
        trials.append(Trial(f"p = {name}", holds, tight=attained, numbers=numbers))
    exceeded = [trial for trial in trials if not trial.holds]
    words = f"The norm exceeds the bound for {len(exceeded)} of {len(trials)} distributions"
    if not exceeded:
        return tuple(trials), words
    p, stated = (exceeded[0].numbers[key] for key in ("p", "bound"))
    true = f" has norm {2 * p[0] * p[1]}," if len(p) == 2 else " exceeds"
    return tuple(trials), f"{words}: p = ({', '.join(map(str, p))}){true} bound {stated}"


def _check_known_inequality(bound: Callable[[Sequence[Fraction]], Fraction]) -> Finding:
    trials, words = _compare_norms(bound)
    return Finding(
        trials,
        f"{words}. The variances p_k(1 - p_k) are the diagonal entries of the matrix, so the "
        "largest of them is a lower bound on the norm.",
        "The norm is at most 2 max_k p_k(1 - p_k) (row sums), which is attained for two keys.",
    )


def _check_mass(bound: Callable[[Sequence[Fraction]], Fraction]) -> Finding:
    trials, words = _compare_norms(bound)
    return Finding(
        trials,
        f"{words}. For two keys, the norm is 2 p_i (1 - p_i), which exceeds 1 - p_i as soon as "
        "the winner has more than half of the weight.",
        "The norm is at most 2 p_i (1 - p_i) if the winner has at least half of the weight; this "
        "is attained for two keys.",
    )


def variance_decomposition(p: Sequence[Fraction]) -> Matrix:
    """Return sum_j p_j (e_j - p)(e_j - p)^T."""
    size = range(len(p))
    away = [[int(i == j) - p[i] for i in size] for j in size]
    return [
        [sum((p[j] * away[j][a] * away[j][b] for j in size), Fraction(0)) for b in size]
        for a in size
    ]


def _check_decomposition(matrix: Callable[[Sequence[Fraction]], Matrix]) -> Finding:
    trials = [
        Trial(f"p = {name}", matrix(p) == covariance(p)) for name, p in _distributions().items()
    ]
    equal = sum(bool(trial.holds) for trial in trials)
    return Finding(
        tuple(trials), f"Equal entry by entry for {equal} of {len(trials)} rational distributions."
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "AppG.1",
        "SL26",
        "Appendix G, Hessian",
        "proof step",
        "diag(p) - p p^T is the covariance sum_j p_j (e_j - p)(e_j - p)^T.",
        content=variance_decomposition,
        check=_check_decomposition,
        corrupted=lambda p: [
            [pi if i == j else 0 for j in range(len(p))] for i, pi in enumerate(p)
        ],
    ),
    Claim(
        "AppG.2",
        "SL26",
        "Appendix G, Hessian (called known)",
        "proof step",
        "The spectral norm of diag(p) - p p^T is at most max_k p_k (1 - p_k).",
        content=largest_variance,
        check=_check_known_inequality,
        repaired=lambda p: 2 * largest_variance(p),
    ),
    Claim(
        "AppG.3",
        "SL26",
        "Appendix G, Hessian",
        "proof step",
        "The spectral norm of diag(p) - p p^T is at most 1 - p_i, the mass of the rivals.",
        content=lambda p: 1 - p[0],
        check=_check_mass,
        repaired=lambda p: 2 * p[0] * (1 - p[0]),
    ),
)
