"""Attention heads and what is built from them.

The models one begins with, and how to read and write them, are in `hardmax` itself; here are
variants of attention, transformers on tokens, and argmax layers, the one shape every model has.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
