"""Attention at zero temperature: power diagrams, Minkowski sums, blocks, and emulation."""
