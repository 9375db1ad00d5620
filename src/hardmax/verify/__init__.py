"""Check certificates from the stored weights alone.

`verify` is a single file that uses only integers and the standard library and can be copied
anywhere: `python verify.py MODEL CERTIFICATE`. `_fast` makes the same checks for many cells at
once, and must agree with it. `checking` calls either of them.
"""
