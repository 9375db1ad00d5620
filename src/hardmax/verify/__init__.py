"""Certificates checked from the stored weights alone.

`verify` is one file in integers that needs the standard library alone and can be copied anywhere:
`python verify.py MODEL CERTIFICATE`. `_fast` does the same for many cells at once, and must agree
with it. `checking` is the call for both.
"""
