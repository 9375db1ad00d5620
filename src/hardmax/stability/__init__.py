"""How far the soft model is from its skeleton: finite-temperature bounds, margins, persistence."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
