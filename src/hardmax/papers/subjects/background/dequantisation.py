"""Section III-C of [SL26]: Maslov dequantisation of sums and of matrix products."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, Trial
from hardmax.papers.subjects.enclosures import ball, log_sum_exp, working_precision
from hardmax.papers.subjects.instances import integer_keys
from hardmax.tropical.matrices.semiring import maxplus


def _deformed_sum(a: Fraction, b: Fraction, tau: Fraction) -> Any:
    return ball(tau) * ((ball(a) / ball(tau)).exp() + (ball(b) / ball(tau)).exp()).log()


_TAUS = (Fraction(1), Fraction(1, 16), Fraction(1, 256), Fraction(1, 10**6))


def _check_deformed_sum(claimed: Callable[[Fraction, Fraction, Fraction], Any]) -> Finding:
    """Compare the sum with its definition, e^(sum/tau) = e^(a/tau) + e^(b/tau), and the maximum."""
    trials = []
    with working_precision(1024):  # so that e^-500 is not lost next to 1
        for tau in (Fraction(1), Fraction(1, 10), Fraction(1, 100)):
            pairs = ((0, 0), (1, 0), (-3, 2), (5, 4))
            sums = [claimed(Fraction(a), Fraction(b), tau) for a, b in pairs]
            inverse = all(
                (total / ball(tau)).exp().overlaps(ball(a / tau).exp() + ball(b / tau).exp())
                for total, (a, b) in zip(sums, pairs, strict=True)
            )
            errors = [total - max(pair) for total, pair in zip(sums, pairs, strict=True)]
            bound = ball(tau) * ball(2).log()
            within = all(bool(error > 0) and not bool(error > bound) for error in errors)
            attained = not bool(errors[0] < bound)  # at a = b
            largest = max(float(error.mid()) for error in errors)
            numbers = {"largest_excess": largest, "attained": attained}
            trials.append(Trial(f"tau = {tau}: its definition", inverse, numbers=numbers))
            trials.append(Trial(f"tau = {tau}: at most tau log 2 above", within and attained))
    excess = ", ".join(f"{t.numbers['largest_excess']:.2g}" for t in trials[::2])
    return Finding(
        tuple(trials),
        f"The largest excess over the maximum on four pairs is {excess} at tau = 1, 0.1, 0.01. "
        "The excess is positive and at most tau log 2, which is attained at a = b.",
    )


def _deformed_entry(row: list[int], column: list[int], tau: Fraction) -> Any:
    return log_sum_exp([a + b for a, b in zip(row, column, strict=True)], tau)


def _least_entry(row: list[int], column: list[int], tau: Fraction) -> Any:
    return ball(min(a + b for a, b in zip(row, column, strict=True)))


def _check_matrix_product(entry: Callable[[list[int], list[int], Fraction], Any]) -> Finding:
    """Compare entries with directly computed sums of exponentials and with the tropical product."""
    left, right = integer_keys(1, 3, 4, 9), integer_keys(2, 4, 3, 9)
    left[0], right[:, 0] = 0.0, 0.0  # four equal summands: there, the error is tau log 4
    tropical = maxplus.matmul(left, right)
    trials = []
    with working_precision(512):
        for tau in _TAUS:
            largest, exact = ball(0), True
            for i, j in np.ndindex(3, 3):
                row, column = (np.asarray(v, int).tolist() for v in (left[i], right[:, j]))
                found, top = entry(row, column, tau), ball(float(tropical[i, j]))
                # Everything is relative to the largest summand, which is computed independently of
                # the entry.
                summands = [
                    ((ball(a + b) - top) / ball(tau)).exp()
                    for a, b in zip(row, column, strict=True)
                ]
                exact &= ((found - top) / ball(tau)).exp().overlaps(sum(summands, ball(0)))
                largest = largest.max(abs(found - top))
            bound = ball(tau) * ball(4).log()
            numbers = {"largest_error": float(largest.mid()), "tau_log_n": float(bound.mid())}
            within = not bool(largest > bound) and not bool(largest < bound)
            trials.append(Trial(f"tau = {tau}: sums of exponentials", exact))
            trials.append(
                Trial(f"tau = {tau}: the error, at most tau log 4", within, numbers=numbers)
            )
    listed = ", ".join(f"{t.numbers['largest_error']:.2g}" for t in trials[1::2])
    return Finding(
        tuple(trials),
        f"The largest error of a 3 x 4 by 4 x 3 product against the (max, +) product is {listed} "
        "at tau = 1, 1/16, 1/256, 10^-6. The error is tau log 4 for four equal summands, and "
        "never larger.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.9a",
        source="SL26",
        where="Definition III.9, section III-C",
        kind="definition",
        statement="a (+)_tau b = tau log(e^(a/tau) + e^(b/tau)) tends to max(a, b) as tau -> 0.",
        content=_deformed_sum,
        check=_check_deformed_sum,
        corrupted=lambda a, b, tau: _deformed_sum(a, b, 1 / tau),
    ),
    Claim(
        id="III.9b",
        source="SL26",
        where="Text after Definition III.9, section III-C",
        kind="text",
        statement=(
            "Matrix products with log-sum-exp converge to tropical matrix products as tau -> 0."
        ),
        content=_deformed_entry,
        check=_check_matrix_product,
        corrupted=_least_entry,
    ),
)
