"""Every picture: `plot(obj, ax=None)` draws what it is given and returns the axes."""
