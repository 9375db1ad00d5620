"""Which tuples of winners several sets of forms have together."""
