"""What the families of trained transformers call their weights: one short file for each."""
