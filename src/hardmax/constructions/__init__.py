"""Transformers that attain the bounds, and transformers that compute what they are asked."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
