"""Exact decisions about float64 data: filtered floats first, integers as the last word.

From the bottom up: `dyadic` (float64 as scaled integers), `rounding` (what float64 promises, three
lemmas), `decisions` (which stage decided), `exact_forms` (composed forms), `winners` (exact answers
for batches, in three stages), `limbs` (integers as rows of floats).
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
