"""How far the soft network is from the hard one."""
