"""The explorer: a page with the exact engine inside, to play with heads and networks."""
