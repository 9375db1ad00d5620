"""Exact decisions about float64 data: floats with proven error bounds, then exact integers.

From the bottom up: `dyadic` (float64 as scaled integers), `rounding` (three lemmas on float64
arithmetic), `decisions` (counters of the stage that decided), `exact_forms` (composed forms),
`winners` (exact results for batches, in three stages), `limbs` (numbers as sums of floats).
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
