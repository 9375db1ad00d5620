"""Convex polyhedra: cones, extreme points, halfspaces, polytopes, Minkowski sums.

Domains, `Polytope`, `extreme_points` and `minkowski_vertices` are in `hardmax` itself.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
