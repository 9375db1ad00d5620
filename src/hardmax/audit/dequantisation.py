"""Section III-C of [SL26]: Maslov dequantisation of sums and of matrix products."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.algebra.semiring import maxplus
from hardmax.audit.claims import Claim, Finding, Trial
from hardmax.audit.enclosures import ball, log_sum_exp, precisely
from hardmax.audit.instances import integer_keys


def _deformed(a: Fraction, b: Fraction, tau: Fraction) -> Any:
    return ball(tau) * ((ball(a) / ball(tau)).exp() + (ball(b) / ball(tau)).exp()).log()


def _check_deformed(claimed: Callable[[Fraction, Fraction, Fraction], Any]) -> Finding:
    trials = []
    with precisely(1024):  # e^-500 must stay visible beside 1
        slack = 1 + ball(Fraction(1, 2**200))  # equality at a = b cannot be decided by balls
        for tau in (Fraction(1), Fraction(1, 10), Fraction(1, 100)):
            errors = [
                claimed(Fraction(a), Fraction(b), tau) - max(a, b)
                for a, b in ((0, 0), (1, 0), (-3, 2), (5, 4))
            ]
            bound = ball(tau) * ball(2).log() * slack
            ok = all(bool(error > 0) and bool(error <= bound) for error in errors)
            largest = max(float(error.mid()) for error in errors)
            trials.append(Trial(f"tau = {tau}", ok, numbers={"largest_excess": largest}))
    excess = ", ".join(f"{t.numbers['largest_excess']:.2g}" for t in trials)
    return Finding(
        tuple(trials),
        f"Largest excess over the maximum on four pairs: {excess} at tau = 1, 0.1, 0.01, against "
        "tau log 2.",
        "0 < a (+)_tau b - max(a, b) <= tau log 2, with equality at a = b.",
    )


def _deformed_entry(row: list[int], column: list[int], tau: Fraction) -> Any:
    return log_sum_exp([a + b for a, b in zip(row, column, strict=True)], tau)


def _least_entry(row: list[int], column: list[int], tau: Fraction) -> Any:
    return ball(min(a + b for a, b in zip(row, column, strict=True)))


def _check_matrix_product(entry: Callable[[list[int], list[int], Fraction], Any]) -> Finding:
    left, right = integer_keys(1, 3, 4, 9), integer_keys(2, 4, 3, 9)
    tropical = maxplus.matmul(left, right)
    trials = []
    for tau in (Fraction(1), Fraction(1, 16), Fraction(1, 256)):
        errors = []
        with precisely():
            for i, j in np.ndindex(3, 3):
                row, column = (np.asarray(v, int).tolist() for v in (left[i], right[:, j]))
                errors.append(
                    float(abs(entry(row, column, tau) - ball(float(tropical[i, j]))).mid())
                )
        limit = float(tau) * float(np.log(4)) * (1 + 1e-12)
        numbers = {"largest_error": max(errors), "tau_log_n": limit}
        trials.append(Trial(f"tau = {tau}", max(errors) <= limit, numbers=numbers))
    listed = ", ".join(f"{t.numbers['largest_error']:.2g}" for t in trials)
    return Finding(
        tuple(trials),
        f"A 3 x 4 by 4 x 3 product against the (max, +) product: largest error {listed} at "
        "tau = 1, 1/16, 1/256; the bound is tau log 4.",
        "Error at most tau log n for n summands.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.9a",
        source="SL26",
        where="Definition III.9, section III-C",
        kind="definition",
        statement="a (+)_tau b = tau log(e^(a/tau) + e^(b/tau)) tends to max(a, b) as tau -> 0.",
        content=_deformed,
        check=_check_deformed,
        corrupted=lambda a, b, tau: _deformed(a, b, 1 / tau),
    ),
    Claim(
        id="III.9b",
        source="SL26",
        where="Text after Definition III.9, section III-C",
        kind="text",
        statement="Matrix products with log-sum-exp tend to tropical matrix products.",
        content=_deformed_entry,
        check=_check_matrix_product,
        corrupted=_least_entry,
    ),
)
