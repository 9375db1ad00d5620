"""Checking certificates: `verify.py`, one file in integers, and `_fast`, which must agree with it."""
