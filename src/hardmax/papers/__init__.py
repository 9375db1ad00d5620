"""The two papers: their claims, each with a check; figures, examples and the report."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
