"""Max-plus and min-plus arithmetic: numbers, matrices, graphs, and deformed sums."""
