"""Exact decisions about float64 data: filtered floats first, integers as the last word.

From the bottom up: `dyadic` (float64 as scaled integers), `rounding` (what float64 promises, three
lemmas), `decisions` (which stage decided), `exact_forms` and `composition` (composed forms, exact,
and in float64 with radii), `signs`, `winners`, `determinants` (exact answers for batches, in three
stages), `enclosed_signs` (the filter of an engine).
"""
