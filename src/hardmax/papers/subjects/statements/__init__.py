"""Experiments, conclusion, notation and tables."""
