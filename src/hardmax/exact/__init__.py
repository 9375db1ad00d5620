"""Exact decisions about float64 data: filtered floats first, integers as the last word.

From the bottom up: `dyadic` (float64 as scaled integers), `rounding` (what float64 promises, three
lemmas), `decisions` (which stage decided), `exact_forms` (composed forms), `winners` (exact answers
for batches, in three stages), `limbs` (integers as rows of floats).
"""
