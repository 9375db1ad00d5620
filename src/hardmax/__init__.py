"""hardmax: the exact geometry of transformers at zero temperature.

Names are loaded on first use, so `import hardmax` does not pay for scipy, matplotlib or any
extra. The public names and their types are listed in `__init__.pyi`.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
