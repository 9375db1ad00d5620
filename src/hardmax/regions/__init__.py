"""How many linear regions a model has, which they are, and why the list is complete.

`enumerate_regions`, `Partition` and `verify_certificate` are in `hardmax` itself; here is what they
return, and what else can be asked about cells.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
