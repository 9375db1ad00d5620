"""Power diagrams, of the best key and of the best k."""
