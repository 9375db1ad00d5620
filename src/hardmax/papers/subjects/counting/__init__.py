"""How many regions: upper and lower bounds, and their growth."""
