"""The two papers: claims, each with a check; figures and examples; the report."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
