"""`plot`, with everything it can draw: each of the modules imported here registers its types."""

from hardmax.plotting import (  # noqa: F401
    diagrams,
    graphs,
    level_sets,
    partitions,
    polynomials,
    solids,
    stability,
)
from hardmax.plotting.dispatch import list_options, plot

list_options()

__all__ = ["plot"]
