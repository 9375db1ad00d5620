"""Linear regions, tropical algebra, and what the papers say of earlier work."""
