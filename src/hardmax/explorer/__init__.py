"""The explorer: a page that carries the exact engine, to play with heads, networks and their cells."""
