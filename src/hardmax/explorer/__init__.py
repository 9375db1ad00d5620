"""A page to play with: in a browser, a notebook or a file. `explore` is in hardmax itself."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
