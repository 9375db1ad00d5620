"""Inputs for property tests: rich in ties, or wild in scale. Each is small on purpose."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

SMALL = st.integers(-4, 4).map(float)
"""Ties, repeats and coincident walls are common."""

WILD = st.floats(-1e300, 1e300, allow_nan=False, allow_infinity=False, allow_subnormal=True)
"""Exponents from the subnormals to 1e300."""


def matrices(n_rows, n_columns, elements=SMALL):
    """Draw float64 matrices; sizes are integers or strategies for integers."""
    rows = st.just(n_rows) if isinstance(n_rows, int) else n_rows
    columns = st.just(n_columns) if isinstance(n_columns, int) else n_columns
    return st.tuples(rows, columns).flatmap(
        # Without a fill value every entry is drawn; with one most entries would be equal.
        lambda shape: arrays(np.float64, shape, elements=elements, fill=st.nothing())
    )
