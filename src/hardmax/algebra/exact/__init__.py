"""Exact decisions about float64 data: filtered floats first, integers as the last word."""
