"""How many cells and regions there can be: exact integers, each with its statement and source.

Every function returns a Python integer, computed exactly; `transformer_table` and `relu_table`
collect them as `Bound` records. Averages are `Estimate` records, a different type. What [SL26]
itself states lives in `hardmax.bounds.paper`.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
