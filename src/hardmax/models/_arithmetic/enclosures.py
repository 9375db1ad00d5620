r"""Float64 vectors with a proven radius for each entry, carried through affine maps and sums.

**Lemma.** Let $\hat z$ be floats with $|\hat z_k - z_k| \le r_k$, and $s = \sum_{k \le n} z_k w_k +
b$. Floor the sizes: $z'_k = \max(|\hat z_k|, \varphi)$ if $\hat z_k \ne 0$ or $r_k \ne 0$, else 0,
and likewise $w'_k$ and $b'$, with $\varphi = 2^{-480}$. Put $\kappa = 2(n+6)u$, $\lambda = 1 +
2^{-20}$, $n \le 2^{30}$. If $\hat s = \mathrm{fl}(\hat z w + b)$ and the float64 value

$$R = \sum_k (\kappa z'_k + \lambda r_k)\, w'_k + \kappa b'$$

are finite, then $R \ge |\hat s - s| + 2u(|\hat s| + R)$, and $R = 0$ only if $s = \hat s = 0$.

*Proof.* By Lemma 1 of `exact.rounding`, $|\hat s - s| \le \gamma_{n+1} M + n\eta + \sum_k
r_k |w_k|$ with $M = \sum_k |\hat z_k w_k| + |b|$. If every $z'_k w'_k$ and $b'$ vanish, then each
term of $s$ is zero, and nothing is rounded. Otherwise the exact $\kappa(\sum z'_k w'_k + b')$ is at
least $\kappa\varphi^2 \ge (n+6)\,2^{-1012}$, and the float $R$ falls short of the exact sum by a
factor of at least $1 - \gamma_{n+4}$ and by underflows of at most $2n\eta$. The part of $R$ with
$\lambda$ covers $\sum r_k|w_k|$ and $2u$ of itself, because $2^{-20} \ge 2\gamma_{n+8}$. Of the
part with $\kappa$, one half covers $\gamma_{n+1} M + 2u(|\hat s| + R)$ as in Lemma 2 there, and a
small fraction of the other half, more than $2^{-1014}$, covers all underflows. $\square$

Hence the radius of a unit that is off, or of any value computed from zeros alone, is exactly zero,
so ties of such units are detected in float64.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.rounding import RAISE, UNDERFLOW_ALLOWANCE, UNIT_ROUNDOFF, rounding_factor
from hardmax.typing import FloatArray

FLOOR = 2.0**-480


class Enclosed(NamedTuple):
    """Floats with error radii: each true entry is within `radii` of `values`; both `(n, width)`.

    A radius may be infinite; the value then carries no information.

    Examples:
        >>> quarter = Enclosed.exactly(np.array([[0.25]]))
        >>> quarter.values.tolist(), quarter.radii.tolist()
        ([[0.25]], [[0.0]])
    """

    values: FloatArray
    radii: FloatArray

    def __repr__(self) -> str:
        return short_repr(self)

    @classmethod
    def exactly(cls, values: FloatArray) -> "Enclosed":
        """Enclose floats with radius 0."""
        return cls(values, np.zeros_like(values))


@dataclass(frozen=True, eq=False)
class EnclosedMap:
    r"""The map $z \mapsto z W + b$ on enclosed vectors.

    Attributes:
        weight: The $W$, shape `(n_in, n_out)`, finite.
        bias: The $b$, shape `(n_out,)`, finite.

    Examples:
        >>> double = EnclosedMap(np.array([[2.0]]), np.array([1.0]))
        >>> double(Enclosed.exactly(np.array([[0.25]]))).values.tolist()
        [[1.5]]
    """

    weight: FloatArray
    bias: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    @cached_property
    def weight_size(self) -> FloatArray:
        """The floored $|W|$."""
        return _floor_sizes(self.weight)

    @cached_property
    def bias_size(self) -> FloatArray:
        """The floored $|b|$."""
        return _floor_sizes(self.bias)

    def plain(self, values: FloatArray) -> FloatArray:
        """Apply the map to floats, rounded."""
        return np.asarray(values @ self.weight + self.bias)

    def __call__(self, stream: Enclosed, *, n_linear: int = 0) -> Enclosed:
        """Apply the map, but only its linear part to the first `n_linear` rows.

        The radii follow from the lemma of this module.
        """
        kappa = rounding_factor(len(self.weight) + 2)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            values = stream.values @ self.weight
            sizes = kappa * _floor_sizes(stream.values, stream.radii) + RAISE * stream.radii
            radii = sizes @ self.weight_size
            values[n_linear:] += self.bias
            radii[n_linear:] += kappa * self.bias_size
        return mark_overflow(values, radii)


def add_enclosures(left: Enclosed, right: Enclosed) -> Enclosed:
    """Add two enclosed arrays, by the lemma for a sum of two terms."""
    kappa = 8 * UNIT_ROUNDOFF
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        values = left.values + right.values
        sizes = _floor_sizes(left.values, left.radii) + _floor_sizes(right.values, right.radii)
        radii = kappa * sizes + RAISE * (left.radii + right.radii)
    return mark_overflow(values, radii)


def scale_enclosure(factors: FloatArray, numbers: Enclosed) -> Enclosed:
    """Multiply enclosed numbers by floats; a factor 0 gives an exact 0."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        values = factors * numbers.values
        # This covers the rounding of the product twice; the allowance covers its underflow.
        size = 4 * UNIT_ROUNDOFF * np.abs(values) + np.abs(factors) * numbers.radii * RAISE
        radii = np.where(factors == 0.0, 0.0, size + UNDERFLOW_ALLOWANCE)
    return mark_overflow(values, radii)


def mark_overflow(values: FloatArray, radii: FloatArray) -> Enclosed:
    """Mark numbers that have overflowed as unknown, with an infinite radius."""
    # The sums of squares are nearly always finite, and then so is every entry.
    if isfinite(float(np.vdot(values, values)) + float(np.vdot(radii, radii))):
        return Enclosed(values, radii)
    lost = ~(np.isfinite(values) & np.isfinite(radii))
    return Enclosed(np.where(lost, 0.0, values), np.where(lost, np.inf, radii))


def _floor_sizes(values: FloatArray, radii: FloatArray | None = None) -> FloatArray:
    present = values != 0.0
    if radii is not None:
        present |= radii != 0.0
    sizes = np.abs(values)
    np.maximum(sizes, FLOOR, out=sizes, where=present)
    return np.asarray(sizes)
