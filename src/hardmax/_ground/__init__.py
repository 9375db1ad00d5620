"""Utilities for all packages: argument validation, files, records, progress, interrupts."""
