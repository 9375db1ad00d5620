"""Readers of the families of trained transformers: one module for each naming scheme."""
