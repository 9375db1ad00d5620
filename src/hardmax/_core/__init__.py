"""The compiled core, seen from Python: found, loaded and declared here.

The core is C++ behind a C interface (`core/include/hardmax/interface.h`), loaded with ctypes: the
interpreter lock is released during a call, and one library serves every version of Python. Nothing
is loaded before the first call of `library.core`.
"""
