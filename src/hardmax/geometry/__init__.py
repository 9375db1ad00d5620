"""Convex polyhedra: cones, extreme points, halfspaces, polytopes, Minkowski sums."""
