"""Pictures: `hm.plot(obj, domain=None, ax=None)` draws an object and returns the axes."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
