r"""Batches of vectors in several times the precision of float64, as sums of limbs.

Limbs are short floats, so that BLAS multiplies them exactly. An array $v$ is stored as $K$ float64
arrays, its limbs: $v \approx \sum_k v_k$ with $v_k \in G_k \mathbb{Z}$ and
$|v_k| \le K 2^{E - \beta k}$ for the grids $G_k = 2^{E - \beta (k+1)}$. The exponent $E$ is common
to the whole batch. Each entry has a radius $r$ with $|v - \sum_k v_k| \le r$. Radii are zero as
long as nothing has been cut off, so exact ties of short numbers are recognized.

**Lemma (products).** Let $W$ have the limbs $W_j \in 2^{F - \beta (j+1)} \mathbb{Z}$, $|W_j| \le
2^{F - \beta j}$, and $N$ rows. If $(K^2 N + 1) 2^{2\beta} \le 2^{53}$, then float64 computes every
$P_k = \sum_{i+j=k} v_i W_j + b_k$, $k < K$, without rounding, in any order. The omitted part of
$v W + b$ is at most $4 N K^2 2^{E + F - \beta K}$.

*Proof.* $P_k$ has at most $K N$ products. Each is a multiple of $2^{E + F - \beta(k+2)}$ and at
most $K 2^{2\beta}$ times this number. The limbs of $b$ on these grids are at most $2^{2\beta}$
times this number. Hence Lemma 3 of `rounding` applies. The omitted part consists of three parts.
The pairs with $i + j = s \ge K$, at most $K$ for each $s$ and each at most $N K 2^{E + F - \beta
s}$, are together below $2 N K^2 2^{E + F - \beta K}$. The rest of $W$ is below $2^{F - \beta K}$
and is multiplied by entries of size at most $2 K 2^E$. The rest of $b$ is below one unit of the
last grid. $\square$

**Lemma (sums).** Let $K \le 32$. The float64 sum of the limbs from the first to the last, of one
array or of the difference of two arrays on the same grids, differs from the true sum by at most a
relative $2^{-44}$.

*Proof.* If no addition rounds, there is nothing to prove. The first addition that rounds has a
result above $2^{53} G_k$, and all later limbs together are at most $4 K G_k$. Hence they change the
result by less than a relative $2^{-45}$, and each of at most $K$ roundings changes it by a relative
$2^{-53}$. $\square$

The idea of splitting matrices so that products are exact is due to [OORO12].
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax.exact.rounding import RAISE, TINY
from hardmax.typing import BoolArray, FloatArray

_LARGEST_EXPONENT = 480


class LimbFormat(NamedTuple):
    r"""The number and the width of limbs.

    Attributes:
        n_limbs: The number of limbs $K$.
        bits: The width $\beta$ of a limb in bits.
    """

    n_limbs: int
    bits: int

    @classmethod
    def for_width(cls, n_limbs: int, width: int) -> "LimbFormat":
        """Return the widest limbs whose products with matrices of `width` rows are exact.

        Examples:
            >>> LimbFormat.for_width(4, 64)
            LimbFormat(n_limbs=4, bits=21)
        """
        return cls(n_limbs, (53 - (n_limbs**2 * width).bit_length()) // 2)

    def clamp_exponent(self, exponent: int) -> int:
        """Return an exponent of at least `exponent` for which the grids of products are normal."""
        return max(exponent, self.bits * (self.n_limbs + 1) - _LARGEST_EXPONENT)


class Limbs(NamedTuple):
    """A batch of vectors as limbs.

    Attributes:
        parts: The limbs, shape `(n_limbs, n_points, width)`.
        exponent: The exponent $E$.
        radii: The radii, shape `(n_points, width)`. If a radius is infinite, the limbs of this
            entry are meaningless.
    """

    parts: FloatArray
    exponent: int
    radii: FloatArray

    def columns(self, chosen: object) -> "Limbs":
        """Return the chosen columns."""
        return Limbs(self.parts[:, :, chosen], self.exponent, self.radii[:, chosen])  # type: ignore[index]


class Term(NamedTuple):
    """One term of a sum of float64 arrays, with entries on a common grid.

    Attributes:
        values: The array, shape `(n_points, width)`, which is overwritten.
        grid: The exponent of the grid, or a very small number if the grid is not known.
    """

    values: FloatArray
    grid: int = -1100


@np.errstate(under="ignore")
def split_into_limbs(form: LimbFormat, terms: list[Term], radii: FloatArray) -> Limbs:
    """Split a sum of float64 arrays into limbs, and add the rest to the radii.

    There may be at most `2 * n_limbs` terms. They are overwritten.

    Examples:
        >>> form = LimbFormat(2, 20)
        >>> limbs = split_into_limbs(form, [Term(np.array([[1.0 + 2.0**-30]]))], np.zeros((1, 1)))
        >>> limbs.parts.ravel().tolist() == [1.0, 2.0**-30], limbs.radii.tolist()
        (True, [[0.0]])
    """
    sizes = [float(np.abs(term.values).max(initial=0.0)) for term in terms]
    total = math.fsum(sizes) * RAISE
    shape = form.n_limbs, *radii.shape
    if not total < 2.0**_LARGEST_EXPONENT:
        return Limbs(np.zeros(shape), form.clamp_exponent(0), np.full(radii.shape, np.inf))
    exponent = form.clamp_exponent(_exponent(total))
    parts = np.zeros(shape)
    rounded = np.empty(radii.shape)
    for k in range(form.n_limbs):
        grid = exponent - form.bits * (k + 1)
        step = 2.0**grid
        # Adding and subtracting this number rounds to the grid.
        shift = 1.5 * 2.0**52 * step
        for i, (values, own_grid) in enumerate(terms):
            if sizes[i] < step / 2:
                continue
            if own_grid >= grid:
                parts[k] += values
                sizes[i] = 0.0
                continue
            np.add(values, shift, out=rounded)
            rounded -= shift
            parts[k] += rounded
            np.subtract(values, rounded, out=values)
            sizes[i] = step / 2
    for (values, _), size in zip(terms, sizes, strict=True):
        if size:
            radii = radii + np.abs(values) * RAISE
    return Limbs(parts, exponent, radii)


def round_sums(parts: FloatArray) -> FloatArray:
    """Add up limbs in floats, with the error of the lemma on sums."""
    total: FloatArray = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


class _WeightLimbs(NamedTuple):
    """The limbs of a matrix side by side, and whether their sum is the whole matrix."""

    side_by_side: FloatArray
    n_limbs: int
    is_whole: bool


@dataclass(frozen=True, eq=False)
class LimbMap:
    r"""The map $z \mapsto z W + b$ on limbs.

    Attributes:
        form: The number and the width of limbs.
        weight: The finite matrix $W$, shape `(n_in, n_out)`.
        bias: The finite vector $b$, shape `(n_out,)`.
    """

    form: LimbFormat
    weight: FloatArray
    bias: FloatArray

    @cached_property
    def _sizes(self) -> FloatArray:
        return np.abs(self.weight)

    @cached_property
    def _exponents(self) -> tuple[int, int]:
        bias_size = np.abs(self.bias).max(initial=0.0)
        return _exponent(self._sizes.max(initial=0.0)), _exponent(bias_size)

    @cached_property
    def _weight_limbs(self) -> dict[int, _WeightLimbs]:
        return {}

    def _weights(self, exponent: int) -> _WeightLimbs:
        if exponent not in self._weight_limbs:
            parts, rest = _split(self.weight, exponent, self.form.bits, self.form.n_limbs)
            while len(parts) > 1 and not parts[-1].any():
                parts.pop()
            whole = not rest.any()
            self._weight_limbs[exponent] = _WeightLimbs(np.hstack(parts), len(parts), whole)
        return self._weight_limbs[exponent]

    def __call__(self, stream: Limbs) -> Limbs:
        """Apply the map, with the error of the lemma on products."""
        n_limbs, bits = self.form
        weight_exponent, bias_exponent = self._exponents
        # The exponent must be large enough for the bias to fit on the grids of the products.
        exponent = self.form.clamp_exponent(max(weight_exponent, bias_exponent - stream.exponent))
        if exponent > _LARGEST_EXPONENT:
            shape = *stream.parts.shape[:2], len(self.bias)
            return Limbs(np.zeros(shape), self.form.clamp_exponent(0), np.full(shape[1:], np.inf))
        weights = self._weights(exponent)
        n_points, n_out = stream.parts.shape[1], len(self.bias)
        first_grid = stream.exponent + exponent - 2 * bits
        added, rest = _split(self.bias, first_grid + bits, bits, n_limbs)
        products = np.empty((n_points, n_limbs, n_out))
        products[:] = np.array(added)
        for i, part in enumerate(stream.parts):
            n = min(weights.n_limbs, n_limbs - i)
            product = part @ weights.side_by_side[:, : n * n_out]
            products[:, i : i + n] += product.reshape(n_points, n, n_out)
        is_cut = _has_limbs_from(stream.parts, n_limbs - weights.n_limbs + 1)
        if not weights.is_whole or rest.any():
            is_cut[:] = True
        left_out = 4.0 * max(len(self.weight), 1) * n_limbs**2
        left_out *= 2.0 ** (stream.exponent + exponent - bits * n_limbs)
        radii = np.where(is_cut, left_out, 0.0)[:, np.newaxis] + np.zeros(n_out)
        unsure = stream.radii.any(axis=1)
        if unsure.any():
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                radii += (stream.radii @ self._sizes) * RAISE + np.where(unsure, TINY, 0.0)[:, None]
            # The product of an infinite radius and a weight of 0 is NaN.
            radii[np.isnan(radii)] = np.inf
        terms = [Term(products[:, k], first_grid - bits * k) for k in range(n_limbs)]
        return split_into_limbs(self.form, terms, radii)


def _split(
    array: FloatArray, exponent: int, bits: int, n_limbs: int
) -> tuple[list[FloatArray], FloatArray]:
    r"""Split a finite array into limbs on the grids $2^{exponent - bits (k+1)}$ and a rest."""
    rest = np.array(array)
    parts = []
    for k in range(n_limbs):
        shift = 1.5 * 2.0**52 * 2.0 ** (exponent - bits * (k + 1))
        parts.append((rest + shift) - shift)
        rest -= parts[-1]
    return parts, rest


def _exponent(size: float) -> int:
    r"""Return the smallest $e$ with `size` below $2^e$; 0 if `size` is 0."""
    return math.frexp(size)[1]


def _has_limbs_from(parts: FloatArray, first: int) -> BoolArray:
    """Return which points have a nonzero limb with index `first` or larger."""
    if first >= len(parts):
        return np.zeros(parts.shape[1], dtype=np.bool_)
    return np.asarray(parts[max(first, 0) :].any(axis=(0, 2)))
