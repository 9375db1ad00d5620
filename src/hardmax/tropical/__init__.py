"""Tropical geometry: max-plus matrices, polynomials, rational maps and power diagrams.

`maxplus`, `TropicalPolynomial`, `TropicalRationalMap` and `PowerDiagram` are in `hardmax` itself.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
