r"""Linear combinations of tropical polynomials over one common denominator.

A weighted sum $\sum_i v_i R_i$ of convex piecewise linear functions is a tropical quotient. In
tropical words it is the Laurent monomial $\prod_i R_i^{v_i}$, so several of them have a *least*
common denominator $\prod_i R_i^{\mu_i}$, where $-\mu_i$ is the smallest exponent of $R_i$ or zero.
All arithmetic of rational maps is done here, in integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardmax.algebra.exact.dyadic import ScaledIntegers
from hardmax.errors import SizeLimitError
from hardmax.tropical.coefficients import aligned, reduced, terms_key
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import WideArray

Factor = tuple[TropicalPolynomial, int]
"""A polynomial and its exponent, in units of the weights' power of two."""


def over_common_denominator(
    polynomials: Sequence[TropicalPolynomial],
    weights: ScaledIntegers,
    bias: ScaledIntegers,
    *,
    max_terms: int,
) -> tuple[list[TropicalPolynomial], TropicalPolynomial]:
    r"""Write $y_k = b_k + \sum_i v_{ik} R_i$ as $N_k - D$ with convex $N_k$ and $D$.

    With $\mu_i = \max(0, \max_k -v_{ik})$,

    $$D = \sum_i \mu_i R_i, \qquad N_k = b_k + \sum_i (v_{ik} + \mu_i) R_i .$$

    Equal $R_i$ are merged first. A factor that is a monomial is an affine form and goes into the
    numerators with either sign, and every other $R_i$ is first divided by its lexicographically
    smallest monomial, so $D$ has no monomial factor. Products are pruned factor by factor.

    Args:
        polynomials: The $R_i$, at least one, all on the same space.
        weights: The $v_{ik}$, shape `(n_polynomials, n_outputs)`.
        bias: The $b_k$, shape `(n_outputs,)`.
        max_terms: How many terms a product may form before pruning.

    Returns:
        The $N_k$ and $D$, pruned.

    Raises:
        SizeLimitError: Before a product of more than `max_terms` terms is formed.
    """
    dim, n_outputs = polynomials[0].dim, weights.integers.shape[1]
    exponent = weights.exponent
    affine = _AffineParts(dim, n_outputs)
    affine.add_constants(bias)
    bodies: dict[object, TropicalPolynomial] = {}
    totals: dict[object, WideArray] = {}
    for polynomial, row in zip(polynomials, weights.integers, strict=True):
        body, monomial = _without_monomial(polynomial)
        affine.add_monomial(monomial, row, exponent)
        if body.n_terms > 1:
            key = terms_key(body.coefficients)
            bodies.setdefault(key, body)
            totals[key] = totals[key] + row if key in totals else row
    needed = {key: max(0, *(-int(v) for v in row)) for key, row in totals.items()}
    denominator = pruned_product(
        [(bodies[key], power) for key, power in needed.items()], exponent, dim, max_terms
    )
    numerators = []
    for k in range(n_outputs):
        factors = [(bodies[key], int(totals[key][k]) + needed[key]) for key in bodies]
        product = pruned_product(factors, exponent, dim, max_terms)
        numerators.append(product.times(affine.monomial(k), max_terms=product.n_terms))
    return numerators, denominator


def pruned_product(
    factors: Sequence[Factor], exponent: int, dim: int, max_terms: int
) -> TropicalPolynomial:
    r"""Return $\sum_i f_i 2^e R_i$, pruned; the smallest factors are multiplied first."""
    product = TropicalPolynomial.constant(0.0, dim)
    powers = [polynomial.scaled(power, exponent) for polynomial, power in factors if power]
    for power in sorted(powers, key=lambda polynomial: polynomial.n_terms):
        count = product.n_terms * power.n_terms
        if count > max_terms:
            raise SizeLimitError(
                f"a tropical product of {len(powers)} factors would form {product.n_terms} x "
                f"{power.n_terms} = {count} terms, more than `max_terms` = {max_terms}; raise "
                "`max_terms`, or use fewer or narrower layers."
            )
        product = product.times(power, max_terms=max_terms).prune()
    return product


def _without_monomial(
    polynomial: TropicalPolynomial,
) -> tuple[TropicalPolynomial, ScaledIntegers]:
    """Prune, and divide by the term with the lexicographically smallest slope."""
    pruned = polynomial.prune()
    exact = pruned.coefficients
    smallest = exact.integers[min(range(pruned.n_terms), key=exact.integers.tolist().__getitem__)]
    shifted = ScaledIntegers(exact.integers - smallest, exact.exponent)
    return TropicalPolynomial.from_coefficients(shifted), ScaledIntegers(smallest, exact.exponent)


class _AffineParts:
    """The affine forms that the numerators collect, exactly: one row per output."""

    def __init__(self, dim: int, n_outputs: int) -> None:
        self._rows = ScaledIntegers(np.full((n_outputs, dim + 1), 0, dtype=object), 0)

    def add_monomial(self, monomial: ScaledIntegers, weights: WideArray, exponent: int) -> None:
        product = np.multiply.outer(weights, monomial.integers)
        self._add(ScaledIntegers(product, monomial.exponent + exponent))

    def add_constants(self, bias: ScaledIntegers) -> None:
        rows = np.full(self._rows.integers.shape, 0, dtype=object)
        rows[:, -1] = bias.integers
        self._add(ScaledIntegers(rows, bias.exponent))

    def monomial(self, k: int) -> TropicalPolynomial:
        exact = ScaledIntegers(self._rows.integers[k : k + 1], self._rows.exponent)
        return TropicalPolynomial.from_coefficients(exact)

    def _add(self, part: ScaledIntegers) -> None:
        (left, right), exponent = aligned((self._rows, part))
        self._rows = reduced(left + right, exponent)
