"""How many linear regions a model has, which they are, and why the list is complete."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
