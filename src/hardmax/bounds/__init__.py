"""Bounds on the number of cells and regions, as exact integers, each with its proof or source.

Bounds are exact Python integers; `transformer_table` and `relu_table` collect them as `Bound`
records. Functions that compute averages return an `Estimate`, a different type. The statements of
[SL26] are in `hardmax.bounds.paper`.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
