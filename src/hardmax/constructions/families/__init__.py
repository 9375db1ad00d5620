"""Models that attain the bounds."""
