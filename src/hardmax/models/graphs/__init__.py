"""Networks whose layers form a directed graph: convolutions, sums, maxima."""
