"""Trained transformers looked at: tables and pages about their heads."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
