"""The claims of the papers: one module for each subject, with a tuple `CLAIMS`."""
