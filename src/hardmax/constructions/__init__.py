"""Models that attain the bounds, and compilers from networks and functions to transformers."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
