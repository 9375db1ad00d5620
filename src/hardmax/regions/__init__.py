"""How many linear regions a model has, which they are, and why the list is complete."""
