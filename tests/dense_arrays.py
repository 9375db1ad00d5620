"""Arrays for property tests in which every entry is drawn.

The plain `arrays` strategy draws a few entries and fills the others with one value, which leaves
most rows of a small matrix equal.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.strategies import SMALL


def dense(shape, elements=SMALL, dtype=np.float64):
    """Draw an array of this shape, every entry on its own."""
    return arrays(dtype, shape, elements=elements, fill=st.nothing())


def dense_matrices(n_rows, n_columns, elements=SMALL):
    """Draw matrices; sizes are integers or strategies for integers."""
    rows = st.just(n_rows) if isinstance(n_rows, int) else n_rows
    columns = st.just(n_columns) if isinstance(n_columns, int) else n_columns
    return st.tuples(rows, columns).flatmap(lambda shape: dense(shape, elements))
