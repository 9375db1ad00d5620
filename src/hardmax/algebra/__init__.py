"""Tropical semirings, the deformed sums between them and arithmetic, and exact signs."""
