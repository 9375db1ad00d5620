"""How far the soft model is from its skeleton: finite-temperature bounds, margins, persistence."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
