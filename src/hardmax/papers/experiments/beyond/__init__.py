"""What the papers do not ask."""
