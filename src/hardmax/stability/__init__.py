"""Bounds at finite temperature: distance of the soft from the hard model, margins, persistence."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
