"""The explorer, an interactive page in a browser, a notebook or a file: `hardmax.explore`."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
