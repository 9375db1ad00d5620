"""Max-plus products of checked matrices: which loop runs, on how many threads.

Below is the compiled kernel `_kernels.maxplus.matmul_into`, above is `semiring`. Three sizes are
told apart, with times measured on two cores at 3.4 GHz with 512-bit vectors:

- up to `TINY` sums the numpy formula: microseconds, where importing the compiler takes 0.5 s;
- up to `SERIAL` sums one thread: it needs under a millisecond, a thread about 0.1 ms to start;
- beyond that every thread numba is allowed (`NUMBA_NUM_THREADS`) takes a share of the grid. The
  kernel gives up the interpreter lock and plain threads call it: numba's own thread pools can
  abort the process when it forks, or when two Python threads enter at once.

Every path makes one rounded addition per term and exact maxima, so all give the same entries.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.typing import FloatArray

TINY = 2**12
SERIAL = 2**23
WIDTH = 128
"""Columns in a panel: two rows of the result and four of the panel take 6 KiB of L1."""
DEPTH = 256
"""Rows of a panel kept at hand: 256 KiB of L2."""


def max_plus_product(
    left: FloatArray, right: FloatArray, names: tuple[str, ...] = ("left", "right")
) -> FloatArray:
    r"""Return $\max_k (a_{ik} + b_{kj})$, -inf where there is no $k$.

    Memory is the result and a padded copy of each factor.

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
        product = np.ascontiguousarray(_packed_product(right.T, left.T).T)
    else:
        product = _packed_product(left, right)
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


def _packed_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Cut the right factor into panels and let threads share the tiles of the result."""
    from hardmax._kernels.maxplus import matmul_into

    n_rows, inner = left.shape
    n_columns = right.shape[1]
    padded_inner = _round_up(inner, 4)
    width = min(WIDTH, _round_up(n_columns, 8))
    panels = np.full((-(-n_columns // width), padded_inner, width), -np.inf)
    for p, panel in enumerate(panels):
        columns = right[:, p * width : (p + 1) * width]
        panel[:inner, : columns.shape[1]] = columns
    if padded_inner > inner or not (left.flags.c_contiguous and left.flags.writeable):
        # The padding meets -inf in the panels. Read-only input would compile the kernel twice.
        padded = np.zeros((n_rows, padded_inner))
        padded[:, :inner] = left
        left = padded
    out = np.empty((n_rows, n_columns))

    n_tiles = len(panels) * ((n_rows + 1) // 2)
    n_threads = 1 if n_rows * inner * n_columns <= SERIAL else _threads()
    if n_threads == 1:
        matmul_into(left, panels, out, _tile_buffer(width), 0, n_tiles, DEPTH)
        return out
    # Four shares for each thread, so that one slowed by other work does not hold up all.
    cuts = [n_tiles * share // (4 * n_threads) for share in range(4 * n_threads + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        shares = [
            pool.submit(matmul_into, left, panels, out, _tile_buffer(width), first, last, DEPTH)
            for first, last in pairwise(cuts)
            if first < last
        ]
        for share in shares:
            share.result()
    return out


def _tile_buffer(width: int) -> FloatArray:
    """Two rows that start on a cache line; stores across two lines cost a fifth of all time."""
    numbers_per_line = 8
    buffer = np.empty(2 * width + numbers_per_line)
    skip = -(buffer.ctypes.data // buffer.itemsize) % numbers_per_line
    return buffer[skip : skip + 2 * width].reshape(2, width)


def _lost_terms(left: FloatArray, right: FloatArray, product: FloatArray) -> bool:
    """Whether some entry is -inf only because all its finite terms overflowed downwards."""
    if not (product == -np.inf).any():
        return False
    lowest = [float(factor.min(where=factor > -np.inf, initial=0.0)) for factor in (left, right)]
    if np.isfinite(lowest[0] + lowest[1]):
        return False
    has_terms = (left > -np.inf).astype(np.float64) @ (right > -np.inf).astype(np.float64) > 0
    return bool((has_terms & (product == -np.inf)).any())


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _threads() -> int:
    import numba

    return int(numba.config.NUMBA_NUM_THREADS)
