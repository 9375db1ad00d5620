"""Settings every test shares."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
# A kernel's first call compiles, which no deadline survives; derandomised runs are repeatable.
settings.register_profile("hardmax", deadline=None, derandomize=True)
settings.load_profile("hardmax")
