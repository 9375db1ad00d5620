"""The two papers: claims, each with a check; figures and examples; the report."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
