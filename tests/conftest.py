"""Settings every test shares."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
# Tests run on machines that are busy; derandomised runs are repeatable.
settings.register_profile("hardmax", deadline=None, derandomize=True)
settings.load_profile("hardmax")
