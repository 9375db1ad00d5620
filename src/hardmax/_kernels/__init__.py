"""Compiled inner loops: no checks, buffers passed in. Callers check; see each caller."""
