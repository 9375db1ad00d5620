import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from hardmax.tropical.matrices import products
from hardmax.tropical.matrices.semiring import maxplus, minplus


def _numpy_product(a, b):
    """Row by row: the definition once more, fast enough for the compiled sizes."""
    return np.array([(row[:, None] + b).max(axis=0, initial=-np.inf) for row in a])


SHAPES = [
    (16, 16, 16),  # The largest numpy product,
    (16, 17, 16),  # the smallest compiled one.
    (17, 17, 17),
    (1, 5000, 1),
    (1, 70, 70),
    (70, 70, 1),
    (2, 129, 40),
    (129, 3, 128),
    (31, 257, 130),
    (5, 1, 1000),
    (1000, 1, 5),
    (3, 260, 513),
    (4, 512, 12),  # Whole tiles,
    (5, 513, 13),  # and one row, one term and one column more.
    (127, 255, 259),  # The last serial product of its kind,
    (128, 256, 256),
    (128, 256, 257),  # and the first on several threads.
    (300, 300, 301),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("share_of_zeros", [0.0, 0.3, 0.999])
def test_compiled_products_match_the_definition_bit_for_bit(shape, share_of_zeros):
    n_rows, inner, n_columns = shape
    rng = np.random.default_rng(n_rows + inner + n_columns)
    a = rng.normal(size=(n_rows, inner)) * 10.0 ** rng.integers(-20, 20, (n_rows, inner))
    b = rng.normal(size=(inner, n_columns)) * 10.0 ** rng.integers(-20, 20, (inner, n_columns))
    a[rng.random(a.shape) < share_of_zeros] = -np.inf
    b[rng.random(b.shape) < share_of_zeros] = -np.inf
    a[-1] = -np.inf
    expected = _numpy_product(a, b)
    np.testing.assert_array_equal(maxplus.matmul(a, b), expected)
    np.testing.assert_array_equal(minplus.matmul(-a, -b), -expected)


def test_the_sizes_above_are_on_both_sides_of_every_threshold():
    sums = [n_rows * inner * n_columns for n_rows, inner, n_columns in SHAPES]
    for threshold in (products.TINY, products.SERIAL):
        assert threshold in sums
        assert any(threshold < total <= 1.1 * threshold for total in sums)


def test_products_do_not_depend_on_the_memory_layout_or_on_write_access():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 50)), rng.normal(size=(50, 60))
    expected = maxplus.matmul(a, b)
    frozen = a.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(maxplus.matmul(np.asfortranarray(a), b), expected)
    np.testing.assert_array_equal(maxplus.matmul(frozen, b.T.copy().T), expected)
    np.testing.assert_array_equal(maxplus.matmul(a[::-1], b)[::-1], expected)


def test_python_threads_may_multiply_at_the_same_time():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(260, 260)), rng.normal(size=(260, 260))
    expected, results = _numpy_product(a, b), {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: maxplus.matmul(a, b)}))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results.values():
        np.testing.assert_array_equal(result, expected)


# --- cost -----------------------------------------------------------------------------------------


def test_large_products_need_no_cubic_memory():
    n = 400
    a = np.random.default_rng(0).normal(size=(n, n))
    maxplus.matmul(a, a)
    tracemalloc.start()
    maxplus.matmul(a, a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * a.nbytes


def in_a_new_process(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_products_load_no_library_that_they_do_not_need():
    code = """
import sys
import numpy as np
from hardmax.tropical.matrices.semiring import maxplus
maxplus.matmul([[1, 2], [3, 4]], [[1], [maxplus.zero]])
maxplus.matmul(np.zeros((40, 40)), np.zeros((40, 40)))
print("scipy" in sys.modules)
"""
    assert in_a_new_process(code) == ["False"]
