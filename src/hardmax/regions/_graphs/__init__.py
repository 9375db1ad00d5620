"""Cells of networks of any shape on lines and planes."""
