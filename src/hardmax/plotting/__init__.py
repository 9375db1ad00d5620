"""Every picture: `plot(obj, ax=None)` draws what it is given and returns the axes."""

from hardmax.plotting import diagrams, level_sets, partitions, polynomials, solids, stability
from hardmax.plotting.dispatch import list_options, plot

list_options()

__all__ = ["diagrams", "level_sets", "partitions", "plot", "polynomials", "solids", "stability"]
