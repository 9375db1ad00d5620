"""Every picture: `hm.plot(obj, ax=None)` draws what it is given and returns the axes."""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
