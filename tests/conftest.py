"""Settings every test shares."""

import fcntl
import os

import matplotlib
from hypothesis import settings
from numba.core.caching import IndexDataCacheFile

matplotlib.use("Agg")
# A kernel's first call compiles, which no deadline survives; derandomised runs are repeatable.
settings.register_profile("hardmax", deadline=None, derandomize=True)
settings.load_profile("hardmax")

_save_unguarded = IndexDataCacheFile.save


def _save_one_at_a_time(cache, key, data):
    """Save compiled code under a lock that all workers share.

    numba reads the index of a function's specialisations, takes the first free file name and writes
    the index back: two processes that save two specialisations at once would take the same name,
    and one would later run the code of the other.
    """
    with open(os.path.join(cache._cache_path, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _save_unguarded(cache, key, data)


IndexDataCacheFile.save = _save_one_at_a_time
