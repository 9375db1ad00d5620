"""Log-lifted attention by definition: exact values, and cells counted on the line."""

from fractions import Fraction
from itertools import combinations, pairwise

import mpmath

from tests.reference.attention import dot, exact, real


def groups(lifted):
    """The lines (slope vector, offset) of every channel and then of the denominator."""
    bias = [0.0] * len(lifted.keys) if lifted.logit_bias is None else lifted.logit_bias
    live = [j for j, b in enumerate(bias) if b > float("-inf")]
    below = [(exact(lifted.keys[j]), Fraction(float(bias[j]))) for j in live]
    channels = [
        [
            (k, b + Fraction(float(lifted.lifted_values[j, c])))
            for j, (k, b) in zip(live, below, strict=True)
        ]
        for c in range(lifted.n_channels)
    ]
    return [*channels, below]


def limit(lifted, q):
    *above, below = [max(dot(exact(q), k) + c for k, c in group) for group in groups(lifted)]
    return [value - below for value in above]


def at_temperature(lifted, q, tau):
    with mpmath.workdps(100):
        t = real(Fraction(tau))

        def log_sum(group):
            scores = [dot(exact(q), k) + c for k, c in group]
            best = max(scores)
            total = mpmath.fsum(mpmath.exp(real(score - best) / t) for score in scores)
            return real(best) + t * mpmath.log(total)

        *above, below = [log_sum(group) for group in groups(lifted)]
        return [value - below for value in above]


def counts_on_the_line(lifted):
    """Routing cells, lifted cells and linear regions for one-dimensional queries.

    Between two neighbouring crossings of any two lines of a group nothing changes.
    """
    lines = [[(k[0], c) for k, c in group] for group in groups(lifted)]
    crossings = {
        (c - e) / (m - k) for group in lines for (k, c), (m, e) in combinations(group, 2) if k != m
    }
    places = sorted(crossings)
    if not places:
        samples = [Fraction(0)]
    else:
        middles = [(a + b) / 2 for a, b in pairwise(places)]
        samples = [places[0] - 1, *middles, places[-1] + 1]
    signatures = [
        tuple(max(group, key=lambda line: line[0] * q + line[1]) for group in lines)
        for q in samples
    ]
    maps = [tuple((k - s[-1][0], c - s[-1][1]) for k, c in s[:-1]) for s in signatures]
    return (
        runs([s[-1] for s in signatures]),
        runs(signatures),
        runs(maps),
    )


def runs(labels):
    return 1 + sum(a != b for a, b in pairwise(labels))
