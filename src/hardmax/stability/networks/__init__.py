"""Distance of the soft network from the hard one."""
