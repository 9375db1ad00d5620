"""Which cells remain at a temperature, and how much of each."""
