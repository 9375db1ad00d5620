r"""Exact signs in compiled code: sums of non-overlapping floats. No checks: see callers.

An *expansion* is a list of float64 numbers $e_1, \dots, e_n$, of increasing magnitude and
non-overlapping (the bits of one lie wholly below the bits of the next), that stands for their exact
sum. Its sign is the sign of its last entry. Two facts carry everything:

- `two_sum(a, b)` returns $s = \mathrm{fl}(a + b)$ and the rounding error $t$, with $s + t = a + b$
  exactly, whenever $s$ does not overflow (Knuth); underflow does no harm, because every sum of two
  float64 is a multiple of $2^{-1074}$.
- `two_product(a, b)` returns $p = \mathrm{fl}(ab)$ and $t$ with $p + t = ab$ exactly (Dekker,
  Veltkamp) if $|a|, |b| < 2^{995}$, $|ab| < 2^{1022}$, and $a \in 2^p \mathbb{Z}$, $b \in 2^q
  \mathbb{Z}$ with $p + q \ge -1074$: the halves of $a$ and $b$ and all partial products are then
  multiples of $2^{p+q}$, hence none underflows.

Adding a number to an expansion (`grow`) keeps it increasing and non-overlapping; leaving out zeros
does not spoil that. So everything below is exact as long as the stated ranges hold, and each kernel
answers `UNDECIDED` where they do not.

References:
    [Shewchuk97], theorems 7, 10, 18 and 23.
"""

import math

import numba

from hardmax.typing import FloatArray, IntArray, SignArray

UNDECIDED = 2
"""What stands in place of a sign that the compiled stage could not take."""

WIDEST_SPREAD = 900
"""How far the exponents of two terms of one sum may lie apart (see `difference_sign`)."""

_SPLITTER = 2.0**27 + 1.0


@numba.njit(cache=True)
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the rounded sum and its rounding error."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


@numba.njit(cache=True)
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return the rounded product and its rounding error."""
    product = a * b
    c = _SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


@numba.njit(cache=True)
def grow(expansion: FloatArray, length: int, number: float) -> int:
    """Add a number to an expansion in place, leaving out zeros; return the new length."""
    carry = number
    kept = 0
    for i in range(length):
        carry, rest = two_sum(carry, expansion[i])
        if rest != 0.0:
            expansion[kept] = rest
            kept += 1
    if carry != 0.0:
        expansion[kept] = carry
        kept += 1
    return kept


@numba.njit(cache=True)
def compress(expansion: FloatArray, length: int) -> int:
    """Rewrite an expansion in place with few entries of many bits; return the new length."""
    if length == 0:
        return 0
    carry = expansion[length - 1]
    bottom = length - 1
    for i in range(length - 2, -1, -1):
        carry, rest = two_sum(carry, expansion[i])
        if rest != 0.0:
            expansion[bottom] = carry
            bottom -= 1
            carry = rest
    expansion[bottom] = carry
    kept = 0
    for i in range(bottom + 1, length):
        carry, rest = two_sum(expansion[i], carry)
        if rest != 0.0:
            expansion[kept] = rest
            kept += 1
    expansion[kept] = carry
    return kept + 1


@numba.njit(cache=True)
def difference_sign(
    slopes: FloatArray,
    offsets: FloatArray,
    plus: int,
    minus: int,
    points: FloatArray,
    point: int,
    expansion: FloatArray,
) -> int:
    r"""Return the exact sign of form `plus` less form `minus` at a point, or `UNDECIDED`.

    The sum is $\sum_k a_k x_k - \sum_k b_k x_k + c - c'$, with no difference rounded first. Every
    factor is split into $m \cdot 2^e$ with $1/2 \le |m| < 1$, and every term is taken relative to
    the largest exponent $E$ of a term. A term of exponent $E - s$ is then a multiple of
    $2^{-106-s}$ and below 1; with $s \le 900$ all numbers are normal, and `two_product` and
    `two_sum` are exact, whatever the scale of the data.

    Args:
        slopes: `(n_forms, dim)`.
        offsets: `(n_forms,)`.
        plus: A row.
        minus: A row, or -1 for the zero form.
        points: `(n_points, dim)`.
        point: A row.
        expansion: Buffer of `4 * dim + 4` entries, overwritten.
    """
    dim = slopes.shape[1]
    top = -(2**30)
    bottom = 2**30
    for k in range(-1, dim):
        a = offsets[plus] if k < 0 else slopes[plus, k]
        b = 0.0 if minus < 0 else (offsets[minus] if k < 0 else slopes[minus, k])
        x = 1.0 if k < 0 else points[point, k]
        if a == b or x == 0.0:
            continue
        exponent = math.frexp(x)[1]
        if a != 0.0:
            e = exponent + math.frexp(a)[1]
            top = max(top, e)
            bottom = min(bottom, e)
        if b != 0.0:
            e = exponent + math.frexp(b)[1]
            top = max(top, e)
            bottom = min(bottom, e)
    if top - bottom > WIDEST_SPREAD:
        return UNDECIDED
    length = 0
    for k in range(-1, dim):
        a = offsets[plus] if k < 0 else slopes[plus, k]
        b = 0.0 if minus < 0 else (offsets[minus] if k < 0 else slopes[minus, k])
        x = 1.0 if k < 0 else points[point, k]
        # Equal coefficients cancel exactly, and would only widen the spread.
        if a == b or x == 0.0:
            continue
        x, exponent = math.frexp(x)
        if a != 0.0:
            a, e = math.frexp(a)
            length = _add_scaled_product(expansion, length, a, x, exponent + e - top)
        if b != 0.0:
            b, e = math.frexp(b)
            length = _add_scaled_product(expansion, length, -b, x, exponent + e - top)
    return int(_sign(expansion, length))


@numba.njit(cache=True)
def difference_signs_into(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    point: IntArray,
    plus: IntArray,
    minus: IntArray,
    expansion: FloatArray,
    sign: SignArray,
) -> None:
    """Write `difference_sign` for each triple of `point`, `plus` and `minus`."""
    for q in range(point.shape[0]):
        sign[q] = difference_sign(slopes, offsets, plus[q], minus[q], points, point[q], expansion)


@numba.njit(cache=True)
def determinant_signs_into(
    matrices: FloatArray,
    minors: FloatArray,
    lengths: IntArray,
    expansion: FloatArray,
    sign: SignArray,
) -> None:
    r"""Write the exact sign of each determinant, or `UNDECIDED`.

    Laplace expansion over sets of columns: the minor of the first $r$ rows and the columns $S$,
    $|S| = r$, is $D(S) = \sum_{j \in S} \pm a_{rj} D(S \setminus j)$, and $D(\emptyset) = 1$. That
    is $k 2^{k-1}$ products of an expansion with a number.

    Let row $i$ lie in $2^{-q_i} \mathbb{Z}$ with entries of at most 1. A minor of $r$ rows, every
    entry of its expansion and every partial product is a multiple of $2^{-(q_1 + \dots + q_r)}$,
    and at most $k!$ in magnitude. The caller sees to it that $\sum_i q_i \le 1000$ and $k \le 12$;
    then nothing overflows or underflows and the arithmetic is exact. `UNDECIDED` is written only
    if a minor needs more entries than its buffer has.

    Args:
        matrices: `(n, k, k)`, scaled as above.
        minors: Buffer `(2**k, capacity)`.
        lengths: Buffer `(2**k,)`.
        expansion: Buffer of at least 1100 entries: a non-overlapping expansion on that grid has at
            most one entry for each bit.
        sign: `(n,)`, overwritten.
    """
    n, k = matrices.shape[:2]
    capacity = minors.shape[1]
    minors[0, 0] = 1.0
    lengths[0] = 1
    for matrix in range(n):
        fits = True
        for columns in range(1, 1 << k):
            row = -1
            for j in range(k):
                row += (columns >> j) & 1
            length = 0
            # Expanding along the last row, the sign of the last column is +1.
            alternating = 1.0 if row % 2 == 0 else -1.0
            for j in range(k):
                if (columns >> j) & 1 == 0:
                    continue
                a = alternating * matrices[matrix, row, j]
                alternating = -alternating
                if a == 0.0:
                    continue
                smaller = columns ^ (1 << j)
                for i in range(lengths[smaller]):
                    product, error = two_product(a, minors[smaller, i])
                    if error != 0.0:
                        length = grow(expansion, length, error)
                    length = grow(expansion, length, product)
            length = compress(expansion, length)
            if length > capacity:
                fits = False
                break
            lengths[columns] = length
            for i in range(length):
                minors[columns, i] = expansion[i]
        sign[matrix] = _sign(expansion, length) if fits else UNDECIDED


@numba.njit(cache=True)
def _add_scaled_product(
    expansion: FloatArray, length: int, a: float, x: float, exponent: int
) -> int:
    """Add `a * x * 2**exponent`, exactly, to an expansion in place; return its length."""
    product, error = two_product(a, x)
    if error != 0.0:
        length = grow(expansion, length, math.ldexp(error, exponent))
    return int(grow(expansion, length, math.ldexp(product, exponent)))


@numba.njit(cache=True)
def _sign(expansion: FloatArray, length: int) -> int:
    if length == 0:
        return 0
    return 1 if expansion[length - 1] > 0.0 else -1
