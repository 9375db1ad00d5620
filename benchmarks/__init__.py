"""Measurements against other programs, as ratios in one run: `python -m benchmarks [NAME ...]`."""
