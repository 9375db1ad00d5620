"""The fast verifier: floats with proven error bounds, and integers where these are undecided."""
