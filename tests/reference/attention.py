"""Attention by definition: scores in fractions, soft quantities in 800 decimal digits."""

from fractions import Fraction

import mpmath

DIGITS = 800  # The square of a weight e^-745 keeps a hundred digits next to 1.


def exact(vector):
    return [Fraction(float(entry)) for entry in vector]


def dot(u, v):
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def query(head, x):
    columns = zip(*[exact(row) for row in head.query_weight], strict=True)
    bias = exact(head.query_bias) if head.query_bias is not None else [Fraction(0)] * head.head_dim
    return [dot(exact(x), column) + b for column, b in zip(columns, bias, strict=True)]


def scores(head, x):
    """One fraction per key, None where the key is masked."""
    q = query(head, x)
    bias = head.logit_bias if head.logit_bias is not None else [0.0] * head.n_keys
    return [
        None if b == float("-inf") else dot(q, exact(k)) + Fraction(float(b))
        for k, b in zip(head.keys, bias, strict=True)
    ]


def tied(head, x):
    s = scores(head, x)
    best = max(score for score in s if score is not None)
    return [score == best for score in s]


def hard_output(head, x):
    """The mean of the winners' values times the output weight, as fractions."""
    winners = [exact(v) for v, wins in zip(head.values, tied(head, x), strict=True) if wins]
    mean = [sum(column) / len(winners) for column in zip(*winners, strict=True)]
    return [dot(mean, exact(column)) for column in head.output_weight.T]


def real(value):
    return mpmath.mpf(value.numerator) / value.denominator


def weights(head, x, tau):
    """The softmax of the exact scores (call within `mpmath.workdps(DIGITS)`)."""
    s = scores(head, x)
    best = max(score for score in s if score is not None)
    terms = [
        mpmath.mpf(0) if score is None else mpmath.exp(real((score - best) / Fraction(tau)))
        for score in s
    ]
    total = mpmath.fsum(terms)
    return [term / total for term in terms]


def slopes(head):
    return [[real(dot(exact(row), exact(k))) for row in head.query_weight] for k in head.keys]


def output_values(head):
    columns = [exact(column) for column in head.output_weight.T]
    return [[real(dot(exact(v), column)) for column in columns] for v in head.values]


def soft_output(head, x, tau):
    with mpmath.workdps(DIGITS):
        return mean(weights(head, x, tau), output_values(head))


def potential(head, x, tau):
    with mpmath.workdps(DIGITS):
        s = [score for score in scores(head, x) if score is not None]
        best, t = max(s), Fraction(tau)
        total = mpmath.fsum(mpmath.exp(real((score - best) / t)) for score in s)
        return real(best) + real(t) * mpmath.log(total)


def gradient(head, x, tau):
    with mpmath.workdps(DIGITS):
        return mean(weights(head, x, tau), slopes(head))


def hessian(head, x, tau):
    with mpmath.workdps(DIGITS):
        return covariance(weights(head, x, tau), slopes(head), slopes(head), tau)


def jacobian(head, x, tau):
    with mpmath.workdps(DIGITS):
        return covariance(weights(head, x, tau), output_values(head), slopes(head), tau)


def mean(p, vectors):
    return [mpmath.fdot(p, column) for column in zip(*vectors, strict=True)]


def covariance(p, u, w, tau):
    """The matrix E[u w] - E[u] E[w], over tau."""
    mean_u, mean_w, t = mean(p, u), mean(p, w), real(Fraction(tau))
    return [
        [
            (mpmath.fsum(pj * uj[a] * wj[b] for pj, uj, wj in zip(p, u, w, strict=True)) - m * n)
            / t
            for b, n in enumerate(mean_w)
        ]
        for a, m in enumerate(mean_u)
    ]


def sparsemax(scaled):
    """Project a vector of fractions onto the simplex by trying every support."""
    n = len(scaled)
    for bits in range(1, 2**n):
        support = [j for j in range(n) if bits >> j & 1]
        threshold = (sum(scaled[j] for j in support) - 1) / Fraction(len(support))
        p = [scaled[j] - threshold if j in support else Fraction(0) for j in range(n)]
        optimal = all(p[j] > 0 for j in support) and all(
            scaled[j] <= threshold for j in range(n) if j not in support
        )
        if optimal:
            return p
    raise AssertionError("the projection exists")
