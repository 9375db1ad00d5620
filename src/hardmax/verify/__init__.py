"""Checking certificates: `verify`, one file in integers, and `_fast`, which must agree with it."""
