r"""Deformed addition: the soft maximum at temperature $\tau$, with max-plus as its limit.

With the addition

$$a \oplus_\tau b = \tau \log\bigl(e^{a/\tau} + e^{b/\tau}\bigr), \qquad \tau > 0,$$

and the multiplication $\otimes = +$, $\mathbb{R} \cup \{-\infty\}$ is a semiring that is isomorphic
to the nonnegative reals. As $\tau \to 0$, the sum decreases to $\max(a, b)$ (Maslov's
dequantisation); $\tau = 0$ denotes this limit.
"""

import numpy as np

from hardmax._ground.arguments import floats_any_shape, integer
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.tropical.matrices.products import overflow_error
from hardmax.tropical.matrices.semiring import matrix_factors, maxplus
from hardmax.typing import ArrayLike, FloatArray

_MOST_TERMS = 2**20
"""The maximum number of terms of a matrix product held in memory at once."""

_LAST_RATIO = 4096.0
r"""$e^{-r}$ times the largest float64 is zero from $r \approx 1455$ on."""
_SPLITTER = 2.0**27 + 1.0


def deformed_add(a: ArrayLike, b: ArrayLike, tau: ArrayLike) -> FloatArray:
    r"""Return $a \oplus_\tau b = \tau \log(e^{a/\tau} + e^{b/\tau})$, with broadcasting.

    See `deformed_sum` for the accuracy.

    Args:
        a: The array $a$. Entries may be -inf.
        b: The array $b$. Entries may be -inf.
        tau: The temperature $\tau \ge 0$. At 0, the result is exactly $\max(a, b)$.

    Raises:
        ArgumentError: If a temperature is negative, or a result exceeds the range of float64.
        NonFiniteError: If an entry is NaN or +inf.
        ShapeMismatchError: If the shapes do not broadcast.

    Examples:
        >>> bool(deformed_add(0.0, 0.0, 1.0) == np.log(2))
        True
        >>> deformed_add([1e300, -np.inf], [-1e300, 2.0], [[0.0], [1e-300]]).tolist()
        [[1e+300, 2.0], [1e+300, 2.0]]
    """
    left = floats_any_shape("a", a, infinity="negative")
    right = floats_any_shape("b", b, infinity="negative")
    temperature = _read_tau(tau)
    try:
        shape = np.broadcast_shapes(left.shape, right.shape, temperature.shape)
    except ValueError:
        raise ShapeMismatchError(
            "`a`, `b` and `tau` must broadcast together; "
            f"got shapes {left.shape}, {right.shape} and {temperature.shape}."
        ) from None
    terms = np.stack([np.broadcast_to(left, shape), np.broadcast_to(right, shape)], axis=-1)
    return _soft_maximum(terms, temperature)


def deformed_sum(array: ArrayLike, tau: ArrayLike, axis: int | None = None) -> FloatArray:
    r"""Return $\tau \log \sum_i e^{x_i/\tau}$, the deformed sum of all entries or along an axis.

    With $m = \max_i x_i$, the sum is computed as $m + \tau \log(1 + \sum' e^{-(m - x_i)/\tau})$,
    without overflow of intermediate results at any scale of $x$ and $\tau$, including subnormal
    numbers. The second term is accurate to a few units in its last place. Hence the error of the
    result is a few units in the last place of the larger of $|m|$ and that term. Mathematically,
    for $n$ entries,

    $$0 \le \bigoplus_\tau x_i - \max_i x_i \le \tau \log n,$$

    with equality on the right exactly if all entries are equal, and the sum increases with $\tau$.

    Args:
        array: The array $x$. Entries may be -inf; the empty sum is -inf.
        tau: The temperature $\tau \ge 0$, which is broadcast against the result. At 0, the result
            is exactly the maximum.
        axis: The axis to sum along. By default, all entries are summed.

    Raises:
        ArgumentError: If a temperature is negative, or a result exceeds the range of float64.
        NonFiniteError: If an entry is NaN or +inf.
        ShapeMismatchError: If `tau` does not broadcast against the result.

    References:
        [LM05]. The sum is the log-sum-exp function.

    Examples:
        >>> deformed_sum([[0.0, 0.0], [5.0, -np.inf]], tau=2.0, axis=1).tolist()
        [1.3862943611198906, 5.0]
        >>> float(deformed_sum([], tau=1.0))
        -inf
    """
    entries = floats_any_shape("array", array, infinity="negative")
    temperature = _read_tau(tau)
    if axis is None:
        terms = entries.reshape(-1)
    else:
        axis = integer("axis", axis, at_least=-entries.ndim, at_most=entries.ndim - 1)
        terms = np.moveaxis(entries, axis, -1)
    try:
        shape = np.broadcast_shapes(terms.shape[:-1], temperature.shape)
    except ValueError:
        raise ShapeMismatchError(
            f"`tau` must broadcast against the sum of shape {terms.shape[:-1]}; "
            f"got shape {temperature.shape}."
        ) from None
    return _soft_maximum(np.broadcast_to(terms, (*shape, terms.shape[-1])), temperature)


def deformed_matmul(a: ArrayLike, b: ArrayLike, tau: ArrayLike) -> FloatArray:
    r"""Return the deformed matrix product, with sums $\oplus_\tau$ and products $\otimes_\tau = +$.

    $$(a \otimes_\tau b)_{ij} = \bigoplus_{k,\,\tau} (a_{ik} + b_{kj})
      = \tau \log \sum_k e^{(a_{ik} + b_{kj})/\tau}$$

    It is $\tau$ times the logarithm of an ordinary product of nonnegative matrices. As $\tau \to
    0$, it decreases to the max-plus product; the difference is at most $\tau \log n$ for
    `n = inner`. Each term is rounded once, which changes a sum by at most the largest of these
    rounding errors; the sums are as accurate as in `deformed_sum`. The cost is
    `n_rows * inner * n_columns`, in blocks of bounded memory.

    Args:
        a: The left factor, shape `(n_rows, inner)`, or `(inner,)` for a row vector. Entries may be
            -inf.
        b: The right factor, shape `(inner, n_columns)`, or `(inner,)` for a column vector. Entries
            may be -inf.
        tau: The temperature $\tau \ge 0$, which is broadcast against the result. At 0, the result
            is exactly `maxplus.matmul(a, b)`.

    Returns:
        The product, shape `(n_rows, n_columns)`, without the axis of a factor that is a vector. If
        `inner` is 0, all entries are -inf.

    Raises:
        ShapeMismatchError: If the shapes do not match.
        ArgumentError: If a temperature is negative, or a finite term or result exceeds the range of
            float64.
        NonFiniteError: If an entry is NaN or +inf.

    References:
        Definition III.9 of [SL26]; [LM05].

    Examples:
        >>> a, b = [[0.0, 0.0], [-np.inf, 1.0]], [[0.0], [0.0]]
        >>> deformed_matmul(a, b, tau=1.0).tolist() == [[np.log(2)], [1.0]]
        True
        >>> deformed_matmul(a, b, tau=0.0).tolist()
        [[0.0], [1.0]]
    """
    left, right, shape = matrix_factors(maxplus, a, b)
    temperature = _read_tau(tau)
    if not temperature.any():
        hard = maxplus.matmul(a, b)
        _broadcast_tau(temperature, shape)
        return np.asarray(hard)[()]
    tau_of = np.broadcast_to(_broadcast_tau(temperature, shape), shape)
    tau_of = tau_of.reshape(left.shape[0], right.shape[1])
    product = np.empty(tau_of.shape)
    step = max(1, _MOST_TERMS // max(right.size, 1))
    columns = right.T
    for start in range(0, len(left), step):
        rows = left[start : start + step, None, :]
        with np.errstate(over="ignore"):
            terms = rows + columns
        if (np.isinf(terms) & np.isfinite(rows) & np.isfinite(columns)).any():
            raise overflow_error(("a", "b"))
        product[start : start + step] = _soft_maximum(terms, tau_of[start : start + step])
    return product.reshape(shape)[()]


def _broadcast_tau(tau: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast the temperatures to the shape of a product, or raise an error."""
    try:
        return np.broadcast_to(tau, shape)
    except ValueError:
        raise ShapeMismatchError(
            f"`tau` must broadcast against the product of shape {shape}; got shape {tau.shape}."
        ) from None


def _read_tau(tau: ArrayLike) -> FloatArray:
    temperature = floats_any_shape("tau", tau)
    if (temperature < 0).any():
        raise ArgumentError(
            f"`tau` must be at least 0; got {float(temperature[temperature < 0][0])}."
        )
    return temperature


def _soft_maximum(terms: FloatArray, tau: FloatArray) -> FloatArray:
    """Sum along the last axis; `tau` broadcasts against the rest."""
    shape = terms.shape[:-1]
    if terms.size == 0:
        return np.full(shape, -np.inf)[()]
    tau = np.broadcast_to(tau, shape)
    winner = np.argmax(terms, axis=-1)[..., None]
    top = np.take_along_axis(terms, winner, axis=-1)
    with np.errstate(all="ignore"):
        ratio, remainder = _gaps_over_tau(top, terms, tau[..., None])
        # The largest term is the 1 in log(1 + ...).
        np.put_along_axis(ratio, winner, np.inf, axis=-1)
        np.put_along_axis(remainder, winner, 0.0, axis=-1)
        # exp(-ratio) could be subnormal or zero although a huge tau makes the term significant.
        shift = np.min(ratio, axis=-1, keepdims=True)
        shift = np.where((shift > 600.0) & (shift < _LAST_RATIO), shift, 0.0)
        total = np.sum(np.exp(shift - ratio) * (1.0 - remainder), axis=-1)
        half = np.exp(-0.5 * shift[..., 0])
        # Beyond a shift of 600, the logarithm of 1 + y equals y to far more digits than float64.
        growth = np.where(shift[..., 0] > 0.0, (tau * half) * total * half, tau * np.log1p(total))
        result = top[..., 0] + growth
    if (result == np.inf).any():
        raise ArgumentError(
            "a finite deformed sum exceeds the range of float64 (about 1.8e308). Rescale `tau` and "
            "the terms."
        )
    return result[()]  # type: ignore[no-any-return]


def _gaps_over_tau(
    top: FloatArray, terms: FloatArray, tau: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return $(m - x)/\tau$ as a float and a small remainder.

    Without the remainder, an error of $u r$ in $r = (m - x)/\tau$ would cause a relative error of
    $u r$ in $e^{-r}$, up to a thousand units in the last place. With it, the error is a few units.

    All scaling is by powers of two. For $\tau \ge 1$, the entries are divided by the power of two
    of $\tau$ before the subtraction, which prevents overflow. If this underflows, the lost bits
    change $r$ by less than $10^{-300}$.
    """
    mantissa, exponent = np.frexp(tau)
    before = np.maximum(exponent, 0)
    high, low = np.ldexp(top, -before), np.ldexp(terms, -before)
    gap = high - low
    part = gap - high
    gap_error = (high - (gap - part)) - (low + part)  # Knuth's two-sum.
    gap, gap_error = np.ldexp(gap, before - exponent), np.ldexp(gap_error, before - exponent)
    ratio = gap / mantissa
    # NaN arises from -inf minus -inf, a term that is as absent as one infinitely far below, and
    # from a tie at temperature 0, where the sum of the other terms is multiplied by 0.
    near = ratio < _LAST_RATIO
    ratio = np.where(near, ratio, np.inf)
    product, product_error = _exact_product(ratio, mantissa)
    remainder = ((gap - product) - product_error + gap_error) / mantissa
    return ratio, np.where(near, remainder, 0.0)


def _exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded product and its error (Dekker). The sizes used here do not overflow."""
    product = a * b
    a_high, b_high = _SPLITTER * a, _SPLITTER * b
    a_high, b_high = a_high - (a_high - a), b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error
