"""Max-plus products of checked matrices: the choice of the loop and of the number of threads.

The inner loops are `max_plus_tiles` of the compiled core (`core/include/hardmax/products.hpp`). The
method depends on the number of sums:

- up to `TINY`: a numpy formula, which takes microseconds;
- up to `SERIAL`: one thread, which takes under a millisecond (starting a thread takes 0.1 ms);
- beyond: one thread per core, which share the tiles of the result. Each call of the core releases
  the interpreter lock and returns within milliseconds, so that interrupts are handled promptly.

All methods compute each term with one rounded addition and the maxima exactly, so their results are
identical.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax._ground.arguments import prepare_array
from hardmax.errors import ArgumentError
from hardmax.typing import FloatArray

TINY = 2**12
SERIAL = 2**23
_SHARE = 2**26
"""The approximate maximum number of sums per call of the core, which take about 10 ms."""


def max_plus_product(
    left: FloatArray, right: FloatArray, names: tuple[str, ...] = ("left", "right")
) -> FloatArray:
    r"""Return the matrix with entries $\max_k (a_{ik} + b_{kj})$, or -inf if `inner` is 0.

    Besides the result, memory is needed for a copy of each array that is not in row-major order.

    Args:
        left: The matrix $a$, shape `(n_rows, inner)`, without NaN and +inf.
        right: The matrix $b$, shape `(inner, n_columns)`, without NaN and +inf.
        names: The names of the factors in error messages.

    Raises:
        ArgumentError: If a finite entry of the product exceeds the range of float64.

    Examples:
        >>> max_plus_product(np.array([[0.0, 3.0]]), np.array([[5.0], [1.0]])).tolist()
        [[5.0]]
    """
    n_rows, inner = left.shape
    n_columns = right.shape[1]
    if n_rows * inner * n_columns <= TINY:
        with np.errstate(over="ignore"):
            terms = left[:, :, None] + right[None, :, :]
        product = np.asarray(terms.max(axis=1, initial=-np.inf))
    elif n_columns < n_rows:
        # The vectorised loop runs along columns, which should be the longer side.
        product = np.ascontiguousarray(_multiply_in_core(right.T, left.T).T)
    else:
        product = _multiply_in_core(left, right)
    if (product == np.inf).any() or _has_lost_terms(left, right, product):
        raise overflow_error(names)
    return product


def overflow_error(names: tuple[str, ...]) -> ArgumentError:
    """Return the error for a finite tropical product that exceeds the range of float64."""
    spelled = " and ".join(f"`{name}`" for name in names)
    return ArgumentError(
        f"a finite tropical product of {spelled} exceeds the range of float64 (about 1.8e308). "
        "Rescale the input."
    )


def _multiply_in_core(left: FloatArray, right: FloatArray) -> FloatArray:
    """Compute the product in the core, with threads that share the tiles of the result."""
    n_rows, inner = left.shape
    n_columns = right.shape[1]
    left = prepare_array(left)
    out = np.empty((n_rows, n_columns))
    steps = [step // right.itemsize for step in right.strides]

    def fill(first: int, last: int) -> None:
        places = address(left), address(right), address(out)
        core().hm_max_plus_tiles(*places, n_rows, inner, n_columns, *steps, first, last)

    n_sums = n_rows * inner * n_columns
    n_tiles = core().hm_max_plus_n_tiles(n_rows, n_columns)
    n_threads = 1 if n_sums <= SERIAL else _count_threads()
    # Four shares per thread, so that a thread slowed down by other work does not delay the rest.
    n_shares = min(n_tiles, max(4 * n_threads if n_threads > 1 else 1, -(-n_sums // _SHARE)))
    cuts = [n_tiles * share // n_shares for share in range(n_shares + 1)]
    if n_threads == 1:
        for first, last in pairwise(cuts):
            fill(first, last)
        return out
    with ThreadPoolExecutor(n_threads) as pool:
        shares = [pool.submit(fill, first, last) for first, last in pairwise(cuts)]
        try:
            for share in shares:
                share.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return out


def _has_lost_terms(left: FloatArray, right: FloatArray, product: FloatArray) -> bool:
    """Tell whether an entry is -inf only because all its finite terms overflowed to -inf."""
    if not (product == -np.inf).any():
        return False
    lowest = [float(factor.min(where=factor > -np.inf, initial=0.0)) for factor in (left, right)]
    if np.isfinite(lowest[0] + lowest[1]):
        return False
    has_terms = (left > -np.inf).astype(np.float64) @ (right > -np.inf).astype(np.float64) > 0
    return bool((has_terms & (product == -np.inf)).any())


def _count_threads() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
