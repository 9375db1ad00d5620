"""Linear regions, tropical algebra, and the statements of the papers about earlier work."""
