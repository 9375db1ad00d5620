"""Max-plus products of checked matrices: which loop runs, on how many threads.

Below is `max_plus_tiles` of the compiled core (`core/include/hardmax/products.hpp`), above is
`semiring`. Three sizes are told apart:

- up to `TINY` sums the numpy formula, which takes microseconds;
- up to `SERIAL` sums one thread: it needs under a millisecond, a thread about 0.1 ms to start;
- beyond that every core takes shares of the tiles. A call gives up the interpreter lock, and is
  over in milliseconds, so that an interrupt is not kept waiting.

Every path makes one rounded addition per term and exact maxima, so all give the same entries.
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
"""How many sums one call makes at most, roughly: some 10 ms."""


def max_plus_product(
    left: FloatArray, right: FloatArray, names: tuple[str, ...] = ("left", "right")
) -> FloatArray:
    r"""Return $\max_k (a_{ik} + b_{kj})$, -inf where there is no $k$.

    Memory is the result, and a copy of a factor or the result that is not in order of its rows.

    Args:
        left: The $a$, shape `(n_rows, inner)`, without NaN and +inf.
        right: The $b$, shape `(inner, n_columns)`, likewise.
        names: What to call the factors in an error.

    Raises:
        ArgumentError: If a finite entry of the product is beyond float64.

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
        # The vectorised loop runs along columns: let them be the longer side.
        product = np.ascontiguousarray(_compiled_product(right.T, left.T).T)
    else:
        product = _compiled_product(left, right)
    if (product == np.inf).any() or _lost_terms(left, right, product):
        raise overflow(names)
    return product


def overflow(names: tuple[str, ...]) -> ArgumentError:
    """Say that a finite tropical product of the named arguments is beyond float64."""
    spelled = " and ".join(f"`{name}`" for name in names)
    return ArgumentError(
        f"{spelled} must have products within the range of float64 (about 1.8e308); "
        "a finite product overflows. Rescale the input."
    )


def _compiled_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Let threads share the tiles of the result."""
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
    n_threads = 1 if n_sums <= SERIAL else _threads()
    # Four shares for each thread, so that one slowed by other work does not hold up all.
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


def _lost_terms(left: FloatArray, right: FloatArray, product: FloatArray) -> bool:
    """Whether some entry is -inf only because all its finite terms overflowed downwards."""
    if not (product == -np.inf).any():
        return False
    lowest = [float(factor.min(where=factor > -np.inf, initial=0.0)) for factor in (left, right)]
    if np.isfinite(lowest[0] + lowest[1]):
        return False
    has_terms = (left > -np.inf).astype(np.float64) @ (right > -np.inf).astype(np.float64) > 0
    return bool((has_terms & (product == -np.inf)).any())


def _threads() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
