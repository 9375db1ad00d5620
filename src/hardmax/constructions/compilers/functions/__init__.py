"""Continuous piecewise linear functions as maxout networks."""
