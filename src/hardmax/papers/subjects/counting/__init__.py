"""The number of regions: upper and lower bounds, and their growth."""
