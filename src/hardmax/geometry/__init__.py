"""Convex polyhedra: domains, extreme points, polytopes, Minkowski sums and normal fans.

The domain classes, `Polytope`, `extreme_points` and `minkowski_vertices` are in `hardmax` itself.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
