"""Passes through a network, one for each kind of number."""
