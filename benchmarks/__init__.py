"""Measurements against the peers, each as a ratio in one run. `python -m benchmarks [NAME ...]`."""
