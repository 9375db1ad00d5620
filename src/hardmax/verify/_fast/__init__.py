"""The quick verifier: integers, and floats with proven bounds that say which of them are needed."""
