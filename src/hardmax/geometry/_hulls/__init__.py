"""Which points of a set are extreme: the search, and its exact last word."""
