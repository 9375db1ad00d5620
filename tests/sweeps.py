"""How many random cases the tests draw: `HARDMAX_SWEEP=10 make test` draws ten times as many."""

import os

from hypothesis import settings

TIMES = int(os.environ.get("HARDMAX_SWEEP", "1"))


def seeds(n):
    """Return the seeds of a test that is repeated `n` times, or more in a sweep."""
    return range(n * TIMES)


def examples(n):
    """Let a test draw `n` examples, or more in a sweep."""
    return settings(max_examples=n * TIMES)
