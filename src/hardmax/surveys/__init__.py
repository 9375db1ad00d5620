"""Surveys of the heads of trained transformers, as tables and pages."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
