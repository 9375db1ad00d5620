"""The papers' figures and examples, recomputed: each experiment is one small module."""
