"""Questions beyond the papers."""
