"""What the papers claim, one module for each subject with a tuple `CLAIMS`."""
