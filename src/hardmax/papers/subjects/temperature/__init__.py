"""Positive temperature: closeness, curvature, persistence."""
